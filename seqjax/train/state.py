"""All that changes while training, as one pytree. Randomness and data are functions of (seed, step), so not in it."""

from typing import Any

from flax import struct
import jax
import jax.numpy as jnp

from seqjax.params import freezing


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

    @property
    def best_params(self):
        """What evaluation and generation use: the average where there is one."""
        return self.params if self.ema is None else self.ema


def create_state(task, optimizer, key, batch, *, ema=False, carried_rows=0, parameters=None, taken=None):
    """The state before the first step. carried_rows: rows of a batch whose recurrent state goes on to the next; 0: none.

    parameters: a `train.parameters.Parameters`, where some are frozen or adapted; taken: {path: array} of those that
    another run has learned.
    """
    params = parameters.create(key, taken) if parameters else task.plain_init(key, batch)
    return first_state(task, optimizer, params, ema=ema, carried_rows=carried_rows,
                       frozen=parameters.frozen if parameters else ())


def first_state(task, optimizer, params, *, ema=False, carried_rows=0, frozen=()):
    """The same of parameters that are there. frozen: patterns over the paths of those that are not trained."""
    trained, _ = freezing.split(params, frozen)
    zero = jnp.zeros((), jnp.int32)
    return TrainState(step=zero, params=params, opt_state=optimizer.init(trained),
                      ema=jax.tree.map(jnp.copy, params) if ema else None, skipped=zero, skipped_in_row=zero,
                      carry=task.initial_carry(carried_rows) if carried_rows else None)
