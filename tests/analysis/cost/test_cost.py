"""Operations counted from the jaxpr: closed forms, and what XLA counts where there is no loop."""

import types

import jax
from jax.experimental import pallas, rnn
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.analysis.cost.flops import matmul_flops
from seqjax.errors import UserError

B, T, D, N, K, H = 3, 5, 7, 4, 11, 2


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def xla(function, *arguments):
    return jax.jit(function).lower(*arguments).cost_analysis()['flops']


def test_products():
    assert matmul_flops(jnp.matmul, shape(D, K), shape(K, N)) == 2 * D * K * N
    assert matmul_flops(jnp.matmul, np.ones((D, K)), np.ones(K)) == 2 * D * K
    attention = lambda q, k: jnp.einsum('bthk,bshk->bhts', q, k)
    assert matmul_flops(attention, shape(B, T, H, K), shape(B, D, H, K)) == 2 * B * T * D * H * K
    assert matmul_flops(jnp.vdot, shape(K, dtype=jnp.complex64), shape(K, dtype=jnp.complex64)) == 4 * 2 * K
    assert matmul_flops(lambda x: jnp.tanh(x + x).sum(), shape(B, T)) == 0


def with_jvp(function):
    wrapped = jax.custom_jvp(function)
    wrapped.defjvp(lambda primals, tangents: (function(*primals), function(*tangents)))
    return wrapped


def with_vjp(function):
    wrapped = jax.custom_vjp(function)
    wrapped.defvjp(lambda x: (function(x), x), lambda x, g: (x,))
    return wrapped


@pytest.mark.parametrize('wrap', [jax.jit, jax.checkpoint, with_jvp, with_vjp,
                                  lambda function: lambda x: jax.vmap(function)(x[:, None])],
                         ids=['jit', 'checkpoint', 'custom_jvp', 'custom_vjp', 'vmap'])
def test_a_product_counts_wherever_it_is_called(wrap):
    kernel = np.ones((K, N), np.float32)
    assert matmul_flops(wrap(lambda x: x @ kernel), shape(D, K)) == 2 * D * K * N


def test_a_loop_counts_as_often_as_it_runs():
    loop = lambda x, w: jax.lax.scan(lambda x, _: (jax.lax.scan(lambda x, _: (x @ w, None), x, None, length=3)[0], None), x,
                                     None, length=T)[0]
    assert matmul_flops(loop, shape(B, N), shape(N, N)) == T * 3 * 2 * B * N * N
    assert xla(loop, shape(B, N), shape(N, N)) < 2 * 2 * B * N * N  # why this file exists
    counted = lambda x, w: jax.lax.fori_loop(0, T, lambda _, x: x @ w, x)
    assert matmul_flops(counted, shape(B, N), shape(N, N)) == T * 2 * B * N * N


def test_a_while_loop_is_refused_only_with_products_inside():
    turns = lambda body: lambda x: jax.lax.while_loop(lambda x: x.sum() < 9, body, x)
    assert matmul_flops(turns(jnp.exp), shape(N, N)) == 0
    with pytest.raises(UserError, match='a while loop with products inside, 128 operations a turn'):
        matmul_flops(turns(lambda x: x @ x), shape(N, N))


def test_of_a_cond_the_dearest_branch():
    branches = [lambda x: x, lambda x: x @ x @ x, lambda x: x @ x]
    assert matmul_flops(lambda n, x: jax.lax.switch(n, branches, x), shape(dtype=jnp.int32), shape(N, N)) == 2 * 2 * N ** 3


def test_where_platforms_differ_the_way_of_all_others_counts():
    twice = lambda x, y: x @ y @ y
    chosen = lambda x, y: jax.lax.platform_dependent(x, y, tpu=twice, default=jnp.matmul)
    assert matmul_flops(jax.jit(chosen), shape(D, K), shape(K, K)) == 2 * D * K * K


def test_of_groups_every_row_meets_one_kernel():
    groups = shape(D, K), shape(3, K, N), shape(3, dtype=jnp.int32)
    assert matmul_flops(jax.lax.ragged_dot, *groups) == 2 * D * K * N
    loss = lambda x, kernels, sizes: jax.lax.ragged_dot(x, kernels, sizes).sum()
    assert matmul_flops(jax.value_and_grad(loss, (0, 1)), *groups) == 3 * 2 * D * K * N


def test_products_that_cannot_be_seen_are_refused():
    def kernel(x, out):
        out[...] = x[...] @ x[...]

    with pytest.raises(UserError, match="the products inside of 'pallas_call' cannot be counted"):
        matmul_flops(pallas.pallas_call(kernel, shape(N, N), interpret=True), shape(N, N))


def test_solving_counts_what_the_solver_multiplies():
    solve = lambda a, b: jax.lax.custom_linear_solve(lambda x: a @ x, b, lambda matvec, b: matvec(matvec(b)))
    assert matmul_flops(solve, shape(N, N), shape(N)) == 2 * 2 * N * N
    assert matmul_flops(jnp.linalg.solve, shape(N, N), shape(N, B)) == 0  # by elimination, not by products


