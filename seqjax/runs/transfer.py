"""A run that begins with parameters that another has learned: `config.init_from`.

It is read once, before the first step. From its first checkpoint on the new run holds all that it needs, and what it began
with may be moved or removed.
"""

import dataclasses
import re
from typing import Any

from seqjax import config as configs
from seqjax import data
from seqjax.errors import FieldError
from seqjax.params import low_rank, paths
from seqjax.runs.checkpoints import Checkpoints
from seqjax.params.layer_layouts import in_layout_of
from seqjax.runs.origins import open_origin
from seqjax.runs.saved_model import FILE, loads

# Endings of fields of a model that weights do not depend on: with others they mean the same.
HARMLESS = ('name', 'dropout', 'dtype', 'scan_layers', 'remat', 'init_scale', 'zoneout', 'zero_init', 'momentum', 'position_scale')


@dataclasses.dataclass(frozen=True)
class Start:
    """What a run begins with.

    taken: {path of a parameter: its path in the origin}. fresh: paths of those that start anew. left_out: paths in the
    origin that nobody takes. wanted: {path: shape and sharding} of all parameters of the run, those of LoRA left out; running
    statistics of batch norms are among them. notes: what else is to be said.
    """

    origin: Any
    taken: dict
    fresh: list
    left_out: list
    wanted: dict
    notes: list

    def parameters(self):
        """{path: array} of what is taken, each where the run wants it."""
        found = self.origin.fetch({old: self.wanted[new].sharding for new, old in self.taken.items()})
        return {new: found[old] for new, old in self.taken.items()}

    def describe(self):
        """Lines for a reader: how many were taken, which are new, which of the old ones are not used."""
        new = f' ({_listed(self.fresh, self.wanted)})' if self.fresh else ''
        old = f', {len(self.left_out)} left out ({_listed(self.left_out, self.origin.shapes)})' if self.left_out else ''
        yield f'begins with {self.origin}: {len(self.taken)} parameters taken{old}, {len(self.fresh)} new{new}'
        yield from self.notes


def find_origin(config, run, report=print):
    """The Origin that `config.init_from` names; None where it names none, or the run has gone on from it already."""
    if not config.init_from or Checkpoints(run.checkpoints).steps():
        return None
    return open_origin(config.init_from, report)


def with_model_of(origin, config, typed=()):
    """(config with the model that files of Hugging Face describe, the fields that they decided): nothing is typed again.

    What weights do not depend on stays as the config has it, see HARMLESS. typed: fields that were asked for in so many words,
    as 'model.width'; they are refused where the files say otherwise.
    """
    if origin is None or origin.family != config.model.name:
        return config, ()
    decided = {field: value for field, value in origin.model.items() if field in config.model and not field.endswith(HARMLESS)}
    for field, value in decided.items():
        if f'model.{field}' in typed and config.model[field] != value:
            raise FieldError(f'config.model.{field}', config.model[field], f'the weights in {origin} have {value!r}; leave it out')
    config = config.copy_and_resolve_references()
    config.model.update(decided)
    return config, tuple(decided)


def as_begun(config, run, typed=()):
    """The config with the fields of the model that were decided when the run began: see `with_model_of`."""
    text = run.read(FILE) if config.init_from else None
    saved = text and loads(text)
    if not saved or saved.name != config.model.name:
        return config
    config = config.copy_and_resolve_references()
    config.model.update({field: saved.fields[field] for field in saved.decided if f'model.{field}' not in typed})
    return config


def make_start(config, origin, parts):
    """The Start of a run; what does not fit is refused, and what was misspelt is named. Reads no array."""
    wanted = {**_of_model(parts.target.params), **paths.by_path(parts.target.batch_stats)}
    origin = in_layout_of(wanted, origin)
    offered = renamed(origin.shapes, config.init_map)
    anew = paths.parse(config.init_fresh)
    for pattern in anew:
        if not paths.matches_any(wanted, pattern):
            raise FieldError('config.init_fresh', pattern, f'matches no parameter; there are: {", ".join(wanted)}')
    taken = {path: offered[path] for path in wanted if path in offered and not paths.matches(path, anew)}
    if not taken:
        raise FieldError('config.init_from', config.init_from, 'no parameter has the same name there and here; there: '
                         f'{", ".join(origin.shapes)}; here: {", ".join(wanted)}; rename them with config.init_map')
    _check_shapes(config, {path: (origin.shapes[old].shape, wanted[path].shape) for path, old in taken.items()}, wanted)
    fresh, used = [path for path in wanted if path not in taken], set(taken.values())
    return Start(origin, taken, fresh, [path for path in origin.shapes if path not in used], wanted,
                 [*_other_tokens(config, origin, parts.dataset.for_model()), *_other_fields(config, origin), *_stuck(fresh, wanted, parts.parameters)])


