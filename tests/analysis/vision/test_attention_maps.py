"""Attention of [CLS] against the scores of its definition, of layers one by one and stacked."""

import functools

from flax import linen
import jax
import numpy as np
import pytest

from seqjax import nn, params
from seqjax.analysis import figures
from seqjax.analysis.vision.attention_maps import attention_weights, cls_attention, plot_attention
from seqjax.errors import FieldError

B, H, T = 2, 2, 10


class Tiny(linen.Module):
    """Images [B, 12, 12, 1] -> a token that stands before 3 x 3 patches, and two blocks."""

    scan_layers: bool = False
    has_cls, prefix = True, 1

    @linen.compact
    def features(self, images):
        patches = images.reshape(-1, 3, 4, 3, 4).swapaxes(2, 3).reshape(-1, 9, 16)
        x = nn.Projection((8,), (None, 'embed'), kernel_init=nn.fan_in(), name='patches')(patches)
        x = jax.numpy.concatenate([jax.numpy.ones((len(x), 1, 8)), x], axis=1)
        norm = functools.partial(nn.layer_norm, True, jax.numpy.float32)
        block = nn.Block(nn.MultiHeadAttention(8, H, bias=True, parent=None), nn.FeedForward(16, parent=None), norm, parent=None)
        return nn.Stack(block, 2, norm, self.scan_layers, name='encoder')(x)[0][:, 0]


@pytest.fixture(scope='module')
def case():
    model, images = Tiny(), np.random.default_rng(0).random((B, 12, 12, 1)).astype(np.float32)
    found = params.unbox(model.init(jax.random.key(0), images, method='features'))['params']
    return model, jax.tree.map(lambda x: x + 0.3 * jax.random.normal(jax.random.key(1), x.shape), found), images


def test_weights_are_those_of_the_definition(case):
    model, values, images = case
    weights = attention_weights(model, values, images)
    assert [layer.shape for layer in weights] == [(B, H, T, T)] * 2
    np.testing.assert_allclose(sum(weights).sum(axis=-1), 2, rtol=1e-5)
    seen = []

    def listen(call, arguments, options, context):
        if isinstance(context.module, nn.MultiHeadAttention) and context.method_name == '__call__':
            seen.append(arguments[0])
        return call(*arguments, **options)

    with linen.intercept_methods(listen):
        model.apply({'params': values}, images, method='features')
    of_block = values['encoder']['block_1']['attention']
    query, key = (np.einsum('btd,dhk->bthk', seen[1], of_block[name]['kernel']) + of_block[name]['bias'] for name in ('query', 'key'))
    scores = np.einsum('bthk,bshk->bhts', query, key) / np.sqrt(query.shape[-1])
    expected = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(weights[1], expected, rtol=1e-4)
    maps = cls_attention(model, values, images)
    np.testing.assert_allclose(maps, expected[:, :, 0, 1:].reshape(B, H, 3, 3), rtol=1e-4)


def test_stacked_layers_are_taken_apart(case):
    model, values, images = case
    stacked = dict(values, encoder={**{name: part for name, part in values['encoder'].items() if not name.startswith('block_')},
                                    'blocks': jax.tree.map(lambda *layers: np.stack(layers), *(values['encoder'][f'block_{i}']
                                                                                              for i in range(2)))})
    np.testing.assert_allclose(cls_attention(model.clone(scan_layers=True), stacked, images), cls_attention(model, values, images),
                               rtol=1e-5)


def test_a_network_without_attention_is_refused():
    class Plain(linen.Module):
        def features(self, x):
            return x

    with pytest.raises(FieldError, match='has no self-attention to look at'):
        attention_weights(Plain(), {}, np.zeros((1, 2, 2, 1)))


def test_a_row_of_the_picture_is_an_image_and_its_heads(case, monkeypatch):
    kept = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
    model, values, images = case
    plot_attention(images, cls_attention(model, values, images), 'x.png')
    assert len(kept[0].axes) == B * (H + 1)
