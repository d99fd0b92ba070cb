"""`config.parallel`."""

import dataclasses

from seqjax.fields import at_least, field


@dataclasses.dataclass(frozen=True)
class ParallelOptions:
    strategy: str = field('jit', "Strategy: 'jit' (sharded) or 'pmap' (data parallel).")
    data: int = field(-1, 'Data parallelism: devices along this axis of the mesh; -1: all that are left.')
    fsdp: int = field(1, 'FSDP: devices along this axis.')
    tensor: int = field(1, 'Tensor parallelism: devices along this axis.')
    deadline: int = field(600, 'Deadline of a step, evaluation batch or save in seconds, with several processes.', at_least(1))
