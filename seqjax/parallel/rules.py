"""One table from the logical names of axes, written at every parameter, to the axes of the mesh."""

from flax import linen
import jax
from jax.sharding import NamedSharding, PartitionSpec

RULES = {
    'batch': ('data', 'fsdp'),
    'embed': 'fsdp',
    'hidden': 'tensor',
    'heads': 'tensor',
    'mlp': 'tensor',
    'vocab': None,
    'layers': None,
    'experts': None,  # each is cut along 'mlp': see `ops.mix_experts`
}
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
        places = [rules[name] if name is not None else None for name in box.names]
        fits = [place if place is not None and size % mesh.shape[place] == 0 else None
                for place, size in zip(places, box.value.shape)]
        return box.value.shape, NamedSharding(mesh, PartitionSpec(*fits))

    leaves, _ = jax.tree_util.tree_flatten_with_path(boxed, is_leaf=lambda x: isinstance(x, linen.LogicallyPartitioned))
    return {_names(path): sharding(box) for path, box in leaves}


def has_rows(path):
    """Whether the leaf of a training state at `path` belongs to the rows of the batch."""
    return _names(path)[0] in ROWS


def state_shardings(state, of_parameters, mesh):
    """Shardings for a whole training state: moments and averages lie where their parameter lies, the rest everywhere.
    What belongs to the rows of the batch lies where they lie.

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

    return jax.tree_util.tree_map_with_path(sharding, state)


def _names(path):
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)
