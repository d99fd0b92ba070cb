"""Captions: a network reads an image, and a decoder writes a sentence about it, word by word.

Shapes: B images of H x W pixels and C channels; S = h w places of their feature map, of E channels each; T tokens of a caption, V words.
"""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError, check_at_least, refuse_unused, suggestion
from seqjax.models import from_config
from seqjax.models.encoder_decoder import CrossDecoder
from seqjax.models.from_config import TransformerFields
from seqjax.models.recurrent_decoder import Memory, RecurrentDecoder
from seqjax.models.vision.resnet import ResNet
from seqjax.models.vision.vit import ViT

ENCODERS = 'resnet', 'vit'


class ImageEncoderFields(linen.Module, kw_only=True):
    """The network that reads the images of a captioner, as fields of the captioner.

    encoder: 'resnet', 'vit', or a module with `feature_map(images, train)` -> [B, h, w, E]. encoder_depth, encoder_width: of a
    `models.ResNet` of stem 'cifar', whose last stage has E = 4 encoder_width channels and a place for every 4 x 4 pixels; or blocks and
    width of a `models.ViT`, with encoder_heads, and a place for every patch_size x patch_size pixels.
    """

    encoder: str | linen.Module = 'resnet'
    encoder_depth: int = 8
    encoder_width: int = 16
    encoder_heads: int = 4
    patch_size: int = 4

    @linen.nowrap
    def make_encoder(self, **options):
        """The network that reads."""
        if isinstance(self.encoder, linen.Module):
            if not hasattr(self.encoder, 'feature_map'):
                raise FieldError('encoder', type(self.encoder).__name__, 'has no feature_map, [B, h, w, E] of images; pass a '
                                 'models.ResNet, a models.ViT, or a module that has')
            return self.encoder
        if self.encoder not in ENCODERS:
            raise FieldError('encoder', self.encoder, suggestion(self.encoder, ENCODERS))
        for field in ('encoder_heads', 'patch_size'):
            refuse_unused(self, field, self.encoder != 'vit', f"is for encoder='vit', and it is {self.encoder!r}")
        same = dict(depth=self.encoder_depth, width=self.encoder_width, dtype=self.dtype, **(options or dict(name='encoder')))
        try:
            return ResNet(**same) if self.encoder == 'resnet' else ViT(
                heads=self.encoder_heads, patch_size=self.patch_size, pooling='mean', dropout=self.dropout, **same)
        except FieldError as error:
            raise FieldError(dict(depth='encoder_depth', width='encoder_width', heads='encoder_heads').get(error.field, error.field),
                             error.value, error.reason) from None

    def places(self, images, train=False):
        """[B, S, E]: the feature map of images, its places row by row."""
        x = self.reading.feature_map(images, train=train)
        return x.reshape(len(x), -1, x.shape[-1])


