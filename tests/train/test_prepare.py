"""`Task.prepare`: what it draws for a row is the same on every mesh, under pmap and with gradient accumulation; evaluation draws nothing."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import parallel, tasks, train
from seqjax.train.step import fingerprint, make_eval_step, make_train_step

B, D, SEED, STEP = 16, 5, 3, 7
CUTS = {'one device': {}, 'accumulate=4': dict(accumulate=4), 'jit data=8': dict(data=8), 'jit fsdp=8': dict(fsdp=8),
        'jit data=2 fsdp=2, accumulate=4': dict(data=2, fsdp=2, accumulate=4), 'pmap data=8': dict(strategy='pmap', data=8),
        'pmap data=4, accumulate=4': dict(strategy='pmap', data=4, accumulate=4)}


@dataclasses.dataclass(frozen=True)
class Noisy(tasks.Task):
    """(w . (x / 255 + noise) - y)^2"""

    model: None = None

    def plain_init(self, key, batch):
        return dict(w=jax.random.normal(key, (D,)))

    def prepare(self, batch, keys=None):
        x = batch['x'].astype(jnp.float32) / 255
        if keys is not None:
            x += jax.vmap(lambda key: jax.random.normal(key, (D,)))(keys)
        return {**batch, 'x': x}

    def __call__(self, params, batch, key=None):
        losses = (batch['x'] @ params['w'] - batch['y']) ** 2
        return tasks.Sums(losses.sum(), jnp.float32(len(losses)), {})


class OfPairs(Noisy):
    """The same, written as a loss over the global batch."""

    __call__ = tasks.Task.__call__

    def represent(self, params, batch, key=None):
        return batch['x'] @ params['w']

    def pair_loss(self, params, outputs, batch):
        return tasks.Sums(((outputs - batch['y']) ** 2).sum(), jnp.float32(len(outputs)), {})


def make_batch():
    rng = np.random.default_rng(0)
    return dict(x=rng.integers(256, size=(B, D)).astype(np.uint8), y=rng.normal(size=B).astype(np.float32))


def run(task, *, strategy='jit', accumulate=1, data=1, fsdp=1):
    """(parameters before, after a step of SGD at rate 1, facts of the step, Sums of the evaluation of the same batch before it)."""
    strategy, optimizer = parallel.make_strategy(strategy, data=data, fsdp=fsdp), optax.sgd(1.0)
    state = jax.jit(lambda key: train.create_state(task, optimizer, key, make_batch()))(jax.random.key(1)).replace(step=jnp.int32(STEP))
    before = jax.device_get(state.params)
    state = strategy.enter(jax.device_put(state, parallel.replicated(strategy.mesh)))
    batch = strategy.place(make_batch())
    step = make_train_step(task, optimizer, optax.constant_schedule(1.0), seed=SEED, accumulate=accumulate,
                           axis_name=strategy.axis_name)
    evaluate = make_eval_step(task, axis_name=strategy.axis_name)
    evaluated = strategy.compile(evaluate, state, batch, updates_state=False)(state, batch)[1]
    state, facts = strategy.compile(step, state, batch, updates_state=True)(state, batch)
    return before, jax.device_get(strategy.leave(state).params), *map(strategy.read, (facts, evaluated))


@pytest.mark.parametrize('task', [Noisy(), OfPairs()], ids=['sums', 'pairs'])
@pytest.mark.parametrize('cut', CUTS)
def test_a_row_draws_from_its_own_key_whatever_holds_it(cut, task):
    before, after, facts, evaluated = run(task, **CUTS[cut])
    batch, of_step = make_batch(), jax.random.fold_in(jax.random.key(SEED), STEP)
    x, y, w = batch['x'] / 255, np.float64(batch['y']), np.float64(before['w'])
    np.testing.assert_allclose(evaluated.loss, ((x @ w - y) ** 2).sum(), rtol=1e-5)
    noise = np.stack([jax.random.normal(jax.random.fold_in(of_step, b), (D,)) for b in range(B)])
    errors = (x + noise) @ w - y
    np.testing.assert_allclose(facts['sums'].loss, (errors ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(before['w'] - after['w'], 2 * errors @ (x + noise) / B, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(facts['batch'], fingerprint(batch, jnp.uint32(0)))     # of what was loaded


def test_nothing_is_entered_where_a_task_prepares_nothing(monkeypatch):
    monkeypatch.setattr('seqjax.train.step.row_keys', lambda *_: pytest.fail('keys were made'))

    class Plain(Noisy):
        prepare = tasks.Task.prepare

        def __call__(self, params, batch, key=None):
            return super().__call__(params, {**batch, 'x': batch['x'].astype(jnp.float32)}, key)

    run(Plain())
