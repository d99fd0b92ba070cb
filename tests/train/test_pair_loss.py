"""A loss over pairs of rows is that of the whole global batch, however micro-batches and devices cut it: against numpy loops."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import parallel, tasks
from seqjax.train.pair_loss import deal, pair_gradients, pair_sums

B, D, N = 16, 5, 3
CUTS = {'one device': {}, 'accumulate=2': dict(accumulate=2), 'accumulate=4': dict(accumulate=4),
        'jit data=8': dict(data=8), 'jit fsdp=8': dict(fsdp=8), 'jit data=2 fsdp=2, accumulate=4': dict(data=2, fsdp=2, accumulate=4),
        'pmap data=8': dict(strategy='pmap', data=8), 'pmap data=4, accumulate=4': dict(strategy='pmap', data=4, accumulate=4)}


@dataclasses.dataclass(frozen=True)
class Pairs(tasks.Task):
    """u_b = x_b W, v_b = y_b W; every u_b is to find its v_b among all, with a learned temperature. Rows count by weight."""

    model: None = None
    dropout: float = 0.0

    def represent(self, params, batch, key=None):
        x = batch['x']
        if key is not None and self.dropout:
            x = jnp.where(jax.random.bernoulli(key, self.dropout, x.shape), 0, x)
        return dict(u=x @ params['kernel'], v=batch['y'] @ params['kernel'])

    def pair_loss(self, params, outputs, batch):
        log_p = jax.nn.log_softmax(jnp.exp(params['scale']) * outputs['u'] @ outputs['v'].T)
        losses = -batch['weights'] * jnp.diagonal(log_p)
        return tasks.Sums(losses.sum(), batch['weights'].sum(), {}, dict(losses=losses))


def numpy_loop(params, batch):
    """(losses [B], their sum's gradient) in float64, a pair of rows after another."""
    W, a = np.float64(params['kernel']), np.exp(np.float64(params['scale']))
    x, y, weights = (np.float64(batch[name]) for name in ('x', 'y', 'weights'))
    losses, gradient, of_scale = np.zeros(B), np.zeros_like(W), 0.0
    for b in range(B):
        products = np.array([(x[b] @ W) @ (y[c] @ W) for c in range(B)])
        p = np.exp(a * products) / np.exp(a * products).sum()
        losses[b] = -weights[b] * np.log(p[b])
        for c in range(B):
            slope = weights[b] * (p[c] - (b == c))         # dL / d(a u_b . v_c)
            of_scale += slope * a * products[c]
            gradient += slope * a * (np.outer(x[b], y[c] @ W) + np.outer(y[c], x[b] @ W))
    return losses, dict(kernel=gradient, scale=of_scale)


@pytest.fixture(scope='module')
def case():
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    batch = dict(x=draw(B, D), y=draw(B, D), weights=np.float32(rng.random(B) < 0.8))
    return dict(kernel=0.5 * draw(D, N), scale=np.float32(0.3)), batch


@dataclasses.dataclass
class State:
    params: dict
    carry: None = None


jax.tree_util.register_dataclass(State, ['params', 'carry'], [])


def run(task, params, batch, *, strategy='jit', accumulate=1, data=1, fsdp=1):
    """(Sums, gradient) of the training step and Sums of the evaluation, on such a mesh."""
    strategy = parallel.make_strategy(strategy, data=data, fsdp=fsdp)

    def step(state, batch):
        train = pair_gradients(lambda: task, lambda params: params, state.params, batch, jax.random.key(0), accumulate=accumulate,
                               axis_name=strategy.axis_name)
        return None, (train, pair_sums(task, state.params, batch, strategy.axis_name))

    state = strategy.enter(jax.device_put(State(params), parallel.replicated(strategy.mesh)))
    batch = strategy.place(batch)
    return strategy.read(strategy.compile(step, state, batch, updates_state=False)(state, batch)[1])


@pytest.mark.parametrize('cut', CUTS)
def test_value_and_gradient_are_those_of_a_numpy_loop(cut, case):
    losses, gradient = numpy_loop(*case)
    (sums, found, _), evaluated = run(Pairs(), *case, **CUTS[cut])
    for each in (sums, evaluated):
        np.testing.assert_allclose(each.loss, losses.sum(), rtol=1e-5)
        np.testing.assert_allclose(each.rows['losses'], losses, rtol=1e-5, atol=1e-5)
        assert each.weight == case[1]['weights'].sum()
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5), found, gradient)


def test_a_loss_of_each_device_by_itself_would_be_seen(case):
    params, batch = case
    parts = [{name: x[start:start + B // 2] for name, x in batch.items()} for start in (0, B // 2)]
    cut = sum(float(Pairs()(params, part).loss) for part in parts)
    assert abs(cut - numpy_loop(*case)[0].sum()) > 1


def test_dropout_is_the_same_when_a_micro_batch_is_computed_again(case):
    (params, batch), task = case, Pairs(dropout=0.5)
    keys, micro = jax.random.split(jax.random.key(0), 4), deal(batch, 4)

    def loss(params):
        each = [task.represent(params, jax.tree.map(lambda x: x[i], micro), keys[i]) for i in range(4)]
        outputs = jax.tree.map(lambda *x: jnp.stack(x, axis=1).reshape(B, -1), *each)
        return task.pair_loss(params, outputs, batch).loss

    value, gradient = jax.value_and_grad(loss)(params)
    (sums, found, _), _ = run(task, *case, accumulate=4)
    np.testing.assert_allclose(sums.loss, value, rtol=1e-6)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), found, gradient)
    assert abs(value - float(task(params, batch).loss)) > 0.1


def test_memory_is_that_of_a_micro_batch(case):
    """All rows at once keep what their backward pass needs; micro-batches keep the representations only."""
    rng, width = np.random.default_rng(0), 64

    class Deep(Pairs):
        def represent(self, params, batch, key=None):
            x = batch['x']
            for _ in range(6):
                x = jnp.tanh(x @ params['wide'])
            return dict(u=x[:, :N], v=batch['y'][:, :N])

    params = dict(scale=np.float32(0), wide=rng.normal(size=(width, width), scale=0.1).astype(np.float32))
    batch = {name: rng.normal(size=(2048, width)).astype(np.float32) for name in ('x', 'y')} | dict(weights=np.ones(2048, np.float32))

    class Cheap(Deep):
        def pair_loss(self, params, outputs, batch):
            return tasks.Sums(((outputs['u'].mean(axis=0) - outputs['v'].mean(axis=0)) ** 2).sum(), jnp.float32(1), {})

    def temporaries(accumulate):
        step = lambda params, batch: pair_gradients(Cheap, lambda params: params, params, batch, jax.random.key(0),
                                                    accumulate=accumulate)
        return jax.jit(step).lower(params, batch).compile().memory_analysis().temp_size_in_bytes

    assert temporaries(8) < 0.6 * temporaries(1)
