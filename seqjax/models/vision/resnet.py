"""Residual networks (He et al. 2016a, b): those for small images and those for ImageNet, and the plain networks beside them.

Shapes: B images of H x W pixels and C channels; h x w places of the last feature map, D channels of it.
"""

from collections.abc import Callable
import functools

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError, check_at_least, check_rates, suggestion

STEMS = ('cifar', 'imagenet')
OF_IMAGENET = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}  # table 1
NORM_POSITIONS = ('post', 'pre')


class ResNet(linen.Module, kw_only=True):
    """Images [B, H, W, C] -> logits [B, outputs]; outputs=0: their features [B, D]. In float32.

        x = stem(image);    x = unit_n(... unit_1(x));    features = mean over places of x;    logits = W features + b

    images: uint8, or numbers from 0 to 1. outputs: from the data.

    depth: layers that have weights, as in the names. Of stem='cifar', a 3x3 convolution, 6 n + 2 (20, 32, 44, 56, 110), or 9 n + 2 with
    block='bottleneck': three stages of n units (section 4.2). Of stem='imagenet', a 7x7 convolution with stride 2 and a 3x3 maximum with stride
    2: 18, 34, 50, 101 or 152 (table 1), the last three with bottlenecks. width: channels of the stem; stages have 1, 2, 4, ... times as many,
    and of bottlenecks four times that.
    block: '' (as the depth says), 'basic' or 'bottleneck'. stages, channels: units and channels of every stage, for other networks; depth
    must then be the number of their layers. downsample_first_stage: the first stage has stride 2 as the others do.
    shortcut, residual, norm_position, zero_init, stride_first: see `nn.ResidualUnit`; residual=False is the plain network.
    norm, momentum, epsilon: see `nn.image_norm`; without one convolutions have a bias. dropout: on the features, before the
    output. dtype: of activations and convolutions.

    Reference: He, Zhang, Ren and Sun 2016a, "Deep Residual Learning for Image Recognition"; 2016b, "Identity Mappings in Deep
    Residual Networks".
    """

    outputs: int = 0

    depth: int = 20
    width: int = 16
    stem: str = 'cifar'
    block: str = ''
    stages: tuple[int, ...] = ()
    channels: tuple[int, ...] = ()
    shortcut: str = 'pad'
    residual: bool = True
    norm: str = 'batch'
    norm_position: str = 'post'
    zero_init: bool = False
    momentum: float = 0.9
    epsilon: float = 1e-5
    stride_first: bool = False
    downsample_first_stage: bool = False
    dropout: float = 0.0
    dtype: str = 'float32'

    output_kinds = ('row',)
    xray_layers = (nn.ImageConvolution, nn.Projection)  # see `analysis.depth_gradients`

    def __post_init__(self):
        for field in ('stages', 'channels'):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        super().__post_init__()
        for field, names in dict(stem=STEMS, block=('', *nn.UNITS), shortcut=nn.SHORTCUTS, norm=nn.IMAGE_NORMS,
                                 norm_position=NORM_POSITIONS).items():
            if getattr(self, field) not in names:
                raise FieldError(field, getattr(self, field), suggestion(getattr(self, field), [name for name in names if name]))
        check_at_least(self, 1, 'width')
        check_at_least(self, 0, 'outputs')
        check_rates(self, 'dropout', 'momentum')
        check_sizes(self)

    def setup(self):
        dtype, plain = jnp.dtype(self.dtype), self.norm == 'none'
        norm = functools.partial(nn.image_norm, self.norm, momentum=self.momentum, epsilon=self.epsilon, dtype=dtype)
        unit = functools.partial(nn.ResidualUnit, kind=self.unit_kind, norm=norm, norm_position=self.norm_position, residual=self.residual,
                                 shortcut=self.shortcut, zero_init=self.zero_init, stride_first=self.stride_first, bias=plain, dtype=dtype)
        kernel_size, stride = (7, 2) if self.stem == 'imagenet' else (3, 1)
        self.stem_conv = nn.ImageConvolution(self.width, kernel_size, stride, plain, (None, 'embed'), dtype)
        self.stem_norm = norm() if self.norm_position == 'post' else None
        for number, (units, channels) in enumerate(self.units):
            stride = 2 if number or self.downsample_first_stage else 1
            setattr(self, f'stage_{number}', Stage(units, stride, functools.partial(unit, channels)))
        self.last_norm = norm() if self.norm_position == 'pre' else None
        self.drop = linen.Dropout(self.dropout)
        if self.outputs:
            self.output = nn.Projection((self.outputs,), ('embed', None), kernel_init=nn.fan_in(), dtype=dtype)

    def __call__(self, inputs: jax.Array, lengths: jax.Array | None = None, *, train: bool = False) -> jax.Array:
        """Logits [B, outputs]. lengths: of no use to images, which have all of their pixels."""
        del lengths
        features = self.features(inputs, train=train)
        if not self.outputs:
            return features.astype(jnp.float32)
        return self.output(self.drop(features, deterministic=not train)).astype(jnp.float32)

    def features(self, inputs: jax.Array, *, train: bool = False) -> jax.Array:
        """[B, D]: the mean of the last feature map over its places."""
        x = self.feature_map(inputs, train=train)
        return x.mean(axis=(1, 2), dtype=jnp.float32).astype(x.dtype)

    def feature_map(self, inputs: jax.Array, *, train: bool = False) -> jax.Array:
        """[B, h, w, D]: what the last unit returns."""
        if inputs.ndim != 4:
            raise FieldError('name', 'resnet', f'reads images [B, H, W, C], and the inputs are {list(inputs.shape)}; write another model, '
                             "as 'reader', or another source")
        x = self.stem_conv(nn.pixels(inputs, jnp.dtype(self.dtype)))
        x = jax.nn.relu(self.stem_norm(x, train)) if self.stem_norm else x
        if self.stem == 'imagenet':
            x = linen.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for number in range(len(self.units)):
            x = getattr(self, f'stage_{number}')(x, train)
        return jax.nn.relu(self.last_norm(x, train)) if self.last_norm else x

    @property
    def unit_kind(self):
        """'basic' or 'bottleneck'."""
        return self.block or ('bottleneck' if self.stem == 'imagenet' and self.depth >= 50 else 'basic')

    @property
    def units(self):
        """(units, channels) of every stage."""
        widest = self.width * (nn.REDUCTION if self.unit_kind == 'bottleneck' else 1)
        return tuple(zip(self.units_of_stages, self.channels or (widest * 2 ** stage for stage in range(len(self.units_of_stages)))))

    @property
    def units_of_stages(self):
        """How many each has."""
        if self.stages:
            return self.stages
        return OF_IMAGENET[self.depth] if self.stem == 'imagenet' else 3 * ((self.depth - 2) // (3 * self.layers_of_unit),)

    @property
    def layers_of_unit(self):
        """How many convolutions one has."""
        return 3 if self.unit_kind == 'bottleneck' else 2


class Stage(linen.Module):
    """So many units one after another, [B, H, W, C] -> [B, H / stride, W / stride, channels]; make: one, of its stride and name."""

    units: int
    stride: int
    make: Callable[..., linen.Module]

    @linen.compact
    def __call__(self, x, train=False):
        for number in range(self.units):
            x = self.make(stride=self.stride if number == 0 else 1, name=f'unit_{number}')(x, train)
        return x


def check_sizes(model):
    """The depth must be one that there is, and that of the stages that are given."""
    layers = model.layers_of_unit
    if model.stages:
        depth = 2 + layers * sum(model.stages)
        if min(model.stages) < 1 or model.depth != depth:
            raise FieldError('depth', model.depth, f'{model.unit_kind} units in stages of {model.stages} have {depth} layers with weights; set it to that')
    elif model.stem == 'imagenet':
        if model.depth not in OF_IMAGENET or model.block not in ('', 'basic' if model.depth < 50 else 'bottleneck'):
            raise FieldError('depth', model.depth, f"with stem='imagenet' there are {', '.join(map(str, OF_IMAGENET))}, basic units up to 34 and "
                             'bottlenecks from 50 on; name the units of every stage in stages for another')
    elif model.depth < 8 or (model.depth - 2) % (3 * layers):
        raise FieldError('depth', model.depth, f"must be {3 * layers} n + 2 with stem='cifar', as {', '.join(str(3 * layers * n + 2) for n in (3, 5, 9))}")
    stages = len(model.units_of_stages)
    if model.channels and (len(model.channels) != stages or min(model.channels) < 1):
        raise FieldError('channels', model.channels, f'must be one number for each of {stages} stages')
    widths = [channels for _, channels in model.units]
    if model.unit_kind == 'bottleneck' and min(widths) < nn.REDUCTION:
        raise FieldError('channels', tuple(widths), f'of bottlenecks must be at least {nn.REDUCTION}')
    if model.shortcut == 'pad' and sorted(widths := [model.width, *widths]) != widths:
        raise FieldError('shortcut', 'pad', f"adds channels and cannot take some away, as {tuple(widths)} would; write 'projection'")
