"""Four layers that let the steps of a row know of each other, and what each costs: table 1 of Vaswani et al. 2017, measured.

n is the number of steps, d the width, k the size of a kernel and r that of a neighbourhood, as in the paper. What is
measured is what mixes the steps: the products of queries with keys and of weights with values, without the projections
before and after them; a recurrent layer with its W x, which is as large as its U h; the convolution alone.
"""

from collections.abc import Callable
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from seqjax import nn, ops
from seqjax.analysis.cost.scaling import Case, star
from seqjax.errors import FieldError, suggestion

STEPS, WIDTHS = (256, 512, 1024, 2048, 4096), (32, 64, 128, 256, 512)
PATH_SIZES = dict(d=4, k=4, r=16)  # of the layers that are stacked until the last step sees the first
SMALL = 1e-3                       # inputs at which every layer is nearly linear: no gradient vanishes on a long way
ELMAN = ops.make_cell('elman')     # h' = tanh(W x + U h), the recurrent layer with the fewest gates


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A row of the table: what it says, and how to find out.

    exponents: of the operations, by letter. sequential, path: what the table says of both.
    sizes: {letter: values}; a letter is varied while the others have their middle value.
    apply: (weights, x [B, n, d], k=..., r=...) -> [B, n, d]. weights: sizes -> {name: shape}.
    dilated: layer l of a stack has dilation=k^l.
    """

    exponents: dict
    sequential: str
    path: str
    sizes: dict
    apply: Callable
    weights: Callable = lambda sizes: {}
    dilated: bool = False

    @property
    def complexity(self):
        """What the table says: 'k n d^2'."""
        return ' '.join(letter if power == 1 else f'{letter}^{power}' for letter, power in self.exponents.items())

    def cases(self):
        """One row, at every size."""
        middle = {letter: values[len(values) // 2] for letter, values in self.sizes.items()}
        return [self.case(sizes) for sizes in star(middle, self.sizes)]

    def case(self, sizes):
        """One row of `sizes`."""
        shape = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
        weights = {name: shape(size) for name, size in self.weights(sizes).items()}
        x = shape((1, sizes['n'], sizes['d']))
        return Case(sizes, functools.partial(self.apply, **self.options(sizes)), (weights, x))

    def options(self, sizes):
        """What `apply` takes beside the arrays."""
        return {letter: sizes[letter] for letter in self.sizes if letter in ('k', 'r')}


def self_attention(weights, x):
    """softmax(x x^T / sqrt(d)) x, the n x n weights at once. As many heads as one likes are as many operations."""
    del weights
    x = x[:, :, None]
    return ops.attend(x, x, x, implementation='plain')[:, :, 0]


def restricted_attention(weights, x, r):
    """The same over the r last steps: in blocks of r, each of which sees itself and the block before, all at once.

    Half of the 2 r n weights are masked: twice the operations that there need to be, at any r.
    """
    del weights
    B, n, d = x.shape
    blocks = x.reshape(-1, r, 1, d)  # [B n / r, r, 1, d]
    before = jnp.pad(x, ((0, 0), (r, 0), (0, 0)))[:, :n].reshape(blocks.shape)
    both = jnp.concatenate([before, blocks], axis=1)
    number = jnp.arange(len(blocks)) % (n // r)
    seen = ops.Mask(causal=True, window=r, start=jnp.full(len(blocks), r)).dense(r, 2 * r)
    seen &= (number[:, None] > 0)[:, :, None, None] | (jnp.arange(2 * r) >= r)  # nothing is before the first
    return ops.attend(blocks, both, both, seen, implementation='plain').reshape(x.shape)


def recurrent(weights, x):
    """h_t = tanh(W x_t + U h_{t-1})."""
    return ops.recur(ELMAN, weights, x, (jnp.zeros_like(x[:, 0]),))[0]


def convolution(weights, x, k, dilation=1):
    """y_t = b + sum_i W_i x_{t - i * dilation}, i < k."""
    return nn.Convolution(x.shape[-1], k, dilation, causal=True, parent=None).apply({'params': weights}, x)


def _recurrent_weights(sizes):
    shapes = ELMAN.weight_shapes(sizes['d'], sizes['d'])
    return {name: shapes[name] for name in ('input_kernel', 'recurrent_kernel')}


def _convolution_weights(sizes):
    return dict(kernel=(sizes['k'], sizes['d'], sizes['d']), bias=(sizes['d'],))


LAYERS = {
    'self-attention': Layer(dict(n=2, d=1), '1', '1', dict(n=STEPS, d=WIDTHS), self_attention),
    'recurrent': Layer(dict(n=1, d=2), 'n', 'n', dict(n=STEPS, d=WIDTHS), recurrent, _recurrent_weights),
    'convolutional': Layer(dict(k=1, n=1, d=2), '1', 'log_k(n)', dict(k=(2, 4, 8, 16), n=STEPS, d=WIDTHS), convolution,
                           _convolution_weights, dilated=True),
    'restricted': Layer(dict(r=1, n=1, d=1), '1', 'n/r', dict(r=(8, 16, 32, 64), n=STEPS, d=WIDTHS), restricted_attention),
}


def chosen_layers(names):
    """{name: Layer} of 'recurrent,convolutional'; 'all': all of them."""
    wanted = list(LAYERS) if names == 'all' else [name.strip() for name in names.split(',')]
    for name in wanted:
        if name not in LAYERS:
            raise FieldError('layers', names, f'no such layer as {name!r}; {suggestion(name, [*LAYERS, "all"])}')
    return {name: LAYERS[name] for name in wanted}


def layers_until_seen(layer, n):
    """How many layers it takes until the last of n steps depends on the first: by gradients.

    A gradient at the last step goes back through one layer after another, each with inputs and weights of its own, until it
    reaches the first step. After every layer it is 1 at the steps that it has reached and 0 at the others: what becomes small
    on a long way is not lost. Sizes other than n: PATH_SIZES.
    """
    sizes = dict(PATH_SIZES, n=n)
    shapes, rng = layer.case(sizes).arguments, np.random.default_rng(0)

    @functools.partial(jax.jit, static_argnums=0)
    def before(options, weights, x, reached):
        gradient = jnp.broadcast_to(reached[..., None], x.shape).astype(x.dtype)
        gradient, = jax.vjp(lambda x: layer.apply(weights, x, **dict(options)), x)[1](gradient)
        return jnp.abs(gradient).max(axis=-1) > 0

    reached = np.arange(n)[None] == n - 1
    for level in range(n):
        options = layer.options(sizes) | (dict(dilation=sizes['k'] ** level) if layer.dilated else {})
        weights, x = jax.tree.map(functools.partial(_draw, rng), shapes)
        reached = before(tuple(options.items()), weights, SMALL * x, reached)
        if reached[0, 0]:
            return level + 1
    raise FieldError('n', n, f'the last step does not see the first through {n} layers; they reach no further than their step')


def _draw(rng, shape):
    """Orthogonal columns, of which none makes a gradient vanish; no bias."""
    if len(shape.shape) == 1:
        return np.zeros(shape.shape, np.float32)
    columns, _ = np.linalg.qr(rng.normal(size=(shape.size // shape.shape[-1], shape.shape[-1])))
    return columns.reshape(shape.shape).astype(np.float32)
