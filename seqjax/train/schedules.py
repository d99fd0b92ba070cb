"""Learning-rate schedules: a warm-up, then a shape."""

import jax.numpy as jnp
import optax

from seqjax.errors import FieldError, suggestion

SCHEDULES = ('constant', 'linear', 'cosine', 'noam')


def make_schedule(name, learning_rate, *, steps, warmup_steps=0, final_rate=0.0, width=None):
    """The learning rate of update n = 0, 1, ..., as optax calls it.

    constant, linear, cosine: rises in a line to `learning_rate` over `warmup_steps`, then stays, or falls to
    `final_rate * learning_rate` at `steps`.
    noam: see `noam`; `learning_rate` is a factor, 1 in the paper.
    """
    if name not in SCHEDULES:
        raise FieldError('schedule', name, f'no such schedule; {suggestion(name, SCHEDULES)}')
    if name == 'noam':
        return noam(width, warmup_steps, learning_rate)
    if warmup_steps >= steps and name != 'constant':
        raise FieldError('warmup_steps', warmup_steps, f'must be less than train.steps={steps}')
    fall = steps - warmup_steps
    after = {'constant': lambda: optax.constant_schedule(learning_rate),
             'linear': lambda: optax.linear_schedule(learning_rate, final_rate * learning_rate, fall),
             'cosine': lambda: optax.cosine_decay_schedule(learning_rate, fall, alpha=final_rate)}[name]()
    if not warmup_steps:
        return after
    # From 1/(w+1) rather than 0: an update with a rate of 0 would be a step thrown away.
    warmup = optax.linear_schedule(learning_rate / (warmup_steps + 1), learning_rate, warmup_steps)
    return optax.join_schedules([warmup, after], [warmup_steps])


def noam(width, warmup_steps, factor=1.0):
    """factor * D^-0.5 * min(step^-0.5, step * warmup^-1.5), step = 1, 2, ...  Vaswani et al. 2017, equation 3."""
    if warmup_steps < 1:
        raise FieldError('warmup_steps', warmup_steps, "the 'noam' schedule needs at least 1")

    def schedule(n):
        step = jnp.asarray(n + 1, jnp.float32)
        return factor * width ** -0.5 * jnp.minimum(step ** -0.5, step * warmup_steps ** -1.5)

    return schedule
