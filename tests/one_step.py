"""A step of training of a task on any mesh, with its gradient as the change of the parameters: SGD at rate 1."""

import jax
import jax.numpy as jnp
import optax

from seqjax import parallel, train
from seqjax.train.step import make_eval_step, make_train_step

SEED = 3
CUTS = {'accumulate=4': dict(accumulate=4), 'jit data=8': dict(data=8), 'jit fsdp=8': dict(fsdp=8), 'pmap data=8': dict(strategy='pmap', data=8),
        'jit data=4, accumulate=4': dict(data=4, accumulate=4), 'pmap data=4, accumulate=4': dict(strategy='pmap', data=4, accumulate=4)}


def one_step(task, batch, *, strategy='jit', accumulate=1, data=1, fsdp=1):
    """(state before, state after a step of SGD at rate 1, facts of the step, Sums of an evaluation before it)."""
    strategy, optimizer = parallel.make_strategy(strategy, data=data, fsdp=fsdp), optax.sgd(1.0)
    state = train.create_state(task, optimizer, jax.random.key(1), batch)
    before = jax.device_get(state)
    state = strategy.enter(jax.device_put(jax.tree.map(jnp.copy, state), parallel.replicated(strategy.mesh)))
    placed = strategy.place(batch)
    step = make_train_step(task, optimizer, optax.constant_schedule(1.0), seed=SEED, accumulate=accumulate, axis_name=strategy.axis_name)
    evaluate = make_eval_step(task, axis_name=strategy.axis_name)
    evaluated = strategy.compile(evaluate, state, placed, updates_state=False)(state, placed)[1]
    state, facts = strategy.compile(step, state, placed, updates_state=True)(state, placed)
    return before, jax.device_get(strategy.leave(state)), strategy.read(facts), strategy.read(evaluated)


def row_keys(rows):
    """The keys of the rows of the first step."""
    of_step = jax.random.fold_in(jax.random.key(SEED), 0)
    return jax.vmap(lambda b: jax.random.fold_in(of_step, b))(jnp.arange(rows, dtype=jnp.uint32))
