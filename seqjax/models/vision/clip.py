"""CLIP: two towers, one for images and one for texts, whose outputs are compared (Radford et al. 2021).

Shapes: B images of H x W pixels and B texts of T tokens; E width of the space that both are mapped to.
"""

import math

from flax import linen
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import check_at_least, check_rates
from seqjax.models.decoder_only import GPT
from seqjax.models.vision.vit import ViT


class DualEncoder(linen.Module, kw_only=True):
    """Images [B, H, W, C], tokens [B, T] and a mask [B, T] -> (image embeddings [B, E], text embeddings [B, E], scale).

        I = unit(W_i image(images)),    T = unit(W_t h_end),    logits = exp(s) I T'

    h_end: what the text tower says at the last token of a text, its END, which has read all others. Both have length 1; scale is
    exp(s), at most `largest_scale` (section 2.5).

    image: a module with `features(images, train)` -> [B, D], as `models.ViT` is. text: one with `hidden(tokens, train)` ->
    ([B, T, D], ...), as `models.GPT` is. projection_width: E.

        model = models.DualEncoder(image=models.ViT(width=64), text=models.GPT(V, context_length=32, width=64, bias=True))
        image, text, scale = model.apply(variables, images, tokens, mask)
        model.apply(variables, images, method='encode_image')
    """

    image: linen.Module | None = None
    text: linen.Module | None = None
    projection_width: int = 64
    dtype: str = 'float32'

    output_kinds = ('image_and_text',)
    first_scale, largest_scale = 1 / 0.07, 100.0

    def setup(self):
        self.image_tower, self.text_tower = self.towers()
        into = lambda: nn.Projection((self.projection_width,), ('embed', None), bias=False, kernel_init=nn.fan_in(),
                                     dtype=jnp.dtype(self.dtype))
        self.image_projection, self.text_projection = into(), into()
        self.log_scale = self.param('log_scale', nn.partitioned(linen.initializers.constant(math.log(self.first_scale)), ()), ())

    def __call__(self, images, tokens, mask=None, *, train=False):
        """(I [B, E], T [B, E], exp(s))"""
        return self.encode_image(images, train=train), self.encode_text(tokens, mask, train=train), self.scale()

    def scale(self):
        """exp(s), at most `largest_scale`."""
        return jnp.exp(jnp.minimum(self.log_scale, math.log(self.largest_scale)))

    def features(self, inputs, *, train=False):
        """[B, D] of images, before they are mapped to the space of both: what a probe is given."""
        return self.image_tower.features(inputs, train=train)

    def encode_image(self, images, *, train=False):
        """[B, E], of length 1."""
        return ops.unit_length(self.image_projection(self.features(images, train=train)))

    def encode_text(self, tokens, mask=None, *, train=False):
        """[B, E], of length 1. mask: [B, T], 1 for the tokens of a text; None: all are."""
        lengths = None if mask is None else mask.astype(jnp.int32).sum(axis=1)
        hidden, _ = self.text_tower.hidden(tokens, train=train)  # causal: what comes after a text changes nothing in it
        return ops.unit_length(self.text_projection(ops.last_step(hidden, lengths)))

    def towers(self):
        """(image tower, text tower)."""
        return self.image, self.text


class CLIP(DualEncoder, kw_only=True):
    """CLIP with a `models.ViT` and a causal Transformer, or with an image tower that is passed in.

    width, depth, heads, feed_forward, patch_size, image_size: of the ViT, which has a norm before its first block, too. text_width,
    text_depth, text_heads, text_feed_forward: of the text tower; 0: as of the images. activation, epsilon, dropout,
    attention_dropout, scan_layers, remat: of both; OpenAI's has activation='quick_gelu'. From the data: vocabulary, context_length.
    """

    vocabulary: int
    context_length: int | None = None

    width: int = 128
    depth: int = 4
    heads: int = 4
    feed_forward: int = 0
    patch_size: int = 4
    image_size: int = 0
    text_width: int = 0
    text_depth: int = 0
    text_heads: int = 0
    text_feed_forward: int = 0
    activation: str = 'gelu'
    epsilon: float = 1e-5
    dropout: float = 0.0
    attention_dropout: float = 0.0
    scan_layers: bool = False
    remat: bool = False

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 1, 'projection_width', 'patch_size')
        check_at_least(self, 0, 'text_width', 'text_depth', 'text_heads', 'text_feed_forward')
        check_rates(self, 'dropout', 'attention_dropout')
        nn.check_sizes(self)
        self.towers(parent=None)

    @linen.nowrap
    def towers(self, **options):
        both = dict(activation=self.activation, epsilon=self.epsilon, dropout=self.dropout, attention_dropout=self.attention_dropout,
                    scan_layers=self.scan_layers, remat=self.remat, dtype=self.dtype, **options)
        image, text = self.image, self.text
        if image is None:
            image = ViT(width=self.width, depth=self.depth, heads=self.heads, feed_forward=self.feed_forward, patch_size=self.patch_size,
                        patch_bias=False, image_size=self.image_size, pre_norm=True, name='image', **both)
        if text is None:
            text = GPT(self.vocabulary, context_length=self.context_length, width=self.text_width or self.width,
                       depth=self.text_depth or self.depth, heads=self.text_heads or self.heads, feed_forward=self.text_feed_forward,
                       bias=True, name='text', **both)
        return image, text