def test_the_gradient_of_dense_layers_is_three_times_the_forward_pass_without_that_of_the_inputs():
    def loss(params, x):
        return (jnp.tanh(x @ params[0]) @ params[1]).sum()

    params = shape(D, K), shape(K, N)
    first, second = 2 * B * D * K, 2 * B * K * N
    assert matmul_flops(loss, params, shape(B, D)) == first + second
    assert matmul_flops(jax.value_and_grad(loss), params, shape(B, D)) == 2 * first + 3 * second
    assert matmul_flops(jax.value_and_grad(loss, (0, 1)), params, shape(B, D)) == 3 * (first + second)
    remat = jax.value_and_grad(jax.checkpoint(loss))
    assert matmul_flops(remat, params, shape(B, D)) == 3 * first + 3 * second  # the first product is made twice


CONVOLUTIONS = {
    'plain': dict(window_strides=(1, 1), padding='VALID'),
    'strided': dict(window_strides=(2, 3), padding='VALID'),
    'dilated': dict(window_strides=(1, 1), padding='VALID', rhs_dilation=(2, 1)),
    'grouped': dict(window_strides=(2, 1), padding='VALID', feature_group_count=2),
}


@pytest.mark.parametrize('options', CONVOLUTIONS.values(), ids=list(CONVOLUTIONS))
def test_a_convolution_without_padding_counts_as_in_xla_and_so_does_the_gradient_of_its_kernel(options):
    inputs = shape(B, 4, 13, 12)
    kernel = shape(6, 4 // options.get('feature_group_count', 1), 3, 2)
    convolve = lambda x, w: jax.lax.conv_general_dilated(x, w, **options)
    forward = matmul_flops(convolve, inputs, kernel)
    out = jax.eval_shape(convolve, inputs, kernel)
    assert forward == 2 * out.size * kernel.shape[1] * 3 * 2 == xla(convolve, inputs, kernel)
    assert matmul_flops(jax.value_and_grad(lambda w, x: convolve(x, w).sum()), kernel, inputs) == 2 * forward


def test_padding_counts_and_holes_do_not():
    convolve = lambda x, w: jax.lax.conv(x, w, (2,), 'SAME')
    x, w = shape(B, D, 16), shape(N, D, 4)
    forward = 2 * B * N * 8 * D * 4
    assert matmul_flops(convolve, x, w) == forward
    assert matmul_flops(jax.value_and_grad(lambda x, w: convolve(x, w).sum()), x, w) == 2 * forward
    for stride, spread in ((1, 1), (2, 1), (1, 3)):
        dilated = lambda x, w: jax.lax.conv_general_dilated(x, w, (stride,), ((1, 2),), (3,), (spread,))
        out = jax.eval_shape(dilated, x, w).shape[2]
        taps = sum((o * stride + k * spread - 1) % 3 == 0 for o in range(out) for k in range(4))
        assert matmul_flops(dilated, x, w) == 2 * B * N * D * taps


def test_an_lstm_is_its_closed_form():
    model, inputs = nn.LSTM(N, num_layers=2), shape(B, T, D)
    variables = jax.eval_shape(model.init, jax.random.key(0), inputs)
    layer = lambda width: 2 * B * T * width * 4 * N + 2 * B * T * N * 4 * N
    assert matmul_flops(model.apply, variables, inputs) == layer(D) + layer(N)
    loss = lambda variables, inputs: model.apply(variables, inputs)[0].sum()
    gradient = 3 * (layer(D) + layer(N)) - 2 * B * T * D * 4 * N
    assert matmul_flops(jax.value_and_grad(loss), variables, inputs) == gradient


def test_cudnns_lstm_counts_like_ours(monkeypatch):
    sizes = types.SimpleNamespace(compute_rnn_workspace_reserve_space_sizes=lambda *_: (0, 1))  # asks the GPU
    monkeypatch.setattr(rnn, 'gpu_rnn', sizes)
    for layers, both in ((1, False), (2, True)):
        count, ways = rnn.get_num_params_in_lstm(D, N, layers, both), 1 + both
        lstm = lambda x, w, state: rnn.lstm(x, state, state, w, jnp.full(B, T), D, N, layers, 0.0, both)[0].sum()
        arguments = shape(B, T, D), shape(count), shape(layers * ways, B, N)
        forward = ways * 2 * B * T * 4 * N * (sum([D, ways * N][:layers]) + layers * N)
        assert matmul_flops(lstm, *arguments) == forward
        assert matmul_flops(jax.value_and_grad(lstm, 1), *arguments) == 3 * forward


def test_under_shard_map_the_work_of_all_devices_counts():
    P, mesh = jax.sharding.PartitionSpec, jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ('data', 'tensor'))
    arguments, product = (shape(8, K), shape(K, N)), 2 * 8 * K * N
    options = dict(mesh=mesh, in_specs=(P('data'), P()), out_specs=P('data'))
    cut = jax.shard_map(lambda x, w: x @ w, axis_names={'data'}, **options)
    assert matmul_flops(cut, *arguments) == product
    assert matmul_flops(jax.shard_map(lambda x, w: x @ w, **options), *arguments) == 2 * product  # both columns do the same
    assert matmul_flops(jax.pmap(lambda x: x @ x.T), shape(8, B, K)) == 8 * 2 * B * B * K
