"""Chains of operations: by hand, and a loop against the same loop written out."""

import jax
from jax.experimental import pallas
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.analysis.cost.depth import sequential_depth
from seqjax.errors import UserError

N = 4


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def with_vjp(function):
    wrapped = jax.custom_vjp(function)
    wrapped.defvjp(lambda x: (function(x), x), lambda x, g: (g,))
    return wrapped


FUNCTIONS = {
    'nothing': (lambda x: x, 0),
    'moves': (lambda x: jnp.concatenate([x.T.reshape(-1), x[0].astype(jnp.float16).astype(jnp.float32)]), 0),
    'side by side': (lambda x: (jnp.exp(x), jnp.sin(x), x @ x), 1),
    'chain': (lambda x: jnp.tanh(x @ x) + x, 3),
    'integers': (lambda x: jnp.arange(5) * 2 + 1, 0),
    'of use to nobody': (lambda x: (x @ x @ x, jnp.exp(x))[1], 1),
    'jit': (lambda x: jax.jit(jnp.exp)(jnp.exp(x)), 2),
    'checkpoint': (lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.exp(x)))(x), 2),
    'custom_vjp': (lambda x: with_vjp(lambda x: jnp.exp(jnp.exp(x)))(x), 2),
    'map': (lambda x: jax.lax.map(lambda row: jnp.tanh(row * row), x), 2),
    'cond': (lambda x: jax.lax.cond(True, lambda x: jnp.exp(jnp.exp(x)), lambda x: x, jnp.sin(x)), 3),
    'one for every platform': (lambda x: jax.lax.platform_dependent(x, tpu=lambda x: x @ x @ x, default=jnp.exp), 1),
    'powers': (lambda x: jax.lax.scan(lambda y, _: (y @ x, y), x, None, length=7)[0], 7),
    'fori_loop': (lambda x: jax.lax.fori_loop(0, 7, lambda i, y: y + x[i % N], x), 7),
    'writing rows': (lambda x: jax.lax.fori_loop(0, N, lambda i, y: y.at[i].set(jnp.exp(x[i])), x), 1),
    'while that is done at once': (lambda x: jax.lax.while_loop(lambda x: False, lambda x: x.T, x), 0),
    'no turns': (lambda x: jax.lax.scan(lambda y, z: (y @ y, z), x, jnp.zeros((0, 2)))[0], 0),
    'bfloat16': (lambda x: jnp.exp(x.astype(jnp.bfloat16)), 1),
}


@pytest.mark.parametrize('function, depth', FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_by_hand(function, depth):
    assert sequential_depth(function, shape(N, N)) == depth


def body(carry, x):
    """Three parts that wait for each other in a crooked way."""
    a, b, c = carry
    return (jnp.exp(b), a * x, c + jnp.sin(jnp.sin(a))), b + c


@pytest.mark.parametrize('turns', [1, 2, 5, 8])
def test_a_loop_is_as_deep_as_the_same_loop_written_out(turns):
    def written_out(carry, xs):
        ys = []
        for x in xs:
            carry, y = body(carry, x)
            ys.append(y)
        return carry, jnp.stack(ys)

    arguments = (shape(3),) * 3, shape(turns, 3)
    assert sequential_depth(lambda carry, xs: jax.lax.scan(body, carry, xs), *arguments) == \
        sequential_depth(written_out, *arguments)


@pytest.mark.parametrize('n', [16, 64])
def test_a_prefix_sum_in_rounds_is_logarithmic_and_in_turn_linear(n):
    rounds = sequential_depth(lambda x: jax.lax.associative_scan(jnp.add, x), shape(n))
    assert np.log2(n) <= rounds <= 3 * np.log2(n)
    assert sequential_depth(lambda x: jax.lax.scan(lambda y, x: (x + y, x + y), jnp.zeros(()), x)[1], shape(n)) == n


def test_recurrence_is_as_deep_as_it_is_long_and_attention_is_not():
    cell = ops.make_cell('elman')
    weights = {name: shape(*sizes) for name, sizes in cell.weight_shapes(N, N).items()}
    for n in (3, 8, 20):
        recur = lambda weights, x: ops.recur(cell, weights, x, (jnp.zeros((1, N)),))[0]
        assert sequential_depth(recur, weights, shape(1, n, N)) == 3 * n + 1  # product, sum, tanh; and W x
        attend = lambda x: ops.attend(x, x, x, implementation='plain')
        assert sequential_depth(attend, shape(1, n, 1, N)) == sequential_depth(attend, shape(1, 5, 1, N))


def test_what_cannot_be_known_is_refused():
    with pytest.raises(UserError, match='a while loop whose turns need each other: how many turns is not known'):
        sequential_depth(lambda x: jax.lax.while_loop(lambda x: x.sum() < 9, jnp.exp, x), shape(N))

    def kernel(x, out):
        out[...] = x[...] * 2

    with pytest.raises(UserError, match="what happens inside of 'pallas_call' cannot be seen"):
        sequential_depth(pallas.pallas_call(kernel, shape(N, N), interpret=True), shape(N, N))
