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
    return ('beam' if options.num_beams > 1 else 'contrastive' if options.penalty_alpha else
            'speculative' if options.draft_model else 'sample')


def method_of(options: Any, usual: Mapping, continues: bool = False, draft: Any = None) -> Any:
    """The method that `config.decode` describes.

    What it does not read must have its usual value. draft: the decoder of config.decode.draft_model, for 'speculative'; where it
    is None, what draws instead.
    """
    check_not_negative(options, 'length_penalty', 'coverage_penalty', 'diversity_penalty')
    name = method_name(options, continues)
    made = METHODS[name]
    drawn = Sample(**{field: options[field] for field in _DRAWN})
    if name == 'sample' and not continues:
        if options.exact:
            raise FieldError('exact', True, 'searches for an answer, and a sampler draws it; leave out one of them')
        _refuse_unread(options, {**usual, 'length_penalty': 0.0} if options.length_penalty != usual['length_penalty'] else usual,
                       ('num_beams', 'n_best', 'num_beam_groups', 'diversity_penalty', 'length_penalty', 'coverage_penalty'),
                       'a sampler draws one answer; write {field}={usual}, or leave out the sampler')
    if name == 'exact':
        _refuse_unread(options, usual, ('num_beams', 'num_beam_groups', 'diversity_penalty', 'coverage_penalty'),
                       'is of a beam, and an exact search has none; write {usual}')
    if not 0 <= options.penalty_alpha <= 1:
        raise FieldError('penalty_alpha', options.penalty_alpha, 'must be at least 0 and at most 1 (0 is off)')
    if options.penalty_alpha and not options.top_k:
        raise FieldError('top_k', 0, f'config.decode.penalty_alpha={options.penalty_alpha} chooses among so many of the likeliest '
                         'tokens; set it to 5, or to another number')
    if options.n_best < 1:
        raise FieldError('n_best', options.n_best, f'must be at least 1 and at most num_beams={options.num_beams}')
    beam = Beam(options.num_beams, options.length_penalty, options.coverage_penalty, options.num_beam_groups, options.diversity_penalty,
                0 if name == 'exact' else options.n_best)
    if name == 'speculative':
        return drawn if draft is None else Speculative(draft, options.num_draft_tokens, drawn)
    if not inspect.isclass(made):
        return made
    if name in ('beam', 'sample'):
        return dict(beam=beam, sample=drawn)[name]
    chosen = {field.name: options[field.name] for field in dataclasses.fields(made) if field.name in options}
    return made(**chosen, **(dict(expansions=0) if name == 'exact' else {}))


def limits_of(options: Any) -> Limits:
    """What `config.decode` says answers may be."""
    return Limits(max_length=options.max_new_tokens, length_factor=options.length_factor, min_length=options.min_length,
                  no_repeat_ngram_size=options.no_repeat_ngram_size)


def _refuse_unread(options, usual, fields, reason):
    for field in fields:
        if options[field] != usual[field]:
            raise FieldError(field, options[field], reason.format(field=field, usual=usual[field]))
