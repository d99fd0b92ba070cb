"""The training step and the evaluation step, as pure functions of (state, batch)."""

import functools

import jax
import jax.numpy as jnp
import optax

from seqjax import ops
from seqjax.params import freezing
from seqjax.tasks import Task
from seqjax.train.pair_loss import collect, deal, mean_of, pair_gradients, pair_sums, statistics_of


def make_train_step(task, optimizer, schedule, *, seed, accumulate=1, ema=0.0, axis_name=None, frozen=(),
                    merge=lambda params: params):
    """(state, batch) -> (state, sums and facts of the step).

    The gradient is that of the loss *sum*; it is divided by the weight once, after micro-batches and devices have been
    added, so that every token counts the same however the batch is cut. A loss, gradient, update or statistic that is not finite
    leaves parameters, moments, averages, statistics and carried state untouched. `axis_name` is the mapped axis under pmap.

    frozen: patterns over the paths of parameters that go past all of it, see `freezing`; the optimizer knows only the
    others. merge: what the task is given of the parameters, see `train.parameters`. A task that compares rows with one another
    is given all rows of the global batch, see `pair_loss`. `Task.prepare` comes first, before micro-batches are dealt out, with a
    key for every row of the global batch; the fingerprint is of what came in.

    Batch norms see the global batch on every mesh and under pmap. With accumulation each sees its micro-batch, whose statistics it
    normalises with, and running statistics go towards the mean of those of all micro-batches: loss and gradient are then not those
    of the whole batch. Averages (`ema`) are of parameters and of running statistics alike, which belong to them: those of now would
    be of other activations. A part of the network that is frozen keeps its statistics, and normalises with them.
    """
    split = functools.partial(freezing.split, patterns=frozen) if frozen else lambda params: (params, None)
    join = freezing.join if frozen else lambda trained, _: trained
    average_of = lambda new, old: join(optax.incremental_update(split(new)[0], split(old)[0], 1 - ema), split(old)[1])
    is_frozen = functools.partial(freezing.is_frozen, patterns=frozen) if frozen else None

    def train_step(state, batch):
        key = of_rows = jax.random.fold_in(jax.random.key(seed), state.step)
        rows = jax.tree.leaves(batch)[0].shape[0]
        first_row = jnp.uint32(0)
        if axis_name:
            first_row = jax.lax.axis_index(axis_name).astype(jnp.uint32) * jnp.uint32(rows)
            key = jax.random.fold_in(key, first_row)
        trace = fingerprint(batch, first_row)
        asked, whole = task.at(state.step), lambda trained: merge(join(trained, kept))
        batch = _prepared(asked, batch, lambda: row_keys(of_rows, first_row, rows))
        (trained, kept), (average, kept_average) = split(state.params), split(state.ema)
        hold = functools.partial(asked.holding, state.batch_stats, state.task_state, updates=True, axis_name=axis_name,
                                 frozen=is_frozen) if _holds(state) else lambda: asked
        if hasattr(task, 'represent'):
            sums, gradients, statistics = pair_gradients(hold, whole, trained, batch, key, accumulate=accumulate,
                                                         axis_name=axis_name)
            carry, trace = None, jax.lax.psum(trace, axis_name) if axis_name else trace
        else:
            run = functools.partial(_run, hold, whole)
            sums, gradients, carry, statistics = _summed_gradients(run, trained, batch, state.carry, key, accumulate)
            if axis_name:
                sums = sums.over_devices(axis_name)
                gradients, trace = jax.lax.psum((gradients, trace), axis_name)
        if axis_name:  # the same on all devices, also of a batch norm that has seen its own rows alone
            statistics = jax.lax.pmean(statistics, axis_name)
        gradients = jax.tree.map(lambda g: g / sums.weight, gradients)
        norm = optax.tree.norm(gradients)
        with jax.numpy_dtype_promotion('standard'):  # optax mixes integers and floats, and a caller may be strict
            updates, opt_state = optimizer.update(gradients, state.opt_state, trained)
            learning_rate = schedule(state.step - state.skipped)
        finite = jnp.isfinite(sums.loss / sums.weight) & jnp.isfinite(norm) & jnp.isfinite(optax.tree.norm(updates))
        new = optax.apply_updates(trained, updates)
        new_average = None if state.ema is None else optax.incremental_update(new, average, 1 - ema)
        held, old = (), ()
        if _holds(state):
            held, old = _next_held(asked, state, whole(new), statistics, sums, average_of), _held(state)
            finite &= functools.reduce(jnp.logical_and, [jnp.isfinite(x).all() for x in jax.tree.leaves(held)])
            sums = sums._replace(metrics={name: x for name, x in sums.metrics.items() if jnp.ndim(x) == 0})
        new, opt_state, new_average, carry, held = jax.tree.map(
            lambda n, o: jnp.where(finite, n, o), (new, opt_state, new_average, carry, held),
            (trained, state.opt_state, average, state.carry, old))
        facts = dict(sums=sums, gradient_norm=norm, batch=trace, learning_rate=learning_rate,
                     skipped_in_row=jnp.where(finite, 0, state.skipped_in_row + 1))
        return state.replace(step=state.step + 1, params=join(new, kept), opt_state=opt_state,
                             ema=join(new_average, kept_average), carry=carry, **(held or {}),
                             skipped=state.skipped + jnp.where(finite, 0, 1), skipped_in_row=facts['skipped_in_row']), facts

    return train_step


