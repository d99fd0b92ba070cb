"""Augmented images in training: the same loss and gradient on every mesh, under pmap and with accumulation; a resumed run ends bit for bit where
an undisturbed one does."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import data, models, parallel, runs, tasks, train
from seqjax.train.step import make_train_step
from tests.tiny import tiny_config

B, H, W, CLASSES = 16, 8, 7, ('a', 'b', 'c')
HOW = 'crop(padding=1), resized_crop(area=(0.4, 1.0)), flip, colour_jitter, blur(kernel=3), erase, rand_augment(n=1), mixup(alpha=0.5), cutmix'
CUTS = {'accumulate=4': dict(accumulate=4), 'jit data=8': dict(data=8), 'jit fsdp=8': dict(fsdp=8),
        'pmap data=8': dict(strategy='pmap', data=8), 'pmap data=4, accumulate=2': dict(strategy='pmap', data=4, accumulate=2)}


def make_batch():
    rng = np.random.default_rng(0)
    return dict(inputs=rng.integers(256, size=(B, H, W, 3), dtype=np.uint8), targets=np.arange(B, dtype=np.int32) % 3,
                weights=np.ones(B, np.float32))


def step_of(*, strategy='jit', accumulate=1, data=1, fsdp=1):
    """(loss sum, what a step of SGD at rate 1 takes from the parameters)."""
    task = tasks.build('classification', models.build('reader', vocabulary=None, outputs=3, width=8, encoder='gru'), classes=CLASSES, augment=HOW,
                       mean=(0.4, 0.5, 0.6), deviation=(0.2, 0.3, 0.4))
    strategy, optimizer = parallel.make_strategy(strategy, data=data, fsdp=fsdp), optax.sgd(1.0)
    state = jax.jit(lambda key: train.create_state(task, optimizer, key, make_batch()))(jax.random.key(1)).replace(step=jnp.int32(5))
    before = jax.device_get(state.params)
    state = strategy.enter(jax.device_put(state, parallel.replicated(strategy.mesh)))
    step = make_train_step(task, optimizer, optax.constant_schedule(1.0), seed=3, accumulate=accumulate, axis_name=strategy.axis_name)
    batch = strategy.place(make_batch())
    state, facts = strategy.compile(step, state, batch, updates_state=True)(state, batch)
    moved = jax.tree.map(np.subtract, before, jax.device_get(strategy.leave(state).params))
    return float(strategy.read(facts)['sums'].loss), moved


@pytest.fixture(scope='module')
def alone():
    return step_of()


@pytest.mark.parametrize('cut', CUTS)
def test_augmented_batches_are_the_same_however_they_are_dealt(cut, alone):
    loss, moved = step_of(**CUTS[cut])
    np.testing.assert_allclose(loss, alone[0], rtol=1e-5)
    jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6), moved, alone[1])


def config_of(**changes):
    return tiny_config('reader', data=dict(source='digits', batch_size=16, augment='crop(padding=1), colour_jitter, mixup', normalise=True),
                       model=dict(encoder='gru', width=8), train=dict(**{**dict(steps=6, save_every=3), **changes}), optimizer=dict(schedule='constant'))


@pytest.mark.slow
def test_a_resumed_run_ends_where_an_undisturbed_one_does(tmp_path):
    train.train(config_of(), tmp_path / 'whole')
    train.train(config_of(steps=3), tmp_path / 'cut')
    train.train(config_of(), tmp_path / 'cut')
    (_, ours), (_, theirs) = (runs.load_model(tmp_path / name) for name in ('whole', 'cut'))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    batch = data.load(config_of().data, 'classification').training_batches(batch_size=16, seed=0)[4]
    assert batch['inputs'].dtype == np.uint8
