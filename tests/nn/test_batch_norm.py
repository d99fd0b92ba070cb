"""Batch norm: outputs, running statistics and gradients against torch.nn.BatchNorm2d and against float64 in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops

B, H, W, C = 6, 3, 4, 5


def draw(seed=0, mean=0.0, scale=1.0):
    return np.float32(mean + scale * np.random.default_rng(seed).normal(size=(B, H, W, C)))


def variables(seed=1):
    rng = np.random.default_rng(seed)
    each = lambda low, high: np.float32(rng.uniform(low, high, C))
    return dict(params=dict(scale=each(0.5, 2), bias=each(-1, 1)), batch_stats=dict(mean=each(-1, 1), var=each(0.5, 2)))


@pytest.mark.parametrize('train', [True, False], ids=['training', 'evaluation'])
@pytest.mark.parametrize('momentum', [0.9, 0.7])
def test_outputs_statistics_and_gradients_are_torch_s(train, momentum):
    torch = pytest.importorskip('torch')
    ours, theirs, given = nn.BatchNorm(momentum), torch.nn.BatchNorm2d(C, momentum=1 - momentum), variables()
    with torch.no_grad():
        for name, value in dict(weight=given['params']['scale'], bias=given['params']['bias'], running_mean=given['batch_stats']['mean'],
                                running_var=given['batch_stats']['var']).items():
            getattr(theirs, name).copy_(torch.tensor(value))
    theirs.train(train)
    x, slope = draw(2, mean=3.0), draw(3)
    of_torch = torch.tensor(x.transpose(0, 3, 1, 2), requires_grad=True)
    there = theirs(of_torch)
    (there * torch.tensor(slope.transpose(0, 3, 1, 2))).sum().backward()

    def loss(params, x):
        y, new = ours.apply({**given, 'params': params}, x, train, mutable=['batch_stats'])
        return (y * slope).sum(), (y, new['batch_stats'])

    (_, (y, statistics)), (of_params, of_x) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(given['params'], x)
    near = lambda found, wanted: np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    near(y, there.permute(0, 2, 3, 1))
    near(statistics['mean'], theirs.running_mean)
    near(statistics['var'], theirs.running_var)       # divided by n - 1
    near(of_x, of_torch.grad.permute(0, 2, 3, 1))
    near(of_params['scale'], theirs.weight.grad)
    near(of_params['bias'], theirs.bias.grad)


def test_a_channel_far_from_zero_keeps_its_digits():
    x = draw(0, mean=1000.0, scale=0.01)
    mean, variance, n = jax.jit(ops.batch_statistics)(x)
    wanted = np.float64(x).reshape(-1, C)
    np.testing.assert_allclose(mean, wanted.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(variance, wanted.var(axis=0), rtol=0.05)     # E[x^2] - E[x]^2 in float32 may be negative here
    assert n == B * H * W


def test_statistics_are_float32_where_the_model_computes_in_bfloat16():
    x, module = draw(0, mean=100.0), nn.BatchNorm(dtype=jnp.bfloat16)
    y, new = module.apply(variables(), x, True, mutable=['batch_stats'])
    rounded = np.float64(jnp.asarray(x, jnp.bfloat16)).reshape(-1, C)
    assert y.dtype == jnp.bfloat16 and new['batch_stats']['var'].dtype == jnp.float32
    wanted = 0.9 * variables()['batch_stats']['var'] + 0.1 * rounded.var(axis=0, ddof=1)
    np.testing.assert_allclose(new['batch_stats']['var'], wanted, rtol=1e-4)


def test_in_evaluation_a_row_does_not_depend_on_the_others():
    x, module = draw(0), nn.BatchNorm()
    whole = module.apply(variables(), x)
    np.testing.assert_allclose(module.apply(variables(), x[:1]), whole[:1], rtol=1e-6)


def test_it_begins_as_the_identity_of_what_is_normal_and_can_begin_as_zero():
    new = nn.BatchNorm().init(jax.random.key(0), draw(), True)
    assert jax.tree.map(jnp.shape, new['batch_stats']) == dict(mean=(C,), var=(C,))
    np.testing.assert_array_equal(new['batch_stats']['var'], 1)           # init is no training step
    zero = nn.BatchNorm(scale_init=jax.nn.initializers.zeros)
    y, _ = zero.init_with_output(jax.random.key(0), draw())
    np.testing.assert_array_equal(y, 0)
