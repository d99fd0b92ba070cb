"""Positions against plain loops, and against Hugging Face's."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.ops.attention import positions


@pytest.mark.parametrize('T, D', [(7, 6), (300, 16), (1, 2)])
def test_positions_equal_a_loop_over_steps_and_pairs(T, D):
    expected = np.zeros((T, D))
    for t in range(T):
        for i in range(D // 2):
            angle = t / 10000 ** (2 * i / D)
            expected[t, 2 * i], expected[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    np.testing.assert_allclose(ops.sinusoidal_positions(np.arange(T), D), expected, atol=1e-4 if T > 100 else 1e-6)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match='D=7: sines and cosines come in pairs; take an even width'):
        ops.sinusoidal_positions(np.arange(4), 7)


def test_rotated_pairs_are_complex_numbers_turned_by_the_angle_of_their_step():
    B, T, H, K = 2, 9, 3, 6
    rng = np.random.default_rng(0)
    x, steps = rng.standard_normal((B, T, H, K)).astype(np.float32), rng.integers(0, 100, (B, T))
    turned = np.zeros((B, T, H, K // 2), complex)
    for b, t, h, i in np.ndindex(turned.shape):
        turned[b, t, h, i] = complex(x[b, t, h, i], x[b, t, h, i + K // 2]) * np.exp(1j * steps[b, t] / 500 ** (2 * i / K))
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(ops.rotate(x, steps, 500.0), expected, atol=2e-5)
    np.testing.assert_allclose(ops.rotate(x, np.arange(T)), ops.rotate(x, np.tile(np.arange(T), (B, 1))), atol=1e-6)


def test_rates_are_stretched_all_alike_or_only_those_of_pairs_that_turn_slowly():
    K, base, factor, low, high, length = 16, 100.0, 4.0, 1.0, 4.0, 64
    rates = base ** (-np.arange(0, K, 2) / K)
    np.testing.assert_allclose(ops.rotary_rates(K, base), rates, rtol=1e-6)
    np.testing.assert_allclose(ops.rotary_rates(K, base, factor), rates / factor, rtol=1e-6)
    expected = []
    for rate in rates:
        turns = length * rate / (2 * np.pi)
        if turns > high:
            expected.append(rate)
        elif turns < low:
            expected.append(rate / factor)
        else:
            part = (turns - low) / (high - low)
            expected.append(part * rate + (1 - part) * rate / factor)
    assert expected[0] == rates[0] and expected[-1] == rates[-1] / factor and rates[4] / factor < expected[4] < rates[4]
    np.testing.assert_allclose(ops.rotary_rates(K, base, factor, low, high, length), expected, rtol=1e-6)


def test_a_product_of_rotated_vectors_depends_on_the_distance_only():
    rng = np.random.default_rng(1)
    query, key = (np.broadcast_to(rng.standard_normal(8).astype(np.float32), (1, 12, 1, 8)) for _ in range(2))
    scores = np.einsum('tk,sk->ts', *(np.asarray(ops.rotate(x, np.arange(12)))[0, :, 0] for x in (query, key)))
    for distance in range(-11, 12):
        diagonal = np.diagonal(scores, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    assert len(np.unique(scores[0].round(3))) > 6


def test_rotation_keeps_the_type_and_wants_pairs():
    x = jnp.ones((1, 2, 1, 4), jnp.bfloat16)
    assert ops.rotate(x, np.arange(2)).dtype == jnp.bfloat16
    with pytest.raises(ValueError, match='K=3: rotary positions turn pairs; take an even head width'):
        ops.rotate(x[..., :3], np.arange(2))


def test_slopes_by_hand():
    np.testing.assert_array_equal(ops.alibi_slopes(8), [2.0 ** -h for h in range(1, 9)])
    np.testing.assert_allclose(ops.alibi_slopes(6), [2 ** -2, 2 ** -4, 2 ** -6, 2 ** -8, 2 ** -1, 2 ** -3])
    bias = np.asarray(ops.alibi_bias(4, 5))
    for h, t, s in np.ndindex(4, 5, 5):
        assert bias[h, t - s + 4] == -(4.0 ** -(h + 1)) * abs(t - s)


@pytest.mark.parametrize('start', [None, [0, 2]])
def test_a_bias_by_distance_is_that_of_every_pair(start):
    H, T, S = 2, 4, 7
    bias = np.random.default_rng(2).standard_normal((H, 2 * S - 1)).astype(np.float32)
    place = lambda b, t: t if start is None else start[b] + t
    whole = np.array([[[[bias[h, place(b, t) - s + S - 1] for s in range(S)] for t in range(T)] for h in range(H)] for b in range(2)])
    starts = None if start is None else np.array(start)
    for t, rows, s, columns in ((0, T, 0, S), (1, 2, 3, 4)):
        block = jax.jit(lambda bias, t, s: positions.bias_by_distance(bias, t, rows, s, columns, S, starts))(bias, t, s)
        part = whole[:, :, t:t + rows, s:s + columns]
        np.testing.assert_array_equal(np.broadcast_to(block, part.shape), part)


def test_buckets_by_hand():
    """Of 8 buckets each direction has 4: two exact ones, and two that share the distances 2 to 8 in the ratio 1 : 2."""
    both = ops.relative_buckets(np.arange(-10, 11), buckets=8, limit=8)
    np.testing.assert_array_equal(both, [3, 3, 3, 3, 3, 3, 3, 2, 2, 1, 0, 5, 6, 6, 7, 7, 7, 7, 7, 7, 7])
    past = ops.relative_buckets(np.arange(-10, 3), buckets=4, limit=8, causal=True)
    np.testing.assert_array_equal(past, [3, 3, 3, 3, 3, 3, 3, 2, 2, 1, 0, 0, 0])


@pytest.mark.parametrize('buckets, limit', [(32, 128), (32, 100), (16, 64), (8, 20)])
def test_buckets_are_those_of_hugging_faces_t5(buckets, limit):
    torch = pytest.importorskip('torch')
    t5 = pytest.importorskip('transformers.models.t5.modeling_t5')
    distances = np.arange(-300, 301)
    for causal in (True, False):
        expected = t5.T5Attention._relative_position_bucket(torch.tensor(distances), not causal, buckets, limit)
        np.testing.assert_array_equal(ops.relative_buckets(distances, buckets, limit, causal), expected)


def test_rotary_positions_and_slopes_are_those_of_hugging_face():
    torch = pytest.importorskip('torch')
    llama = pytest.importorskip('transformers.models.llama.modeling_llama')
    bloom = pytest.importorskip('transformers.models.bloom.modeling_bloom')
    x = np.random.default_rng(3).standard_normal((2, 7, 3, 8)).astype(np.float32)
    rates = 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    angles = torch.cat(2 * [torch.arange(7)[:, None] * rates], dim=-1)[None]  # as LlamaRotaryEmbedding makes them
    expected, _ = llama.apply_rotary_pos_emb(torch.tensor(x), torch.tensor(x), angles.cos(), angles.sin(), unsqueeze_dim=2)
    np.testing.assert_allclose(ops.rotate(x, np.arange(7)), expected, atol=1e-5)
    for H in (1, 4, 6, 12):
        ramp = bloom.build_alibi_tensor(torch.ones(1, 2), H, torch.float32)  # slope times step
        np.testing.assert_allclose(ops.alibi_slopes(H), ramp[:, 0, 1], rtol=1e-6)
