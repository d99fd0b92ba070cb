"""Logical names of axes: without a mesh nothing happens, and on one the table decides."""

import jax
from jax.sharding import PartitionSpec
import numpy as np
import pytest

from seqjax import ops, parallel

U = PartitionSpec.UNCONSTRAINED


def constraints(shape, *names, **mesh):
    """The PartitionSpecs that a program over the mesh is told for an array whose axes have these names."""
    with parallel.use_mesh(parallel.make_mesh(**mesh)):
        jaxpr = jax.make_jaxpr(lambda x: ops.constrain(x, *names))(np.zeros(shape))
    return [equation.params['sharding'].spec for equation in jaxpr.eqns]


@pytest.mark.parametrize('shape, names, mesh, spec', [
    ((8, 5, 6), ('batch', None, 'embed'), dict(data=2, fsdp=4), (('data', 'fsdp'), U, None)),
    ((8, 5, 6), ('batch', ..., 'embed'), dict(data=8), ('data', U, None)),
    ((6, 4), ('embed', 'mlp'), dict(data=1, fsdp=2, tensor=4), ('fsdp', 'tensor')),
    ((8, 5, 4, 3), ('batch', ..., 'heads', None), dict(data=2, fsdp=2, tensor=2), (('data', 'fsdp'), U, 'tensor', U)),
    ((8, 5, 3, 3), ('batch', ..., 'heads', None), dict(data=2, fsdp=2, tensor=2), (('data', 'fsdp'), U, U, U)),
    ((4, 2, 6), ('lookup', None, 'embed'), dict(data=2, fsdp=2, tensor=2), ('data', U, 'fsdp')),
    ((4, 6), ('batch', 'whole'), dict(data=2, fsdp=2), (('data', 'fsdp'), None)),
])
def test_a_mesh_axis_cuts_the_first_axis_that_names_it_and_nothing_that_it_does_not_divide(shape, names, mesh, spec):
    assert constraints(shape, *names, **mesh) == [PartitionSpec(*spec)]


@pytest.mark.parametrize('shape, names, mesh', [((8, 6), ('batch', 'embed'), dict(data=1)), ((3, 6), ('batch', None), dict(data=8)),
                                                ((8, 6), (None, None), dict(data=8))])
def test_where_nothing_is_cut_a_program_is_told_nothing(shape, names, mesh):
    assert constraints(shape, *names, **mesh) == []


def test_without_a_mesh_and_under_pmap_arrays_are_what_they_were():
    x = np.ones((8, 2, 4), np.float32)
    assert ops.constrain(x, 'batch', None, 'embed') is x
    assert ops.on_every_device(np.sum, (x,), (('batch', None, None),), ()) == x.sum()
    same = jax.pmap(lambda x: ops.constrain(2 * x, 'batch', 'embed'))
    assert 'sharding_constraint' not in str(jax.make_jaxpr(same)(x))


def test_a_name_that_the_table_lacks_is_an_error():
    with pytest.raises(KeyError, match='bach'):
        constraints((8, 4), 'bach', None, data=8)


def test_on_every_device_a_part_of_each_named_axis_and_sums_over_one():
    x, w = np.arange(32.0).reshape(8, 4), np.arange(24.0).reshape(4, 6)
    seen = []

    def product(x, weights):
        seen.append((x.shape, weights['w'].shape))
        return x @ weights['w']

    run = lambda x, w: ops.on_every_device(product, (x, dict(w=w)), (('batch', 'mlp'), dict(w=('mlp', None))), ('batch', None),
                                           summed='mlp')
    for width in (4, 3):  # three are not divided by two: whole on both
        with parallel.use_mesh(parallel.make_mesh(data=2, fsdp=2, tensor=2)):
            np.testing.assert_allclose(jax.jit(run)(x[:, :width], w[:width]), x[:, :width] @ w[:width])
    assert seen == [((2, 2), (2, 6)), ((2, 3), (3, 6))]
