"""One table from the logical axes of parameters and activations to the axes of the mesh."""

from collections.abc import Iterator
import contextlib
import dataclasses
import math

from flax import linen
import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from seqjax import ops

RULES = {
    'batch': ('data', 'fsdp'),
    'lookup': 'data',  # rows out of a table that is cut along 'embed', before they are 'batch'
    'embed': 'fsdp',  # of parameters: in activations the rows have taken it, see `_places`
    'hidden': 'tensor',
    'heads': 'tensor',
    'mlp': 'tensor',
    'vocab': None,  # of parameters: a table is looked up where its rows are whole
    'layers': None,
    'whole': None,  # of a parameter that comes before a loop begins which needs all of it
    'experts': None,  # each is cut along 'mlp': see `ops.mix_experts`
}
ACTIVATIONS = {'vocab': 'tensor'}  # of logits: what the table says of activations alone
ROWS = ('carry',)  # the parts of a training state that have a row for every row of the batch


def replicated(mesh):
    """The whole array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def over_batch(mesh):
    """The first axis, rows of a batch, over the data and fsdp axes of the mesh."""
    return NamedSharding(mesh, PartitionSpec(RULES['batch']))


def of_one_layer(sharding):
    """That of a layer, from that of layers which are stacked along a first axis; `of_all_layers`: the other way round."""
    return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[1:]))


def of_all_layers(sharding):
    return NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec))


def parameter_shardings(boxed, mesh, rules=RULES):
    """Path of every parameter in `boxed` (abstract variables as linen's init returns them) -> (its shape, its sharding).

    An axis that its mesh axis does not divide stays whole: 65 characters cannot be cut in two.
    """
    def sharding(box):
        if not isinstance(box, linen.LogicallyPartitioned):
            return box.shape, replicated(mesh)
        places = _places(box.names, box.value.shape, mesh.shape, rules)
        return box.value.shape, NamedSharding(mesh, PartitionSpec(*places))

    leaves, _ = jax.tree_util.tree_flatten_with_path(boxed, is_leaf=lambda x: isinstance(x, linen.LogicallyPartitioned))
    return {_names(path): sharding(box) for path, box in leaves}


def has_rows(path):
    """Whether the leaf of a training state at `path` belongs to the rows of the batch."""
    return _names(path)[0] in ROWS


def placed(state, of_parameters, mesh):
    """A whole training state of ShapeDtypeStructs with their shardings: moments and averages lie where their parameter lies, the
    rest everywhere. What belongs to the rows of the batch lies where they lie.

    A leaf belongs to a parameter when its path ends in the parameter's path: optax keeps the tree of the parameters
    inside whatever it wraps around it. A leaf of another shape (a factored moment) is replicated.
    """
    def sharding(path, leaf):
        names = _names(path)
        if has_rows(path):
            return over_batch(mesh)
        for start in range(len(names)):
            shape, place = of_parameters.get(names[start:], (None, None))
            if shape == leaf.shape:
                return place
        return replicated(mesh)

    return jax.tree_util.tree_map_with_path(
        lambda path, x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding(path, x)), state)


# ------------------------------------------------------------------------------------------------ activations

@contextlib.contextmanager
def use_mesh(mesh: Mesh, rules=RULES) -> Iterator[None]:
    """`jax.set_mesh`, and the table for the axes of activations that are traced inside of it."""
    with jax.set_mesh(mesh), ops.use_layout(TableLayout(tuple({**rules, **ACTIVATIONS}.items()))):
        yield


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """What `ops.constrain` and `ops.on_every_device` do under the mesh that is set."""

    rules: tuple

    def constrain(self, x, names):
        sizes, left_open = _cutting_axes(), PartitionSpec.UNCONSTRAINED
        places = _places(names, x.shape, sizes, dict(self.rules), left_open)
        if not sizes or all(place is left_open for place in places):
            return x
        return jax.lax.with_sharding_constraint(x, PartitionSpec(*places))

    def on_every_device(self, function, arguments, names, result, summed):
        sizes, rules = _cutting_axes(), dict(self.rules)
        if not sizes:
            return function(*arguments)
        axes = {name: _axes(rules, name, sizes) for name in rules}

        def leave_whole(names, argument):
            for x in jax.tree.leaves(argument):
                for name, size in zip(names, x.shape):
                    if name is not None and size % _ways(axes[name], sizes):
                        axes[name] = ()

        jax.tree.map(leave_whole, names, arguments, is_leaf=_are_names)
        spec = lambda names: PartitionSpec(*(axes.get(name) for name in names))
        specs = jax.tree.map(spec, names, is_leaf=_are_names)
        add = (lambda y: jax.lax.psum(y, axes[summed])) if axes.get(summed) else lambda y: y
        return jax.shard_map(lambda *parts: add(function(*parts)), in_specs=specs,
                             out_specs=spec(result), check_vma=False)(*arguments)


def _cutting_axes():
    """{axis: size} of the mesh that is set: those that no shard_map around has cut along."""
    mesh = jax.sharding.get_abstract_mesh()
    return {name: mesh.shape[name] for name, kind in zip(mesh.axis_names, mesh.axis_types)
            if kind == AxisType.Auto and mesh.shape[name] > 1}


def _places(names, shape, sizes, rules, left_open=None):
    """For every axis of an array the axis or axes of the mesh that cut it; None: it is whole.

    An axis of the mesh cuts one axis of an array, the first that names it. left_open: the place of
    an axis without a name, and of one that the mesh does not divide.
    """
    taken, places = set(), []
    for name, size in zip(names, shape, strict=True):
        axes = tuple(axis for axis in _axes(rules, name, sizes) if axis not in taken)
        taken.update(axes)
        if name is None or size % _ways(axes, sizes):
            places.append(left_open)
        else:
            places.append(axes if len(axes) > 1 else axes[0] if axes else None)
    return places


def _axes(rules, name, sizes):
    """The axes of a mesh of these sizes that a name stands for."""
    rule = rules[name] if name is not None else None
    rule = (rule,) if isinstance(rule, str) else rule or ()
    return tuple(axis for axis in rule if axis in sizes)


def _ways(axes, sizes):
    """How many parts an axis has that is cut along `axes`."""
    return math.prod(sizes[axis] for axis in axes)


def _are_names(x):
    return isinstance(x, tuple) and all(name is None or isinstance(name, str) for name in x)


def _names(path):
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)
