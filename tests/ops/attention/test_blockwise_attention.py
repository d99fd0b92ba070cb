"""Attention plain, in parts and block by block against loops in numpy: kinds x masks x biases, values and gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.ops.attention import blockwise, plain
from tests.reference import attention as reference

B, T, H, G, K, M = 2, 13, 4, 2, 3, 5
KINDS = {'full': {}, 'causal': dict(causal=True), 'causal window': dict(causal=True, window=4), 'window': dict(window=5)}
MASKS = {'no mask': {}, 'lengths': dict(lengths=[5, 0]), 'segments': dict(segments=[[0] * 6 + [1] * 7, [2] + [3] * 12]),
         'both': dict(lengths=[11, 13], segments=[[0] * 8 + [1] * 5, [1] * 13]), 'start': dict(start=[0, 4], lengths=[17, 8]),
         'prefix': dict(prefix=[6, 0])}
FORMS = 'plain', 'in_parts', 'blockwise'
TABLE = [(kind, mask, bool(number % 2)) for number, (kind, mask) in enumerate((k, m) for k in KINDS for m in MASKS)
         if kind != 'full' or mask != 'prefix']


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Three blocks, or parts, the last of them not full."""
    monkeypatch.setattr(plain, 'SMALL', 5)
    monkeypatch.setattr(blockwise, 'SMALLEST', 5)
    monkeypatch.setattr(blockwise, 'LARGEST', 5)


def draw(seed=0, T=T, S=T, dtype=np.float32):
    """query, key, value, a direction for the output, and a bias."""
    rng = np.random.default_rng(seed)
    shapes = (B, T, H, K), (B, S, G, K), (B, S, G, M), (B, T, H, M), (H, 2 * S - 1)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def make_mask(facts):
    return ops.Mask(**{name: np.array(value) if isinstance(value, list) else value for name, value in facts.items()})


@functools.partial(jax.jit, static_argnames=('form', 'dropout'))
def compiled(query, key, value, d_out, bias, mask, form, dropout):
    attend = functools.partial(ops.attend, implementation=form, dropout=dropout, dropout_key=jax.random.key(1))
    out, back = jax.vjp(lambda q, k, v, bias: attend(q, k, v, mask, bias=bias), query, key, value, bias)
    return out, *back(d_out)


def run(query, key, value, d_out, bias, mask, form='blockwise', dropout=0.0):
    """The output and the gradients of query, key, value and bias."""
    return jax.device_get(compiled(query, key, value, d_out, bias, mask, form, dropout))


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('kind, mask, biased', TABLE, ids=lambda value: value if isinstance(value, str) else 'b' * value)
def test_values_and_gradients_equal_loops(kind, mask, biased, form):
    facts, S = KINDS[kind] | MASKS[mask], 17 if mask == 'start' else T
    query, key, value, d_out, bias = draw(sum(map(ord, kind + mask)), S=S)
    bias = bias if biased else None
    actual = run(query, key, value, d_out, bias, make_mask(facts), form)
    seen = reference.seen(B, H, T, S, **facts)
    expected = reference.attend_and_gradients(query, key, value, seen, d_out, bias, facts.get('start', 0))
    for name, here, there in zip(('output', 'query', 'key', 'value', 'bias'), actual, expected):
        if here is not None:
            np.testing.assert_allclose(here, there, atol=5e-6, err_msg=name)
    blind = ~seen[:, 0].any(-1)  # [B, T]: queries that may look nowhere
    assert not np.any(actual[0][blind]) and not np.any(actual[1][blind])


@pytest.mark.parametrize('form', FORMS[1:])
@pytest.mark.parametrize('T, S', [(3, 14), (14, 3)])
def test_queries_and_keys_of_different_numbers(T, S, form):
    query, key, value, d_out, _ = draw(1, T, S)
    facts = dict(lengths=[2, 3])
    expected = reference.attend_and_gradients(query, key, value, reference.seen(B, H, T, S, **facts), d_out)
    for here, there in zip(run(query, key, value, d_out, None, make_mask(facts), form), expected):
        if here is not None:
            np.testing.assert_allclose(here, there, atol=5e-6)


@pytest.mark.parametrize('form', FORMS[1:])
def test_dropout_is_that_of_plain_attention_to_the_last_weight(form):
    *arrays, bias = draw(2)
    mask = ops.Mask(causal=True)
    result = run(*arrays, bias, mask, form, 0.4)
    for here, there in zip(result, run(*arrays, bias, mask, 'plain', 0.4)):
        np.testing.assert_allclose(here, there, atol=5e-6)
    assert np.abs(result[0] - run(*arrays, bias, mask, form)[0]).max() > 0.1


