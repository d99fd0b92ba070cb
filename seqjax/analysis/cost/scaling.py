"""How cost grows with size: programs measured at several sizes, and power laws through what was measured."""

from collections.abc import Callable
import dataclasses
import math
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.analysis.cost.depth import jaxpr_depth
from seqjax.analysis.cost.flops import jaxpr_flops
from seqjax.errors import FieldError, UserError

METRICS = ('operations', 'seconds', 'bytes', 'depth')
ROUNDS = 3    # of the whole list of programs, so that what else the machine does falls on all of them alike
FEWEST = 2    # runs of a program in every round


@dataclasses.dataclass(frozen=True)
class Case:
    """A function at one size. sizes: {'n': 512, 'd': 64}. arguments: arrays, or jax.ShapeDtypeStruct for any numbers."""

    sizes: dict
    function: Callable
    arguments: tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """value = coefficient * n^a * d^b ...; error: the largest relative distance of a value from it."""

    coefficient: float
    exponents: dict
    error: float


def measure(cases, *, seconds=0.5, most_operations=math.inf, seen=lambda: None):
    """[{**sizes, operations, seconds, bytes, depth}] of every case, from its jaxpr, its compiled program and its clock.

    operations: of products and convolutions (`matmul_flops`); depth: see `sequential_depth`; None where they cannot be
    counted. bytes: what the program needs beside its arguments, temporary buffers and results, as XLA has planned them.
    seconds: the fastest of many runs, about `seconds` of them in all; the fastest is the one that least else came between.
    A case of more than `most_operations` is neither compiled nor run. seen(): called after every part of the work, of which
    there are `parts_of_work(cases)`.
    """
    points, programs = [], []
    for case in cases:
        traced = jax.jit(case.function).trace(*case.arguments)
        point = {**case.sizes, 'operations': _or_none(jaxpr_flops, traced.jaxpr), 'seconds': None, 'bytes': None,
                 'depth': _or_none(jaxpr_depth, traced.jaxpr)}
        program = None
        if (point['operations'] or 0) <= most_operations:
            program = traced.lower().compile()
            memory = program.memory_analysis()
            point['bytes'] = memory.temp_size_in_bytes + memory.output_size_in_bytes
        points.append(point)
        programs.append(program)
        seen()
    for _ in range(ROUNDS):
        for case, point, program in zip(cases, points, programs):
            if program is not None:
                point['seconds'] = min(_fastest(program, case.arguments, seconds / ROUNDS), point['seconds'] or math.inf)
            seen()
    return points


def parts_of_work(cases):
    """How often `measure` calls seen()."""
    return len(cases) * (1 + ROUNDS)


def fit_power_law(sizes, values):
    """The PowerLaw through the values at the sizes, by least squares of the logarithms.

        fit_power_law([dict(n=128, d=64), dict(n=256, d=64), dict(n=256, d=32)], [1.0, 4.0, 2.0]).exponents  # n: 2, d: 1

    Every letter must have two values at least, and not all sizes the same direction: n and d that double together say
    nothing of either.
    """
    letters = list(sizes[0])
    if any(list(size) != letters for size in sizes) or len(sizes) != len(values):
        raise FieldError('sizes', sizes, f'must have the letters {letters} at each of {len(values)} values')
    if min(values, default=0) <= 0 or any(value <= 0 for size in sizes for value in size.values()):
        raise FieldError('values', values, 'a power law is of positive numbers')
    logs = np.log([[size[letter] for letter in letters] for size in sizes])  # [points, letters]
    design = np.concatenate([np.ones((len(sizes), 1)), logs], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise FieldError('sizes', sizes, f'do not tell {", ".join(letters)} apart; vary each of them while the others stay')
    solution = np.linalg.lstsq(design, np.log(values), rcond=None)[0]
    error = np.abs(np.expm1(design @ solution - np.log(values))).max()
    return PowerLaw(float(np.exp(solution[0])), {letter: float(a) for letter, a in zip(letters, solution[1:])}, float(error))


def fits(points, letters):
    """{metric: PowerLaw} of what `measure` returned, for every metric that all of at least two points have."""
    sizes = [{letter: point[letter] for letter in letters} for point in points]
    return {metric: fit_power_law(sizes, [point[metric] for point in points]) for metric in METRICS
            if all(point[metric] for point in points)}


def along(points, letter):
    """Those of a star of sizes on its line in the direction of `letter`, by size; the other letters have their middle value."""
    others = [name for name in points[0] if name not in (letter, *METRICS)]
    middle = {name: statistics.mode(point[name] for point in points) for name in others}
    line = [point for point in points if all(point[name] == value for name, value in middle.items())]
    return sorted(line, key=lambda point: point[letter])


def star(middle, values):
    """The sizes that differ from the middle in one letter.

        star(dict(n=2, d=16), dict(n=(1, 2, 4), d=(8, 16, 32)))  # five of them
    """
    sizes = [{**middle, letter: value} for letter, along in values.items() for value in along]
    return [size for place, size in enumerate(sizes) if size not in sizes[:place]]


def _or_none(count, jaxpr):
    try:
        return count(jaxpr)
    except UserError:
        return None


def _fastest(program, arguments, budget):
    """Seconds of the fastest run, of at least FEWEST and of as many as fit into `budget` seconds."""
    arguments = jax.tree.map(_filled, arguments)
    jax.block_until_ready(program(*arguments))  # the first touches its memory for the first time
    best, runs, start = math.inf, 0, time.perf_counter()
    while runs < FEWEST or time.perf_counter() - start < budget:
        before = time.perf_counter()
        jax.block_until_ready(program(*arguments))
        best, runs = min(best, time.perf_counter() - before), runs + 1
    return best


def _filled(x):
    """Small random numbers for a shape, zeros for one of integers; an array as it is."""
    if not isinstance(x, jax.ShapeDtypeStruct):
        return x
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.zeros(x.shape, x.dtype)
    return jnp.asarray(0.1 * np.random.default_rng(0).random(x.shape, np.float32), x.dtype)
