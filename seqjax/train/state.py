"""All that changes while training, as one pytree. Randomness and data are functions of (seed, step), so not in it."""

import functools
from typing import Any

from flax import struct
import jax
import jax.numpy as jnp

from seqjax.params import freezing
from seqjax.tasks import Task


@struct.dataclass
class TrainState:
    """step counts batches consumed; skipped counts those whose update was refused because it was not finite."""

    step: jax.Array
    params: Any
    opt_state: Any
    ema: Any  # running average of the parameters, or None
    skipped: jax.Array
    skipped_in_row: jax.Array
    carry: Any = None  # what a recurrent model remembers of each row of the batch before, [B, ...], or None
    batch_stats: Any = None  # running statistics of batch norms, linen's collection of that name, or None
    ema_batch_stats: Any = None  # their average beside that of the parameters, or None
    task_state: Any = None  # what the task keeps, see `tasks.Task.initial_state`, or None

    @property
    def best_params(self):
        """What evaluation and generation use: the average where there is one."""
        return self.params if self.ema is None else self.ema

    @property
    def best_batch_stats(self):
        """The statistics that go with them."""
        return self.batch_stats if self.ema_batch_stats is None else self.ema_batch_stats


def create_state(task, optimizer, key, batch, *, ema=False, carried_rows=0, parameters=None, taken=None):
    """The state before the first step. carried_rows: rows of a batch whose recurrent state goes on to the next; 0: none.

    parameters: a `train.parameters.Parameters`, where some are frozen or adapted; taken: {path: array} of those that
    another run has learned.
    """
    first = functools.partial(first_state, task, optimizer, ema=ema, carried_rows=carried_rows)
    if parameters:
        return first(parameters.create(key, taken), parameters.create_statistics(key, taken), frozen=parameters.frozen,
                     merge=parameters.merge)
    if getattr(type(task), 'plain_init', None) is not Task.plain_init:  # it makes them itself
        return first(task.plain_init(key, batch))
    variables = task.plain_variables(key, batch)
    return first(variables['params'], variables.get('batch_stats'))


def first_state(task, optimizer, params, batch_stats=None, *, ema=False, carried_rows=0, frozen=(), merge=lambda params: params):
    """The same of parameters and running statistics that are there. frozen: patterns over the paths of those that are not
    trained; merge: what the task is given of the parameters."""
    trained = freezing.split(params, frozen)[0] if frozen else params
    zero, copy = jnp.zeros((), jnp.int32), functools.partial(jax.tree.map, jnp.copy)  # what is donated must not be there twice
    keeps = getattr(type(task), 'initial_state', Task.initial_state) is not Task.initial_state
    return TrainState(step=zero, params=params, opt_state=optimizer.init(trained),
                      ema=copy(params) if ema else None, skipped=zero, skipped_in_row=zero,
                      carry=task.initial_carry(carried_rows) if carried_rows else None, batch_stats=batch_stats,
                      ema_batch_stats=copy(batch_stats) if ema else None,
                      task_state=copy(task.holding(batch_stats).initial_state(merge(params))) if keeps else None)
