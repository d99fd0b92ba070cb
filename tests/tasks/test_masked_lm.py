"""Masked language modelling: sums against numpy, rows and tokens each by their own number, padding that changes nothing."""

import functools
import math

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import data, models, tasks
from seqjax.tasks import MaskedLM, Sums
from tests.tiny import tiny_config, write_text

B, T, M, V = 6, 20, 4, 11


class Table(linen.Module):
    """The logits of a token are a row of a table, those of the next sentence the sum of rows over what is no padding."""

    @linen.compact
    def __call__(self, inputs, lengths=None, *, places=None, train=False):
        table = self.param('table', linen.initializers.normal(1.0), (V, V))
        follows = self.param('follows', linen.initializers.normal(1.0), (V, 2))
        real = jnp.arange(inputs.shape[1]) < (inputs.shape[1] if lengths is None else lengths[:, None])
        chosen = inputs if places is None else jnp.take_along_axis(inputs, places, axis=1)
        return dict(tokens=table[chosen], next=jnp.where(real[..., None], follows[inputs], 0).sum(axis=1))


def batch(seed=0, full=False, two=True):
    """Ragged rows, the last of which only fills up."""
    rng = np.random.default_rng(seed)
    lengths = np.full(B, T) if full else np.array([*rng.integers(6, T, B - 1), 0])
    counts = np.full(B, M) if full else np.array([*rng.integers(1, M, B - 1), 0])
    real = np.arange(T) < lengths[:, None]
    counted = np.arange(M) < counts[:, None]
    made = dict(inputs=rng.integers(1, V, (B, T)) * real, lengths=lengths,
                places=rng.integers(0, np.maximum(lengths, 1)[:, None], (B, M)) * counted,
                targets=rng.integers(5, V, (B, M)) * counted, weights=counted.astype(np.float32))
    made |= dict(next=rng.integers(0, 2, B) * (lengths > 0)) if two else {}
    return {name: value if name == 'weights' else value.astype(np.int32) for name, value in made.items()}


@pytest.fixture(scope='module')
def task():
    return MaskedLM(Table())


@pytest.fixture(scope='module')
def params(task):
    return task.plain_init(jax.random.key(0), batch())


@functools.partial(jax.jit, static_argnums=0)
def run(task, params, batch, key=None):
    return task(params, batch, key)


def log_softmax(logits):
    logits = np.float64(logits)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def by_hand(params, batch):
    """(nats of every counted token, whether it was right, nats of every real row, whether it was right)."""
    tokens, right, rows, followed = [], [], [], []
    for b in range(len(batch['inputs'])):
        for m in range(batch['places'].shape[1]):
            if batch['weights'][b, m]:
                log_p = log_softmax(params['table'][batch['inputs'][b, batch['places'][b, m]]])
                tokens.append(-log_p[batch['targets'][b, m]])
                right.append(log_p.argmax() == batch['targets'][b, m])
        if 'next' in batch and batch['lengths'][b]:
            log_p = log_softmax(sum(np.float64(params['follows'])[token] for token in batch['inputs'][b, :batch['lengths'][b]]))
            rows.append(-log_p[batch['next'][b]])
            followed.append(log_p.argmax() == batch['next'][b])
    return tokens, right, rows, followed


@pytest.mark.parametrize('two', [False, True])
def test_sums_are_those_of_a_loop(task, params, two):
    made = batch(1, two=two)
    sums = jax.device_get(run(task, params, made))
    tokens, right, rows, followed = by_hand(jax.device_get(params), made)
    np.testing.assert_allclose(sums.loss, sum(tokens) + M * sum(rows), rtol=1e-5)
    assert sums.weight == len(tokens) and sums.metrics['accuracy'] == sum(right)
    found = task.summary(sums)
    if two:
        assert sums.metrics['rows'] == len(rows) == B - 1 and sums.metrics['next_accuracy'] == sum(followed)
        assert found['next_accuracy'] == pytest.approx(np.mean(followed)) and found['next_loss'] == pytest.approx(np.mean(rows))
        assert found['token_loss'] == pytest.approx(np.mean(tokens))
    assert found['accuracy'] == pytest.approx(np.mean(right)) and found['perplexity'] == pytest.approx(math.exp(np.mean(tokens)))
    assert set(found) == {'loss', 'accuracy', 'perplexity', *(('token_loss', 'next_loss', 'next_accuracy') if two else ())}


