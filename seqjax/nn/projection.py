"""The two layers that own most parameters: a linear map between any axes, and an embedding table.

Parameters and activations say the logical names of their axes; `seqjax.parallel` maps them to a mesh.
"""

from collections.abc import Sequence
import math

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops

partitioned = nn.with_logical_partitioning


def fan_in(contract=1, variance=1.0):
    """An initializer: what goes through a kernel whose first `contract` axes are summed over keeps `variance` of its own."""
    def draw(key, shape, dtype=jnp.float32):
        deviation = (variance / math.prod(shape[:contract])) ** 0.5
        return nn.initializers.truncated_normal(deviation / 0.87962566)(key, shape, dtype)  # the cut at 2 takes some away

    return draw


def parameter(module, name, init, shape):
    """module.param(name, init, shape), or the `ops.Quantised` that stands for it, whose arrays have other shapes."""
    stored = module.get_variable('params', name) if module.has_variable('params', name) else None
    return stored if isinstance(stored, ops.Quantised) else module.param(name, init, shape)


def multiply(x, kernel, contract=1):
    """x W, summed over the last `contract` axes of x and the first of W: [..., D] and [D, H, K] give [..., H, K].

    In the type of x. W is an array or an `ops.Quantised`. It is `jnp.tensordot`, as one product of two matrices. The numbers
    are the same; XLA's program for the CPU is not: it sums the gradient of W over one axis of rows where they lie, and does not
    first write them down anew, transposed.
    """
    rows, made = x.shape[:x.ndim - contract], kernel.shape[contract:]
    D, M = math.prod(kernel.shape[:contract]), math.prod(made)
    x = x.reshape(math.prod(rows), D)
    if isinstance(kernel, ops.Quantised):
        return ops.multiply_quantised(x, kernel).reshape(*rows, *made)
    return jnp.matmul(x, kernel.astype(x.dtype).reshape(D, M)).reshape(*rows, *made)


class Projection(nn.Module):
    """y = x W + b over the last axes of x: `Projection((H, K), ...)` maps [..., D] to [..., H, K].

    features: the axes made. axes: logical names of the kernel's axes, contracted ones first; `contract` is how many. An axis
    that a mesh cuts comes first among those contracted and among those made, for they are merged: one product, no gather.
    """

    features: Sequence[int]
    axes: Sequence[str | None]
    contract: int = 1
    bias: bool = True
    kernel_init: nn.initializers.Initializer = nn.initializers.normal(0.02)
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x):
        shape = (*x.shape[x.ndim - self.contract:], *self.features)
        met, made = tuple(self.axes[:self.contract]), tuple(self.axes[self.contract:])
        kernel = parameter(self, 'kernel', partitioned(self.kernel_init, tuple(self.axes)), shape)
        x = x.astype(self.dtype)
        if x.ndim > self.contract:
            # Also for the gradient of x: XLA 0.10.2 gets a product wrong that sums over a mesh axis
            # and is cut along it again, while its other factor is cut along the axis of the rows.
            x = ops.constrain(x, 'batch', ..., *met)
        y = multiply(x, kernel, self.contract)
        if self.bias:
            zeros = partitioned(nn.initializers.zeros, made)
            y += self.param('bias', zeros, tuple(self.features)).astype(self.dtype)
        return ops.constrain(y, 'batch', ..., *made) if y.ndim > len(made) else y

    @nn.nowrap
    def summed_axes(self):
        """{parameter that may be an `ops.Quantised`: the axes that are summed over, from its end}."""
        made = len(self.features)
        return {'kernel': tuple(range(-made - self.contract, -made))}


class Embedding(nn.Module):
    """A row of the table for every token; `attend` scores all rows against a query, for tied output weights.

    padding: a token whose row is zero and stays zero: no gradient reaches it.
    """

    vocabulary: int
    features: int
    table_init: nn.initializers.Initializer = nn.initializers.normal(0.02)
    dtype: jnp.dtype = jnp.float32
    padding: int | None = None

    def setup(self):
        # One sharded axis only: a table cut along the vocabulary turns every lookup into a gather over devices.
        self.table = parameter(self, 'table', partitioned(self.table_init, ('vocab', 'embed')), (self.vocabulary, self.features))

    def __call__(self, tokens):
        rows = jax.tree.map(lambda x: jnp.take(x, tokens, axis=0), self._rows())  # values and scales of a Quantised
        # Where the table lies, and then where rows do: XLA finds no way to do both at once.
        rows = ops.constrain(rows.astype(self.dtype), 'lookup', ..., 'embed')
        return ops.constrain(rows, 'batch', ..., 'embed')  # [..., D]

    def attend(self, x):
        x, rows = x.astype(self.dtype), self._rows()
        if isinstance(rows, ops.Quantised):
            return ops.multiply_quantised(x.reshape(-1, self.features), rows).reshape(*x.shape[:-1], self.vocabulary)
        return ops.constrain(multiply(x, rows.T), 'batch', ..., 'vocab')  # [..., V]

    @nn.nowrap
    def summed_axes(self):
        return {'table': (-1,)}  # scales of rows serve looking up and `attend` alike

    def _rows(self):
        if self.padding is None:
            return self.table
        return jax.tree.map(lambda x: x.at[self.padding].set(0), self.table)


class OneHot(nn.Module):
    """Tokens as unit vectors: the first matmul of what follows looks its rows up. No parameters."""

    vocabulary: int
    dtype: jnp.dtype = jnp.float32

    def __call__(self, tokens):
        return jax.nn.one_hot(tokens, self.vocabulary, dtype=self.dtype)  # [..., V]
