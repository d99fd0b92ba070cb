"""Parameters in 8 bits (`ops.quantisation`) as a transformation of their tree: a model trained as ever computes with them.

The layers say which of their parameters may be written so, and which of their axes are summed over (`summed_axes`): kernels of
linear maps, tables of tokens, the matrices of recurrent cells, experts. Norms, biases and positions stay as they are.
"""

from flax.core import meta
import jax

from seqjax import ops
from seqjax.params import paths


def quantise(params, init, *, weights='int8', activations=False):
    """The same tree with an `ops.Quantised` for every parameter that may be one.

    init: () -> variables, of the model that the parameters are of: lambda: model.init(key, tokens). Nothing of it is computed.
    weights, activations: see `ops.quantise`.
    """
    params, summed = meta.unbox(params), find_summed_axes(init)
    if not summed.keys() & set(paths.parameter_paths(params)):
        raise ValueError('none of the parameters is a kernel or a table of what init makes; give those of the same model, without '
                         "'params' around them")
    return with_eight_bits(params, summed, weights, activations)


def find_summed_axes(init):
    """{path: the axes that are summed over, from its end} of every parameter that may be quantised."""
    return paths.of_modules(init, lambda module: module.summed_axes() if hasattr(module, 'summed_axes') else {})[1]


def with_eight_bits(params, summed, weights, activations):
    """`quantise` with what `find_summed_axes` has found."""
    return paths.map_paths(lambda path, x: ops.quantise(x, summed[path], weights, activations) if path in summed else x, params)


def size_in_bytes(params):
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(params))
