"""Batch normalisation with running statistics, linen's collection 'batch_stats'."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.projection import partitioned


class BatchNorm(nn.Module):
    """y = gamma (x - mean) / sqrt(variance + epsilon) + beta, of every channel; x, y: [B, ..., C].

    In training mean and variance are those of the global batch, on any mesh and under pmap, and the running ones go towards them:

        running mean     <- momentum * running mean     + (1 - momentum) * mean
        running variance <- momentum * running variance + (1 - momentum) * variance * n / (n - 1)

    n: the numbers of a channel in the batch. As in the paper (algorithm 2, line 10) and in torch the running variance is that of the
    population; flax's is that of the batch. In evaluation the running ones take their place. With gradient accumulation a batch is a
    micro-batch: see `train.make_train_step`.

    Args:
        momentum: of the running statistics; torch's momentum=0.1 is 0.9 here.
        axis: the logical name of the channels.
        scale_init: of gamma; zeros in the last norm of a residual branch make the block begin as the identity.

    Reference: Ioffe and Szegedy 2015, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift".
    """

    momentum: float = 0.9
    epsilon: float = 1e-5
    axis: str | None = 'embed'
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        C = x.shape[-1]
        scale = self.param('scale', partitioned(self.scale_init, (self.axis,)), (C,))
        bias = self.param('bias', partitioned(nn.initializers.zeros, (self.axis,)), (C,))
        running_mean = self.variable('batch_stats', 'mean', jnp.zeros, (C,))
        running_variance = self.variable('batch_stats', 'var', jnp.ones, (C,))
        x = x.astype(self.dtype)
        if not train or self.is_initializing():
            return ops.batch_norm(x, running_mean.value, running_variance.value, scale, bias, self.epsilon)
        mean, variance, n = ops.batch_statistics(x)
        if self.is_mutable_collection('batch_stats'):
            unbiased = variance * (n / max(n - 1, 1))
            running_mean.value = ops.update_running(running_mean.value, mean, self.momentum)
            running_variance.value = ops.update_running(running_variance.value, unbiased, self.momentum)
        return ops.batch_norm(x, mean, variance, scale, bias, self.epsilon)
