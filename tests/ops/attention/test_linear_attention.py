"""Linear attention against a loop over queries, and against itself step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.ops.attention import linear
from tests.reference import attention as reference

B, T, H, G, K, M = 2, 11, 4, 2, 3, 5
FACTS = [dict(), dict(causal=True), dict(lengths=[4, 0]), dict(causal=True, lengths=[0, 7]),
         dict(segments=[[0] * 3 + [1] * 8, [2] * 11]), dict(causal=True, segments=[[0] * 2 + [1] * 1 + [2] * 8, [0] * 7 + [3] * 4])]
attend = jax.jit(ops.linear_attend)
step = jax.jit(ops.linear_attend_step)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Three chunks, the last of them not full."""
    monkeypatch.setattr(linear, 'CHUNK', 4)


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((B, T, H, K), (B, T, G, K), (B, T, G, M))]


def make_mask(facts):
    return ops.Mask(**{name: np.array(value) if isinstance(value, list) else value for name, value in facts.items()})


@pytest.mark.parametrize('facts', FACTS, ids=lambda facts: ' '.join(facts) or 'none')
def test_it_equals_a_loop(facts):
    query, key, value = draw()
    result = np.asarray(attend(query, key, value, make_mask(facts)))
    seen = reference.seen(B, H, T, T, **facts)
    np.testing.assert_allclose(result, reference.linear_attend(query, key, value, seen), atol=2e-6)
    assert not np.any(result[~seen[:, 0].any(-1)])


def test_gradients_stay_in_the_past():
    query, key, value = draw(1)
    reach = jax.jit(jax.jacrev(lambda key, value: ops.linear_attend(query, key, value, ops.Mask(causal=True)).sum((0, 2, 3)),
                               argnums=(0, 1)))(key, value)
    for jacobian in reach:  # [T, B, S, G, width]
        assert np.isfinite(jacobian).all()
        assert not np.any(np.triu(np.abs(np.asarray(jacobian)).sum((1, 3, 4)), 1))


@pytest.mark.parametrize('cuts', [[1] * 11, [5, 1, 5], [11]], ids=str)
def test_in_pieces_it_is_what_it_is_at_once(cuts):
    arrays = draw(2)
    state, parts, first = ops.linear_state(B, G, K, M), [], 0
    for count in cuts:
        state, part = step(state, *(x[:, first:first + count] for x in arrays))
        parts.append(part)
        first += count
    np.testing.assert_allclose(np.concatenate(parts, axis=1), attend(*arrays, ops.Mask(causal=True)), atol=2e-6)


def test_steps_past_the_length_leave_no_trace_in_the_state():
    arrays = draw(3)
    short = step(ops.linear_state(B, G, K, M), *(x[:, :6] for x in arrays))[0]
    long = step(ops.linear_state(B, G, K, M), *arrays, lengths=np.array([6, 6]))[0]
    for here, there in zip(long, short):
        np.testing.assert_allclose(here, there, atol=1e-6)


def test_bfloat16_comes_close_and_stays_bfloat16():
    arrays = [jnp.asarray(x, jnp.bfloat16) for x in draw(4)]
    result = attend(*arrays, ops.Mask(causal=True))
    assert result.dtype == jnp.bfloat16
    exact = reference.linear_attend(*map(np.float32, arrays), reference.seen(B, H, T, T, causal=True))
    np.testing.assert_allclose(np.float32(result), exact, atol=0.02)


@pytest.mark.parametrize('facts', [dict(window=3), dict(prefix=[1, 1]), dict(start=[0, 1])], ids=lambda facts: ' '.join(facts))
def test_masks_that_leave_out_a_part_of_the_past_are_refused(facts):
    with pytest.raises(FieldError, match=f"^{next(iter(facts))}=.*adds up all of the past; take attention='softmax'"):
        ops.linear_attend(*draw(), make_mask(facts))
