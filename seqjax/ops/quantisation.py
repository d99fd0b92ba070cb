"""Numbers of 8 bits with a scale for every sum that they take part in:

    s = max |W| / largest          over the axes that are summed over, so that there is one for every number that is made
    q = round(W / s)               in int8, where the largest is 127; in float8 (4 bits of exponent, 3 of fraction) it is 448
    x W ~= (x q) s

The scale leaves the sum: a product reads a byte for every weight, and is scaled once at its end. With `activations` x is
written the same way, a scale for every row of it, and the product is one of 8-bit numbers (LLM.int8, Dettmers et al. 2022,
section 2.1.2, without the columns that are kept apart there).
"""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion

EIGHT_BITS = {'int8': (jnp.int8, 127), 'float8': (jnp.float8_e4m3fn, 448)}  # name: type, largest number that is used
FEW = 8  # rows of x, for which the bytes of a kernel are multiplied as they are on a CPU


@functools.partial(jax.tree_util.register_dataclass, data_fields=['values', 'scale'], meta_fields=['summed', 'activations'])
@dataclasses.dataclass(frozen=True)
class Quantised:
    """An array as values * scale, in which the axes that are summed over come last.

    values: 8 bits each. scale: the same with 1 for the axes that are summed over. summed: where those are in the array, counted
    from its end: layers may be stacked before. activations: what is multiplied by it is written in 8 bits, too.

    It stands in a tree of parameters for the array: `nn.Projection` and `nn.Embedding` multiply by it, and others take
    `astype`, which is the array again.
    """

    values: jax.Array
    scale: jax.Array
    summed: tuple
    activations: bool = False

    @property
    def shape(self):
        """That of the array."""
        count, sizes = len(self.summed), list(self.values.shape)
        at = [axis % len(sizes) for axis in self.summed]
        made, summed = sizes[:-count], sizes[-count:]
        for place, size in sorted(zip(at, summed)):
            made.insert(place, size)
        return tuple(made)

    def astype(self, dtype):
        """The array that it stands for, rounded to 8 bits."""
        return jnp.moveaxis(self.values.astype(jnp.float32) * self.scale, _last(self.summed), self.summed).astype(dtype)


def quantise(array, summed, weights='int8', activations=False):
    """The Quantised of an array. summed: the axes that products with it sum over. weights: one of EIGHT_BITS."""
    if weights not in EIGHT_BITS:
        raise FieldError('weights', weights, f'no such numbers of 8 bits; {suggestion(str(weights), EIGHT_BITS)}')
    dtype, largest = EIGHT_BITS[weights]
    summed = tuple(axis if axis < 0 else axis - jnp.ndim(array) for axis in ((summed,) if isinstance(summed, int) else summed))
    array = jnp.moveaxis(jnp.asarray(array, jnp.float32), summed, _last(summed))
    scale = _scale(array, _last(summed), largest)
    values = array / scale
    return Quantised((jnp.round(values) if weights == 'int8' else values).astype(dtype), scale, summed, activations)


def multiply_quantised(x, kernel):
    """x W, summed over all axes of x but its first: x [N, D], kernel a Quantised that stands for [D, M] -> [N, M], in x's type."""
    D = math.prod(kernel.values.shape[-len(kernel.summed):])
    values, scale = kernel.values.reshape(-1, D), kernel.scale.reshape(-1)  # [M, D], [M]
    if kernel.activations:
        product = _both(x, values)
    elif values.dtype == jnp.int8 and _at_most(x, FEW):
        product = jax.lax.platform_dependent(x, values, cpu=_in_three_bytes, default=_converted)
    else:
        product = _converted(x, values)
    return (product * scale).astype(x.dtype)


def _converted(x, values):
    """[N, M]. Accelerators convert while they multiply; a CPU writes the converted values down, which takes longer than to multiply
    few rows by them."""
    return _dot(x, values.astype(x.dtype), jnp.float32)


def _in_three_bytes(x, values):
    """The same without conversion: x = s (a + b / 254 + c / 254^2) with whole a, b and c, which has the precision of float32."""
    x = x.astype(jnp.float32)
    scale = _scale(x, (-1,), 127)
    left, digits = x / scale, []
    for _ in range(3):
        digits.append(jnp.round(left))
        left = (left - digits[-1]) * 254
    a, b, c = jnp.split(_dot(jnp.concatenate(digits).astype(jnp.int8), values, jnp.int32).astype(jnp.float32), 3)
    return (a + (b + c / 254) / 254) * scale


def _both(x, values):
    """[N, M], with x in the type of the values."""
    whole = values.dtype == jnp.int8
    rows = quantise(x, -1, 'int8' if whole else 'float8')
    few = rows.values
    if _at_most(x, 1):  # XLA's program for one row of whole numbers is several times slower on a CPU than that for two
        few = jnp.repeat(few, 2, axis=0)
    return _dot(few, values, jnp.int32 if whole else jnp.float32)[:x.shape[0]].astype(jnp.float32) * rows.scale


def _dot(x, values, dtype):
    return jax.lax.dot_general(x, values, (((1,), (1,)), ((), ())), preferred_element_type=dtype)


def _scale(array, axes, largest):
    scale = jnp.max(jnp.abs(array), axis=axes, keepdims=True) / largest
    return jnp.where(scale > 0, scale, 1)  # of zeros alone


def _last(summed):
    return tuple(range(-len(summed), 0))


def _at_most(x, rows):
    """Whether x has no more rows; an export leaves open how many there are."""
    return isinstance(x.shape[0], int) and x.shape[0] <= rows
