"""RWKV's mean of the past against sums of exponentials in float64: ragged, packed, in pieces, with keys that overflow."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import state_space as reference

B, T, D = 3, 11, 4
LENGTHS = np.array([11, 0, 7])
SEGMENTS = np.array([[1] * 3 + [2] * 6 + [3] * 1 + [0], [1] * 11, [1] * 2 + [2] * 5 + [0] * 4])
CASES = {'whole': {}, 'ragged': dict(lengths=LENGTHS), 'packed': dict(segments=SEGMENTS),
         'both': dict(lengths=LENGTHS, segments=SEGMENTS)}


def draw(seed=0, scale=1.0):
    """(key, value, decay, bonus), a state in the middle of a text, and gradients of the output and of the state's two sums."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    state = normal(B, D), np.exp(normal(B, D)), scale * normal(B, D)
    arguments = scale * normal(B, T, D), normal(B, T, D), np.exp(normal(D)), normal(D)
    return arguments, state, (normal(B, T, D), normal(B, D), normal(B, D))


@functools.partial(jax.jit, static_argnames='method')
def run(arguments, state, pulls, lengths=None, segments=None, method=None):
    """(output, state, gradients of the arguments and of the first two parts of the state)."""
    def function(arguments, sums):
        out, state_ = ops.wkv(*arguments, (*sums, state[2]), lengths, segments=segments, method=method)
        return (out, *state_[:2]), state_

    (out, *_), pull, after = jax.vjp(function, arguments, state[:2], has_aux=True)
    return out, after, pull(pulls)


@jax.jit
def plain(arguments, state, units, pulls, lengths=None, segments=None):
    """The same without any care for overflow, and jax's own gradient. units: those that the sums at the end are asked for in."""
    valid = jnp.ones((B, T), bool) if lengths is None else ops.valid_steps(lengths, T)
    new = jnp.zeros((B, T), bool) if segments is None else ops.segment_starts(segments, lengths)

    def scan(arguments, sums):
        key, value, decay, bonus = arguments
        size = jnp.exp(state[2])

        def step(sums, now):
            k, v, valid, new = now
            valid, new = valid[:, None], new[:, None]
            a, b = (jnp.where(new, 0, part) for part in sums)
            out = (a + jnp.exp(bonus + k) * v) / (b + jnp.exp(bonus + k))
            after = jnp.exp(-decay) * a + jnp.exp(k) * v, jnp.exp(-decay) * b + jnp.exp(k)
            return tuple(jnp.where(valid, x, y) for x, y in zip(after, sums)), jnp.where(valid, out, 0)

        start = tuple(part * size for part in sums)
        (a, b), out = jax.lax.scan(step, start, tuple(jnp.moveaxis(part, 1, 0) for part in (key, value, valid, new)))
        return jnp.moveaxis(out, 0, 1), a / jnp.exp(units), b / jnp.exp(units)

    (out, a, b), pull = jax.vjp(scan, arguments, state[:2])
    return out, (a, b, units), pull(pulls)


def assert_close(actual, expected, tolerance=1e-5):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance), actual, expected)


@pytest.mark.parametrize('case', CASES)
def test_values_equal_the_loop_and_gradients_those_of_a_plain_scan(case):
    arguments, state, pulls = draw()
    out, after, gradients = run(arguments, state, pulls, **CASES[case])
    size = np.exp(np.float64(state[2]))
    expected, *sums = reference.wkv(*arguments, (state[0] * size, state[1] * size), **CASES[case])
    assert_close(out, expected)
    assert_close([np.float64(part) * np.exp(np.float64(after[2])) for part in after[:2]], sums)
    assert_close((out, after, gradients), plain(arguments, state, after[2], pulls, **CASES[case]), 3e-5)


def test_padding_changes_nothing_whatever_it_holds():
    arguments, state, pulls = draw(1)
    padding = ~np.asarray(ops.valid_steps(LENGTHS, T))
    spoil = lambda part: np.where(padding[..., None], np.inf, part) if part.shape[:2] == (B, T) else part
    expected = run(arguments, state, pulls, **CASES['both'])
    jax.tree.map(np.testing.assert_array_equal, run(tuple(map(spoil, arguments)), state, pulls, **CASES['both']), expected)
    out, after, ((key, value, *_), _) = expected
    assert not any(np.any(np.asarray(array)[padding]) for array in (out, key, value))
    jax.tree.map(lambda new, old: np.testing.assert_array_equal(new[1], old[1]), after, state)  # a row of no steps


@pytest.mark.parametrize('method', ['chunked', 'associative'])
def test_accelerators_compute_the_same(method):
    case = draw(2)
    assert_close(run(*case, **CASES['both'], method=method), run(*case, **CASES['both']))


def test_keys_that_overflow_as_exponents_do_not():
    arguments, _, _ = draw(3, scale=100.0)
    assert np.log(np.finfo(np.float32).max) < arguments[0].max() < 300  # too much for float32, and not for float64
    out, state = jax.jit(ops.wkv)(*arguments, ops.wkv_state(B, D))
    expected, *sums = reference.wkv(*arguments, np.zeros((2, B, D)))
    assert_close(out, expected, 1e-4)
    numerator, denominator, maximum = map(np.float64, state)
    np.testing.assert_allclose([numerator * np.exp(maximum), denominator * np.exp(maximum)], sums, rtol=1e-4)
    gradient = jax.jit(jax.grad(lambda *given: ops.wkv(*given, ops.wkv_state(B, D))[0].sum(), argnums=(0, 1, 2, 3)))(*arguments)
    assert all(np.isfinite(part).all() for part in gradient)


def test_in_two_calls_it_is_what_it_is_in_one():
    (key, value, *rest), state, _ = draw(4)
    run = jax.jit(ops.wkv)
    expected = run(key, value, *rest, state)
    one, state = run(key[:, :10], value[:, :10], *rest, state)
    two, state = run(key[:, 10:], value[:, 10:], *rest, state)
    assert_close((np.concatenate((one, two), axis=1), state), expected)


def test_no_output_looks_into_the_future():
    (key, value, *rest), state, _ = draw(5)
    jacobians = jax.jit(jax.jacrev(lambda *kv: ops.wkv(*kv, *rest, state)[0][0].sum(-1), argnums=(0, 1)))(key, value)
    for jacobian in jacobians:  # [T, B, S, D]
        np.testing.assert_array_equal(np.any(jacobian[:, 0] != 0, axis=2), np.tril(np.ones((T, T), bool)))


def test_bfloat16_comes_close_and_its_state_is_float32():
    arguments, state, _ = draw(6)
    exact, _ = jax.jit(ops.wkv)(*arguments, state)
    out, after = jax.jit(ops.wkv)(*(jnp.asarray(part, jnp.bfloat16) for part in arguments), state)
    assert out.dtype == jnp.bfloat16 and {part.dtype for part in after} == {np.dtype('float32')}
    assert 0 < np.linalg.norm(np.float32(out) - exact) < 2e-2 * np.linalg.norm(exact)
