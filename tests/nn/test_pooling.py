"""Pooling against loops over the steps that count."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from seqjax.errors import FieldError
from tests.reference.parameters import random_parameters

B, T, M, Q = 5, 6, 4, 3
LENGTHS = np.array([6, 1, 0, 4, 3], np.int32)
OUTPUTS = np.random.default_rng(0).standard_normal((B, T, M)).astype(np.float32)
LAST = np.random.default_rng(1).standard_normal((B, M)).astype(np.float32)
KINDS = {'last': 1, 'mean': 1, 'max': 1, 'attention': Q}


def make(kind, **fields):
    layer = nn.Pooling(kind, KINDS[kind], **fields)
    variables = jax.eval_shape(layer.init, jax.random.key(0), OUTPUTS, LAST, LENGTHS)
    return layer, random_parameters(layer, OUTPUTS, LAST, LENGTHS) if variables else {}


@functools.partial(jax.jit, static_argnums=0)
def run(layer, params, outputs, last, lengths=None):
    return layer.apply({'params': params}, outputs, last, lengths)


def expected(kind, params, h, last):
    """Of one row, h: [n, M]."""
    if kind == 'last':
        return last
    if not len(h):
        return np.zeros(M * KINDS[kind])
    if kind != 'attention':
        return getattr(h, kind)(axis=0)
    found = []
    for query in np.float64(params['queries']):
        scores = np.array([query @ np.tanh(step @ params['keys']['kernel']) / M ** 0.5 for step in h])
        weights = np.exp(scores) / np.exp(scores).sum()
        found.append(weights @ h)
    return np.concatenate(found)


@pytest.mark.parametrize('ragged', [True, False])
@pytest.mark.parametrize('kind', KINDS)
def test_pooling_goes_over_the_steps_of_a_row(kind, ragged):
    layer, params = make(kind)
    found = run(layer, params, OUTPUTS, LAST, LENGTHS if ragged else None)
    for b, n in enumerate(LENGTHS if ragged else [T] * B):
        np.testing.assert_allclose(found[b], expected(kind, params, OUTPUTS[b, :n], LAST[b]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('kind', ['mean', 'max', 'attention'])
def test_what_lies_past_the_end_changes_no_value_and_no_gradient(kind):
    layer, params = make(kind)
    padding = np.arange(T) >= LENGTHS[:, None]
    mix = np.random.default_rng(2).standard_normal((B, M * KINDS[kind])).astype(np.float32)

    @jax.jit
    def both(outputs):
        score = lambda params, outputs: (layer.apply({'params': params}, outputs, LAST, LENGTHS) * mix).sum()
        return jax.value_and_grad(score, argnums=(0, 1))(params, outputs)

    plain = both(OUTPUTS)
    other = both(np.where(padding[:, :, None], 1e3, OUTPUTS).astype(np.float32))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plain, other)
    d_outputs = np.asarray(plain[1][1])
    assert np.isfinite(d_outputs).all() and not d_outputs[padding].any() and d_outputs.any()


def test_the_last_step_is_the_one_at_the_rows_own_end():
    found = jax.jit(ops.last_step)(OUTPUTS, LENGTHS)
    np.testing.assert_array_equal(found, [OUTPUTS[b, n - 1] if n else np.zeros(M) for b, n in enumerate(LENGTHS)])
    np.testing.assert_array_equal(ops.last_step(OUTPUTS), OUTPUTS[:, -1])


@pytest.mark.parametrize('kind', ['mean', 'max', 'attention'])
def test_bfloat16_stays_and_comes_close(kind):
    layer, params = make(kind, dtype=jnp.bfloat16)
    found = run(layer, params, jnp.asarray(OUTPUTS, jnp.bfloat16), jnp.asarray(LAST, jnp.bfloat16), LENGTHS)
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(found), run(make(kind)[0], params, OUTPUTS, LAST, LENGTHS), atol=3e-2)


def test_what_cannot_be_is_refused():
    for make, sentence in ((lambda: nn.Pooling('min'), "pooling='min': choose one of: last, mean, max, attention"),
                           (lambda: nn.Pooling('attention', 0), 'queries=0: must be at least 1')):
        with pytest.raises(FieldError) as caught:
            make()
        assert str(caught.value) == sentence
