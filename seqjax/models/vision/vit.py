"""Transformers that read images: the Vision Transformer, and one with a convolutional stem.

Shapes: B images of H x W pixels, C channels; P tokens before those of the N = h w patches; D width, L depth.
"""

from collections.abc import Callable
import functools

from flax import linen
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, check_at_least, check_rates, refuse_unused


class ImageTransformer(linen.Module, kw_only=True):
    """Images [B, H, W, C] -> logits [B, outputs]; outputs=0: their features [B, D]. In float32.

        x = [cls + p_0; registers; stem(image) + p]        tokens [B, P + N, D]
        z = pool(norm(block_L(... block_1(x))))            features
        logits = W z + b

    images: uint8, or numbers from 0 to 1. outputs: from the data.
    width, depth, heads, feed_forward: D, L, H, F; 0: 4 D. activation, gated: see `nn.FeedForward`. pooling: see `nn.TokenPooling`.
    image_size: pixels of a side of the images that the table of positions is for, 0: of the first ones; it is interpolated for
    others. position_scale: the deviation of positions before the first step; at the 0.02 of the papers small networks that are trained
    for minutes hardly use them (experiments/vision/digits_vit.py). epsilon: of the norms. layer_scale, stochastic_depth: see `nn.ScaledBlock`. dropout: on what every layer adds;
    embedding_dropout: on the tokens; attention_dropout: on the weights of attention. scan_layers, remat: see `nn.Stack`. dtype: of
    activations and matmuls.
    stem, block: modules instead of those that the fields describe: images -> [B, h, w, D], and an `nn.Block` or another module with
    its calls.
    """

    outputs: int = 0

    width: int = 128
    depth: int = 4
    heads: int = 4
    feed_forward: int = 0
    activation: str = 'gelu'
    gated: bool = False
    pooling: str = 'cls'
    image_size: int = 0
    position_scale: float = 0.5
    epsilon: float = 1e-6
    layer_scale: float = 0.0
    stochastic_depth: float = 0.0
    dropout: float = 0.0
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: str = 'float32'
    stem: linen.Module | None = None
    block: linen.Module | Callable[..., linen.Module] | None = None

    output_kinds = ('row',)
    registers = 0  # fields of a ViT
    antialias = False
    pre_norm = False
    representation_size = 0

    def __post_init__(self):
        object.__setattr__(self, 'block', nn.maker(self.block))
        super().__post_init__()
        nn.check_sizes(self)
        check_at_least(self, 0, 'outputs', 'feed_forward', 'image_size', 'position_scale', 'layer_scale')
        check_rates(self, 'stochastic_depth', 'dropout', 'embedding_dropout', 'attention_dropout')
        refuse_unused(self, 'image_size', self.stem is not None, 'is for a stem of the fields, and one was passed in')
        nn.activation_function(self.activation)
        self.make_pooling(parent=None)
        if self.image_size:
            self.make_stem(parent=None).grid(self.image_size)

    def setup(self):
        D, dtype, draw = self.width, jnp.dtype(self.dtype), linen.initializers.normal(0.02)
        grid = None
        if self.stem is None:
            self.patches = self.make_stem()
            grid = (self.patches.grid(self.image_size),) * 2 if self.image_size else None
        if self.has_cls:
            self.cls = self.param('cls', nn.partitioned(draw, ('embed',)), (D,))
        if self.registers:
            self.register_tokens = self.param('registers', nn.partitioned(draw, (None, 'embed')), (self.registers, D))
        self.positions = nn.GridPositions(D, int(self.has_cls), grid, self.antialias, self.position_scale, dtype)
        if self.pre_norm:
            self.embedding_norm = self.make_norm()()
        self.drop = linen.Dropout(self.embedding_dropout)
        self.encoder = nn.Stack(self.block or self.make_block(), self.depth, self.make_norm(), self.scan_layers, self.remat)
        self.pool = self.make_pooling()
        if self.representation_size:
            self.representation = nn.Projection((self.representation_size,), ('embed', None), kernel_init=nn.fan_in(), dtype=dtype)
        if self.outputs:
            self.output = nn.Projection((self.outputs,), ('embed', None), kernel_init=linen.initializers.zeros, dtype=dtype)

    def __call__(self, inputs, lengths=None, *, train=False):
        """Logits [B, outputs]. lengths: of no use to images, which have all of their pixels."""
        del lengths
        features = self.features(inputs, train=train)
        return (self.output(features) if self.outputs else features).astype(jnp.float32)

    def features(self, inputs, *, train=False):
        """[B, D]: what the head is given. Of pooling='cls_mean' [B, 2 D], and with a representation_size so many."""
        pooled = self.pool(self.tokens(inputs, train=train))
        return jnp.tanh(self.representation(pooled)) if self.representation_size else pooled

    def tokens(self, inputs, *, train=False):
        """[B, P + N, D]: the tokens after the last norm, those of patches row by row."""
        return self._read(inputs, train)[0]

    def feature_map(self, inputs, *, train=False):
        """[B, h, w, D]: the tokens of the patches, each in its place."""
        hidden, (h, w) = self._read(inputs, train)
        return hidden[:, self.prefix:].reshape(-1, h, w, self.width)

    def _read(self, inputs, train):
        """(all tokens, (h, w))"""
        if inputs.ndim != 4:
            raise FieldError('name', type(self).__name__.lower(), f'reads images [B, H, W, C], and the inputs are {list(inputs.shape)}; '
                             "write another model, as 'reader', or another source")
        x = self.patches(inputs) if self.stem is None else self.stem(inputs)  # [B, h, w, D]
        B, h, w, D = x.shape
        grid, first = self.positions(h, w)
        before = self.cls.astype(x.dtype)[None] + first if self.has_cls else first
        if self.registers:
            before = jnp.concatenate([before, self.register_tokens.astype(x.dtype)])
        x = jnp.concatenate([jnp.broadcast_to(before, (B, *before.shape)), (x + grid).reshape(B, h * w, D)], axis=1)
        x = self.embedding_norm(x) if self.pre_norm else x
        x = ops.constrain(self.drop(x, deterministic=not train), 'batch', ..., 'embed')
        return self.encoder(x, train=train)[0], (h, w)

    @property
    def has_cls(self):
        """Whether a [CLS] token stands before those of the patches."""
        return self.pooling.startswith('cls')

    @property
    def prefix(self):
        """P, how many tokens stand before those of the patches."""
        return self.has_cls + self.registers

    @linen.nowrap
    def make_stem(self, **options):
        """Images [B, H, W, C] -> [B, h, w, D]."""
        raise FieldError('stem', None, 'pass a module, or take a family that makes its own: models.ViT, models.CCT')

    @linen.nowrap
    def make_norm(self):
        """A function that makes a norm."""
        return functools.partial(nn.layer_norm, True, jnp.dtype(self.dtype), epsilon=self.epsilon)

    @linen.nowrap
    def make_pooling(self, **options):
        """Tokens [B, P + N, D] -> [B, D]."""
        return nn.TokenPooling(self.pooling, self.prefix, self.heads, self.epsilon, jnp.dtype(self.dtype), **options)

    @linen.nowrap
    def make_block(self):
        """A block that the fields describe."""
        # 2 L projections add to the residual stream; their scale keeps its variance at 1 (GPT-2, section 2.3).
        into = functools.partial(nn.fan_in, variance=1 / (2 * self.depth))
        part = dict(bias=True, dtype=jnp.dtype(self.dtype), parent=None)
        return nn.ScaledBlock(
            nn.MultiHeadAttention(self.width, self.heads, dropout=self.attention_dropout, out_init=into(2), **part),
            nn.FeedForward(self.feed_forward, self.activation, self.gated, out_init=into(), **part), self.make_norm(),
            dropout=self.dropout, layer_scale=self.layer_scale, stochastic_depth=self.stochastic_depth, depth=self.depth, parent=None)


