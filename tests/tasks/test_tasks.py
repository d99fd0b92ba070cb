"""Tasks by name, and classification and tagging against plain loops over rows and steps."""

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, ops, tasks
from seqjax.errors import FieldError
from seqjax.tasks import Classification, LanguageModel, Regression, Sums, Tagging
from tests.reference.entities import spans

B, T, V, C = 5, 4, 7, 3
NAMES = ('ash', 'birch', 'cedar')


class Scores(linen.Module):
    """tokens [B, T] -> a row of a table for every step, or their sum; with dropout."""

    per_step: bool
    crf: bool = False

    @linen.compact
    def __call__(self, inputs, lengths=None, *, train=False):
        table = self.param('table', linen.initializers.normal(1.0), (V, C))
        scores = linen.Dropout(0.5, deterministic=not train)(table[inputs])
        if self.crf:
            part = lambda name, *shape: self.param(name, linen.initializers.normal(1.0), shape)
            return scores, ops.Transitions(part('start', C), part('between', C, C), part('end', C))
        valid = jnp.arange(T) < (T if lengths is None else lengths[:, None])
        return scores if self.per_step else jnp.where(valid[..., None], scores, 0).sum(axis=1)


@pytest.fixture(scope='module')
def batch():
    """Rows of 4, 1, 3, 2 and 0 steps; the last fills up."""
    rng, lengths = np.random.default_rng(0), np.array([4, 1, 3, 2, 0], np.int32)
    valid = (np.arange(T) < lengths[:, None]).astype(np.float32)
    return dict(inputs=rng.integers(V, size=(B, T)).astype(np.int32), lengths=lengths,
                whole=dict(targets=rng.integers(C, size=B).astype(np.int32), weights=(lengths > 0).astype(np.float32)),
                steps=dict(targets=rng.integers(C, size=(B, T)).astype(np.int32), weights=valid))


def for_task(batch, kind):
    return dict(inputs=batch['inputs'], lengths=batch['lengths'], **batch[kind])


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum())


def counted(pairs):
    counts = np.zeros((C, C), int)
    for truth, answer in pairs:
        counts[truth, answer] += 1
    return counts


def test_classification_is_a_loop_over_rows(batch):
    task, rows = Classification(Scores(per_step=False), NAMES), for_task(batch, 'whole')
    params = task.plain_init(jax.random.key(0), rows)
    loss, pairs = 0.0, []
    for tokens, length, target in list(zip(rows['inputs'], rows['lengths'], rows['targets']))[:-1]:
        scores = np.asarray(params['table'])[tokens[:length]].sum(axis=0)
        loss -= log_softmax(scores)[target]
        pairs.append((target, scores.argmax()))
    sums = jax.device_get(jax.jit(task.__call__)(params, rows))
    np.testing.assert_allclose(sums.loss, loss, rtol=1e-5)
    np.testing.assert_array_equal(sums.metrics['confusion'], counted(pairs))
    assert sums.weight == 4 and sums.metrics['accuracy'] == sum(truth == answer for truth, answer in pairs)
    summary = task.summary(sums)
    assert list(summary) == ['loss', 'accuracy', 'macro_f1'] and summary['loss'] == pytest.approx(loss / 4)
    np.testing.assert_allclose(task.predict(params, rows)['probabilities'].sum(axis=1), 1, rtol=1e-5)


def test_tagging_is_a_loop_over_steps(batch):
    task, rows = Tagging(Scores(per_step=True), NAMES), for_task(batch, 'steps')
    rows['weights'] = rows['weights'] * np.array([1, 1, 0, 1], np.float32)  # a step inside a row that has no label
    params = task.plain_init(jax.random.key(0), rows)
    loss, pairs = 0.0, []
    for tokens, targets, weights in zip(rows['inputs'], rows['targets'], rows['weights']):
        for token, target, weight in zip(tokens, targets, weights):
            if weight:
                scores = np.asarray(params['table'])[token]
                loss -= log_softmax(scores)[target]
                pairs.append((target, scores.argmax()))
    sums = jax.device_get(jax.jit(task.__call__)(params, rows))
    np.testing.assert_allclose(sums.loss, loss, rtol=1e-5)
    np.testing.assert_array_equal(sums.metrics['confusion'], counted(pairs))
    assert sums.weight == len(pairs)
    tags = {NAMES[truth] for truth, _ in pairs}
    assert {name for name in task.summary(sums) if '/' in name} == {f'f1/{tag}' for tag in tags}


