"""The mesh: how the devices of all processes are laid out along the axes data, fsdp and tensor."""

import math

import jax
from jax.sharding import AbstractMesh, AxisType

from seqjax.errors import FieldError

AXES = ('data', 'fsdp', 'tensor')


def mesh_shape(available, *, data=-1, fsdp=1, tensor=1):
    """Sizes of the three axes over `available` devices; one of them may be -1, for all the devices that are left."""
    sizes = dict(data=data, fsdp=fsdp, tensor=tensor)
    for axis, size in sizes.items():
        if size < 1 and size != -1:
            raise FieldError(f'parallel.{axis}', size, 'must be at least 1, or -1 for all remaining devices')
    open_axes = [axis for axis, size in sizes.items() if size == -1]
    if len(open_axes) > 1:
        raise FieldError(f'parallel.{open_axes[1]}', -1, f'only one axis can be -1, and {open_axes[0]} is too')
    fixed = 1
    for size in sizes.values():
        fixed *= max(size, 1)
    if open_axes and available >= fixed:
        sizes[open_axes[0]] = available // fixed
    if open_axes and available % fixed or fixed > available:
        axis = max(AXES, key=lambda axis: sizes[axis])
        raise FieldError(f'parallel.{axis}', sizes[axis],
                         f'data x fsdp x tensor = {" x ".join(str(size) for size in sizes.values())} does not fit '
                         f'{available} device{"s" * (available != 1)}; change the mesh, or simulate with --cpu_devices=N')
    return tuple(sizes.values())


def make_mesh(**sizes):
    """A mesh of the devices of all processes, or of the first few where the sizes ask for fewer."""
    shape = mesh_shape(jax.device_count(), **sizes)
    count = shape[0] * shape[1] * shape[2]
    if jax.process_count() > 1 and count != jax.device_count():
        raise FieldError('parallel.data', sizes.get('data', -1), f'the mesh has {count} devices and the {jax.process_count()} '
                         f'processes have {jax.device_count()}; set it to -1 to use all')
    # Explicit axes, the default of jax.make_mesh, are not understood by scans and lookups inside linen modules.
    return jax.make_mesh(shape, AXES, devices=jax.devices()[:count], axis_types=(AxisType.Auto,) * len(AXES))


def abstract_mesh(**sizes):
    """The same without devices: as many as the sizes ask for, also where fewer are here. For shapes, not for arrays."""
    asked = math.prod(max(size, 1) for size in sizes.values())
    return AbstractMesh(mesh_shape(max(asked, jax.device_count()), **sizes), AXES)
