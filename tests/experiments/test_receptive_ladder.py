"""The rungs below a recurrent network against a plain loop over rows and steps; runs of models that only their experiment knows."""

import functools
import types

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqjax
from seqjax import config as configs
from seqjax import models, parallel
from seqjax.errors import FieldError, UserError
from seqjax.modes import cost
from seqjax.modes.command import experiment_files
from seqjax.modes.continue_text import generate_text
from seqjax.runs import RunDirectory
from tests.models.test_recorded_parameters import initial
from tests.reference.parameters import random_parameters
from tests.tiny import loaded, tiny_config, write_text

FILE = experiment_files.FOLDER / 'recurrence' / 'receptive_ladder.py'
B, T, V, D, L = 3, 5, 7, 4, 2
LADDER = ['per_step', 'unshared']
INITIAL = {  # (shape, checksum), recorded when the models were part of the library: checkpoints of then must open
    'per_step': {
        'network/embedding': ([1, 13, 8], -0.3594116639724237), 'network/hidden_0/bias': ([1, 8], 0.0),
        'network/hidden_0/kernel': ([1, 8, 8], 0.7652933700779514), 'network/hidden_1/bias': ([1, 8], 0.0),
        'network/hidden_1/kernel': ([1, 8, 8], 1.8291701271639564), 'network/output/bias': ([1, 13], 0.0),
        'network/output/kernel': ([1, 8, 13], 1.9717974378361123)},
    'unshared': {
        'network/embedding': ([6, 13, 8], -8.506968852700352), 'network/hidden_0/bias': ([6, 8], 0.0),
        'network/hidden_0/kernel': ([6, 8, 8], -4.947230246922852), 'network/hidden_1/bias': ([6, 8], 0.0),
        'network/hidden_1/kernel': ([6, 8, 8], -2.4710838182450106), 'network/output/bias': ([6, 13], 0.0),
        'network/output/kernel': ([6, 8, 13], 3.227153499606798)}}


@pytest.fixture(scope='module', autouse=True)
def ladder():
    """The models of the experiment, registered while these tests run."""
    with loaded(FILE) as module:
        yield module


@functools.cache
def make(name, **fields):
    """A model with random parameters, and tokens in which some repeat."""
    model = models.build(name, vocabulary=V, context_length=T, width=D, depth=L, **fields)
    tokens = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
    tokens[1] = tokens[0, 0]
    return model, random_parameters(model, tokens), tokens


@functools.cache
def logits(name):
    model, params, tokens = make(name)
    return np.asarray(jax.jit(model.apply)({'params': params}, tokens))


def numpy_logits(params, tokens):
    """Step t uses the weights of step t, or the only ones there are."""
    layers = [params['network'][name] for name in ('hidden_0', 'hidden_1', 'output')]
    table = params['network']['embedding']
    result = np.zeros((B, tokens.shape[1], V))
    for b in range(B):
        for t, token in enumerate(tokens[b]):
            own = t if len(table) > 1 else 0
            x = table[own, token].astype(np.float64)
            for number, layer in enumerate(layers):
                x = x @ layer['kernel'][own] + layer['bias'][own]
                x = np.maximum(x, 0) if number < L else x
            result[b, t] = x
    return result


@pytest.mark.parametrize('name', LADDER)
def test_logits_equal_a_loop_over_steps(name):
    _, params, tokens = make(name)
    np.testing.assert_allclose(logits(name), numpy_logits(params, tokens), rtol=1e-5, atol=1e-5)


def test_only_unshared_weights_tell_the_steps_of_a_repeated_token_apart():
    repeated = {name: logits(name)[1] for name in LADDER}  # row 1 is one token, T times
    np.testing.assert_array_equal(repeated['per_step'], np.repeat(repeated['per_step'][:1], T, axis=0))
    assert len(np.unique(repeated['unshared'].round(3), axis=0)) == T


@pytest.mark.parametrize('name', LADDER)
def test_a_prediction_sees_its_own_token_and_no_other(name):
    model, params, tokens = make(name)
    changed = tokens.copy()
    changed[:, 2] = (changed[:, 2] + 1) % V
    different = (np.asarray(jax.jit(model.apply)({'params': params}, changed)) != logits(name)).any(axis=-1)
    assert different.tolist() == [[t == 2 for t in range(T)]] * B


def test_sharing_is_cheaper_by_the_number_of_steps():
    size = {name: sum(leaf.size for leaf in jax.tree.leaves(make(name)[1])) for name in LADDER}
    assert size['per_step'] == V * D + L * (D * D + D) + D * V + V
    assert size['unshared'] == T * size['per_step']


def test_rows_may_be_shorter_than_the_weights_reach_and_not_longer():
    model, params, tokens = make('unshared')
    short = jax.jit(model.apply)({'params': params}, tokens[:, :3])
    np.testing.assert_allclose(short, logits('unshared')[:, :3], rtol=1e-6)
    with pytest.raises(ValueError, match='6 tokens in a row, and weights for 5 steps'):
        model.apply({'params': params}, np.zeros((1, T + 1), np.int32))
    longer = np.tile(tokens, (1, 3))
    model, params, _ = make('per_step')
    found = jax.jit(model.apply)({'params': params}, longer)
    np.testing.assert_allclose(found, np.tile(logits('per_step'), (1, 3, 1)), rtol=1e-5)


