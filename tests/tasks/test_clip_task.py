"""CLIP: the symmetric loss of the global batch on every mesh, what an evaluation reports, and a run that is launched."""

import json

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import models, ops, tasks, train
from seqjax.train.loop import Interrupted
from seqjax.train.step import make_eval_step
from tests.one_step import CUTS, one_step

B, T, V = 16, 5, 11


def make_batch():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, T + 1, B)
    return dict(inputs=rng.integers(256, size=(B, 8, 8, 1)).astype(np.uint8), targets=rng.integers(1, V, (B, T)).astype(np.int32),
                weights=(np.arange(T) < lengths[:, None]).astype(np.float32))


def make(**fields):
    model = models.CLIP(vocabulary=V, context_length=T, width=8, depth=1, heads=2, patch_size=4, projection_width=4)
    return tasks.build('clip', model, **fields)


@pytest.fixture(scope='module')
def alone():
    return one_step(make(), make_batch())


@pytest.mark.parametrize('cut', CUTS)
def test_one_device_eight_devices_and_micro_batches_agree(alone, cut):
    before, after, facts, evaluated = alone
    same, found, their_facts, their_evaluated = one_step(make(), make_batch(), **CUTS[cut])
    close = lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, before.params, same.params)
    jax.tree.map(close, found.params, after.params)                # params - gradient
    jax.tree.map(close, (their_facts['sums'].means(), their_evaluated.means()), (facts['sums'].means(), evaluated.means()))
    for name in ('images', 'texts', 'features'):
        close(their_evaluated.rows[name], evaluated.rows[name])
    assert abs(after.params['log_scale'] - before.params['log_scale']) > 1e-3


def test_the_loss_is_that_of_the_pseudo_code(alone):
    before, _, facts, _ = alone
    task, batch = make(), make_batch()
    prepared = task.prepare(batch)
    images, texts, scale = task.model.apply({'params': before.params}, prepared['inputs'], batch['targets'], batch['weights'])
    assert float(scale) == pytest.approx(1 / 0.07, rel=1e-5)
    logits = np.float64(images) @ np.float64(texts).T * float(scale)             # figure 3 of Radford et al. 2021
    cross_entropy = lambda logits: np.mean([np.log(np.exp(row).sum()) - row[b] for b, row in enumerate(logits)])
    expected = (cross_entropy(logits) + cross_entropy(logits.T)) / 2
    assert float(facts['sums'].means()['loss']) == pytest.approx(expected, rel=1e-5)
    assert float(facts['sums'].means()['guessing']) == pytest.approx(np.log(B), rel=1e-5)
    assert expected == pytest.approx(float(ops.clip_loss(images, texts, scale).mean()), rel=1e-5)


def test_rows_that_fill_up_a_batch_are_no_negatives(alone):
    task, state, batch = make(), alone[0], make_batch()
    part = {field: value[:10] for field, value in batch.items()}
    filled = {field: np.concatenate([value[:10], np.zeros_like(value[:6])]) for field, value in batch.items()}
    one, other = (make_eval_step(task)(state, given)[1] for given in (part, filled))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one.means(), other.means())
    found = task.summary(jax.device_get(other))
    assert found.keys() >= {'loss', 'guessing', 'scale', 'feature_std', 'feature_rank', 'retrieval/image_to_text@1', 'retrieval/text_to_image@5'}
    assert task.found(jax.device_get(other))['images'].shape == (10, 4)


def make_config():
    config = configs.defaults(model='clip', task='clip', source='digit_scenes')
    config.data.update(batch_size=32, tokenizer='word', augment='crop(padding=2)')
    config.model.update(width=8, depth=1, heads=2, patch_size=16, projection_width=4)
    config.train.update(steps=4, eval_every=2, eval_batches=2, save_every=2)
    config.optimizer.update(warmup_steps=1, learning_rate=1e-2)
    return config


def test_a_run_that_is_left_and_resumed_ends_where_an_undisturbed_one_does(tmp_path, monkeypatch):
    whole = train.train(make_config(), tmp_path / 'whole')
    assert whole['train/guessing'] == pytest.approx(np.log(32), rel=1e-5) and 'eval/retrieval/image_to_text@10' in whole
    assert 'collapsed' in whole
    from seqjax.train.interrupts import Interrupts

    monkeypatch.setattr(Interrupts, 'requested', lambda self, step: step == 2)
    monkeypatch.setattr(Interrupts, 'exit_code', 0, raising=False)
    with pytest.raises(Interrupted):
        train.train(make_config(), tmp_path / 'parts')
    monkeypatch.undo()
    train.train(make_config(), tmp_path / 'parts')
    log = [[json.loads(line) for line in (tmp_path / name / 'metrics.jsonl').read_text().splitlines()] for name in ('whole', 'parts')]
    trained = [[line for line in lines if 'train/loss' in line] for lines in log]
    assert trained[0] == trained[1] and len(trained[0]) == 4
