"""Constraints against sets of tuples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.decode import MinLength, NoRepeat, Prefix
from seqjax.decode.constraints import constrain
from seqjax.errors import FieldError

N, T, V, END = 24, 7, 4, 3
RNG = np.random.default_rng(0)
HISTORY = RNG.integers(0, 3, (N, T)).astype(np.int32)  # what is after t must not matter, so it is not 0
LOG_PROBS = np.log(RNG.dirichlet(np.ones(V), N)).astype(np.float32)
apply = jax.jit(constrain, static_argnums=(0, 4))


def left(constraints, t, log_probs=LOG_PROBS):
    """The tokens that every row may write; those keep their log P."""
    result = np.asarray(apply(constraints, log_probs, HISTORY, np.int32(t), END))
    kept = result > -np.inf
    np.testing.assert_array_equal(result[kept], log_probs[kept])
    return [set(np.flatnonzero(row).tolist()) for row in kept]


@pytest.mark.parametrize('n', [1, 2, 3, T, T + 1])
def test_no_repeat_forbids_just_what_would_write_n_tokens_again(n):
    for t in range(T):
        for tokens, row in zip(HISTORY[:, :t].tolist(), left((NoRepeat(n),), t)):
            seen = {tuple(tokens[i:i + n]) for i in range(t - n + 1)}
            assert row == {token for token in range(V) if (*tokens, token)[-n:] not in seen}


def test_min_length_forbids_the_end_and_nothing_else():
    for t in range(T):
        assert left((MinLength(4, END),), t) == [{0, 1, 2} if t + 1 < 4 else {0, 1, 2, END}] * N


def test_the_end_is_left_where_nothing_else_is():
    never_ends = (NoRepeat(1), MinLength(T + 1, END))
    for t in range(T):
        for tokens, row in zip(HISTORY[:, :t].tolist(), left(never_ends, t)):
            assert row == ({0, 1, 2} - set(tokens) or {END})
    impossible = LOG_PROBS.copy()
    impossible[:, :3] = -np.inf  # what the model itself rules out counts as forbidden too
    assert left((MinLength(T, END),), 0, impossible) == [{END}] * N


def test_without_an_end_all_is_left_where_nothing_else_is():
    results = [np.asarray(apply((NoRepeat(1),), LOG_PROBS[:, :3], HISTORY, np.int32(t), -1)) for t in range(T)]
    for t, result in enumerate(results):
        for tokens, row in zip(HISTORY[:, :t].tolist(), result):
            assert set(np.flatnonzero(row > -np.inf)) == ({0, 1, 2} - set(tokens) or {0, 1, 2})


@functools.partial(jax.jit, static_argnums=2)
def with_prefix(tokens, lengths, before, t):
    return constrain((*before, Prefix(tokens, lengths)), jnp.asarray(LOG_PROBS), jnp.asarray(HISTORY), t, END)


@pytest.mark.parametrize('before', [(), (NoRepeat(1), MinLength(9, END))], ids=['alone', 'after_others'])
def test_a_prefix_decides_alone_for_all_hypotheses_of_its_row_and_then_no_more(before):
    B, P = 8, 3
    tokens, lengths = RNG.integers(0, V, (B, P)).astype(np.int32), np.arange(B, dtype=np.int32) % (P + 1)
    for t in range(P + 2):
        actual = np.asarray(with_prefix(tokens, lengths, before, np.int32(t))) > -np.inf
        free = left(before, t) if before else [set(range(V))] * N
        for row in range(N):
            b = row // (N // B)
            assert set(np.flatnonzero(actual[row]).tolist()) == ({int(tokens[b, t])} if t < lengths[b] else free[row])


def test_a_prefix_without_room_forces_nothing():
    actual = with_prefix(np.zeros((8, 0), np.int32), np.zeros(8, np.int32), (), np.int32(0))
    np.testing.assert_array_equal(actual, LOG_PROBS)


def test_no_repeat_of_nothing_is_refused():
    with pytest.raises(FieldError, match='^n=0: must be at least 1$'):
        NoRepeat(0)
