"""Masks as facts against one question after another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.ops.attention import masks
from tests.reference import attention as reference

B, T, S = 2, 6, 6
FACTS = [dict(), dict(causal=True), dict(causal=True, window=3), dict(window=4), dict(window=1), dict(lengths=[4, 0]),
         dict(causal=True, prefix=[3, 0]), dict(causal=True, window=2, prefix=[0, 9], lengths=[6, 5]),
         dict(segments=[[0, 0, 1, 1, 1, 2], [5] * 6]), dict(causal=True, segments=[[0, 1, 1, 1, 2, 2], [0] * 6], lengths=[4, 6]),
         dict(causal=True, window=3, start=[0, 2]), dict(window=3, start=[1, 4])]


def make_mask(facts):
    return ops.Mask(**{name: np.array(value) if isinstance(value, list) else value for name, value in facts.items()})


def test_a_causal_mask_by_hand():
    np.testing.assert_array_equal(ops.Mask(causal=True, window=2).dense(4, 4), np.array([[1, 0, 0, 0],
                                                                                          [1, 1, 0, 0],
                                                                                          [0, 1, 1, 0],
                                                                                          [0, 0, 1, 1]], bool))
    assert ops.Mask().dense(4, 4) is None


@pytest.mark.parametrize('facts', FACTS, ids=lambda facts: ' '.join(facts) or 'none')
def test_the_matrix_of_a_mask_and_its_blocks_equal_questions(facts):
    mask, expected = make_mask(facts), reference.seen(B, 1, T, S, **facts)
    full = lambda seen, shape: np.broadcast_to(True if seen is None else seen, shape)
    np.testing.assert_array_equal(full(mask.dense(T, S), expected.shape), expected)
    for t, rows, s, columns in ((0, 2, 0, 6), (2, 3, 1, 4), (5, 1, 5, 1)):
        block = jax.jit(lambda mask, t, s: mask.block(t, rows, s, columns))(mask, t, s)
        part = expected[:, :, t:t + rows, s:s + columns]
        np.testing.assert_array_equal(full(block, part.shape), part)
        first, stop = mask.span(t, rows, S)
        assert not expected[:, :, t:t + rows, :first].any() and not expected[:, :, t:t + rows, stop:].any()


def test_a_window_counts_the_steps_it_sees():
    for window in range(1, 9):
        for causal in (True, False):
            seen = np.asarray(ops.Mask(causal=causal, window=window).dense(20, 20))
            assert (seen[9:11].sum(1) == window).all()


def test_dropout_keeps_its_share_and_a_block_keeps_what_the_whole_keeps():
    seeds = jax.random.bits(jax.random.key(0), (2,), jnp.uint32)
    whole = np.asarray(masks.kept(seeds, 0.3, 4, 5, 0, 60, 0, 50))
    assert abs(whole.mean() - 0.7) < 4 * (0.3 * 0.7 / whole.size) ** 0.5
    np.testing.assert_array_equal(masks.kept(seeds, 0.3, 4, 5, 7, 20, 11, 30), whole[:, :, 7:27, 11:41])
    # Neighbours along every axis, and another key, are kept independently of each other.
    other = np.asarray(masks.kept(jax.random.bits(jax.random.key(1), (2,), jnp.uint32), 0.3, 4, 5, 0, 60, 0, 50))
    pairs = [(whole, other)] + [(np.delete(whole, 0, axis), np.delete(whole, -1, axis)) for axis in range(4)]
    for first, second in pairs:
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 4 / first.size ** 0.5
