"""Three ways to compute a linear recurrence: the same states, the same gradients, another depth."""

import functools

import jax
import numpy as np
import pytest

from seqjax import ops
from seqjax.ops.recurrence.linear_scan import METHODS


def draw(T, N=2, dtype=np.float32, seed=0):
    """a [T, N] with magnitudes in (0.5, 1), b [T, N], h [N] and the gradient of all states."""
    rng = np.random.default_rng(seed)
    complex_part = 1j if np.issubdtype(dtype, np.complexfloating) else 0
    normal = lambda *shape: (rng.standard_normal(shape) + complex_part * rng.standard_normal(shape)).astype(dtype)
    turn = np.exp(complex_part * rng.uniform(-3, 3, (T, N)))
    return (rng.uniform(0.5, 1, (T, N)) * turn).astype(dtype), normal(T, N), normal(N), normal(T, N)


@functools.partial(jax.jit, static_argnames=('reverse', 'method'))
def run(a, b, h, d_states, reverse=False, method=None):
    """All states, and the gradients of a, b and h."""
    states, pull = jax.vjp(functools.partial(ops.linear_recurrence, reverse=reverse, method=method), a, b, h)
    return states, pull(d_states)


def loop(a, b, h, reverse=False):
    states = np.zeros_like(b)
    for t in reversed(range(len(a))) if reverse else range(len(a)):
        h = states[t] = a[t] * h + b[t]
    return states


def assert_close(actual, expected):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-5), actual, expected)


@pytest.mark.parametrize('reverse', [False, True], ids=['forward', 'reverse'])
@pytest.mark.parametrize('dtype', [np.float32, np.complex64], ids=['real', 'complex'])
@pytest.mark.parametrize('T', [1, 9, 14])
def test_all_ways_equal_the_loop_in_values_and_gradients(T, dtype, reverse):
    case = draw(T, dtype=dtype)
    expected, gradients = run(*case, reverse=reverse, method='sequential')
    assert_close(expected, loop(*case[:3], reverse))
    for method in ('chunked', 'associative', None):
        assert_close(run(*case, reverse=reverse, method=method), (expected, gradients))


def test_the_written_backward_pass_equals_autodiff():
    def plain(a, b, h):
        return jax.lax.scan(lambda h, now: (now[0] * h + now[1],) * 2, h, (a, b))[1]

    a, b, h, d_states = draw(6, dtype=np.complex64)
    _, gradients = run(a, b, h, d_states)
    assert_close(gradients, jax.vjp(plain, a, b, h)[1](d_states))


def test_all_ways_agree_over_16384_steps():
    case = draw(16_384, N=1)
    expected = run(*case, method='sequential')
    for method in ('chunked', 'associative'):
        assert_close(run(*case, method=method), expected)


def test_a_vmapped_recurrence_equals_a_loop_over_it():
    many = [draw(5, seed=seed) for seed in range(3)]
    stacked = [np.stack(parts) for parts in zip(*many)]
    states, gradients = jax.vmap(run)(*stacked)
    for row, case in enumerate(many):
        assert_close((states[row], tuple(part[row] for part in gradients)), run(*case))


# ------------------------------------------------------------------------------------------------------- What is compiled

def loops(method):
    """The number of loops in the program for a CPU."""
    function = functools.partial(ops.linear_recurrence, method=method)
    return jax.jit(function).lower(*draw(16)[:3]).as_text().count('stablehlo.while')


def test_a_cpu_runs_the_sequential_way():
    assert [loops(method) for method in METHODS] == [1, 2, 0]
    assert loops(None) == 1


def depth(jaxpr):
    """The longest chain of multiplications and additions that wait for each other."""
    ready = {}
    for equation in jaxpr.eqns:
        inner = [value for value in equation.params.values() if hasattr(value, 'eqns') or hasattr(value, 'jaxpr')]
        own = equation.primitive.name in ('mul', 'add')
        for closed in inner:
            own += depth(getattr(closed, 'jaxpr', closed)) * equation.params.get('length', 1)
        start = max((ready.get(variable, 0) for variable in equation.invars if not hasattr(variable, 'val')), default=0)
        ready.update(dict.fromkeys(equation.outvars, start + own))
    return max(ready.values(), default=0)


def depths(method, lengths=(64, 256, 1024)):
    trace = lambda T: jax.make_jaxpr(functools.partial(ops.linear_recurrence, method=method))(*draw(T)[:3])
    return np.array([depth(trace(T).jaxpr) for T in lengths])


def test_the_depth_of_the_associative_way_grows_with_the_logarithm_of_the_steps():
    at_64, at_256, at_1024 = depths('associative')
    assert at_1024 - at_256 == at_256 - at_64 > 0
    assert at_1024 < 6 * np.log2(1024)


def test_the_depth_of_the_other_ways_grows_with_the_steps_and_their_root():
    sequential, chunked = depths('sequential'), depths('chunked')
    assert np.all(sequential - [2 * 64, 2 * 256, 2 * 1024] == sequential[0] - 2 * 64)
    assert np.all(np.abs(chunked / np.sqrt([64, 256, 1024]) - 4) < 1)


@pytest.mark.parametrize('method', ['parallel', ''])
def test_an_unknown_way_is_told_the_known_ones(method):
    with pytest.raises(ValueError, match=f'^method={method!r}; choose one of sequential, chunked, associative$'):
        ops.linear_recurrence(*draw(3)[:3], method=method)