class ViT(ImageTransformer, kw_only=True):
    """The Vision Transformer (Dosovitskiy et al. 2021), also as DeiT, DINO and the image tower of CLIP have it.

    patch_size: pixels of a side of a patch; patch_bias: whether their linear map has a bias. registers: learned tokens with no
    place, beside [CLS] (Darcet et al. 2024). pre_norm: a norm before the first block, too (CLIP, Radford et al. 2021).
    representation_size: units of a hidden layer with tanh between pooling and head (section 3.1, for pre-training); 0: none.
    antialias: of the interpolation of positions, as DINOv2 with registers has it.

        model = models.ViT(outputs=10, patch_size=7, width=64)
        variables = model.init(jax.random.key(0), images)           images [B, 28, 28, 1]
        model.apply(variables, images)                              [B, 10]
        model.apply(variables, images, method='features')           [B, 64]
    """

    patch_size: int = 4
    patch_bias: bool = True
    registers: int = 0
    pre_norm: bool = False
    representation_size: int = 0
    antialias: bool = False

    def __post_init__(self):
        check_at_least(self, 1, 'patch_size')
        check_at_least(self, 0, 'registers', 'representation_size')
        super().__post_init__()

    @linen.nowrap
    def make_stem(self, **options):
        return nn.PatchEmbedding(self.width, self.patch_size, self.patch_bias, jnp.dtype(self.dtype), **options)


class CCT(ImageTransformer, kw_only=True):
    """The Compact Convolutional Transformer (Hassani et al. 2021): a convolutional stem, and pooling of the sequence; for small images.

    stem_layers, stem_kernel, stem_width: layers, kernel_size and hidden of an `nn.ConvolutionalStem`. Here we differ: blocks are
    those of a ViT, where the authors' code has a norm on the residual stream itself and no biases in queries, keys and values.
    """

    pooling: str = 'sequence'
    feed_forward: int = 256
    stem_layers: int = 1
    stem_kernel: int = 3
    stem_width: int = 64

    def __post_init__(self):
        check_at_least(self, 1, 'stem_layers', 'stem_width')
        if self.stem_kernel < 1 or self.stem_kernel % 2 == 0:
            raise FieldError('stem_kernel', self.stem_kernel, 'must be odd')
        super().__post_init__()

    @linen.nowrap
    def make_stem(self, **options):
        return nn.ConvolutionalStem(self.width, self.stem_layers, self.stem_kernel, self.stem_width, jnp.dtype(self.dtype), **options)