def renamed(known, text):
    """{new path: old path} of the old paths `known`.

    text: 'OLD=NEW,...'; the last rule that matches a path renames it, and without one it stays. A '*' of OLD stands for
    anything, and that of NEW for the same; a rule without any is for the parameter or the part of that name. An empty NEW
    leaves out.
    """
    rules, found = [(rule, *_parsed(rule)) for rule in paths.parse(text)], {}
    for rule, pattern, _ in rules:
        if not any(map(pattern.fullmatch, known)):
            raise FieldError('config.init_map', rule, f'matches no parameter there; there are: {", ".join(known)}')
    for old in known:
        matching = [(pattern.fullmatch(old), new) for _, pattern, new in rules if pattern.fullmatch(old)]
        new = old if not matching else _filled(matching[-1][1], matching[-1][0].groups())
        if new in found:
            raise FieldError('config.init_map', text, f'{found[new]} and {old} would both be {new}; leave one of them out, as '
                             f"with '{old}='")
        if new:
            found[new] = old
    return found


def _parsed(rule):
    """(compiled pattern over old paths, new path with '*' for its groups)."""
    old, equals, new = (part.strip() for part in rule.partition('='))
    if not old or not equals:
        raise FieldError('config.init_map', rule, "write OLD=NEW, as in 'encoder/*=*', or OLD= to leave it out")
    if new and old.count('*') != new.count('*'):
        raise FieldError('config.init_map', rule, "must have as many '*' on the right as on the left")
    if '*' not in old:
        return re.compile(f'{re.escape(old)}((?:/.*)?)'), new and f'{new}*'
    return re.compile('(.*)'.join(map(re.escape, old.split('*')))), new


def _filled(new, groups):
    """'a/*' and ('b',) -> 'a/b'"""
    groups = iter(groups)
    return re.sub(r'\*', lambda _: next(groups), new)


def _check_shapes(config, shapes, wanted):
    """shapes: {path: (there, here)}"""
    different = {path: f'{path}: {list(there)} there, {list(here)} here'
                 for path, (there, here) in shapes.items() if there != here}
    if different:
        anew = ','.join([*paths.parse(config.init_fresh), *paths.condensed(different, wanted)])
        raise FieldError('config.init_from', config.init_from, 'some parameters have another shape there:\n  '
                         + '\n  '.join(different.values()) + f"\nto start these anew, add --config.init_fresh='{anew}'")


def _other_tokens(config, origin, for_model):
    """A note where a token here is another one there, and tables of tokens mean something else."""
    if for_model.get('vocabulary') and data.inherited(data.saved_codec(origin.read), configs.task_name(config)) is None:
        yield ('note: tokens are those of this run: what was learned there of single tokens, as in tables, means nothing here; '
               'start it anew with config.init_fresh')


def _other_fields(config, origin):
    """A note where the models are not the same, and shapes do not tell."""
    here = config.model.to_dict()
    different = [f'{field}={here[field]!r} here, {value!r} there' for field, value in sorted(origin.model.items())
                 if field in here and here[field] != value and not field.endswith(HARMLESS)]
    if different:
        yield f'note: config.model differs: {"; ".join(different)}'


def _stuck(fresh, wanted, parameters):
    """A note on what is new and will stay as it was drawn."""
    if stuck := paths.condensed([path for path in fresh if not parameters.is_trained(path)], wanted):
        pattern = ','.join(f'!{name}' for name in stuck)
        yield (f'warning: {", ".join(stuck)} is new and frozen, so it stays as it was drawn; to train it, add '
               f"'{pattern}' to config.optimizer.freeze")


def _of_model(params):
    """{path: leaf} of the parameters that a model without LoRA has too."""
    return {path: leaf for path, leaf in paths.by_path(params).items() if not low_rank.is_adapter(path)}


def _listed(chosen, known):
    return ', '.join(paths.condensed(chosen, known))
