"""Operations counted in the text of a compiled program, against those of its jaxpr."""

import jax
import jax.numpy as jnp
import pytest

from seqjax.analysis.cost.compiled import compiled_flops
from seqjax.analysis.cost.flops import matmul_flops

x, w = jnp.ones((8, 16)), jnp.ones((16, 16))
frames, kernel = jnp.ones((2, 10, 4)), jnp.ones((5, 4, 6))
heads = jnp.ones((2, 10, 4, 3))


def repeated(x, w):
    def turn(x, _):
        return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=3)

    return jax.lax.scan(turn, x, None, length=5)[0]


def convolved(frames, kernel):
    return jax.lax.conv_general_dilated(frames, kernel, (1,), [(2, 2)], dimension_numbers=('NWC', 'WIO', 'NWC'))


@pytest.mark.parametrize('function, arguments', [
    (jnp.matmul, (x, w)), (jnp.matmul, (x.astype(jnp.complex64), w.astype(jnp.complex64))), (repeated, (x, w)),
    (lambda x, w: jax.grad(lambda w: repeated(x, w).sum())(w), (x, w)), (convolved, (frames, kernel)),
    (lambda a, b: jnp.einsum('bthk,bshk->bhts', a, b), (heads, heads)),
    (lambda x, w: jax.lax.cond(x[0, 0] > 0, lambda: x @ w @ w, lambda: x), (x, w)),
])
def test_operations_of_a_program_are_those_of_its_jaxpr(function, arguments):
    text = jax.jit(function).lower(*arguments).compile().as_text()
    assert compiled_flops(text) == matmul_flops(function, *arguments) > 0


def test_a_loop_whose_trip_count_xla_does_not_write_has_a_condition():
    text = jax.jit(repeated).lower(x, w).compile().as_text()
    assert 'known_trip_count' in text
    text = text.replace('known_trip_count', 'other')
    assert compiled_flops(text) == matmul_flops(repeated, x, w)


def test_a_loop_of_unknown_trip_count_is_refused_unless_it_is_given():
    text = jax.jit(lambda x, w, n: jax.lax.fori_loop(0, n, lambda _, x: x @ w, x)).lower(x, w, 3).compile().as_text()
    with pytest.raises(ValueError, match='say how often it runs with unknown_turns='):
        compiled_flops(text)
    assert compiled_flops(text, unknown_turns=3) == 3 * matmul_flops(jnp.matmul, x, w)
