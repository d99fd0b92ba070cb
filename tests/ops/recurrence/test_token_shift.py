"""What came before a step, against a loop."""

import jax
import numpy as np
import pytest

from seqjax import ops

B, T, K, D = 3, 6, 3, 2
LENGTHS = np.array([6, 0, 4])
SEGMENTS = np.array([[1, 1, 2, 2, 2, 3], [1, 1, 1, 1, 1, 1], [1, 1, 1, 2, 0, 0]])
RNG = np.random.default_rng(0)
X, PAST = RNG.standard_normal((B, T, D)).astype(np.float32), RNG.standard_normal((B, K, D)).astype(np.float32)


def at(b, t, of, segments):
    """x of row b at step t, where t < 0 is the past; zeros where it is in another segment than step `of`."""
    segment = lambda t: segments[b, max(t, 0)]
    if segments is not None and segment(t) != segment(of):
        return np.zeros(D)
    return X[b, t] if t >= 0 else PAST[b, K + t]


@pytest.mark.parametrize('segments', [None, SEGMENTS], ids=['whole', 'packed'])
@pytest.mark.parametrize('by', [1, 3])
def test_an_earlier_step_is_that_of_the_text_or_of_the_call_before(by, segments):
    found = ops.earlier_step(X, PAST, by, segments)
    expected = [[at(b, t - by, t, segments) for t in range(T)] for b in range(B)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize('segments', [None, SEGMENTS], ids=['whole', 'packed'])
@pytest.mark.parametrize('lengths', [None, LENGTHS], ids=['full', 'ragged'])
def test_the_last_inputs_are_those_of_the_last_text(lengths, segments):
    found = jax.jit(ops.last_inputs)(X, PAST, lengths, segments=segments)
    ends = [T] * B if lengths is None else lengths
    expected = [[at(b, end - K + k, end - 1, segments) for k in range(K)] for b, end in enumerate(ends)]
    np.testing.assert_array_equal(found, expected)


def test_a_text_starts_where_the_number_changes_and_never_in_padding():
    starts = np.asarray(ops.segment_starts(SEGMENTS, LENGTHS)).astype(int)
    assert starts.tolist() == [[0, 0, 1, 0, 0, 1], [0] * 6, [0, 0, 0, 1, 0, 0]]
    assert np.asarray(ops.segment_starts(SEGMENTS)).astype(int)[2].tolist() == [0, 0, 0, 1, 1, 0]
