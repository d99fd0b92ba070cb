"""What a model is, as tables for a reader: its parameters, what a token costs, what a device has to hold."""

import dataclasses
import math
import re

import jax
from jax.extend import core
from jax.extend.core.primitives import closed_call_p

from seqjax.analysis.tables import columns, in_units


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One array of a model, or `copies` alike. axes: their logical names; local: the shape of what one device has of it."""

    path: str
    shape: tuple
    dtype: str
    axes: tuple
    local: tuple
    trained: bool = True
    copies: int = 1

    @property
    def count(self):
        return self.copies * math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Description:
    """A model on its devices, none of which need exist.

    forward, training: operations of matrix products a `unit`, 'token' or 'image'. memory: {what: bytes on one device}. notes: lines
    for a reader.
    """

    parameters: list
    forward: float | None
    training: float | None
    memory: dict
    notes: list
    unit: str = 'token'

    @property
    def count(self):
        return sum(parameter.count for parameter in self.parameters)

    def parts(self):
        """{first name of a path: how many numbers are below it}."""
        found = {}
        for parameter in self.parameters:
            part = parameter.path.partition('/')[0]
            found[part] = found.get(part, 0) + parameter.count
        return found

    def __str__(self):
        blocks = [parameter_table(self.parameters), self._counts(), self._costs(), self._memory(), self.notes]
        return '\n\n'.join('\n'.join(block) for block in blocks if block)

    def _counts(self):
        rows = [(part, f'{count:,}', f'{count / self.count:.1%}') for part, count in self.parts().items()]
        rows += [('all', f'{self.count:,}', '')]
        trained = sum(parameter.count for parameter in self.parameters if parameter.trained)
        rows += [('trained', f'{trained:,}', f'{trained / self.count:.1%}')] if trained != self.count else []
        return columns([('part', 'parameters', ''), *rows], right=(1, 2))

    def _costs(self):
        if self.forward is None:
            return []
        rows = [('forward', in_units(self.forward)), ('forward and backward', in_units(self.training))]
        return columns([(f'{"an" if self.unit[0] in "aeiou" else "a"} {self.unit}', 'operations'), *rows], right=(1,))

    def _memory(self):
        rows = [(what, in_units(size, 'B')) for what, size in [*self.memory.items(), ('all', sum(self.memory.values()))]]
        return columns([('one device holds', ''), *rows], right=(1,))


def parameter_table(parameters):
    """Lines: path, shape, dtype, count, names of the axes, and what one device has of it; layers that are alike in one."""
    times = lambda shape: ' x '.join(map(str, shape)) or '1'
    rows = [('parameter', 'shape', 'type', 'count', 'axes', 'on a device', '')]
    for parameter in alike(parameters):
        axes = ', '.join(name or '-' for name in parameter.axes)
        local = 'all' if parameter.local == parameter.shape else times(parameter.local)
        copies = f'{parameter.copies} x ' if parameter.copies > 1 else ''
        rows.append((parameter.path, f'{copies}[{times(parameter.shape)}]', parameter.dtype, f'{parameter.count:,}', axes,
                     local, '' if parameter.trained else 'frozen'))
    return columns(rows, right=(3,))


def alike(parameters):
    """The same with one for all layers of a stack that have the same shape: 'block_0/kernel', ... -> 'block_0..11/kernel'."""
    groups = {}
    for parameter in parameters:
        number = re.search(r'_(\d+)(?=/)', parameter.path)
        before, after = (parameter.path[:number.start(1)], parameter.path[number.end(1):]) if number else (parameter.path, '')
        key = (before, after, parameter.shape, parameter.dtype, parameter.axes, parameter.local, parameter.trained)
        groups.setdefault(key, []).append((parameter, int(number[1]) if number else 0))
    for (before, after, *_), members in groups.items():
        (first, low), (_, high) = min(members, key=lambda pair: pair[1]), max(members, key=lambda pair: pair[1])
        if high - low + 1 != len(members):  # some of them are missing in between: they are no range
            yield from (parameter for parameter, _ in members)
        else:
            name = f'{before}{low}..{high}{after}' if len(members) > 1 else first.path
            yield dataclasses.replace(first, path=name, copies=len(members))


def saved_bytes(loss, params, *rest):
    """Bytes that the backward pass of loss(params, *rest) needs from the forward pass: its activations. Nothing is run.

    From the jaxpr: what the gradient's second half takes from the first, each array once, and no argument, which is held
    anyway. A compiler that fuses operations or computes some again needs less. Of `lax.platform_dependent` the default counts.
    """
    traced = core.jaxpr_as_fun(_with_defaults(jax.make_jaxpr(loss)(params, *rest)))
    one = lambda params, *rest: traced(*jax.tree.leaves((params, *rest)))[0]
    both = jax.make_jaxpr(lambda params, *rest: jax.vjp(lambda params: one(params, *rest), params)[1])(params, *rest)
    given = {id(variable) for variable in both.jaxpr.invars}
    saved = {id(variable): variable.aval for variable in both.jaxpr.outvars
             if id(variable) not in given and not isinstance(variable, core.Literal)}
    return sum(aval.size * aval.dtype.itemsize for aval in saved.values())


def _with_defaults(value):
    """A jaxpr, or what has some in it, where every `lax.platform_dependent` is a call of its default.

    Differentiated as it is, it would save what any of its branches needs.
    """
    if isinstance(value, core.Jaxpr):  # since jax 0.12 closed ones, too
        return value.replace(eqns=[_with_default(equation) for equation in value.eqns])
    if isinstance(value, core.ClosedJaxpr):
        return value.replace(jaxpr=_with_defaults(value.jaxpr))
    return tuple(map(_with_defaults, value)) if type(value) is tuple else value


def _with_default(equation):
    if equation.primitive.name == 'cond' and equation.params.get('branches_platforms'):
        return equation.replace(primitive=closed_call_p, invars=equation.invars[1:],
                                params=dict(call_jaxpr=_with_defaults(equation.params['branches'][-1])))
    return equation.replace(params={name: _with_defaults(value) for name, value in equation.params.items()})


def local_bytes(tree):
    """Bytes on one device of arrays, or of shapes with their shardings."""
    return sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(tree))
