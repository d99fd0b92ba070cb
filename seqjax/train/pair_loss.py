"""Losses over pairs of rows see the whole global batch, also where devices or micro-batches have some of its rows each.

    h_b = f(row b; theta)                                        `Task.represent`, b = 1 ... B
    L(theta, h_1 ... h_B)                                        `Task.pair_loss`
    dL/dtheta = dL/dtheta|h  +  sum_b (dL/dh_b) (dh_b/dtheta)

All h are computed first, without what a backward pass needs; then dL/dh; and then the sum over b, of one micro-batch after
another, each of which is computed again with the same dropout key: GradCache, of Gao et al. 2021, "Scaling Deep Contrastive
Learning Batch Size under Memory Limited Setup". Under pmap the h of all devices are gathered, and their sums added.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from seqjax.tasks import Sums, Task


def deal(tree: Any, count: int) -> Any:
    """Arrays [B, ...] as [count, B / count, ...], micro-batches. Rows are dealt out like cards: a device that holds consecutive
    rows has some of every micro-batch."""
    return jax.tree.map(lambda x: x.reshape(-1, count, *x.shape[1:]).swapaxes(0, 1), tree)


def collect(tree: Any) -> Any:
    """The rows that were dealt out, in their order."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)


def pair_sums(task: Task, params: Any, batch: dict, axis_name: str | None = None) -> Sums:
    """Sums over the global batch, without dropout. axis_name: the mapped axis whose devices hold rows each."""
    outputs = task.represent(params, batch, None)
    return task.pair_loss(params, *_gathered((outputs, batch), axis_name))


def pair_gradients(task: Task, merge: Callable, params: Any, batch: dict, key: jax.Array, *, accumulate: int = 1,
                   axis_name: str | None = None) -> tuple[Sums, Any]:
    """(Sums over the global batch, gradient of the loss sum). merge: what the task is given of `params`."""
    represent = lambda params, batch, key: task.represent(merge(params), batch, key)

    def loss_sum(params, outputs):
        sums = task.pair_loss(merge(params), outputs, everything)
        return sums.loss, sums

    if accumulate == 1:
        outputs, back = jax.vjp(lambda params: represent(params, batch, key), params)
    else:
        dealt = deal(batch, accumulate), jax.random.split(key, accumulate)
        outputs = collect(jax.lax.map(lambda now: represent(params, *now), dealt))
    everyones, everything = _gathered((outputs, batch), axis_name)
    (_, sums), (direct, cotangents) = jax.value_and_grad(loss_sum, argnums=(0, 1), has_aux=True)(params, everyones)
    cotangents = _own_rows(cotangents, axis_name)
    if accumulate == 1:
        gradients, = back(cotangents)
    else:
        def add(total, now):
            batch, key, cotangents = now
            _, back = jax.vjp(lambda params: represent(params, batch, key), params)
            return jax.tree.map(jnp.add, total, *back(cotangents)), None

        gradients, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (*dealt, deal(cotangents, accumulate)))
    if axis_name:
        gradients = jax.lax.psum(gradients, axis_name)
    return sums, jax.tree.map(jnp.add, direct, gradients)


def _gathered(tree, axis_name):
    """The rows of all devices of a mapped axis, on each of them."""
    return jax.lax.all_gather(tree, axis_name, tiled=True) if axis_name else tree


def _own_rows(tree, axis_name):
    """Of arrays that have the rows of all devices, those of this one."""
    if not axis_name:
        return tree

    def own(x):
        rows = x.shape[0] // jax.lax.axis_size(axis_name)
        return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index(axis_name) * rows, rows)

    return jax.tree.map(own, tree)
