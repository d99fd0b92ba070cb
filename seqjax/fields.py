"""Fields of a config: a room declares those that it reads as a frozen dataclass, with default, help and limit.

    @dataclasses.dataclass(frozen=True)
    class DataOptions:
        batch_size: int = field(32, 'Rows of a step, over all devices.', at_least(1))
        characters_per_word: int = field(0, 'Characters of every word that the model reads too.', at_least(0), of=('labelled',))

`of` names the kinds of runs that have the field; without it every run has it.
"""

from collections.abc import Callable, Collection, Mapping
import dataclasses
import math
from typing import Any, NamedTuple

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from seqjax.errors import FieldError, suggestion


# Fields that had another name: an old one is answered with the new one, and read from the runs of before.
RENAMED = {f'{section}.{old}': f'{section}.{new}' for section, names in dict(
    train=dict(accumulate='gradient_accumulation_steps', teacher='teacher_forcing', teacher_steps='teacher_forcing_steps',
               teacher_floor='teacher_forcing_floor'),
    model=dict(experts_chosen='experts_per_token', order='norm_position', tie='tie_embeddings', scan='scan_layers', key_heads='kv_heads',
               window='sliding_window', relative_limit='relative_max_distance', hard='hard_attention'),
    decode=dict(beam='num_beams', groups='num_beam_groups', diversity='diversity_penalty', no_repeat='no_repeat_ngram_size',
                contrastive='penalty_alpha', draft='draft_model', draft_tokens='num_draft_tokens'),
    data=dict(carry='stateful', shapes='num_buckets', marked='special_tokens', masked='mask_probability',
              spelling='characters_per_word', vectors='word_vectors', shared='shared_vocabulary'),
    optimizer=dict(ema='ema_decay', rates='layerwise_rates')).items() for old, new in names.items()}


class Limit(NamedTuple):
    """Which values are possible, and the sentence for one that is not."""

    fits: Callable[[Any], bool]
    reason: str | Callable[[Any], str]


def at_least(low: float) -> Limit:
    return Limit(lambda value: low <= value < math.inf, f'must be at least {low}')


def between(low: float, high: float) -> Limit:
    return Limit(lambda value: low <= value < high, f'must be at least {low} and less than {high}')


def one_of(*names: str) -> Limit:
    return Limit(lambda value: value in names, lambda value: suggestion(value, [name for name in names if name]))


def that(fits: Callable[[Any], bool], reason: str) -> Limit:
    return Limit(fits, reason)


FRACTION = that(lambda value: 0 < value < 1, 'must be more than 0 and less than 1')
POSITIVE = that(lambda value: 0 < value < math.inf, 'must be a positive number')
OFF_OR_POSITIVE = that(lambda value: 0 <= value < math.inf, 'must be a positive number, or 0 for off')


def field(default: Any, help: str, limit: Limit | None = None, *, of: Collection[str] = (), but: Collection[str] = (),
          kind: type | None = None) -> Any:
    """A field of a frozen dataclass of options.

    Args:
        default: its value where nothing else is said; None for one that may be left to whoever reads it, with its `kind`.
        help: what it does, beginning with the field's standard term.
        limit: the values that are possible.
        of: the kinds of runs that have it; (): all of them. but: kinds that have it not, though they are of those.
    """
    return dataclasses.field(default=default, metadata=dict(help=help, limit=limit, of=of, but=but, kind=kind))


def joined(options: type, owned: Mapping[str, type]) -> type:
    """The options of a room with those that others own, {owner: its options}: each of these is a kind of its own."""
    here, more, owners = {found.name for found in dataclasses.fields(options)}, {}, {}
    for owner, theirs in owned.items():
        for found in dataclasses.fields(theirs):
            if found.name in here:
                raise FieldError(found.name, found.default, f'is a field of {options.__name__}; call that of {owner} otherwise')
            meta = {**found.metadata, 'of': (found.name,)}
            more[found.name] = found.name, found.type, dataclasses.field(default=found.default, metadata=meta)
            owners.setdefault(found.name, []).append(owner)
    meaning = {**options.MEANING, **{name: ', '.join(names) for name, names in owners.items()}}
    return dataclasses.make_dataclass(options.__name__, more.values(), bases=(options,), namespace=dict(MEANING=meaning), frozen=True)


def chosen(options: type, kinds: Collection[str]) -> dict[str, dataclasses.Field]:
    """The fields of a dataclass of options that a run of these kinds has, by name."""
    is_read = lambda meta: (not meta['of'] or set(meta['of']) & set(kinds)) and not set(meta['but']) & set(kinds)
    return {found.name: found for found in dataclasses.fields(options) if is_read(found.metadata)}


def defaults(options: type, kinds: Collection[str]) -> ConfigDict:
    """The section of a config that they make."""
    return ConfigDict({name: placeholder(found.metadata['kind']) if found.default is None else found.default
                       for name, found in chosen(options, kinds).items()})


def whole(options: type, values: Mapping[str, Any]) -> ConfigDict:
    """Values of all fields: the defaults of those that only other kinds of runs have."""
    return ConfigDict({**{found.name: found.default for found in dataclasses.fields(options)}, **values})


def check(prefix: str, options: type, kinds: Collection[str], values: Mapping[str, Any], run: str) -> None:
    """Refuses unknown fields and impossible values. run: what it is, for the sentence about a field of other runs."""
    known = chosen(options, kinds)
    for name, value in values.items():
        if name not in known:
            new = new_name(prefix.removeprefix('config.'), name, {found.name for found in dataclasses.fields(options)})
            raise FieldError(f'{prefix}.{name}', value, f'is called {new} now' if new else unknown(name, options, known, run))
        limit = known[name].metadata['limit']
        if limit and not (value is None and known[name].default is None):
            if isinstance(value, float) and math.isnan(value) or not limit.fits(value):
                raise FieldError(f'{prefix}.{name}', value, limit.reason(value) if callable(limit.reason) else limit.reason)


def new_name(section: str, name: str, known: Collection[str]) -> str:
    """What a field is called now, where `known` has it by its new name and nothing by the old one; '' where that is not so."""
    new = RENAMED.get(f'{section}.{name}', '').rpartition('.')[2]
    return new if new in known and name not in known else ''


def unknown(name: str, options: type, known: Collection[str], run: str) -> str:
    """Why a run does not have a field: it is for other kinds of runs, or nothing is called so."""
    found = {found.name: found for found in dataclasses.fields(options)}.get(name)
    if not found:
        return f'no such field; {suggestion(name, known)}'
    meaning = getattr(options, 'MEANING', {})
    of = dict.fromkeys(meaning.get(kind, kind) for kind in found.metadata['of'])
    but = [meaning.get(kind, kind) for kind in found.metadata['but']]
    return f'is for {_listed(of)}{", but not for " * bool(but)}{_listed(but)}; this run {run}; leave it out'


def _listed(names):
    """'a, b and c'."""
    *some, last = [*names] or ['']
    return ', '.join(some) + ' and ' * bool(some) + last
