"""Images as tokens against numpy loops and torch, and positions of images of another size against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.errors import FieldError
from tests.reference.parameters import random_parameters

B, H, W, C, D = 2, 8, 12, 3, 5
IMAGES = np.random.default_rng(0).random((B, H, W, C), np.float32)


def test_a_patch_is_mapped_as_a_whole():
    layer = nn.PatchEmbedding(D, 4)
    params = random_parameters(layer, IMAGES)
    tokens, kernel = layer.apply({'params': params}, IMAGES), np.float64(params['projection']['kernel'])
    assert tokens.shape == (B, 2, 3, D) and kernel.shape == (4, 4, C, D)
    for b, i, j in np.ndindex(B, 2, 3):
        expected = np.float64(params['projection']['bias'])
        for y, x, c in np.ndindex(4, 4, C):
            expected = expected + IMAGES[b, 4 * i + y, 4 * j + x, c] * kernel[y, x, c]
        np.testing.assert_allclose(tokens[b, i, j], expected, atol=1e-5)


def test_bytes_are_read_as_numbers_from_0_to_1():
    levels = np.random.default_rng(0).integers(0, 256, IMAGES.shape, np.uint8)
    for layer in (nn.PatchEmbedding(D, 4), nn.ConvolutionalStem(D, 2, hidden=4)):
        params = random_parameters(layer, IMAGES)
        np.testing.assert_allclose(layer.apply({'params': params}, levels), layer.apply({'params': params}, np.float32(levels) / 255),
                                   atol=1e-5)


@pytest.mark.parametrize('layers, kernel_size', [(1, 3), (2, 3), (1, 7), (2, 5)])
def test_the_stem_is_that_of_torch(layers, kernel_size):
    torch = pytest.importorskip('torch')
    layer = nn.ConvolutionalStem(D, layers, kernel_size, hidden=4)
    params, x = random_parameters(layer, IMAGES), torch.tensor(IMAGES).permute(0, 3, 1, 2)
    for number in range(layers):
        kernel = torch.tensor(params[f'kernel_{number}']).permute(3, 2, 0, 1)
        x = torch.nn.functional.conv2d(x, kernel, stride=max(1, kernel_size // 2 - 1), padding=kernel_size // 2).relu()
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
    ours = layer.apply({'params': params}, IMAGES)
    np.testing.assert_allclose(ours, x.permute(0, 2, 3, 1), atol=1e-4)
    assert ours.shape[1:3] == (layer.grid(H), layer.grid(W))


@pytest.mark.parametrize('size', range(1, 40, 3))
def test_how_many_tokens_there_will_be_is_known_before(size):
    for layer in (nn.ConvolutionalStem(D, 1), nn.ConvolutionalStem(D, 2, 7, 4), nn.PatchEmbedding(D, 1)):
        made = jax.eval_shape(lambda: layer.init_with_output(jax.random.key(0), jnp.zeros((1, size, size, 1)))[0])
        assert made.shape == (1, layer.grid(size), layer.grid(size), D)


def test_patches_must_tile_the_image():
    with pytest.raises(FieldError, match='patch_size=5: must divide the 8 pixels of a side of the images; 2, 4, 8 would'):
        nn.PatchEmbedding(D, 5).init(jax.random.key(0), IMAGES)
    with pytest.raises(FieldError, match='kernel_size=4: must be odd'):
        nn.ConvolutionalStem(D, 1, 4)


def test_positions_are_a_table_and_that_of_another_size_is_interpolated():
    torch = pytest.importorskip('torch')
    layer = nn.GridPositions(D, prefix=1)
    params = jax.tree.map(lambda box: box.unbox(), layer.init(jax.random.key(0), 4, 6)['params'], is_leaf=lambda x: hasattr(x, 'unbox'))
    assert jax.tree.map(np.shape, params) == dict(table=(4, 6, D), prefix=(1, D))
    table, prefix = layer.apply({'params': params}, 4, 6)
    np.testing.assert_array_equal(table, params['table'])
    np.testing.assert_array_equal(prefix, params['prefix'])
    larger, same = layer.apply({'params': params}, 7, 5)
    theirs = torch.nn.functional.interpolate(torch.tensor(np.asarray(table)).permute(2, 0, 1)[None], size=(7, 5), mode='bicubic')
    np.testing.assert_allclose(larger, theirs[0].permute(1, 2, 0), atol=1e-6)
    np.testing.assert_array_equal(same, prefix)
    drawn = nn.GridPositions(64, scale=0.5).init(jax.random.key(0), 8, 8)['params']['table'].unbox()
    assert abs(float(drawn.std()) - 0.5) < 0.02
    assert nn.GridPositions(D, grid=(2, 2)).init_with_output(jax.random.key(0), 4, 4)[1]['params']['table'].unbox().shape == (2, 2, D)
