"""Entity-level F1 of IOB tags: an entity is right where its first token, its last token and its type are.

The definition is that of conlleval (Tjong Kim Sang & Buchholz 2000), for IOB1, IOB2 and BIOES tags alike, as in seqeval:

    an entity begins   at B and S; at I and E after O, E, S or another type
    an entity ends     at E and S; before O, B, S or another type; with the sequence

so that every token whose tag is not O belongs to exactly one entity. Entities are counted per batch and the counts are added:
TRUE, PREDICTED and RIGHT of every type.
"""

from collections.abc import Sequence
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

TRUE, PREDICTED, RIGHT = range(3)
_PREFIXES = dict(O='O', B='B', I='I', E='E', L='E', S='S', U='S')  # BILOU has other letters for E and S
_CODES = 'OBIES'


class Scheme(NamedTuple):
    """IOB tags as numbers. codes [C]: places in 'OBIES'; kinds [C]: places in `types`, those of 'O' are past its end."""

    codes: tuple[int, ...]
    kinds: tuple[int, ...]
    types: tuple[str, ...]


def scheme_of(classes: Sequence[str]) -> Scheme | None:
    """The Scheme of the names of classes: 'O', and 'B-PER', 'I-PER', ... with at least one B or I. None: they are no IOB tags."""
    found = [re.fullmatch(r'(O)()|([BIESLU])-(.+)', name) for name in classes]
    if 'O' not in classes or not all(found) or not any(name[:2] in ('B-', 'I-') for name in classes):
        return None
    pairs = [(match[1] or match[3], match[4]) for match in found]
    types = tuple(sorted({kind for _, kind in pairs if kind}))
    return Scheme(tuple(_CODES.index(_PREFIXES[prefix]) for prefix, _ in pairs),
                  tuple(types.index(kind) if kind else len(types) for _, kind in pairs), types)


def count_entities(scheme: Scheme, targets: jax.Array, predictions: jax.Array, weights: jax.Array,
                   segments: jax.Array | None = None) -> jax.Array:
    """[types, 3]: how many entities of each type are true, predicted, and right. All arrays are [B, T].

    Positions of weight 0 are passed over, as if they were not there. segments: where the number changes along a row, another
    sequence begins.
    """
    B, T = targets.shape
    order = jnp.argsort(weights <= 0, axis=1, stable=True)  # what counts comes first
    first = lambda x: jnp.take_along_axis(x, order, axis=1)
    counted, segments = first(weights > 0), jnp.zeros((B, T), jnp.int32) if segments is None else first(segments)
    joined = counted[:, 1:] & (segments[:, 1:] == segments[:, :-1])  # [B, T - 1], whether t and t + 1 are of one sequence
    spans = [_spans(scheme, jnp.where(counted, first(tags), scheme.codes.index(0)), joined) for tags in (targets, predictions)]
    (begins, ends, kinds), (begins_too, ends_too, kinds_too) = spans
    right = begins & begins_too & (ends == ends_too) & (kinds == kinds_too)
    of_types = lambda at, kinds: jnp.bincount(jnp.where(at, kinds, len(scheme.types)).ravel(), length=len(scheme.types) + 1)[:-1]
    return jnp.stack([of_types(begins, kinds), of_types(begins_too, kinds_too), of_types(right, kinds)], axis=1)


def _spans(scheme, tags, joined):
    """(whether an entity begins, where the one that does ends, its type), [B, T] each. joined: see `count_entities`."""
    O, B, I, E, S = range(5)
    codes, kinds = (jnp.asarray(numbers)[tags] for numbers in (scheme.codes, scheme.kinds))
    nothing = lambda x, value, side: jnp.pad(jnp.where(joined, x, value), ((0, 0), side), constant_values=value)
    before, kind_before = nothing(codes[:, :-1], O, (1, 0)), nothing(kinds[:, :-1], len(scheme.types), (1, 0))
    after, kind_after = nothing(codes[:, 1:], O, (0, 1)), nothing(kinds[:, 1:], len(scheme.types), (0, 1))
    inside = codes != O
    begins = inside & ((codes == B) | (codes == S) | (before == O) | (before == E) | (before == S) | (kind_before != kinds))
    ends = inside & ((codes == E) | (codes == S) | (after == O) | (after == B) | (after == S) | (kind_after != kinds))
    T = tags.shape[1]
    return begins, jax.lax.cummin(jnp.where(ends, jnp.arange(T), T), axis=1, reverse=True), kinds


def entity_f1(entities: ArrayLike, entity_types: Sequence[str]) -> dict[str, float]:
    """2 right / (true + predicted) of all entities, under '', and of every type that occurs; NaN where there are none."""
    counts = [[int(number) for number in row] for row in entities]
    scores = {kind: _ratio(2 * row[RIGHT], row[TRUE] + row[PREDICTED]) for kind, row in zip(entity_types, counts) if row[TRUE]}
    total = [sum(column) for column in zip(*counts)]
    return {'': _ratio(2 * total[RIGHT], total[TRUE] + total[PREDICTED]), **scores}


def entity_precision(entities: ArrayLike) -> float:
    """right / predicted, of all entities."""
    return _ratio(*(sum(int(row[column]) for row in entities) for column in (RIGHT, PREDICTED)))


def entity_recall(entities: ArrayLike) -> float:
    """right / true, of all entities."""
    return _ratio(*(sum(int(row[column]) for row in entities) for column in (RIGHT, TRUE)))


def _ratio(part, whole):
    return part / whole if whole else float('nan')
