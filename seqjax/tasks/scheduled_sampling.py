"""Scheduled sampling: a decoder that reads the truth at first, and more and more of what it would say itself.

Bengio et al. 2015. Taught by the truth alone, a model never sees a mistake of its own, and when it writes it must live with
them. Here a run over the target writes down what the decoder reads, token by token; then the ordinary loss is computed from
that. No gradient goes through a drawn token, so this is the paper's loss, but for dropout, which is off while tokens are drawn.
"""

import dataclasses

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion

SCHEDULES = {
    'linear': lambda i, k: 1 - i / k,
    'exponential': lambda i, k: jnp.exp(-i / k),
    'inverse_sigmoid': lambda i, k: k / (k + jnp.exp(i / k)),
}


@dataclasses.dataclass(frozen=True)
class Teacher:
    """p(i), the probability with which the decoder reads the truth at step i of training: falls from 1 to `floor`.

        'always'            1                      'exponential'       exp(-i / steps)
        'linear'            1 - i / steps          'inverse_sigmoid'   steps / (steps + exp(i / steps))
    """

    schedule: str = 'always'
    steps: int = 1000
    floor: float = 0.0

    def __post_init__(self):
        known = ('always', *SCHEDULES)
        if self.schedule not in known:
            raise FieldError('teacher_forcing', self.schedule, f'no such schedule; {suggestion(self.schedule, known)}')
        if self.steps < 1:
            raise FieldError('teacher_forcing_steps', self.steps, 'must be at least 1')
        if not 0 <= self.floor <= 1:
            raise FieldError('teacher_forcing_floor', self.floor, 'must be at least 0 and at most 1')

    def __call__(self, step):
        """p at a step."""
        if self.schedule == 'always':
            return jnp.float32(1)
        p = SCHEDULES[self.schedule](jnp.asarray(step, jnp.float32), jnp.float32(self.steps))
        return jnp.maximum(p, jnp.float32(self.floor))


def mixed_inputs(model, params, batch, p, key, start):
    """[B, T]: what the decoder reads. Token t + 1 is target t with probability p, otherwise one that the model draws.

    batch: inputs [B, S] with lengths [B], or images, and targets [B, T]. start: the first token.
    """
    params, (B, T) = jax.lax.stop_gradient(params), batch['targets'].shape
    variables = {'params': params}
    if hasattr(model, 'batch_stats'):  # they stay as they are here, and are updated by the loss itself
        variables['batch_stats'] = model.batch_stats
    apply = lambda *arguments, method: model.apply(variables, *arguments, method=method)
    memory, state = apply(batch['inputs'], batch.get('lengths'), T, method='begin')

    def advance(carry, now):
        state, token = carry
        target, key = now
        state, logits = apply(memory, state, token, method='step')
        coin, draw = jax.random.split(key)
        drawn = jax.random.categorical(draw, logits.astype(jnp.float32)).astype(jnp.int32)
        return (state, jnp.where(jax.random.uniform(coin, (B,)) < p, target, drawn)), token

    first = jnp.full(B, start, jnp.int32)
    _, tokens = jax.lax.scan(advance, (state, first), (batch['targets'].T, jax.random.split(key, T)))
    return tokens.T
