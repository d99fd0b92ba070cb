"""The selective scan against a loop: ragged, packed, in pieces, forward and backward."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import state_space as reference

B, T, E, N = 3, 19, 4, 3  # two pieces, the second of them not full
LENGTHS = np.array([19, 0, 7])
SEGMENTS = np.array([[1] * 3 + [2] * 13 + [3] * 2 + [0], [1] * 19, [1] * 2 + [2] * 5 + [0] * 12])
CASES = {'whole': {}, 'ragged': dict(lengths=LENGTHS), 'packed': dict(segments=SEGMENTS),
         'both': dict(lengths=LENGTHS, segments=SEGMENTS)}
NAMES = ('x', 'delta', 'A', 'write', 'read', 'skip', 'state')


def draw(seed=0, T=T):
    """The arguments, delta as softplus makes it, and gradients of y and of the last state."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    arguments = (normal(B, T, E), np.log1p(np.exp(normal(B, T, E))), -np.exp(normal(N, E)), normal(B, T, N), normal(B, T, N),
                 normal(E), normal(B, N, E))
    return arguments, (normal(B, T, E), normal(B, N, E))


@functools.partial(jax.jit, static_argnames='method')
def run(arguments, pulls, lengths=None, segments=None, method=None):
    """((y, state), gradients of all arguments)."""
    function = functools.partial(ops.selective_scan, lengths=lengths, segments=segments, method=method)
    made, pull = jax.vjp(function, *arguments)
    return made, pull(pulls)


@jax.jit
def plain(arguments, pulls, lengths=None, segments=None):
    """The same with one scan over all steps, and jax's own gradient."""
    valid = jnp.ones((B, T), bool) if lengths is None else ops.valid_steps(lengths, T)
    new = jnp.zeros((B, T), bool) if segments is None else ops.segment_starts(segments, lengths)

    def scan(x, delta, A, write, read, skip, state):
        def step(h, now):
            x, delta, write, read, valid, new = now
            old = jnp.where(new[:, None, None], 0, h)
            after = jnp.exp(delta[:, None] * A) * old + write[..., None] * (delta * x)[:, None]
            h = jnp.where(valid[:, None, None], after, h)
            return h, jnp.where(valid[:, None], jnp.einsum('bn,bne->be', read, h) + skip * x, 0)

        h, y = jax.lax.scan(step, state, tuple(jnp.moveaxis(part, 1, 0) for part in (x, delta, write, read, valid, new)))
        return jnp.moveaxis(y, 0, 1), h

    made, pull = jax.vjp(scan, *arguments)
    return made, pull(pulls)


def assert_close(actual, expected, tolerance=1e-5):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance), actual, expected)


@pytest.mark.parametrize('case', CASES)
def test_values_equal_the_loop_and_gradients_those_of_a_plain_scan(case):
    arguments, pulls = draw()
    made, gradients = run(arguments, pulls, **CASES[case])
    assert_close(made, reference.selective_scan(*arguments, **CASES[case]))
    assert_close((made, gradients), plain(arguments, pulls, **CASES[case]), 2e-5)


def test_padding_changes_nothing_whatever_it_holds():
    arguments, pulls = draw(1)
    padding = ~np.asarray(ops.valid_steps(LENGTHS, T))
    spoil = lambda part: np.where(padding[..., None], np.inf, part) if part.shape[:2] == (B, T) else part
    expected = run(arguments, pulls, **CASES['both'])
    jax.tree.map(np.testing.assert_array_equal, run(tuple(map(spoil, arguments)), pulls, **CASES['both']), expected)
    (y, _), gradients = expected
    for name, array in zip(('y', *NAMES), (y, *gradients)):
        if array.shape[:2] == (B, T):
            assert not np.any(np.asarray(array)[padding]), name


def test_packed_rows_end_in_the_state_of_their_last_text():
    arguments, pulls = draw(2)
    (_, state), _ = run(arguments, pulls, **CASES['both'])
    x, delta, A, write, read, skip, first = arguments
    alone = lambda part: part[2:, 2:7]
    _, expected = reference.selective_scan(*map(alone, (x, delta)), A, *map(alone, (write, read)), skip, np.zeros((1, N, E)))
    assert_close(state[2:], expected)
    np.testing.assert_array_equal(state[1], first[1])  # a row of no steps keeps what it had


@pytest.mark.parametrize('method', ['chunked', 'associative'])
def test_accelerators_compute_the_same(method):
    arguments, pulls = draw(3)
    assert_close(run(arguments, pulls, **CASES['both'], method=method), run(arguments, pulls, **CASES['both']))


def test_in_two_calls_it_is_what_it_is_in_one():
    arguments, _ = draw(4)
    scan = jax.jit(ops.selective_scan)
    y, state = scan(*arguments)
    part = lambda first, last: [array[:, first:last] if array.shape[:2] == (B, T) else array for array in arguments[:-1]]
    one, carried = scan(*part(0, 18), arguments[-1])
    two, carried = scan(*part(18, 19), carried)
    assert_close((np.concatenate((one, two), axis=1), carried), (y, state))


def test_no_output_looks_into_the_future():
    (x, *rest), _ = draw(5)
    jacobian = jax.jit(jax.jacrev(lambda x: ops.selective_scan(x, *rest)[0][0].sum(-1)))(x)[:, 0]  # [T, S, E]
    np.testing.assert_array_equal(np.any(jacobian != 0, axis=2), np.tril(np.ones((T, T), bool)))


def test_bfloat16_comes_close_and_its_state_is_float32():
    arguments, _ = draw(6)
    exact, _ = jax.jit(ops.selective_scan)(*arguments)
    y, state = jax.jit(ops.selective_scan)(*(jnp.asarray(part, jnp.bfloat16) for part in arguments[:-1]), arguments[-1])
    assert y.dtype == jnp.bfloat16 and state.dtype == jnp.float32
    assert 0 < np.linalg.norm(np.float32(y) - exact) < 2e-2 * np.linalg.norm(exact)


def test_the_gradient_of_a_long_sequence_needs_far_less_than_all_of_its_states():
    T, N, E = 4096, 16, 32
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in
              ((1, T, E), (1, T, E), (N, E), (1, T, N), (1, T, N), (E,), (1, N, E))]
    gradient = jax.jit(jax.grad(lambda *given: ops.selective_scan(*given)[0].sum(), argnums=(0, 1, 2, 3, 4)))
    needed = gradient.lower(*shapes).compile().memory_analysis().temp_size_in_bytes
    assert needed < 4 * T * N * E  # a plain scan stores several arrays of this size