@pytest.mark.parametrize('form', FORMS)
def test_queries_past_a_window_see_nothing(form):
    """Of 14 queries and 3 keys, a causal window of 2 leaves those from step 4 on without a key."""
    query, key, value, d_out, _ = draw(6, 14, 3)
    expected = reference.attend_and_gradients(query, key, value, reference.seen(B, H, 14, 3, causal=True, window=2), d_out)
    result = run(query, key, value, d_out, None, ops.Mask(causal=True, window=2), form)
    for here, there in zip(result, expected):
        if here is not None:
            np.testing.assert_allclose(here, there, atol=5e-6)
    assert not np.any(result[0][:, 4:]) and np.any(result[0][:, :4])


@pytest.mark.parametrize('form', FORMS)
def test_bfloat16_comes_close_and_stays_bfloat16(form):
    query, key, value, d_out, bias = draw(3)
    low = [jnp.asarray(x, jnp.bfloat16) for x in (query, key, value, d_out)]
    result = run(*low, bias, ops.Mask(causal=True), form)
    assert [x.dtype for x in result] == 4 * [jnp.bfloat16] + [jnp.float32]
    seen = reference.seen(B, H, T, T, causal=True)
    exact = reference.attend_and_gradients(*(np.float32(x) for x in low[:3]), seen, np.float32(low[3]), bias)
    for here, there in zip(result, exact):
        np.testing.assert_allclose(np.float32(here), there, atol=0.02 * np.abs(there).max())


@pytest.mark.parametrize('form', FORMS)
def test_scores_too_large_for_exp_are_no_trouble(form):
    query, key, value, d_out, _ = draw(4)
    seen = reference.seen(B, H, T, T, causal=True)
    expected = reference.attend_and_gradients(1e3 * query, key, value, seen, d_out)
    result = run(1e3 * query, key, value, d_out, None, ops.Mask(causal=True), form)
    np.testing.assert_allclose(result[0], expected[0], atol=1e-3)
    assert all(np.isfinite(x).all() for x in result if x is not None)


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('kind', ['causal', 'causal window', 'window'])
def test_gradients_reach_exactly_the_steps_in_sight(kind, form):
    """A window of r sees exactly r steps, and a causal one none of the future: the gradient of the values shows where."""
    query, key, value, d_out, _ = draw(5)
    window = KINDS[kind].get('window', T)
    for t in (0, 6, T - 1):
        only = np.zeros_like(d_out)
        only[:, t] = d_out[:, t]
        *_, d_key, d_value, _ = run(query, key, value, only, None, make_mask(KINDS[kind]), form)
        reached = np.flatnonzero(np.any(d_value != 0, axis=(0, 2, 3)))
        first, last = (t - window + 1, t) if 'causal' in kind else (t - window // 2, t + (window - 1) // 2)
        np.testing.assert_array_equal(reached, np.arange(max(first, 0), min(last, T - 1) + 1))
        assert not np.any(np.delete(d_key, reached, axis=1))
    assert window == T or len(reached) <= window


def test_hidden_blocks_are_not_computed():
    """Of 3 x 3 blocks: causal 6, a window of 4 its diagonal and the one below."""
    count = lambda **facts: len(blockwise._pairs(15, 15, ops.Mask(**facts), 5, 5))
    assert count() == 9 and count(causal=True) == 6 and count(causal=True, window=4) == 5 and count(window=5) == 7
    assert count(causal=True, lengths=np.array([3])) == 6
    assert count(causal=True, prefix=np.array([3])) == 9


def test_a_block_is_as_large_as_a_cache_allows_and_no_larger_than_a_window(monkeypatch):
    monkeypatch.undo()
    fitting = blockwise._fitting
    assert [fitting(heads, ops.Mask(causal=True)) for heads in (1, 4, 12, 48, 5000)] == [512, 256, 128, 64, 64]
    assert [fitting(1, ops.Mask(window=r)) for r in (10, 64, 65, 256, 400, 5000)] == [64, 64, 64, 256, 256, 512]


def test_a_long_row_is_one_small_program():
    def equations(T):
        x = jax.ShapeDtypeStruct((1, T, 1, 8), jnp.float32)
        attend = lambda x: ops.attend(x, x, x, ops.Mask(causal=True), implementation='blockwise')
        return str(jax.make_jaxpr(attend)(x)).count(' = ')

    assert equations(3 * 5) == equations(40 * 5)
