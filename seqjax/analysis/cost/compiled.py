"""Operations of a compiled program: the products in its optimised HLO, loops as often as they run."""

import functools
import math
import re

_COMPUTATION = re.compile(r'^(?:ENTRY )?%?([\w.\-]+) \(.*\{$')
_INSTRUCTION = re.compile(r'^\s*(?:ROOT )?%?([\w.\-]+) = (.*)$')
_SHAPE = re.compile(r'(\w+)\[([\d,]*)\]')
_OPERAND = re.compile(r'(?:\w+\[[\d,]*\](?:\{[^}]*\})? )?%?[\w.\-]+')  # older texts write the shape of each before its name
_CALLED = re.compile(r'(?:calls|to_apply|body|(?:branch|true|false)_computations?)='
                     r'(\{[^}]*\}|%?[\w.\-]+)')
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def compiled_flops(text: str, *, unknown_turns: int | None = None) -> int:
    """Operations of all products in `compiled.as_text()`; under a mesh, those of one device.

        needed = jaxpr_flops(traced.jaxpr.jaxpr)
        share = devices * compiled_flops(compiled.as_text()) / needed     # 1: nothing computed twice

    A multiplication and an addition are two operations, as in `flops.matmul_flops`. XLA's own
    `cost_analysis` counts the body of a loop once, whatever its trip count; here it counts as often
    as it runs. Of a conditional the dearest branch counts. Kernels (custom calls) are not seen, and
    programs for TPUs, which write products as convolutions over windows, are not counted right.
    unknown_turns: how often a loop of unknown trip count runs; None refuses one with products in it.
    """
    computations, entry = _computations(text)

    @functools.cache
    def flops(name):
        shapes, lines = computations[name]
        return sum(_flops(line, shapes) + called(line) for line in lines)

    def called(line):
        names = [name.strip(' %') for group in _CALLED.findall(line)
                 for name in group.strip('{}').split(',')]
        inside = [flops(name) for name in names if name in computations]
        if ' while(' in line and any(inside):
            turns = _turns(line, computations) or unknown_turns
            if turns is None:
                raise ValueError('XLA does not know how often a loop with products inside runs: '
                                 f'{line.strip()[:80]}; say how often it runs with unknown_turns=')
            return sum(inside) * turns
        return max(inside, default=0) if ' conditional(' in line else sum(inside)

    return flops(entry)


def _computations(text):
    """({name: ({instruction: shape of its result}, lines)}, name of the entry)."""
    found, entry, name = {}, None, None
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            name = head[1]
            found[name] = {}, []
            entry = name if line.startswith('ENTRY') else entry
        elif name and (instruction := _INSTRUCTION.match(line)):
            shapes, lines = found[name]
            shapes[instruction[1]] = _shape(instruction[2])
            lines.append(line)
    return found, entry


def _turns(line, computations):
    """How often a loop runs: as XLA says, or else where its condition compares a counter from 0."""
    if said := _TURNS.search(line):
        return int(said[1])
    lines, names = [], re.findall(r'condition=%?([\w.\-]+)', line)
    while names:
        lines += (more := computations[names.pop()][1])
        names += [name for one in more for name in re.findall(r'calls=%?([\w.\-]+)', one)]
    limits = [int(n) for one in lines for n in re.findall(r' s32\[\]\S* constant\((\d+)\)', one)]
    return limits[0] if len(limits) == 1 and any('direction=LT' in one for one in lines) else None


def _flops(line, shapes):
    """Those of one instruction: 2 * numbers of the result * what each of them sums over."""
    product = re.search(r'= (\S+) (dot|convolution)\(([^)]*)\)(.*)', line)
    if not product:
        return 0
    result, kind, operands, options = product.groups()
    (dtype, out), sides = _shape(result), [_operand(text, shapes) for text in _OPERAND.findall(operands)]
    if kind == 'dot':
        axes = re.search(r'lhs_contracting_dims=\{([\d,]*)\}', options)
        axes = axes[1].split(',') if axes and axes[1] else ()
        summed = math.prod(sides[0][1][int(axis)] for axis in axes)
    else:
        kernel = re.search(r'dim_labels=\w+_(\w+)->', options)[1]
        summed = math.prod(sides[1][1]) // sides[1][1][kernel.index('o')]
    return (8 if dtype.startswith('c') else 2) * math.prod(out) * summed


def _operand(text, shapes):
    return _shape(text) if '[' in text else shapes[text.strip('% ')]


def _shape(text):
    """(dtype, sizes) of the first array in a text."""
    found = _SHAPE.search(text)
    return (found[1], [int(size) for size in found[2].split(',') if size]) if found else ('', [])
