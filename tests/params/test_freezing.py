"""Frozen parameters: which ones they are, and that nothing a training step does moves a bit of them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import train
from seqjax.errors import FieldError
from seqjax.params import freezing, paths
from seqjax.runs import RunDirectory
from seqjax.train import make_optimizer, make_train_step
from seqjax.train.parameters import Parameters
from tests.tiny import tiny_config, write_text
from tests.train.test_step import Bigram, ragged_batch

PATHS = ('embedding/table', 'block_0/kernel', 'block_0/bias', 'classifier/kernel', 'classifier/bias')


@pytest.mark.parametrize('text, frozen', [
    ('', ()),
    ('embedding/*', (0,)),
    ('*bias', (2, 4)),
    ('*,!classifier/*', (0, 1, 2)),
    ('!classifier/*,*', (0, 1, 2, 3, 4)),  # the last one decides
    ('*,!classifier/*,*bias', (0, 1, 2, 4)),
    ('block_?/*,!*bias', (1,)),
    ('table', ()),  # a pattern is for the whole path
])
def test_the_last_pattern_that_matches_decides(text, frozen):
    assert tuple(i for i, path in enumerate(PATHS) if freezing.is_frozen(path, paths.parse(text))) == frozen


def test_a_tree_is_taken_apart_and_put_together_again():
    tree = {'a': {'x': 1, 'y': 2}, 'b': 3, 'c': {'x': 4}}
    trained, frozen = freezing.split(tree, ['*x'])
    assert trained == {'a': {'x': None, 'y': 2}, 'b': 3, 'c': {'x': None}}
    assert frozen == {'a': {'x': 1, 'y': None}, 'b': None, 'c': {'x': 4}}
    assert freezing.join(trained, frozen) == tree
    assert freezing.split(None, ['*']) == (None, None) and freezing.join(None, None) is None


@pytest.mark.parametrize('text, sentence', [
    ('blok*', "freeze='blok*': matches no parameter; there are: a/x, b"),
    ('*,!c/*', "freeze='!c/*': matches no parameter; there are: a/x, b"),
    ('*', "freeze='*': freezes every parameter; nothing is left to train"),
    ('a/*,b', "freeze='a/*,b': freezes every parameter; nothing is left to train"),
    ('!b', "freeze='!b': nothing is frozen that '!b' could take out; to train nothing else, write '*,!b'"),
])
def test_what_can_only_be_a_mistake_is_refused(text, sentence):
    with pytest.raises(FieldError) as caught:
        freezing.check(text, paths.parse(text), {'a': {'x': 1}, 'b': 2})
    assert str(caught.value) == sentence


@pytest.mark.parametrize('chosen, names', [
    (['a/b/x', 'a/b/y'], ['a/b/*']), (['a/b/x', 'a/b/y', 'a/c'], ['a/*']), (['a/b/x', 'd'], ['a/b/x', 'd']), ([], []),
    (['a/b/x', 'e/x'], ['a/b/x', 'e/*'])])
def test_whole_parts_have_one_name(chosen, names):
    assert paths.condensed(chosen, ['a/b/x', 'a/b/y', 'a/c', 'd', 'e/x']) == names


# ------------------------------------------------------------------------------------------------ real steps

class Alone(Bigram):
    """The same task, where all but the output is no parameter at all but part of the task."""

    def __call__(self, params, batch, key=None):
        return super().__call__({**start(), **params}, batch, key)


def start():
    """Parameters with a negative zero among them: adding an update of 0 would already change its sign bit."""
    params = Bigram().plain_init(jax.random.key(1), None)
    return {**params, 'table': params['table'].at[0, 0].set(-0.0)}


def trained(task, params, frozen, **fields):
    """The state after three steps with everything that might move a parameter, and without clipping by others."""
    schedule = optax.constant_schedule(0.1)
    optimizer = make_optimizer(learning_rate=schedule, clip_norm=0.5, clip_value=0.3, **fields)
    made = Parameters(lambda key: params, params, frozen, None)
    state = train.create_state(task, optimizer, jax.random.key(0), None, ema=True, parameters=made)
    step = jax.jit(make_train_step(task, optimizer, schedule, seed=0, ema=0.9, accumulate=2, frozen=frozen))
    for seed in range(3):
        state, facts = step(state, ragged_batch(seed))
    return state, facts


@pytest.mark.parametrize('fields', [
    dict(name='adamw', weight_decay=0.5, no_decay=''), dict(name='adafactor'), dict(name='lion', weight_decay=0.1),
    dict(name='sgd', momentum=0.9, layerwise_rates='output/*=2')], ids=lambda fields: fields['name'])
def test_frozen_leaves_keep_every_bit_and_the_others_are_trained_as_if_they_were_alone(fields):
    state, facts = trained(Bigram(), start(), ('table',), **fields)
    for tree in (state.params, state.ema):
        assert np.asarray(tree['table']).tobytes() == np.asarray(start()['table']).tobytes()
    assert not any(leaf.shape == (7, 4) for leaf in jax.tree.leaves(state.opt_state))

    alone, alone_facts = trained(Alone(), {'output': start()['output']}, (), **fields)
    assert not np.array_equal(alone.params['output']['kernel'], start()['output']['kernel'])
    for one, other in zip(jax.tree.leaves((state.params['output'], state.ema['output'], state.opt_state)),
                          jax.tree.leaves((alone.params, alone.ema, alone.opt_state)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert facts['gradient_norm'] == alone_facts['gradient_norm']


def test_the_body_of_a_sharded_run_keeps_every_bit_and_has_no_moments(tmp_path):
    config = tiny_config(data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'), parallel=dict(fsdp=8, data=1),
                         optimizer=dict(freeze='*,!embedding/*,!*norm*', weight_decay=0.1, ema_decay=0.9))
    parts = train.build(config, RunDirectory(tmp_path / 'run'))
    state = parts.initial_state(config)
    before, step = jax.device_get(state), parts.train_step(config)
    for number in range(3):
        state, _ = step(state, parts.strategy.place(parts.training[number]))
    after, moved = jax.device_get(state), set()
    for path, old in paths.by_path(before.params).items():
        bits = [paths.by_path(tree)[path].tobytes() for tree in (after.params, after.ema)]
        assert bits == [old.tobytes()] * 2 or (moved.add(path) or old.tobytes() not in bits), path
    assert {path.split('/')[0] for path in moved} == {'embedding', 'decoder'}
    assert all('norm' in path for path in moved if path.startswith('decoder'))
    shapes = sorted(leaf.shape for leaf in jax.tree.leaves(after.opt_state) if leaf.ndim)
    assert shapes == sorted(2 * [paths.by_path(before.params)[path].shape for path in moved])
    described = next(parts.describe())
    assert f'{sum(x.size for x in jax.tree.leaves(before.params)):,} parameters' in described
    assert f'{sum(paths.by_path(before.params)[path].size for path in moved):,} of them trained' in described
    assert not jnp.isnan(after.params['embedding']['table']).any()
