"""The training step: every token counts the same however a batch is cut, and what is not finite changes nothing."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import ops, train
from seqjax.errors import UserError
from seqjax.runs.directory import read_metrics
from seqjax.tasks import LanguageModel, Sums
from seqjax.train.optimizers import make_optimizer
from seqjax.train.step import fingerprint, make_train_step
from tests.tiny import tiny_config, write_text

B, T, V = 8, 5, 7


@dataclasses.dataclass(frozen=True)
class Bigram:
    """Predicts the next token from the last one through one layer: a task that compiles at once."""

    dropout: float = 0.0

    def at(self, step):
        return self

    def plain_init(self, key, batch):
        del batch
        return {'table': jax.random.normal(key, (V, 4)),
                'output': {'kernel': jax.random.normal(key, (4, V)), 'bias': jnp.zeros(V)}}

    def logits(self, params, inputs, key=None):
        x = jnp.tanh(params['table'][inputs])  # [B, T, D]
        if key is not None and self.dropout:
            x = jnp.where(jax.random.bernoulli(key, self.dropout, x.shape), 0, x)
        return x @ params['output']['kernel'] + params['output']['bias']

    def __call__(self, params, batch, key=None):
        losses = ops.cross_entropy(self.logits(params, batch['inputs'], key), batch['targets'])
        return Sums(loss=(losses * batch['weights']).sum(), weight=batch['weights'].sum(), metrics={})


def ragged_batch(seed=0):
    """Rows with very different numbers of counted targets: a mean of means would be far off."""
    rng = np.random.default_rng(seed)
    lengths = np.array([5, 1, 5, 0, 5, 1, 4, 2])  # even rows 19, odd rows 4
    return dict(inputs=rng.integers(V, size=(B, T)).astype(np.int32), targets=rng.integers(V, size=(B, T)).astype(np.int32),
                weights=(np.arange(T) < lengths[:, None]).astype(np.float32))


def make(task, *, ema=0.0, accumulate=1, seed=0, **fields):
    """(initial state, compiled step) with a constant rate of 0.1."""
    schedule = optax.constant_schedule(0.1)
    optimizer = make_optimizer(**{'learning_rate': schedule, **fields})
    create = jax.jit(lambda key, batch: train.create_state(task, optimizer, key, batch, ema=ema > 0))
    step = make_train_step(task, optimizer, schedule, seed=seed, accumulate=accumulate, ema=ema)
    return create(jax.random.key(1), ragged_batch()), jax.jit(step)


def assert_same_bits(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


# ------------------------------------------------------------------------------------------------ accumulation

@pytest.mark.parametrize('accumulate', [1, 2, 4])
def test_micro_batches_give_the_loss_and_gradient_of_the_full_batch(accumulate):
    task, batch = Bigram(), ragged_batch()
    state, step = make(task, accumulate=accumulate, name='sgd')

    def mean_loss(params):  # all tokens of the batch in one sum, one division
        logits = task.logits(params, batch['inputs'])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch['targets'])
        return (losses * batch['weights']).sum() / batch['weights'].sum()

    loss, gradients = jax.jit(jax.value_and_grad(mean_loss))(state.params)
    new, facts = step(state, batch)
    np.testing.assert_allclose(facts['sums'].means()['loss'], loss, rtol=1e-6)
    assert facts['sums'].weight == batch['weights'].sum()
    norm = np.sqrt(sum((np.asarray(gradient) ** 2).sum() for gradient in jax.tree.leaves(gradients)))
    np.testing.assert_allclose(facts['gradient_norm'], norm, rtol=1e-6)
    for old, now, gradient in zip(*map(jax.tree.leaves, (state.params, new.params, gradients))):
        np.testing.assert_allclose(now, np.asarray(old) - 0.1 * np.asarray(gradient), atol=1e-6)


def test_a_mean_of_means_would_be_seen():
    weights = ragged_batch()['weights']
    losses = np.random.default_rng(0).normal(size=weights.shape)
    halves = [(losses[n::2] * weights[n::2]).sum() / weights[n::2].sum() for n in range(2)]
    assert abs(np.mean(halves) - (losses * weights).sum() / weights.sum()) > 1e-2


# ------------------------------------------------------------------------------------------------ average

@pytest.mark.parametrize('decay', [0.5, 0.9])
def test_the_average_is_the_sum_of_all_parameters_with_falling_weights(decay):
    state, step = make(Bigram(), ema=decay, name='sgd')
    history = [state.params]
    for seed in range(5):
        state, _ = step(state, ragged_batch(seed))
        history.append(state.params)
    shares = [decay ** 5, *((1 - decay) * decay ** (5 - n) for n in range(1, 6))]
    expected = jax.tree.map(lambda *each: sum(w * np.asarray(leaf, np.float64) for w, leaf in zip(shares, each)), *history)
    jax.tree.map(lambda found, wanted: np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6), state.ema, expected)
    assert state.best_params is state.ema


def test_without_an_average_the_parameters_are_used():
    state, _ = make(Bigram())
    assert state.ema is None and state.best_params is state.params


# ------------------------------------------------------------------------------------------------ not finite

@pytest.mark.parametrize('poison', [np.nan, np.inf])
@pytest.mark.parametrize('accumulate', [1, 4])
def test_a_batch_that_is_not_finite_changes_nothing_and_is_counted(poison, accumulate):
    state, step = make(Bigram(), ema=0.9, accumulate=accumulate, clip_norm=1.0, weight_decay=0.1)
    state, _ = step(state, ragged_batch())
    bad = ragged_batch(1)
    bad['weights'][3, 1] = poison
    counts = []
    for batch in (bad, bad, ragged_batch(2), bad):
        before = state
        state, facts = step(state, batch)
        counts.append((int(state.step), int(state.skipped), int(state.skipped_in_row), int(facts['skipped_in_row'])))
        if batch is bad:
            assert_same_bits((state.params, state.opt_state, state.ema), (before.params, before.opt_state, before.ema))
        else:
            assert any((np.asarray(old) != np.asarray(now)).any()
                       for old, now in zip(jax.tree.leaves(before.params), jax.tree.leaves(state.params)))
    assert counts == [(2, 1, 1, 1), (3, 2, 2, 2), (4, 2, 0, 0), (5, 3, 1, 1)]


def test_a_batch_without_a_single_target_changes_nothing():
    state, step = make(Bigram())
    new, facts = step(state, {**ragged_batch(), 'weights': np.zeros((B, T), np.float32)})
    assert_same_bits((new.params, new.opt_state), (state.params, state.opt_state))
    assert int(new.skipped) == 1


def test_skipped_batches_do_not_move_the_schedule():
    task = Bigram()
    schedule = optax.linear_schedule(1.0, 0.0, 10)
    optimizer = make_optimizer('adamw', schedule, clip_norm=1.0)
    state = jax.jit(lambda key: train.create_state(task, optimizer, key, ragged_batch()))(jax.random.key(0))
    step = jax.jit(make_train_step(task, optimizer, schedule, seed=0))
    bad = {**ragged_batch(), 'weights': np.full((B, T), np.nan, np.float32)}
    rates = []
    for batch in (ragged_batch(), bad, bad, ragged_batch()):
        state, facts = step(state, batch)
        rates.append(float(facts['learning_rate']))
    np.testing.assert_allclose(rates, [1.0, 0.9, 0.9, 0.9], rtol=1e-6)


def test_the_run_stops_with_a_sentence_after_so_many_in_a_row(tmp_path, monkeypatch):
    def not_a_number(self, params, batch, key=None):
        return Sums(loss=jnp.float32(jnp.nan) * batch['weights'].sum(), weight=batch['weights'].sum(), metrics={})

    monkeypatch.setattr(LanguageModel, '__call__', not_a_number)
    config = tiny_config(data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'), train=dict(steps=40, max_skipped=3),
                         parallel=dict(data=1))
    with pytest.raises(UserError) as caught:
        train.train(config, tmp_path / 'run')
    assert str(caught.value) == (
        'step 3: loss or gradient was not finite 3 times in a row (config.train.max_skipped=3); no such update was applied '
        'and the checkpoints are good; lower config.optimizer.learning_rate or config.optimizer.clip_norm')
    lines = read_metrics(tmp_path / 'run' / 'metrics.jsonl')
    assert [(line['step'], line['train/loss'], line['skipped']) for line in lines] == [(n, None, True) for n in (1, 2, 3)]
    assert not (tmp_path / 'run' / 'result.json').exists()


# ------------------------------------------------------------------------------------------------ randomness

def test_dropout_is_a_function_of_seed_and_step():
    task = Bigram(dropout=0.5)
    state, step = make(task, seed=0)
    _, other_seed = make(task, seed=1)

    def loss(step, state):
        return float(step(state, ragged_batch())[1]['sums'].loss)

    later = state.replace(step=jnp.int32(1))
    assert loss(step, state) == loss(step, state)
    assert len({loss(step, state), loss(step, later), loss(other_seed, state)}) == 3


def test_micro_batches_do_not_share_their_dropout():
    task = Bigram(dropout=0.5)
    alike = jax.tree.map(lambda rows: np.repeat(rows[:1], 2, axis=0), ragged_batch())  # two equal rows, a micro-batch each
    state, step = make(task, accumulate=2)
    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), 0), 2)
    first, second = (float(task(state.params, jax.tree.map(lambda rows: rows[:1], alike), key).loss) for key in keys)
    assert first != second
    np.testing.assert_allclose(step(state, alike)[1]['sums'].loss, first + second, rtol=1e-5)


# ------------------------------------------------------------------------------------------------ fingerprint

@functools.partial(jax.jit, static_argnames='first_row')
def name_of(batch, first_row=0):
    return fingerprint(batch, jnp.uint32(first_row))


@pytest.mark.parametrize('parts', [2, 4, 8])
def test_the_fingerprint_is_the_same_for_any_split(parts):
    batch, rows = ragged_batch(), B // parts
    shares = [jax.tree.map(lambda x: x[first:first + rows], batch) for first in range(0, B, rows)]
    added = sum(np.asarray(name_of(share, n * rows)) for n, share in enumerate(shares))
    np.testing.assert_array_equal(added, name_of(batch))


def test_the_fingerprint_of_ragged_rows_is_the_same_for_any_split_and_knows_every_part():
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.integers(V, size=(B, *shape)).astype(np.int32)
    batch = dict(inputs=dict(words=draw(T), characters=draw(T, 3)), lengths=draw(), targets=draw(),
                 weights=draw().astype(np.float32))
    halves = [jax.tree.map(lambda x: x[first:first + B // 2], batch) for first in (0, B // 2)]
    added = sum(np.asarray(name_of(half, n * B // 2)) for n, half in enumerate(halves))
    np.testing.assert_array_equal(added, name_of(batch))
    leaves, tree = jax.tree.flatten(batch)
    change = lambda x: np.where(x == x.flat[0], x + 1, x).astype(x.dtype)
    others = [tree.unflatten([change(x) if n == leaf else x for n, x in enumerate(leaves)]) for leaf in range(len(leaves))]
    assert len({tuple(np.asarray(name_of(each))) for each in (batch, *others)}) == len(leaves) + 1 == 6


def changed(batch, name, place, value):
    return {**batch, name: np.where(np.arange(B * T).reshape(B, T) == place, value, batch[name]).astype(batch[name].dtype)}


@pytest.mark.parametrize('name', ['inputs', 'targets', 'weights'])
def test_the_fingerprint_differs_when_any_element_does(name):
    batch = ragged_batch()
    seen = {tuple(np.asarray(name_of(changed(batch, name, place, batch[name].flat[place] + 1)))) for place in range(B * T)}
    assert len(seen | {tuple(np.asarray(name_of(batch)))}) == B * T + 1


@pytest.mark.parametrize('swap', [
    lambda batch: {**batch, 'inputs': batch['inputs'][::-1]},
    lambda batch: {**batch, 'inputs': batch['inputs'][:, ::-1]},
    lambda batch: {**batch, 'inputs': batch['targets'], 'targets': batch['inputs']},
    lambda batch: jax.tree.map(lambda x: x[::-1], batch),
], ids=['rows of one', 'columns', 'arrays', 'rows of all'])
def test_the_fingerprint_differs_when_elements_change_places(swap):
    batch = ragged_batch()
    assert (np.asarray(name_of(batch)) != np.asarray(name_of(swap(batch)))).any()


def test_swapping_any_two_neighbours_changes_the_fingerprint():
    batch = {**ragged_batch(), 'inputs': np.arange(B * T, dtype=np.int32).reshape(B, T)}
    names = set()
    for place in range(B * T - 1):
        inputs = batch['inputs'].copy()
        inputs.flat[place], inputs.flat[place + 1] = inputs.flat[place + 1], inputs.flat[place]
        names.add(tuple(np.asarray(name_of({**batch, 'inputs': inputs}))))
    assert len(names | {tuple(np.asarray(name_of(batch)))}) == B * T


def test_a_step_reports_the_fingerprint_of_its_batch():
    state, step = make(Bigram(), accumulate=2)
    np.testing.assert_array_equal(step(state, ragged_batch())[1]['batch'], name_of(ragged_batch()))
