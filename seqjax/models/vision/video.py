"""Networks that read clips: one network for all frames, non-local blocks over all of them, and an encoder over time.

Shapes: B clips of T frames of H x W pixels, C channels; feature maps of h x w places, D channels.
"""

from flax import linen
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, check_at_least, check_rates, suggestion
from seqjax.models.vision.resnet import ResNet


class VideoReader(linen.Module, kw_only=True):
    """Clips [B, T, H, W, C] with lengths [B] -> logits [B, outputs]; outputs=0: their features [B, M]. In float32.

        x   = non_local(... non_local(frames(clip)))        [B, T, h, w, D]
        f_t = mean over places of x_t                       [B, T, D]
        z   = pool(encoder(f)),    logits = W z + b
    With per_step the logits are those of every frame, [B, T, outputs].

    clips: uint8, or numbers from 0 to 1. Frames past a clip's length change nothing; but in training the batch
    norms of `frames` that are passed in count them, so give those a GroupNorm where clips differ in length.
    outputs, per_step: from the data.
    frames: a module with `feature_map(images, train)` -> [N, h, w, D], as `ResNet` and `ViT` are; None: a ResNet for small images of
    this width, with `depth` units in each of its three stages, and GroupNorm, which no frame of padding disturbs. non_local: how many `nn.NonLocalBlock` follow, of
    non_local_kind. encoder: over time, a cell of `ops.CELLS`, 'conv' or 'attention'; '': none. encoder_width: its width; heads: of
    'attention'. bidirectional: a frame sees those after it, too. pooling: over time, see `nn.Pooling`. dropout: of the encoder and before the
    output. dtype: of activations and matmuls.
    """

    outputs: int = 0
    per_step: bool = False

    width: int = 16
    depth: int = 1
    non_local: int = 0
    non_local_kind: str = 'embedded_gaussian'
    encoder: str = 'gru'
    encoder_width: int = 128
    heads: int = 4
    bidirectional: bool = True
    pooling: str = 'mean'
    dropout: float = 0.0
    dtype: str = 'float32'
    frames: linen.Module | None = None

    output_kinds = ('row', 'position')

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 0, 'outputs', 'non_local')
        check_at_least(self, 1, 'width', 'depth', 'encoder_width', 'heads')
        check_rates(self, 'dropout')
        encoders = ('', 'conv', 'attention', *ops.CELLS)
        if self.encoder not in encoders:
            raise FieldError('encoder', self.encoder, suggestion(self.encoder, [name for name in encoders if name]))
        if self.pooling == 'last' and not self.encoder:
            raise FieldError('pooling', 'last', "is the last state of an encoder, and encoder=''; write 'mean'")
        self.make_frames(parent=None)
        nn.NonLocalBlock(self.non_local_kind, parent=None)
        if self.encoder:
            self.make_encoder(parent=None)

    def setup(self):
        dtype = jnp.dtype(self.dtype)
        self.network = self.frames if self.frames is not None else self.make_frames()
        self.blocks = [nn.NonLocalBlock(self.non_local_kind, dtype=dtype) for _ in range(self.non_local)]
        if self.encoder:
            self.over_time = self.make_encoder()
        if not self.per_step:
            self.pool = nn.Pooling(self.pooling, dtype=dtype)
        self.drop = linen.Dropout(self.dropout)
        if self.outputs:
            self.output = nn.Projection((self.outputs,), ('embed', None), kernel_init=nn.fan_in(), dtype=dtype)

    def __call__(self, inputs, lengths=None, *, train=False):
        """Logits."""
        features = self.features(inputs, lengths, train=train)
        return (self.output(self.drop(features, deterministic=not train)) if self.outputs else features).astype(jnp.float32)

    def features(self, inputs, lengths=None, *, train=False):
        """[B, M], or of every frame [B, T, M]."""
        x = self.feature_map(inputs, lengths, train=train)
        f = ops.mask_steps(x.mean(axis=(2, 3), dtype=jnp.float32).astype(x.dtype), lengths)
        outputs, last = self.over_time(f, lengths, train=train) if self.encoder else (f, None)
        return outputs if self.per_step else self.pool(outputs, last, lengths)

    def feature_map(self, inputs, lengths=None, *, train=False):
        """[B, T, h, w, D], after the non-local blocks."""
        if inputs.ndim != 5:
            raise FieldError('name', 'video', f'reads clips [B, T, H, W, C], and the inputs are {list(inputs.shape)}; write another model, '
                             "as 'reader' or 'vit', or another source")
        B, T = inputs.shape[:2]
        x = self.network.feature_map(inputs.reshape(B * T, *inputs.shape[2:]), train=train)
        x = x.reshape(B, T, *x.shape[1:])
        for block in self.blocks:
            x = block(x, lengths)
        return x

    @linen.nowrap
    def make_frames(self, **options):
        """What reads every frame."""
        return ResNet(width=self.width, depth=6 * self.depth + 2, norm='group', dtype=self.dtype, **options)

    @linen.nowrap
    def make_encoder(self, **options):
        """What reads the frames one after another, or all at once."""
        same = dict(dropout=self.dropout, dtype=jnp.dtype(self.dtype))
        if self.encoder == 'attention':
            return nn.AttentionEncoder(self.encoder_width, heads=self.heads, causal=not self.bidirectional, **same, **options)
        if self.encoder == 'conv':
            return nn.ConvolutionalEncoder(self.encoder_width, causal=not self.bidirectional, **same, **options)
        inner = nn.Recurrent(self.encoder_width, 1, self.encoder, bidirectional=self.bidirectional, parent=None, **same)
        return nn.RecurrentEncoder(inner, **options)
