"""The same number of parameters for models that have nothing else in common."""

import bisect
import functools
import math

import jax

from seqjax.errors import FieldError


def match_width(make, sample, parameters, multiple=1):
    """The width whose model has the number of parameters closest to `parameters`; of two as close, the smaller.

        width = match_width(lambda width: nn.LSTM(width, num_layers=2), np.zeros((1, 1, 32)), 100_000)

    make: width -> linen module. sample: what its init takes, of which only shapes matter. multiple: widths that are
    multiples of this are considered. Nothing is computed: parameters are counted from shapes.
    """
    if parameters < 1:
        raise FieldError('parameters', parameters, 'must be at least 1')

    @functools.cache
    def count(n):
        return parameter_count(make(n * multiple), sample)

    if count(1) > parameters:
        raise FieldError('parameters', parameters, f'the narrowest model has {count(1):,}; ask for more, or make the '
                         'vocabulary or the embedding smaller')
    high = 1
    while count(high) < parameters:
        high *= 2
    high = bisect.bisect_left(range(high), parameters, lo=max(1, high // 2), key=count)  # the first that has as many
    nearest = min((n for n in (high - 1, high) if n), key=lambda n: abs(count(n) - parameters))
    return nearest * multiple


def parameter_count(model, sample):
    """How many numbers the parameters of a linen module are."""
    shapes = jax.eval_shape(model.init, jax.random.key(0), sample)['params']
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
