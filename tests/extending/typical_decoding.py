"""A decoding method from outside: locally typical sampling (Meister et al. 2023).

    H = -sum_v p_v log p_v,   drawn from the tokens with the smallest |-log p_v - H| that together have probability >= mass

    python launch.py --config=tests/extending/typical_decoding.py --workdir=runs/typical
    python launch.py --config=tests/extending/typical_decoding.py --workdir=runs/typical --mode=generate --config.decode.samples=3
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from seqjax import config as configs
from seqjax import decode


@decode.METHODS.register('typical')
@dataclasses.dataclass(frozen=True)
class Typical:
    """Locally typical sampling. temperature: of the draw, config.decode.temperature."""

    temperature: float = 1.0
    mass: float = 0.9

    draws: ClassVar[bool] = True  # it needs a key

    def choose(self, key: jax.Array, log_probs: jax.Array) -> jax.Array:
        """log P [V] -> a token."""
        p = jnp.exp(log_probs)
        entropy = -jnp.where(p > 0, p * log_probs, 0).sum()
        order = jnp.argsort(jnp.abs(-log_probs - entropy))
        before = jnp.cumsum(p[order]) - p[order]
        kept = jnp.full_like(log_probs, -jnp.inf).at[order].set(jnp.where(before < self.mass, log_probs[order], -jnp.inf))
        return jax.random.categorical(key, kept / self.temperature).astype(jnp.int32)

    def solve(self, problem: decode.Problem) -> decode.Hypotheses:
        return decode.token_by_token(problem, self.choose)


def get_config():
    config = configs.defaults('recurrent')
    config.model.width = 8
    config.data.sequence_length = 16
    config.train.update(steps=4, eval_every=2, eval_batches=2, save_every=4)
    config.optimizer.warmup_steps = 1
    config.decode.update(method='typical', prompt='def ', max_new_tokens=12, temperature=0.7)
    return config
