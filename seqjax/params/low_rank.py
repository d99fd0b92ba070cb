"""Low-rank adaptation (Hu et al. 2021) as a transformation of parameters: no model knows of it.

    W' = W + (alpha / r) a b        W frozen, a and b trained

A kernel W [I..., O...] that sums over axes I and makes axes O has a [I..., r] and b [r, O...]. Where layers are stacked,
W [L, I..., O...], each has its own: a [L, I..., r], b [L, r, O...]. In the tree of parameters they stand beside W:

    query/kernel            [D, H, K]
    query/kernel_lora/a     [D, r]
    query/kernel_lora/b     [r, H, K]

b starts at zero, so the model starts as the one without. a and b lie on the mesh along the axes that they share with W:
their product is made where W is, without communication.
"""

from collections.abc import Callable
import dataclasses
import math
import string
from typing import Any, NamedTuple

from flax import linen, traverse_util
from flax.core import meta
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError
from seqjax.params import paths

ENDING = '_lora'
FROZEN = ('*', f'!*{ENDING}/[ab]')  # what config.optimizer.freeze starts from: all but a and b


class Axes(NamedTuple):
    """How the axes of a kernel divide: the first `stacked` are layers, those up to `inputs` are summed over."""

    stacked: int
    inputs: int

    def sides(self, values, rank):
        """What is said of every axis of W, a shape or names, as it is said of those of a and of b."""
        values = tuple(values)
        return (*values[:self.inputs], rank), (*values[:self.stacked], rank, *values[self.inputs:])


@dataclasses.dataclass(frozen=True)
class LoRA:
    """Which kernels are adapted, {path: Axes}, and how; made by `lora`."""

    rank: int
    alpha: float
    adapted: dict

    def add(self, params, key):
        """The parameters of a model with a and b beside every kernel that is adapted."""
        flat = traverse_util.flatten_dict(params, sep='/')
        for number, (path, axes) in enumerate(self.adapted.items()):
            shape_a, shape_b = axes.sides(flat[path].shape, self.rank)
            deviation = math.prod(shape_a[axes.stacked:-1]) ** -0.5  # x a is then about as large as x
            key_a, dtype = jax.random.fold_in(key, number), flat[path].dtype
            a, b = sides(path)
            flat[a] = deviation * jax.random.normal(key_a, shape_a, dtype)
            flat[b] = jnp.zeros(shape_b, dtype)
        return traverse_util.unflatten_dict(flat, sep='/')

    def add_axes(self, boxed):
        """The same for abstract parameters whose axes are named, as linen's init returns them."""
        flat = traverse_util.flatten_dict(boxed, sep='/')
        for path, axes in self.adapted.items():
            value = meta.unbox(flat[path])
            names = flat[path].names if isinstance(flat[path], linen.LogicallyPartitioned) else (None,) * value.ndim
            for side, shape, named in zip(sides(path), axes.sides(value.shape, self.rank), axes.sides(names, None)):
                flat[side] = linen.LogicallyPartitioned(jax.ShapeDtypeStruct(shape, value.dtype), named)
        return traverse_util.unflatten_dict(flat, sep='/')

    def merge(self, params):
        """The parameters that the model computes with."""
        return merge(params, self.alpha)


def merge(params, alpha):
    """A plain tree of parameters: every W that has a and b beside it becomes W + (alpha / r) a b."""
    flat = traverse_util.flatten_dict(params, sep='/')
    plain = {path: x for path, x in flat.items() if not is_adapter(path)}
    for path, W in plain.items():
        a, b = map(flat.get, sides(path))
        if a is not None:
            plain[path] = W + alpha / a.shape[-1] * _product(a, b, W.ndim)
    return traverse_util.unflatten_dict(plain, sep='/')


def sides(path):
    """The paths of a and b of the kernel at `path`."""
    return f'{path}{ENDING}/a', f'{path}{ENDING}/b'


def is_adapter(path):
    """Whether a parameter is an a or a b."""
    return path.endswith(sides(''))


def lora(params: Any, rank: int = 8, alpha: float = 16.0, targets: str = '*/query/kernel,*/value/kernel', *,
         init: Callable[[], Any] | None = None) -> LoRA:
    """LoRA for a tree of parameters, plain arrays or shapes.

        adapters = params.lora(tree, rank=8, targets='*kernel', init=lambda: model.init(key, tokens))
        tree = adapters.add(tree, key)                              # a and b beside every kernel that is adapted
        model.apply({'params': adapters.merge(tree)}, tokens)       # W + (alpha / r) a b
        trained, frozen = params.split(tree, params.LORA_FROZEN)    # a and b, and all the rest

    Args:
        targets: patterns over the paths of the kernels W. Those that match must be linear maps.
        init: () -> variables of the model, to know which axes of a kernel of more than two are summed over, as in the
            attention of seqjax; matrices are known without. Nothing of it is computed.
    """
    return adapters_of(params, find_projections(init)[1] if init else {}, rank, alpha, targets)


def adapters_of(params: Any, projections: dict, rank: int, alpha: float, targets: str) -> LoRA:
    """`lora` with what `find_projections` has found."""
    if rank < 1:
        raise FieldError('rank', rank, 'must be at least 1')
    shapes = {path: leaf.shape for path, leaf in paths.by_path(params).items()}
    able = {path: _axes(path, shape, projections.get(path)) for path, shape in shapes.items()}
    able = {path: axes for path, axes in able.items() if axes is not None}
    patterns = paths.parse(targets)
    for pattern in patterns or ['']:
        if not paths.matches_any(able, pattern):
            raise FieldError('targets', pattern, f'matches no linear map of the model; there are: {", ".join(able) or "none"}')
    adapted = {path: axes for path, axes in able.items() if paths.matches(path, patterns)}
    for path, axes in adapted.items():
        sides = math.prod(shapes[path][axes.stacked:axes.inputs]), math.prod(shapes[path][axes.inputs:])
        if rank > min(sides):
            raise FieldError('rank', rank, f'is more than {path} has, which maps {sides[0]} numbers to {sides[1]}; choose at '
                             f'most {min(sides)}')
    return LoRA(rank, alpha, adapted)


def find_projections(init):
    """(what init() returns, as shapes; {path of a kernel: (axes summed over, axes made)}, as its `nn.Projection` says)."""
    return paths.of_modules(init, lambda module: (
        {'kernel': (module.contract, len(module.features))} if isinstance(module, nn.Projection) else {}))


def _axes(path, shape, projection):
    """The Axes of a parameter; None where it is no linear map, or one that cannot be recognised."""
    if projection is not None:
        stacked = len(shape) - sum(projection)
        return Axes(stacked, stacked + projection[0])
    matrix = len(shape) == 2 and not path.endswith(('bias', 'scale'))  # a table, or the matrix of a cell
    return Axes(0, 1) if matrix else None


def _product(a, b, rank_of_W):
    """a b, with the axes of W. Shapes say how many are stacked: a and b both have those, and r."""
    letters = string.ascii_lowercase[:rank_of_W]
    stacked = a.ndim + b.ndim - 2 - rank_of_W
    inputs = letters[:a.ndim - 1]
    # What is added to float32 weights is float32 too, also on a device that would multiply in bfloat16.
    return jnp.einsum(f'{inputs}R,{letters[:stacked]}R{letters[len(inputs):]}->{letters}', a, b, precision='highest')
