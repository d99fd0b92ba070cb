"""The two layers that own most parameters: a linear map between any axes, and an embedding table.

Every parameter says the logical names of its axes; `seqjax.parallel` maps the names to a mesh.
"""

from collections.abc import Sequence

from flax import linen as nn
import jax
import jax.numpy as jnp

partitioned = nn.with_logical_partitioning


class Projection(nn.Module):
    """y = x W + b over the last axes of x: `Projection((H, K), ...)` maps [..., D] to [..., H, K].

    features: the axes made. axes: logical names of the kernel's axes, contracted ones first; `contract` is how many.
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
        kernel = self.param('kernel', partitioned(self.kernel_init, tuple(self.axes)), shape)
        y = jnp.tensordot(x.astype(self.dtype), kernel.astype(self.dtype), axes=self.contract)
        if self.bias:
            names = tuple(self.axes[self.contract:])
            y += self.param('bias', partitioned(nn.initializers.zeros, names), tuple(self.features)).astype(self.dtype)
        return y


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
        self.table = self.param('table', partitioned(self.table_init, ('vocab', 'embed')), (self.vocabulary, self.features))

    def __call__(self, tokens):
        return jnp.take(self._rows(), tokens, axis=0)  # [..., D]

    def attend(self, x):
        return x.astype(self.dtype) @ self._rows().T  # [..., V]

    def _rows(self):
        rows = self.table.astype(self.dtype)
        return rows if self.padding is None else rows.at[self.padding].set(0)


class OneHot(nn.Module):
    """Tokens as unit vectors: the first matmul of what follows looks its rows up. No parameters."""

    vocabulary: int
    dtype: jnp.dtype = jnp.float32

    def __call__(self, tokens):
        return jax.nn.one_hot(tokens, self.vocabulary, dtype=self.dtype)  # [..., V]
