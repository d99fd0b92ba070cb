"""What a function of arrays must know of the mesh that is set, where the compiler cannot cut it along the mesh by itself."""

import math

import jax
from jax.sharding import AxisType

ROWS = ('data', 'fsdp')  # the axes of a mesh that rows are cut along


def cut_axes():
    """{axis: size} of the mesh under `jax.set_mesh`: the axes that arrays may be cut along. Empty: there is one device."""
    mesh = jax.sharding.get_abstract_mesh()
    return {name: mesh.shape[name] for name, kind in zip(mesh.axis_names, mesh.axis_types)
            if kind == AxisType.Auto and mesh.shape[name] > 1}


def row_axes(cut, B):
    """Those that B rows are cut along; none where they do not divide B."""
    rows = tuple(name for name in ROWS if name in cut)
    return () if B % math.prod(cut[name] for name in rows) else rows