class Captioner(ImageEncoderFields, RecurrentDecoder, kw_only=True):
    """Images [B, H, W, C], captions [B, T] -> logits [B, T, V] of every word, the ones before it given.

        a_i = the place i of the feature map of the image, a = mean_i a_i,    first state = tanh(W a + b)

    context: how the image reaches the decoder:
        'first'       by its first state alone (as Vinyals et al. 2015, where it is the first input)
        'every'       a is an input at every step, too
        'attention'   z_t = sum_i w_ti a_i is, with weights w_t = softmax_i v . tanh(W s_{t-1} + U a_i) of its own at every step
                      (Show, Attend and Tell, Xu et al. 2015, section 3.1.2, soft attention; here without the gate of equation 4.2.1
                      and without the penalty of equation 14)
    The next word: softmax of a map of s_t, and with a context of tanh(W [s_t, z_t, e_t]); s is the state, e the embedding of the word before.

    encoder, ...: see `ImageEncoderFields`. vocabulary: V, from the data. cell, width, depth: of the recurrent decoder. embedding: its width;
    0: width. attention: see `nn.Attention`. tie_embeddings: output weights are those of the embedding. dropout: on embeddings, between
    layers and on what the output sees.

        model = models.Captioner(vocabulary=30, encoder=models.ResNet(depth=20))
        variables = model.init(jax.random.key(0), images, None, captions)
        model.apply(variables, images, None, captions)          [B, T, V]
        decode.search(decode.make_decoder(WithStatistics(model, ...), params), images)

    For decoding, one step at a time, for k hypotheses of every image: `begin` and `step`.
    """

    vocabulary: int

    cell: str = 'lstm'
    width: int = 256
    depth: int = 1
    embedding: int = 0
    context: str = 'attention'
    attention: str | linen.Module = 'additive'
    tie_embeddings: bool = False
    dropout: float = 0.0
    dtype: str = 'float32'

    output_kinds = ('caption',)
    contexts = 'first', 'every', 'attention'

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 1, 'width', 'depth')
        check_at_least(self, 0, 'embedding')
        if self.context not in self.contexts:
            raise FieldError('context', self.context, f'no such context; {suggestion(self.context, self.contexts)}')
        refuse_unused(self, 'attention', self.context != 'attention', f"is for context='attention', and it is {self.context!r}")
        self.make_encoder(parent=None)
        from_config.check_bridged(self, self.make_decoder(parent=None))
        from_config.attention(self, parent=None)

    def setup(self):
        self.reading = self.make_encoder()
        self.set_up_decoder(self.vocabulary, self.make_decoder(name='decoder'), bridged=True)

    def begin(self, inputs, lengths=None, max_length=None, *, train=False):
        """(Memory, DecoderState) after reading images [B, H, W, C]. lengths: of no use to images; max_length: nor to the state."""
        del lengths, max_length
        places = self.places(inputs, train)
        mean = places.mean(axis=1, dtype=jnp.float32).astype(places.dtype)
        keys, values = self.lookup.read(places) if self.context == 'attention' else (None, None)
        layers = self._bridged([[mean] * len(layer) for layer in self.bridge])
        return Memory(None, None, keys, values, mean), self.first_state(layers, *places.shape[:2], places.dtype)

    @linen.nowrap
    def make_decoder(self, **options):
        """The recurrent stack that writes."""
        return nn.Recurrent(self.width, self.depth, self.cell, dropout=self.dropout, dtype=jnp.dtype(self.dtype), **options)

    @property
    def _has_context(self):
        """Whether every step is told something of the image."""
        return self.context != 'first'


class TransformerCaptioner(ImageEncoderFields, TransformerFields, CrossDecoder, kw_only=True):
    """The same with a Transformer decoder, whose layers attend to the places of the feature map.

        memory = norm(W a + b)    [B, S, D]

    encoder, ...: see `ImageEncoderFields`. vocabulary: V, from the data. width, depth, heads, ...: of the decoder, see
    `from_config.TransformerFields`.
    """

    vocabulary: int

    positions: str = 'sinusoidal'
    bias: bool = True

    output_kinds = ('caption',)

    def __post_init__(self):
        super().__post_init__()
        if self.positions == 'learned':
            raise FieldError('positions', 'learned', "needs a length that no row exceeds, which captions do not have; take "
                             "'sinusoidal', 'relative' or another")
        self.make_encoder(parent=None)

    def setup(self):
        self.reading = self.make_encoder()
        self.projection = nn.Projection((self.width,), (None, 'embed'), kernel_init=self.kernel_init(), dtype=jnp.dtype(self.dtype))
        self.memory_norm = self.make_norm()
        self.set_up_decoder(self.vocabulary, self.depth)

    def encode(self, inputs, lengths=None, *, train=False):
        """[B, S, D] of images [B, H, W, C]. lengths: of no use to images."""
        del lengths
        return self.memory_norm(self.projection(self.places(inputs, train)))

    # All places of an image are there, whatever lengths a search makes up.

    def __call__(self, inputs, lengths=None, targets=None, *, previous=None, train=False):
        """previous: [B, T], what the decoder reads instead of START and all targets but the last. targets None: one step."""
        del lengths
        return super().__call__(inputs, None, targets, previous=previous, train=train)

    def align(self, inputs, lengths, targets):
        """[B, T, S]: where the decoder looks as it writes the targets, the mean over its layers and heads."""
        del lengths
        return super().align(inputs, None, targets)

    def begin(self, inputs, lengths=None, max_length=64, *, train=False):
        """(Memory, DecoderState) after reading images [B, H, W, C]; captions may have max_length tokens."""
        del lengths
        return super().begin(inputs, None, max_length, train=train)