def make_eval_step(task, *, axis_name=None, merge=lambda params: params):
    """(state, batch) -> (carry, Sums), with the averaged parameters where there are any, and no dropout.

    merge: what the task is given of them, see `train.parameters`.
    """
    def eval_step(state, batch):
        batch = _prepared(task, batch, lambda: None)
        asked = task.holding(state.best_batch_stats, state.task_state) if _holds(state) else task
        if hasattr(task, 'represent'):
            return None, pair_sums(asked, merge(state.best_params), batch, axis_name)
        sums, (carry, _) = _run(lambda: asked, merge, state.best_params, batch, state.carry)
        return carry, sums.over_devices(axis_name) if axis_name else sums

    return eval_step


def row_keys(key, first_row, rows):
    """A key for every row of a batch: that of row b of the global batch is fold_in(key, b), whatever device has it.

    Args:
        key: of the step.
        first_row: where the first of these `rows` rows stands in the global batch.
    """
    return jax.vmap(jax.random.fold_in, (None, 0))(key, first_row + jnp.arange(rows, dtype=jnp.uint32))


def _prepared(task, batch, keys):
    """`Task.prepare` of a task that has its own, every row where it lies. keys: makes them."""
    if getattr(type(task), 'prepare', Task.prepare) is Task.prepare:
        return batch
    return jax.tree.map(lambda x: ops.constrain(x, 'batch', ...), task.prepare(batch, keys()))


def _holds(state):
    """Whether there is more to a state than parameters and what follows from them."""
    return state.batch_stats is not None or state.task_state is not None


def _held(state):
    return dict(batch_stats=state.batch_stats, ema_batch_stats=state.ema_batch_stats, task_state=state.task_state)


def _next_held(task, state, params, statistics, sums, average_of):
    """`_held` after an update. params: as the task takes them; statistics: of this step. average_of: (new, average) -> average."""
    average, kept = state.ema_batch_stats, state.task_state
    if average is not None:
        average = average_of(statistics, average)
    if kept is not None:
        kept = task.holding(statistics, kept).next_state(kept, params, sums, state.step)
    return dict(batch_stats=statistics, ema_batch_stats=average, task_state=kept)


def _run(hold, merge, params, batch, carry, key=None):
    """(Sums, (new carry, new statistics)); a task that carries nothing needs to know nothing of it. hold: makes the task."""
    params, task = merge(params), hold()
    sums, carry = (task(params, batch, key), None) if carry is None else task.carried(params, batch, carry, key)
    return sums, (carry, statistics_of(task))


def _summed_gradients(run, params, batch, carry, key, accumulate):
    """(sums of the task, gradient of the loss sum, new carry, new statistics), micro-batch by micro-batch. run: `_run` of the
    task."""
    def loss_sum(params, batch, carry, key):
        sums, rest = run(params, batch, carry, key)
        return sums.loss, (sums, rest)

    def one(batch, carry, key):
        (_, (sums, rest)), gradients = jax.value_and_grad(loss_sum, has_aux=True)(params, batch, carry, key)
        return (sums, gradients), rest

    if accumulate == 1:
        (sums, gradients), (carry, statistics) = one(batch, carry, key)
        return sums, gradients, carry, statistics
    dealt = (*deal((batch, carry), accumulate), jax.random.split(key, accumulate))
    totals, _ = jax.eval_shape(one, *jax.tree.map(lambda x: x[0], dealt))

    def add(total, now):
        added, rest = one(*now)
        return jax.tree.map(jnp.add, total, added), rest

    (sums, gradients), (carry, statistics) = jax.lax.scan(add, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), totals), dealt)
    return sums, gradients, collect(carry), mean_of(statistics)


def fingerprint(batch, first_row):
    """64 bits that name a batch: a sum of hashes of (place, value), so the same for any split over devices.

    Computed on the device from the very arrays that are trained on. batch: arrays [B, ...]; first_row: where the first
    of these rows stands in the global batch. Returns [2] of uint32.
    """
    total = jnp.zeros(2, jnp.uint32)
    for leaf, x in enumerate(jax.tree.leaves(batch)):
        x = x.reshape(x.shape[0], -1)
        bits = jax.lax.bitcast_convert_type(x, jnp.uint32) if x.dtype.itemsize == 4 else x.astype(jnp.uint32)
        row = first_row + jnp.arange(x.shape[0], dtype=jnp.uint32)
        place = _mix(row + jnp.uint32(leaf << 28))[:, None] ^ jnp.arange(x.shape[1], dtype=jnp.uint32)
        hashed = _mix(bits + _mix(place))
        total += jnp.stack([hashed.sum(), _mix(hashed ^ jnp.uint32(0x9E3779B9)).sum()])
    return total


def _mix(x):
    """The finaliser of MurmurHash3: every bit of the input moves half of the output's."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
