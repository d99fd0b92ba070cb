"""How a step runs on many devices: `jit` over a sharded mesh, or `pmap` with a copy of the state on every device.

Both take the same pure functions and give the same numbers. A state has one canonical form, the sharded arrays that
checkpoints hold; `enter` and `leave` translate between it and the form a strategy computes with.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import numpy as np

from seqjax.errors import FieldError, suggestion
from seqjax.parallel import rules
from seqjax.parallel.mesh import make_mesh


class Program(NamedTuple):
    """A compiled function and, where the strategy shows it, its jaxpr: what it computes, to be counted."""

    run: Callable
    jaxpr: Any = None

    def __call__(self, state, batch):
        return self.run(state, batch)


class _Strategy:
    """What both have in common: a mesh, and a line that describes it."""

    def __init__(self, mesh):
        self.mesh = mesh

    def __str__(self):
        axes = ' x '.join(f'{axis}={size}' for axis, size in self.mesh.shape.items())
        return f'{self.mesh.size} device{"s" * (self.mesh.size > 1)} ({type(self).__name__.lower()}, {axes})'


class Jit(_Strategy):
    """One program over the whole mesh; XLA inserts the communication that the shardings ask for."""

    axis_name = None

    def placed(self, abstract, boxed):
        """The ShapeDtypeStructs of a canonical state, each with its sharding. boxed: the parameters, their axes named."""
        return rules.placed(abstract, rules.parameter_shardings(boxed, self.mesh), self.mesh)

    def enter(self, state):
        return state

    def leave(self, state):
        return state

    def place(self, batch):
        """This process's rows as part of the global batch on the mesh."""
        sharding = rules.over_batch(self.mesh)
        return jax.tree.map(lambda rows: jax.make_array_from_process_local_data(sharding, rows), batch)

    def compile(self, function, state, batch, *, updates_state):
        """Compiles function(state, batch) for these placed arguments.

        It returns (state, sums) where it updates the state, whose memory it then reuses, and else (state.carry, sums).
        """
        layout = jax.tree.map(lambda x: x.sharding, state if updates_state else state.carry)
        jitted = jax.jit(function, out_shardings=(layout, rules.replicated(self.mesh)),
                         donate_argnums=(0,) if updates_state else ())
        with rules.use_mesh(self.mesh):
            traced = jitted.trace(state, batch)
        return Program(traced.lower().compile(), traced.jaxpr)

    def read(self, sums):
        """Numbers of the host from what a compiled function returned."""
        return jax.device_get(sums)


class Pmap(_Strategy):
    """Data parallel, the classic way: every device holds the whole state and its share of the rows."""

    axis_name = 'devices'

    def __init__(self, mesh):
        if mesh.shape['fsdp'] * mesh.shape['tensor'] != 1:
            raise FieldError('parallel.strategy', 'pmap', "is data parallel only; set fsdp=1 and tensor=1, or use 'jit'")
        super().__init__(mesh)

    def placed(self, abstract, boxed):
        return rules.placed(abstract, {}, self.mesh)  # a copy everywhere, whatever the parameter

    def enter(self, state):
        shares = len(self._local_devices())

        def stack(path, x):
            if rules.has_rows(path):
                return _local_rows(x).reshape(shares, -1, *x.shape[1:])
            return np.broadcast_to(_local(x), (shares, *x.shape))

        return self._stacked(jax.tree_util.tree_map_with_path(stack, state))

    def leave(self, state):
        def unstack(path, x):
            if rules.has_rows(path):
                rows = _local_rows(x)
                return jax.make_array_from_process_local_data(rules.over_batch(self.mesh), rows.reshape(-1, *x.shape[2:]),
                                                              (x.shape[0] * x.shape[1], *x.shape[2:]))
            return jax.make_array_from_process_local_data(rules.replicated(self.mesh), _local(x)[0], x.shape[1:])

        return jax.tree_util.tree_map_with_path(unstack, state)

    def place(self, batch):
        shares = len(self._local_devices())
        return self._stacked(jax.tree.map(lambda rows: rows.reshape(shares, -1, *rows.shape[1:]), batch))

    def compile(self, function, state, batch, *, updates_state):
        mapped = jax.pmap(function, axis_name=self.axis_name, devices=list(self.mesh.devices.flat),
                          donate_argnums=(0,) if updates_state else ())
        return Program(mapped.lower(state, batch).compile())

    def read(self, sums):
        return jax.tree.map(lambda x: _local(x)[0], sums)

    def _local_devices(self):
        return [device for device in self.mesh.devices.flat if device.process_index == jax.process_index()]

    def _stacked(self, tree):
        """From arrays whose first axis is this process's devices, global ones with a row on every device."""
        sharding = NamedSharding(Mesh(self.mesh.devices.ravel(), ('devices',)), PartitionSpec('devices'))
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, np.ascontiguousarray(x)), tree)


STRATEGIES = {'jit': Jit, 'pmap': Pmap}


def make_strategy(strategy, **mesh_sizes):
    """The strategy of that name over a mesh of all devices."""
    if strategy not in STRATEGIES:
        raise FieldError('parallel.strategy', strategy, suggestion(strategy, STRATEGIES))
    return STRATEGIES[strategy](make_mesh(**mesh_sizes))


def barrier(name):
    """Waits until every process is here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def _local_rows(x):
    """All rows on this process of an array that is cut along its first axis, as numpy."""
    shards = sorted(x.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([np.asarray(shard.data) for shard in shards])


def _local(x):
    """The first shard on this process, as numpy."""
    return np.asarray(x.addressable_shards[0].data)
