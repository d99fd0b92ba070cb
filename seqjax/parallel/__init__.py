"""Meshes, the table of logical axes, strategies and multi-process start. The only place that knows PartitionSpec."""

from seqjax.parallel.memory import keep_freed_memory
from seqjax.parallel.mesh import AXES, abstract_mesh, make_mesh, mesh_shape
from seqjax.parallel.processes import simulate_devices, start_processes
from seqjax.parallel.programs import Programs
from seqjax.parallel.rules import (
    RULES,
    of_all_layers,
    of_one_layer,
    over_batch,
    parameter_shardings,
    placed,
    replicated,
    use_mesh,
)
from seqjax.parallel.strategies import STRATEGIES, Jit, Pmap, barrier, make_strategy

__all__ = ['AXES', 'Jit', 'Pmap', 'Programs', 'RULES', 'STRATEGIES', 'abstract_mesh', 'barrier', 'keep_freed_memory',
           'make_mesh', 'make_strategy', 'mesh_shape', 'of_all_layers', 'of_one_layer', 'over_batch', 'parameter_shardings',
           'placed', 'replicated', 'simulate_devices', 'start_processes', 'use_mesh']