@pytest.mark.parametrize('name', LADDER)
def test_bfloat16_and_dropout(name):
    model, params, tokens = make(name, dtype='bfloat16', dropout=0.5)
    apply, variables = jax.jit(model.apply, static_argnames='train'), {'params': params}
    found = apply(variables, tokens)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(found), logits(name), atol=0.05 * np.abs(logits(name)).max())
    first, other = (apply(variables, tokens, train=True, rngs={'dropout': jax.random.key(seed)}) for seed in range(2))
    assert (np.float32(first) != np.float32(other)).any()


@pytest.mark.parametrize('name', LADDER)
def test_signals_keep_their_size_on_the_way_up(name):
    model = models.build(name, vocabulary=50, context_length=T, width=256)
    tokens = np.arange(50, dtype=np.int32).reshape(10, T)
    params = linen.unbox(jax.jit(model.init)(jax.random.key(0), tokens)['params'])
    kernel = params['network']['hidden_0']['kernel']
    assert float(kernel.std()) == pytest.approx(256 ** -0.5, rel=0.05)


@pytest.mark.parametrize('name', LADDER)
def test_paths_shapes_and_initial_values_are_the_recorded_ones(name):
    found = initial(name)
    assert {path: shape for path, (shape, _) in found.items()} == {path: shape for path, (shape, _) in INITIAL[name].items()}
    for path, (_, checksum) in INITIAL[name].items():
        np.testing.assert_allclose(found[path][1], checksum, rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.parametrize('name', LADDER)
def test_every_parameter_names_each_of_its_axes_with_a_name_that_the_table_knows(name):
    model = models.build(name, vocabulary=V, context_length=T, width=D, depth=L)
    boxes = jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))['params'],
                            is_leaf=lambda leaf: isinstance(leaf, linen.LogicallyPartitioned))
    assert all(len(box.names) == box.value.ndim and {*box.names} <= {None, *parallel.RULES} for box in boxes)


# ------------------------------------------------------------------------------------------------ as models of a config

@pytest.mark.parametrize('name, fields, sentence', [
    ('per_step', dict(window=3), "window=3: 'per_step' has no such field; choose one of: depth, dropout, dtype, width"),
    ('per_step', dict(heads=2), "heads=2: 'per_step' has no such field; choose one of: depth, dropout, dtype, width"),
    ('unshared', dict(depth=0), 'depth=0: must be at least 1'),
])
def test_an_impossible_field_is_refused_by_name_value_and_way_out(name, fields, sentence):
    with pytest.raises(FieldError) as error:
        models.build(name, vocabulary=V, context_length=T, **fields)
    assert str(error.value) == sentence


@pytest.mark.parametrize('name', LADDER)
def test_a_config_has_its_fields_and_is_read_back_whole(name):
    assert set(models.fields(name)) == {'width', 'depth', 'dropout', 'dtype'} and not models.is_recurrent(name, {})
    config = tiny_config(name, seed=7)
    configs.validate(config)
    configs.check_model(config)
    assert configs.loads(configs.dumps(config)).to_dict() == config.to_dict()


def test_models_without_memory_take_packed_rows_or_say_why_not():
    model, params, tokens = make('per_step')
    segments = np.array([[1, 1, 2, 3, 0], [1, 1, 1, 2, 2], [1] * T])
    np.testing.assert_array_equal(model.apply({'params': params}, tokens, segments=segments), logits('per_step'))
    model, _, _ = make('unshared')
    with pytest.raises(ValueError, match='several first steps; give each text a row of its own'):
        jax.eval_shape(lambda key: model.init(key, tokens, segments=segments), jax.random.key(0))
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config('unshared', data=dict(documents='line')))
    assert str(caught.value) == ("config.data.documents='line': 'unshared' cannot keep the documents of a row apart; set it to '', or "
                                 'use a model that can: gpt, llama, recurrent, mamba, rwkv, per_step')


def test_a_run_cannot_continue_a_text(tmp_path):
    config = tiny_config('per_step')
    RunDirectory(tmp_path).claim(config, types.SimpleNamespace(files=dict, facts=dict))
    with pytest.raises(UserError) as caught:
        generate_text(config, tmp_path)
    assert "--mode=generate: 'per_step' cannot continue a text; models that can: gpt, llama, recurrent, mamba, rwkv" in str(caught.value)


def test_it_can_be_counted_at_other_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, 'LENGTHS', (1, 2))
    monkeypatch.setattr(cost, 'WIDTHS', (1, 2))
    config = tiny_config('unshared', data=dict(source=f'file:{write_text(tmp_path / "text.txt", 4000)}'), parallel=dict(data=1),
                         cost=dict(largest=1.0, seconds=0.001))
    facts = cost.cost_of_models({'it': config}, tmp_path)[0]['measured']['it']
    exponents = facts['fits']['operations']['exponents']
    assert 0.9 < exponents['n'] < 2.1 and 0.4 < exponents['d'] < 2.1 and len(facts['points']) == 3, exponents


def test_a_run_opens_where_its_experiment_is_loaded_and_names_it_elsewhere(tmp_path):
    text = write_text(tmp_path / 'text.txt', 4000)
    trained = seqjax.train(tiny_config('per_step', data=dict(source=f'file:{text}'), parallel=dict(data=1)), tmp_path / 'run')
    opened = seqjax.open_run(tmp_path / 'run')
    assert opened.evaluate()['eval/loss'] == pytest.approx(trained['eval/loss'], rel=1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models.MODELS, '_things', {name: model for name, model in models.MODELS.items() if name not in LADDER})
        with pytest.raises(UserError, match="'per_step' is not registered; give the experiment file that registers it too: "):
            seqjax.open_run(tmp_path / 'run')
