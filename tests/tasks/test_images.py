"""What becomes of a batch of pixels before a model is given it."""

import jax
import numpy as np
import pytest

from seqjax import models, ops, tasks
from seqjax.tasks.classification import Classification

B, H, W, CLASSES = 4, 6, 5, ('a', 'b', 'c')
KEYS = jax.random.split(jax.random.key(0), B)
BATCH = dict(inputs=np.random.default_rng(0).integers(256, size=(B, H, W, 3), dtype=np.uint8),
             targets=np.array([0, 1, 2, 0], np.int32), weights=np.array([1, 1, 1, 0], np.float32))
MEAN, DEVIATION = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)


def task(**fields):
    return Classification(models.build('reader', vocabulary=None, outputs=3, width=8), classes=CLASSES, **fields)


def test_pixels_become_numbers_and_are_normalised_also_in_evaluation():
    expected = BATCH['inputs'] / 255
    np.testing.assert_allclose(task().prepare(BATCH, None)['inputs'], expected, atol=1e-6)
    for augment in ('', 'crop(padding=2)'):
        made = task(mean=MEAN, deviation=DEVIATION, augment=augment).prepare(BATCH, None)
        np.testing.assert_allclose(made['inputs'], (expected - MEAN) / DEVIATION, atol=1e-5)
        np.testing.assert_array_equal(made['targets'], BATCH['targets'])


def test_in_training_they_are_augmented_before_they_are_normalised():
    how = 'crop(padding=2), flip'
    found = jax.jit(task(mean=MEAN, deviation=DEVIATION, augment=how).prepare)(BATCH, KEYS)['inputs']
    expected, _ = ops.Augmentation.parse(how)(KEYS, (BATCH['inputs'] / 255).astype(np.float32))
    np.testing.assert_allclose(found, (expected - np.float32(MEAN)) / np.float32(DEVIATION), atol=1e-5)


def test_mixed_rows_have_mixed_targets_and_a_loss():
    mixed = task(augment='mixup(alpha=1.0)').prepare(BATCH, KEYS)
    assert mixed['targets'].shape == (B, 3)
    np.testing.assert_allclose(mixed['targets'].sum(axis=-1), 1, atol=1e-6)
    learned = task()
    params = learned.plain_init(jax.random.key(1), BATCH)
    logits = learned.outputs(params, mixed, KEYS[0])
    sums = learned(params, mixed, KEYS[0])
    log_p = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    np.testing.assert_allclose(sums.loss, -((mixed['targets'] * log_p).sum(axis=-1) * BATCH['weights']).sum(), rtol=1e-5)
    right = logits.argmax(axis=-1) == mixed['targets'].argmax(axis=-1)
    assert sums.metrics['accuracy'] == BATCH['weights'][np.asarray(right)].sum()


@pytest.mark.parametrize('inputs', [np.zeros((B, 7), np.int32), np.zeros((B, 7, 3), np.float32), dict(words=np.zeros((B, 7), np.int32))])
def test_tokens_and_frames_pass(inputs):
    batch = {**BATCH, 'inputs': inputs}
    assert task(mean=MEAN, deviation=DEVIATION, augment='flip').prepare(batch, KEYS) is batch


def test_a_model_reads_pixels_of_8_bits_as_it_reads_numbers_from_0_to_1():
    learned = task()
    params = learned.plain_init(jax.random.key(1), BATCH)
    ours, theirs = (learned.outputs(params, {**BATCH, 'inputs': x}) for x in (BATCH['inputs'], (BATCH['inputs'] / 255).astype(np.float32)))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_every_task_of_classes_or_numbers_may_read_images():
    assert {name for name, kind in tasks.TASKS.items() if hasattr(kind, 'augment')} >= {'classification', 'regression'}
