"""Layers one by one, or stacked: parameters that were learned in one layout, for a model that has the other.

    one by one    decoder/block_0/attention/query/kernel [D, H, K], decoder/block_1/..., ...
    stacked       decoder/blocks/attention/query/kernel [L, D, H, K]                           (config.model.scan_layers)
"""

import dataclasses
import functools
import re

from flax import traverse_util
import jax
import jax.numpy as jnp

from seqjax import parallel

ONE = re.compile(r'(?<![^/])block_(\d+)(?=/)')
STACKED = re.compile(r'(?<![^/])blocks(?=/)')


def in_layout_of(paths, origin):
    """The `Origin` with its layers as a model with these paths has them."""
    here, there = (any(map(STACKED.search, names)) for names in (paths, origin.shapes))
    if here and not there:
        return _stacked(origin)
    return _one_by_one(origin) if there and not here else origin


def one_by_one(params):
    """A tree of parameters with stacked layers taken apart, as a model without scan_layers has them."""
    found = {}
    for path, leaf in traverse_util.flatten_dict(params, sep='/').items():
        layers = enumerate(leaf) if STACKED.search(path) else [(None, leaf)]
        found |= {path if number is None else STACKED.sub(f'block_{number}', path): layer for number, layer in layers}
    return traverse_util.unflatten_dict(found, sep='/')


def _stacked(origin):
    layers = {}  # {stacked path: {number: path}}
    for path in origin.shapes:
        found = ONE.search(path)
        layers.setdefault(ONE.sub('blocks', path), {})[int(found[1]) if found else None] = path
    parts = {path: [numbered[number] for number in sorted(numbered)] for path, numbered in layers.items() if None not in numbered}

    def shape(path):
        first = origin.shapes[parts[path][0]] if path in parts else origin.shapes[path]
        return jax.ShapeDtypeStruct((len(parts[path]), *first.shape), first.dtype) if path in parts else first

    def fetch(wanted):
        found = origin.fetch({part: parallel.of_one_layer(place) if path in parts else place
                              for path, place in wanted.items() for part in parts.get(path, [path])})
        stack = lambda path, place: _stack_at(place)(*(found.pop(part) for part in parts[path]))
        return {path: stack(path, place) if path in parts else found[path] for path, place in wanted.items()}

    return dataclasses.replace(origin, shapes={path: shape(path) for path in layers}, fetch=fetch)


def _one_by_one(origin):
    places = {}  # {path: (stacked path, number), or (path, None)}
    for path, leaf in origin.shapes.items():
        numbers = range(leaf.shape[0]) if STACKED.search(path) else (None,)
        places |= {path if number is None else STACKED.sub(f'block_{number}', path): (path, number) for number in numbers}

    def shape(path, number):
        leaf = origin.shapes[path]
        return leaf if number is None else jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)

    def fetch(wanted):
        found = origin.fetch({places[path][0]: place if places[path][1] is None else parallel.of_all_layers(place)
                              for path, place in wanted.items()})
        one = lambda whole, number, place: whole if number is None else _layer_at(place)(whole, number)
        return {path: one(found[places[path][0]], places[path][1], place) for path, place in wanted.items()}

    return dataclasses.replace(origin, shapes={path: shape(*place) for path, place in places.items()}, fetch=fetch)


@functools.cache  # one program for all layers of one shape
def _layer_at(place):
    return jax.jit(lambda whole, number: whole[number], out_shardings=place)


@functools.cache
def _stack_at(place):
    return jax.jit(lambda *layers: jnp.stack(layers), out_shardings=place)