def test_of_iob_tags_whole_entities_are_scored_too(batch):
    names = ('O', 'B-x', 'I-x')
    task, rows = Tagging(Scores(per_step=True), names), for_task(batch, 'steps')
    params = task.plain_init(jax.random.key(0), rows)
    found = task.summary(jax.device_get(jax.jit(task.__call__)(params, rows)))
    true = predicted = right = 0
    for tokens, targets, length in zip(rows['inputs'], rows['targets'], rows['lengths']):
        best = np.asarray(params['table'])[tokens].argmax(axis=-1)
        one, other = (spans([names[tag] for tag in tags[:length]]) for tags in (targets, best))
        true, predicted, right = true + len(one), predicted + len(other), right + len(one & other)
    assert right and true and predicted
    expected = dict(entity_f1=2 * right / (true + predicted), entity_precision=right / predicted, entity_recall=right / true)
    assert {name: value for name, value in found.items() if name.startswith('entity')} == pytest.approx(
        {**expected, 'entity_f1/x': expected['entity_f1']})


def test_a_random_field_judges_all_labels_of_a_row_together(batch):
    """Its loss against the sum over all paths is the business of tests/ops/test_crf.py; here: padding, answers, means."""
    task, rows = Tagging(Scores(per_step=True, crf=True), NAMES), for_task(batch, 'steps')
    params = task.plain_init(jax.random.key(0), rows)
    sums, training = jax.device_get(jax.jit(task.__call__)(params, rows)), task(params, rows, jax.random.key(1))
    outputs = task.outputs(params, rows)
    np.testing.assert_allclose(sums.loss, -ops.crf_log_likelihood(*outputs, rows['targets'], rows['lengths']).sum(), rtol=1e-6)
    assert sums.weight == rows['lengths'].sum() and not training.metrics
    found, best = task.predict(params, rows), ops.crf_decode(*outputs, rows['lengths'])
    np.testing.assert_array_equal(found['labels'], best)
    valid = np.arange(T) < rows['lengths'][:, None]
    np.testing.assert_allclose(np.asarray(found['probabilities']).sum(axis=-1)[valid], 1, rtol=1e-5)
    assert sums.metrics['accuracy'] == ((np.asarray(best) == rows['targets']) & valid).sum()


KINDS = {'classification': 'whole', 'tagging': 'steps', 'regression': 'whole'}


def padded(rows, steps=50):
    """The same batch with steps of noise after the last, which count for nothing."""
    rng = np.random.default_rng(1)

    def longer(name, x):
        if x.ndim < 2:
            return x
        noise = rng.integers(dict(inputs=V, targets=C).get(name, 1), size=(len(x), steps))
        return np.concatenate([x, noise.astype(x.dtype)], axis=1)

    return {name: longer(name, x) for name, x in rows.items()}


def assert_same(task, rows, other, tolerance):
    """The same sums and the same gradient."""
    params = task.plain_init(jax.random.key(0), padded(rows))
    measure = jax.jit(jax.value_and_grad(lambda params, rows: (task(params, rows).loss, task(params, rows)), has_aux=True))
    (_, sums), gradient = measure(params, rows)
    (_, others), other_gradient = measure(params, other)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), (sums, gradient),
                 (others, other_gradient))


@pytest.mark.parametrize('name, encoder, crf', [('classification', 'gru', False), ('tagging', 'conv', False),
                                                ('tagging', 'gru', True), ('regression', 'attention', False)])