def test_of_full_rows_the_loss_is_the_sum_of_two_means(task, params):
    made = batch(2, full=True)
    tokens, _, rows, _ = by_hand(jax.device_get(params), made)
    np.testing.assert_allclose(run(task, params, made).means()['loss'], np.mean(tokens) + np.mean(rows), rtol=1e-5)


def test_parts_of_a_batch_add_up_to_all_of_it(task, params):
    made = batch(3)
    parts = [jax.device_get(run(task, params, {name: value[b:b + 2] for name, value in made.items()})) for b in (0, 2, 4)]
    total, whole = Sums(*jax.tree.map(lambda *values: sum(values), *parts)), jax.device_get(run(task, params, made))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), total, whole)
    assert task.summary(total) == pytest.approx(task.summary(whole), rel=1e-5)


def test_only_what_can_be_divided_by_tokens_is_logged_while_training(task, params):
    sums = run(task, params, batch(4), jax.random.key(0))
    assert set(sums.metrics) == {'accuracy'}
    np.testing.assert_allclose(sums.loss, run(task, params, batch(4)).loss, rtol=1e-6)


def test_targets_are_smoothed_in_training_alone(params):
    made, task = batch(5, two=False), MaskedLM(Table(), label_smoothing=0.1)
    table, expected = np.float64(params['table']), 0.0
    for b, m in zip(*np.nonzero(made['weights'])):
        log_p = log_softmax(table[made['inputs'][b, made['places'][b, m]]])
        expected -= 0.9 * log_p[made['targets'][b, m]] + 0.1 * log_p.mean()
    np.testing.assert_allclose(run(task, params, made, jax.random.key(0)).loss, expected, rtol=1e-5)
    assert run(task, params, made).loss == run(MaskedLM(Table()), params, made).loss


def test_the_task_has_a_name_and_span_corruption_is_a_translation():
    assert isinstance(tasks.build('masked_lm', Table(), classes=(), label_smoothing=0.2), MaskedLM)
    assert isinstance(tasks.build('span_corruption', None), tasks.Translation)


# ------------------------------------------------------------------------------------------------ with a model

@pytest.fixture(scope='module')
def bert(tmp_path_factory):
    """(task, parameters, a batch) of sentence pairs."""
    path = write_text(tmp_path_factory.mktemp('text') / 'text.txt', 4000)
    options = tiny_config('bert', data=dict(source=f'file:{path}', sequence_length=T, next_sentence=True)).data
    made = data.load(options, 'masked_lm')
    fields = {**made.for_model(), 'context_length': T + 8}
    task = MaskedLM(models.build('bert', **fields, width=16, depth=1, heads=2))
    return task, jax.jit(task.plain_init)(jax.random.key(0), made.sample()), made.training_batches(batch_size=B, seed=0)[0]


def test_padding_changes_nothing(bert):
    """Steps past the length of a row, and rows that fill up: not the sums, and not a gradient."""
    task, params, made = bert
    inputs = np.pad(made['inputs'], ((0, 0), (0, 8)))
    padded = {**made, 'inputs': np.where(np.arange(T + 8) < made['lengths'][:, None], inputs, 7)}  # 7 is as good as any token
    padded = {name: np.concatenate([value, np.zeros((2, *value.shape[1:]), value.dtype)]) for name, value in padded.items()}

    def loss(params, batch):
        sums = task(params, batch)
        return sums.loss, sums

    run = jax.jit(jax.grad(loss, has_aux=True))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), run(params, made), run(params, padded))


def test_hidden_tokens_are_found_by_learning(bert):
    """A few steps on one batch: both losses fall."""
    task, params, made = bert
    step = jax.jit(lambda params: jax.tree.map(lambda p, g: p - 0.05 * g, params, jax.grad(
        lambda params: task(params, made).means()['loss'])(params)))
    measure = jax.jit(lambda params: task(params, made))
    before = task.summary(jax.device_get(measure(params)))
    for _ in range(60):
        params = step(params)
    after = task.summary(jax.device_get(measure(params)))
    assert after['token_loss'] < before['token_loss'] - 0.2 and after['next_loss'] < before['next_loss'] - 0.02
