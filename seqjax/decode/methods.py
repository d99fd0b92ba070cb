"""Decoding methods by name, and which of them the fields of `config.decode` ask for."""

from collections.abc import Mapping
import dataclasses
import inspect
from typing import Any

from seqjax.decode.batches import Limits
from seqjax.decode.beam import Beam, Greedy
from seqjax.decode.contrastive import Contrastive
from seqjax.decode.exact import Exact
from seqjax.decode.hypotheses import check_not_negative
from seqjax.decode.sampling import Sample
from seqjax.decode.speculative import Speculative
from seqjax.errors import FieldError
from seqjax.registry import Registry

METHODS = Registry('method', {'greedy': Greedy, 'sample': Sample, 'beam': Beam, 'exact': Exact,
                                       'contrastive': Contrastive, 'speculative': Speculative})

_DRAWN = ('temperature', 'top_k', 'top_p', 'min_p')


def method_name(options: Any, continues: bool) -> str:
    """The method that config.decode names or, where it names none, the one that its other fields ask for.

    continues: whether the task continues texts, which are drawn where nothing else is asked for.
    """
    if options.method:
        METHODS[options.method]
        return options.method
    if not continues:
        return 'sample' if options.sample else 'exact' if options.exact else 'beam'
    return ('beam' if options.beam > 1 else 'contrastive' if options.contrastive else
            'speculative' if options.draft else 'sample')


def method_of(options: Any, usual: Mapping, continues: bool = False, draft: Any = None) -> Any:
    """The method that `config.decode` describes.

    What it does not read must have its usual value. draft: the decoder of config.decode.draft, for 'speculative'; where it
    is None, what draws instead.
    """
    check_not_negative(options, 'length_penalty', 'coverage_penalty', 'diversity')
    name = method_name(options, continues)
    made = METHODS[name]
    drawn = Sample(**{field: options[field] for field in _DRAWN})
    if name == 'sample' and not continues:
        if options.exact:
            raise FieldError('exact', True, 'searches for an answer, and a sampler draws it; leave out one of them')
        _refuse_unread(options, {**usual, 'length_penalty': 0.0} if options.length_penalty != usual['length_penalty'] else usual,
                       ('beam', 'n_best', 'groups', 'diversity', 'length_penalty', 'coverage_penalty'),
                       'a sampler draws one answer; write {field}={usual}, or leave out the sampler')
    if name == 'exact':
        _refuse_unread(options, usual, ('beam', 'groups', 'diversity', 'coverage_penalty'),
                       'is of a beam, and an exact search has none; write {usual}')
    if not 0 <= options.contrastive <= 1:
        raise FieldError('contrastive', options.contrastive, 'must be at least 0 and at most 1 (0 is off)')
    if options.contrastive and not options.top_k:
        raise FieldError('top_k', 0, f'config.decode.contrastive={options.contrastive} chooses among so many of the likeliest '
                         'tokens; set it to 5, or to another number')
    if options.n_best < 1:
        raise FieldError('n_best', options.n_best, f'must be at least 1 and at most beam={options.beam}')
    beam = _named(lambda: Beam(options.beam, options.length_penalty, options.coverage_penalty, options.groups,
                               options.diversity, 0 if name == 'exact' else options.n_best))
    if name == 'speculative':
        return drawn if draft is None else _named(lambda: Speculative(draft, options.draft_tokens, drawn))
    if not inspect.isclass(made):
        return made
    if name in ('beam', 'sample'):
        return dict(beam=beam, sample=drawn)[name]
    names = dict(alpha='contrastive', k='top_k') if name == 'contrastive' else {}
    chosen = {field.name: options[names.get(field.name, field.name)] for field in dataclasses.fields(made)
              if names.get(field.name, field.name) in options}
    return _named(lambda: made(**chosen, **(dict(expansions=0) if name == 'exact' else {})))


def limits_of(options: Any) -> Limits:
    """What `config.decode` says answers may be."""
    return Limits(max_length=options.max_new_tokens, length_factor=options.length_factor, min_length=options.min_length,
                  no_repeat=options.no_repeat)


def _named(make):
    """A field that a method refuses is named as the config names it."""
    try:
        return make()
    except FieldError as error:
        names = dict(width='beam', tokens='draft_tokens', alpha='contrastive', k='top_k')
        raise FieldError(names.get(error.field, error.field), error.value, error.reason.replace('width=', 'beam=')) from None


def _refuse_unread(options, usual, fields, reason):
    for field in fields:
        if options[field] != usual[field]:
            raise FieldError(field, options[field], reason.format(field=field, usual=usual[field]))
