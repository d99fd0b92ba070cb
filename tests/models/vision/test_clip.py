"""Two towers and one space: lengths, scale, what is compared; towers of the fields and towers that are passed in."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models
from seqjax.errors import FieldError
from tests.reference import transformer as reference
from tests.reference.parameters import random_parameters

B, T, V, E = 3, 6, 13, 5
IMAGES = np.random.default_rng(0).random((B, 8, 8, 1), np.float32)
TOKENS = np.random.default_rng(1).integers(1, V, (B, T)).astype(np.int32)
LENGTHS = np.array([6, 1, 4])
MASK = (np.arange(T) < LENGTHS[:, None]).astype(np.float32)
SIZES = dict(vocabulary=V, context_length=T, width=8, depth=1, heads=2, text_width=6, projection_width=E)


def make(**fields):
    model = models.CLIP(**SIZES, **fields)
    return model, random_parameters(model, IMAGES, TOKENS, MASK)


def numpy_text(params):
    steps = np.float64(params['text']['embedding']['table'])[TOKENS] + params['text']['positions']['table'][:T]
    x = reference.block(params['text']['decoder']['block_0'], steps, reference.causal(B, T))
    x = reference.layer_norm(params['text']['decoder']['norm'], x)
    x = np.stack([x[b, LENGTHS[b] - 1] for b in range(B)]) @ params['text_projection']['kernel']
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_embeddings_have_length_1_and_are_those_of_the_towers():
    model, params = make()
    image, text, scale = jax.jit(lambda: model.apply({'params': params}, IMAGES, TOKENS, MASK))()
    np.testing.assert_allclose(text, numpy_text(params), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(image, axis=1), 1, atol=1e-6)
    tower = models.ViT(width=8, depth=1, heads=2, patch_size=4, patch_bias=False, pre_norm=True, epsilon=1e-5)
    features = tower.apply({'params': params['image']}, IMAGES)
    np.testing.assert_allclose(model.apply({'params': params}, IMAGES, method='features'), features, atol=1e-5)
    mapped = np.asarray(features) @ params['image_projection']['kernel']
    np.testing.assert_allclose(image, mapped / np.linalg.norm(mapped, axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(model.apply({'params': params}, IMAGES, method='encode_image'), image, atol=1e-6)
    assert image.dtype == text.dtype == scale.dtype == jnp.float32


def test_what_comes_after_a_text_changes_nothing():
    model, params = make()
    other = np.where(MASK > 0, TOKENS, 7)
    encode = jax.jit(lambda tokens: model.apply({'params': params}, tokens, MASK, method='encode_text'))
    np.testing.assert_array_equal(encode(other), encode(TOKENS))


@pytest.mark.parametrize('log_scale, scale', [(math.log(1 / 0.07), 1 / 0.07), (9.0, 100.0)])
def test_the_scale_begins_at_that_of_the_paper_and_is_at_most_100(log_scale, scale):
    model, params = make()
    start = model.init(jax.random.key(0), IMAGES, TOKENS, MASK)['params']['log_scale'].unbox()
    assert float(start) == pytest.approx(math.log(1 / 0.07))
    assert float(model.apply({'params': {**params, 'log_scale': jnp.float32(log_scale)}}, method='scale')) == pytest.approx(scale)


def test_towers_may_be_passed_in_and_layers_scanned():
    text = models.GPT(V, context_length=T, width=6, depth=2, heads=2, scan_layers=True)
    model = models.DualEncoder(image=models.CCT(width=8, depth=1, heads=2), text=text, projection_width=E)
    params = random_parameters(model, IMAGES, TOKENS)
    assert params.keys() == {'image', 'text', 'image_projection', 'text_projection', 'log_scale'}
    assert model.apply({'params': params}, IMAGES, TOKENS)[0].shape == (B, E)
    own, params = make(scan_layers=True, dtype='bfloat16')
    assert params['image']['encoder'].keys() == {'blocks', 'norm'} and own.apply({'params': params}, IMAGES, TOKENS, MASK)[1].shape == (B, E)


@pytest.mark.parametrize('fields, sentence', [
    (dict(heads=3), 'heads=3: must divide width=8'), (dict(text_heads=4), 'heads=4: must divide width=6'),
    (dict(projection_width=0), 'projection_width=0: must be at least 1'), (dict(dropout=1.0), 'dropout=1.0: must be'),
])
def test_an_impossible_field_is_refused(fields, sentence):
    with pytest.raises(FieldError, match=sentence):
        models.CLIP(**{**SIZES, **fields})
