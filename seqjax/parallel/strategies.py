"""How a step runs on many devices: `jit` over a sharded mesh, or `pmap` with a copy of the state on every device.

Both take the same pure functions and give the same numbers. A state has one canonical form, the sharded arrays that
checkpoints hold; `enter` and `leave` translate between it and the form a strategy computes with.
"""

import jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import numpy as np

from seqjax.errors import FieldError, suggestion
from seqjax.parallel import rules
from seqjax.parallel.mesh import make_mesh


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

    def state_layout(self, abstract_state, boxed_params):
        """The shardings of the canonical state."""
        return rules.state_shardings(abstract_state, rules.parameter_shardings(boxed_params, self.mesh), self.mesh)

    def enter(self, state):
        return state

    def leave(self, state):
        return state

    def place(self, batch):
        """This process's rows as part of the global batch on the mesh."""
        sharding = rules.over_batch(self.mesh)
        return jax.tree.map(lambda rows: jax.make_array_from_process_local_data(sharding, rows), batch)

    def compile(self, function, state, batch, *, updates_state):
        """Compiles function(state, batch) for these placed arguments; a function that updates the state reuses its memory."""
        layout = jax.tree.map(lambda x: x.sharding, state)
        everywhere = rules.replicated(self.mesh)
        jitted = jax.jit(function, out_shardings=(layout, everywhere) if updates_state else everywhere,
                         donate_argnums=(0,) if updates_state else ())
        return jitted.lower(state, batch).compile()

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

    def state_layout(self, abstract_state, boxed_params):
        del boxed_params  # a copy everywhere, whatever the parameter
        return jax.tree.map(lambda _: rules.replicated(self.mesh), abstract_state)

    def enter(self, state):
        copies = len(self._local_devices())
        return self._stacked(jax.tree.map(lambda x: np.broadcast_to(_local(x), (copies, *x.shape)), state))

    def leave(self, state):
        everywhere = rules.replicated(self.mesh)
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(everywhere, _local(x)[0], x.shape[1:]), state)

    def place(self, batch):
        shares = len(self._local_devices())
        return self._stacked(jax.tree.map(lambda rows: rows.reshape(shares, -1, *rows.shape[1:]), batch))

    def compile(self, function, state, batch, *, updates_state):
        mapped = jax.pmap(function, axis_name=self.axis_name, devices=list(self.mesh.devices.flat),
                          donate_argnums=(0,) if updates_state else ())
        return mapped.lower(state, batch).compile()

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


def _local(x):
    """The first shard on this process, as numpy."""
    return np.asarray(x.addressable_shards[0].data)
