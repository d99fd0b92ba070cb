"""Positions against a plain loop."""

import math

import numpy as np
import pytest

from seqjax import ops


@pytest.mark.parametrize('T, D', [(7, 6), (300, 16), (1, 2)])
def test_positions_equal_a_loop_over_steps_and_pairs(T, D):
    expected = np.zeros((T, D))
    for t in range(T):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            expected[t, 2 * i], expected[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    np.testing.assert_allclose(ops.sinusoidal_positions(T, D), expected, atol=1e-4 if T > 100 else 1e-6)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match='D=7: sines and cosines come in pairs; take an even width'):
        ops.sinusoidal_positions(4, 7)
