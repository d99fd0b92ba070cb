"""Where a Transformer looks in an image: attention of [CLS] or of the mean patch to all patches, head by head.

    a = softmax(q_cls k / sqrt(K))        of the last layer, [B, H, h w]

Caron et al. 2021 (DINO), figure 1: without any label, heads separate the object from its ground. Shapes: B images [H, W, C],
h x w patches after P other tokens, L layers.
"""

from collections.abc import Sequence
from typing import Any

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np

from seqjax import nn, ops
from seqjax.analysis import figures
from seqjax.errors import FieldError
from seqjax.params.layer_layouts import one_by_one


def attention_weights(model: linen.Module, params: Any, images: Any) -> list[jax.Array]:
    """[B, H, T, T] of every layer, in their order: softmax of the scores that `nn.MultiHeadAttention` computes.

    model: a linen module with `features`, as `models.ViT` is. params: plain arrays; stacked layers are taken apart first, for a
    scan over them shows nothing of its inside.
    """
    model, params = (model.clone(scan_layers=False), one_by_one(params)) if getattr(model, 'scan_layers', False) else (model, params)
    found = []

    def listen(call, arguments, options, context):
        if isinstance(context.module, nn.MultiHeadAttention) and context.method_name == '_attend':
            found.append(_weights(context.module, *arguments[:2], arguments[3]))
        return call(*arguments, **options)

    with linen.intercept_methods(listen):
        model.apply({'params': params}, images, method='features')
    if not found:
        raise FieldError('model', type(model).__name__, 'has no self-attention to look at; take a Transformer, as models.ViT is')
    return found


def cls_attention(model: linen.Module, params: Any, images: Any, layer: int = -1) -> np.ndarray:
    """[B, H, h, w]: how much [CLS] looks at every patch in a layer, the last one where none is named.

    Where there is no [CLS], the mean over the patches that look.
    """
    weights = jax.jit(lambda params: attention_weights(model, params, images)[layer])(params)
    first = weights[:, :, 0] if model.has_cls else weights[:, :, model.prefix:].mean(axis=2)
    side = round((first.shape[-1] - model.prefix) ** 0.5)
    return np.asarray(first[..., model.prefix:]).reshape(*first.shape[:2], side, -1)


def plot_attention(images: np.ndarray, maps: np.ndarray, path: Any, title: str = '', *,
                   names: Sequence[str] = (), columns: Sequence[str] = ()) -> None:
    """An image a row, and beside it the attention of each head over its patches. To a PNG.

    Args:
        images: [B, H, W, C], 0 to 1 or uint8.
        maps: [B, heads, h, w].
        names: of the images. columns: of the maps; () for heads.
    """
    B, heads = maps.shape[:2]
    figure = figures.new_figure(1.1 * (heads + 1), (1.3 if names else 1.1) * B + 0.4)
    grid = figure.subplots(B, heads + 1, squeeze=False)
    for row, image, of_heads in zip(grid, images, maps):
        _show(row[0], image)
        for axes, weights in zip(row[1:], of_heads):
            axes.imshow(weights, cmap='magma', vmin=0)
            axes.set_axis_off()
    for axes, name in zip(grid[:, 0], names):
        axes.set_title(name, fontsize=8)
    for axes, name in zip(grid[0][1:], columns or [f'head {number + 1}' for number in range(heads)]):
        axes.set_title(name, fontsize=8)
    figure.suptitle(title, fontsize=10, x=0.01, ha='left')
    figures.save(figure, path)


def _show(axes, image):
    image = np.asarray(image)
    image = image / 255 if image.dtype == np.uint8 else np.clip(image, 0, 1)
    axes.imshow(image[..., 0] if image.shape[-1] == 1 else image[..., :3], cmap='gray', vmin=0, vmax=1)
    axes.set_axis_off()


def _weights(module, query, key, mask):
    """[B, H, T, S] of an `nn.MultiHeadAttention`; query: [B, T, H, K], key: [B, S, G, K]."""
    B, T, H, K = query.shape
    grouped = query.reshape(B, T, key.shape[2], -1, K)
    scores = jnp.einsum('btgrk,bsgk->bgrts', grouped, key, preferred_element_type=jnp.float32).reshape(B, H, T, -1)
    return ops.soft_weights(scores * (K ** -0.5 if module.scale is None else module.scale), mask.dense(T, key.shape[1]))
