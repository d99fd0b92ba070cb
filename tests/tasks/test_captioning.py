"""Captioning against a plain loop over the counted words; pixels; scheduled sampling; what batch norms see."""

import dataclasses

from flax.core import meta
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, tasks
from seqjax.errors import UserError
from seqjax.tasks import Captioning, Teacher

B, T, V = 3, 4, 7
STEPS = np.array([4, 2, 0])  # words of the captions; the last row fills up
MODEL = models.build('captioner', vocabulary=V, width=4, encoder_width=2)
TASK = Captioning(MODEL)


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return dict(inputs=rng.integers(0, 256, (B, 8, 8, 1)).astype(np.uint8), targets=rng.integers(1, V, (B, T)).astype(np.int32),
                weights=(np.arange(T) < STEPS[:, None]).astype(np.float32))


BATCH = draw()
VARIABLES = jax.jit(lambda key: meta.unbox(TASK.init(key, BATCH)))(jax.random.key(0))


def of(task, updates=False):
    """The task as a step holds it."""
    return task.holding(VARIABLES['batch_stats'], updates=updates)


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_sums_are_those_of_a_loop_over_the_counted_words():
    logits = MODEL.apply(VARIABLES, BATCH['inputs'], None, BATCH['targets'])
    log_probs, loss, right = log_softmax(np.float64(logits)), 0.0, 0
    for b in range(B):
        for t in range(STEPS[b]):
            loss -= log_probs[b, t, BATCH['targets'][b, t]]
            right += log_probs[b, t].argmax() == BATCH['targets'][b, t]
    sums = jax.device_get(jax.jit(lambda params: of(TASK)(params, BATCH))(VARIABLES['params']))
    assert sums.weight == 6 and sums.metrics['accuracy'] == right
    np.testing.assert_allclose(sums.loss, loss, rtol=1e-5)
    assert set(TASK.summary(sums)) == {'loss', 'accuracy', 'perplexity'}


def test_images_are_normalised_and_in_training_augmented():
    task = dataclasses.replace(TASK, mean=(0.5,), deviation=(0.25,), augment='flip(p=1.0)')
    expected = (np.float32(BATCH['inputs']) / 255 - 0.5) / 0.25
    np.testing.assert_allclose(task.prepare(BATCH)['inputs'], expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(task.pixels(BATCH['inputs']), expected, rtol=1e-6, atol=1e-6)
    flipped = task.prepare(BATCH, jax.random.split(jax.random.key(0), B))
    np.testing.assert_allclose(flipped['inputs'], expected[:, :, ::-1], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(flipped['targets'], BATCH['targets'])


def test_scheduled_sampling_reads_what_the_model_writes_and_leaves_statistics_to_the_loss():
    """With ground truth alone it is teacher forcing, number by number, the statistics of batch norms included."""
    def step(teacher):
        task = of(dataclasses.replace(TASK, teacher=teacher, step=jnp.int32(0)), updates=True)
        sums = task(VARIABLES['params'], BATCH, jax.random.key(1))
        return sums.loss, task.model.batch_stats

    always, truth, sampled = (jax.jit(lambda t=teacher: step(t))() for teacher in (
        Teacher(), Teacher('linear', steps=1000), Teacher('linear', steps=1)))
    np.testing.assert_array_equal(always[0], truth[0])
    jax.tree.map(np.testing.assert_array_equal, always[1], truth[1])
    assert not np.array_equal(truth[1]['encoder']['stem_norm']['mean'], VARIABLES['batch_stats']['encoder']['stem_norm']['mean'])
    late = jax.jit(lambda: of(dataclasses.replace(TASK, teacher=Teacher('linear', steps=1), step=jnp.int32(5)), updates=True)(
        VARIABLES['params'], BATCH, jax.random.key(1)).loss)()
    assert late != always[0] and sampled[0] == always[0]


def test_it_is_learned_from_images_with_captions():
    assert 'captioning' in tasks.taking('captions') and Captioning.takes() == 'captions' and Captioning.decodes
    spec = Captioning.batch_spec(dict(image_size=24), 5, 9)
    assert spec['inputs'].shape == (5, 24, 24, 3) and spec['targets'].shape == spec['weights'].shape == (5, 9)


def test_it_is_not_exported():
    with pytest.raises(UserError, match='--mode=export: the run reads images'):
        TASK.exported('T', None, {})
