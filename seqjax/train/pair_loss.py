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

from seqjax import models
from seqjax.tasks import Sums, Task


def deal(tree: Any, count: int) -> Any:
    """Arrays [B, ...] as [count, B / count, ...], micro-batches. Rows are dealt out like cards: a device that holds consecutive
    rows has some of every micro-batch."""
    return jax.tree.map(lambda x: x.reshape(-1, count, *x.shape[1:]).swapaxes(0, 1), tree)


def collect(tree: Any) -> Any:
    """The rows that were dealt out, in their order."""
    return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), tree)


def mean_of(statistics: Any) -> Any:
    """Of running statistics as each micro-batch has updated them, [count, ...], the mean."""
    return jax.tree.map(lambda x: x.mean(axis=0), statistics)


def statistics_of(task: Task) -> Any:
    """The running statistics of a task's model as they were last updated, or None."""
    model = getattr(task, 'model', None)
    return model.batch_stats if isinstance(model, models.WithStatistics) else None


def pair_sums(task: Task, params: Any, batch: dict, axis_name: str | None = None) -> Sums:
    """Sums over the global batch, without dropout. axis_name: the mapped axis whose devices hold rows each."""
    outputs = task.represent(params, batch, None)
    return task.pair_loss(params, *_gathered((outputs, batch), axis_name))


def pair_gradients(hold: Callable[[], Task], merge: Callable, params: Any, batch: dict, key: jax.Array, *, accumulate: int = 1,
                   axis_name: str | None = None) -> tuple[Sums, Any, Any]:
    """(Sums over the global batch, gradient of the loss sum, new running statistics or None).

    hold: makes the task, with the running statistics of before. merge: what it is given of `params`.
    """
    def represent(params, batch, key):
        task = hold()
        return task.represent(merge(params), batch, key), statistics_of(task)

    def loss_sum(params, outputs):
        sums = hold().pair_loss(merge(params), outputs, everything)
        return sums.loss, sums

    if accumulate == 1:
        outputs, back, statistics = jax.vjp(lambda params: represent(params, batch, key), params, has_aux=True)
    else:
        dealt = deal(batch, accumulate), jax.random.split(key, accumulate)
        outputs, statistics = jax.lax.map(lambda now: represent(params, *now), dealt)
        outputs, statistics = collect(outputs), mean_of(statistics)
    everyones, everything = _gathered((outputs, batch), axis_name)
    (_, sums), (direct, cotangents) = jax.value_and_grad(loss_sum, argnums=(0, 1), has_aux=True)(params, everyones)
    cotangents = _own_rows(cotangents, axis_name)
    if accumulate == 1:
        gradients, = back(cotangents)
    else:
        def add(total, now):
            batch, key, cotangents = now
            _, back, _ = jax.vjp(lambda params: represent(params, batch, key), params, has_aux=True)
            return jax.tree.map(jnp.add, total, *back(cotangents)), None

        gradients, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), (*dealt, deal(cotangents, accumulate)))
    if axis_name:
        gradients = jax.lax.psum(gradients, axis_name)
    return sums, jax.tree.map(jnp.add, direct, gradients), statistics


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