def test_fifty_padded_positions_change_no_metric_and_no_gradient(name, encoder, crf, batch):
    rows = for_task(batch, KINDS[name])
    if name == 'regression':
        rows['targets'] = rows['targets'].astype(np.float32)
    model = models.build('reader', vocabulary=V, outputs=1 if name == 'regression' else C, per_step=name == 'tagging',
                         encoder=encoder, width=8, crf=crf)
    assert_same(tasks.build(name, model, classes=NAMES), rows, padded(rows), 1e-6)


@pytest.mark.parametrize('name', ['recurrent', 'gpt'])
def test_fifty_padded_positions_change_no_language_model(name, batch):
    rows = dict(inputs=batch['inputs'], targets=batch['inputs'][:, ::-1].copy(), weights=batch['steps']['weights'])
    fields = dict(heads=2) if name == 'gpt' else {}
    model = models.build(name, vocabulary=V, context_length=T + 50, width=8, depth=1, **fields)
    assert_same(LanguageModel(model, np.ones((V, 2), np.float32)), rows, padded(rows), 1e-6)


@pytest.mark.parametrize('encoder, bidirectional, crf', [('gru', True, True), ('lstm', False, False), ('conv', True, False),
                                                         ('attention', True, False), ('attention', False, False)])
def test_packed_rows_have_the_sums_and_the_gradients_of_separate_ones(encoder, bidirectional, crf, batch):
    """The rows of 4, 1, 3 and 2 steps, one a row, and the first three in one row of 9 beside the last."""
    apart = jax.tree.map(lambda x: x[:4], for_task(batch, 'steps'))
    lengths, together = apart.pop('lengths'), {}
    for name, rows in apart.items():
        cut = [row[:length] for row, length in zip(rows, lengths)]
        together[name] = np.stack([np.pad(np.concatenate(parts), (0, 9 - sum(map(len, parts)))) for parts in (cut[:3], cut[3:])])
    together.update(segments=np.array([[1] * 4 + [2] + [3] * 3 + [0], [1] * 2 + [0] * 7], np.int32),
                    lengths=np.array([8, 2], np.int32))
    model = models.build('reader', vocabulary=V, context_length=None, outputs=C, per_step=True, encoder=encoder, width=8,
                         bidirectional=bidirectional, crf=crf)
    task = Tagging(model, NAMES)
    rng = np.random.default_rng(2)  # transitions would start as zeros; weights of size 1 would saturate attention
    params = jax.tree.map(lambda x: np.float32(0.5 * rng.normal(size=x.shape)), task.plain_init(jax.random.key(0), apart))
    measure = jax.jit(jax.value_and_grad(lambda params, rows: (task(params, rows).loss, task(params, rows)), has_aux=True))
    (_, packed), packed_gradient = measure(params, together)
    (_, separate), gradient = measure(params, dict(apart, lengths=lengths))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), (packed, packed_gradient),
                 (separate, gradient))


def test_tables_of_counts_are_never_divided():
    sums = Sums(np.float32(6), np.float32(2), dict(accuracy=np.float32(1), confusion=np.eye(2)))
    assert sums.means() == dict(loss=3, accuracy=0.5)


def test_tasks_by_name_and_what_their_loss_is_measured_in():
    assert tasks.TASKS == dict(language_model=LanguageModel, classification=Classification, regression=Regression,
                               tagging=Tagging, translation=tasks.Translation, masked_lm=tasks.MaskedLM,
                               span_corruption=tasks.SpanCorruption, simclr=tasks.SimCLR, dino=tasks.DINO, clip=tasks.CLIP,
                               captioning=tasks.Captioning,
                               forecasting=tasks.Forecasting)
    assert tasks.build('tagging', Scores(True), classes=NAMES, offset=1.0) == Tagging(Scores(True), NAMES)
    assert {name: task.unit for name, task in tasks.TASKS.items()} == dict(
        language_model='nats per token', classification='nats per sequence', regression='mean squared error',
        tagging='nats per step', translation='nats per token', masked_lm='nats per masked token', span_corruption='nats per token',
        simclr='nats per view', dino='nats per view', clip='nats per pair', captioning='nats per token',
        forecasting='mean squared error')
    with pytest.raises(FieldError, match="^task='regresion': no such task; did you mean 'regression'"):
        tasks.build('regresion', Scores(True))
