"""The training step and the evaluation step, as pure functions of (state, batch)."""

import functools

import jax
import jax.numpy as jnp
import optax

from seqjax.params import freezing
from seqjax.train.pair_loss import collect, deal, pair_gradients, pair_sums


def make_train_step(task, optimizer, schedule, *, seed, accumulate=1, ema=0.0, axis_name=None, frozen=(),
                    merge=lambda params: params):
    """(state, batch) -> (state, sums and facts of the step).

    The gradient is that of the loss *sum*; it is divided by the weight once, after micro-batches and devices have been
    added, so that every token counts the same however the batch is cut. A loss, gradient or update that is not finite
    leaves parameters, moments, average and carried state untouched. `axis_name` is the mapped axis under pmap.

    frozen: patterns over the paths of parameters that go past all of it, see `freezing`; the optimizer knows only the
    others. merge: what the task is given of the parameters, see `train.parameters`. A task that compares rows with one another
    is given all rows of the global batch, see `pair_loss`.
    """
    join = freezing.join if frozen else lambda trained, _: trained

    def train_step(state, batch):
        key = jax.random.fold_in(jax.random.key(seed), state.step)
        rows = jax.tree.leaves(batch)[0].shape[0]
        first_row = jnp.uint32(0)
        if axis_name:
            first_row = jax.lax.axis_index(axis_name).astype(jnp.uint32) * jnp.uint32(rows)
            key = jax.random.fold_in(key, first_row)
        trained, kept = freezing.split(state.params, frozen)
        average, kept_average = freezing.split(state.ema, frozen)
        asked, whole = task.at(state.step), lambda trained: merge(join(trained, kept))
        if hasattr(task, 'represent'):
            sums, gradients = pair_gradients(asked, whole, trained, batch, key, accumulate=accumulate, axis_name=axis_name)
            carry, trace = None, fingerprint(batch, first_row)
            trace = jax.lax.psum(trace, axis_name) if axis_name else trace
        else:
            run = functools.partial(_run, asked, whole)
            sums, gradients, carry = _summed_gradients(run, trained, batch, state.carry, key, accumulate)
            trace = fingerprint(batch, first_row)
            if axis_name:
                sums = sums.over_devices(axis_name)
                gradients, trace = jax.lax.psum((gradients, trace), axis_name)
        gradients = jax.tree.map(lambda g: g / sums.weight, gradients)
        norm = optax.tree.norm(gradients)
        with jax.numpy_dtype_promotion('standard'):  # optax mixes integers and floats, and a caller may be strict
            updates, opt_state = optimizer.update(gradients, state.opt_state, trained)
            learning_rate = schedule(state.step - state.skipped)
        finite = jnp.isfinite(sums.loss / sums.weight) & jnp.isfinite(norm) & jnp.isfinite(optax.tree.norm(updates))
        new = optax.apply_updates(trained, updates)
        new_average = None if state.ema is None else optax.incremental_update(new, average, 1 - ema)
        new, opt_state, new_average, carry = jax.tree.map(
            lambda n, o: jnp.where(finite, n, o), (new, opt_state, new_average, carry),
            (trained, state.opt_state, average, state.carry))
        facts = dict(sums=sums, gradient_norm=norm, batch=trace, learning_rate=learning_rate,
                     skipped_in_row=jnp.where(finite, 0, state.skipped_in_row + 1))
        return state.replace(step=state.step + 1, params=join(new, kept), opt_state=opt_state,
                             ema=join(new_average, kept_average), carry=carry,
                             skipped=state.skipped + jnp.where(finite, 0, 1), skipped_in_row=facts['skipped_in_row']), facts

    return train_step


def make_eval_step(task, *, axis_name=None, merge=lambda params: params):
    """(state, batch) -> (carry, Sums), with the averaged parameters where there are any, and no dropout.

    merge: what the task is given of them, see `train.parameters`.
    """
    def eval_step(state, batch):
        if hasattr(task, 'represent'):
            return None, pair_sums(task, merge(state.best_params), batch, axis_name)
        sums, carry = _run(task, merge, state.best_params, batch, state.carry)
        return carry, sums.over_devices(axis_name) if axis_name else sums

    return eval_step


def _run(task, merge, params, batch, carry, key=None):
    """(Sums, new carry); a task that carries nothing needs to know nothing of it."""
    params = merge(params)
    return (task(params, batch, key), None) if carry is None else task.carried(params, batch, carry, key)


def _summed_gradients(run, params, batch, carry, key, accumulate):
    """(sums of the task, gradient of the loss sum, new carry), micro-batch by micro-batch. run: `_run` of the task."""
    def loss_sum(params, batch, carry, key):
        sums, carry = run(params, batch, carry, key)
        return sums.loss, (sums, carry)

    def one(batch, carry, key):
        (_, (sums, carry)), gradients = jax.value_and_grad(loss_sum, has_aux=True)(params, batch, carry, key)
        return (sums, gradients), carry

    if accumulate == 1:
        (sums, gradients), carry = one(batch, carry, key)
        return sums, gradients, carry
    dealt = (*deal((batch, carry), accumulate), jax.random.split(key, accumulate))
    totals, _ = jax.eval_shape(one, *jax.tree.map(lambda x: x[0], dealt))

    def add(total, now):
        added, carry = one(*now)
        return jax.tree.map(jnp.add, total, added), carry

    (sums, gradients), carry = jax.lax.scan(add, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), totals), dealt)
    return sums, gradients, collect(carry)


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
