"""From rows of source tokens to rows of target tokens, many at a time, with few compiled programs."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.decode.beam import beam_search, check_width
from seqjax.decode.constraints import MinLength, NoRepeat, Prefix
from seqjax.decode.decoder import decoder
from seqjax.decode.ensemble import ensemble
from seqjax.decode.exact import exact_search
from seqjax.decode.sampling import Sampler, sample
from seqjax.errors import FieldError
from seqjax.special_tokens import END, START

SHAPES = (16, 32, 64, 128, 256)
EXACT_STEPS, EXACT_WAYS = 20_000, 2_000_000  # prefixes that an exact search may grow, and ways to go on that it may keep


class Translation(NamedTuple):
    """tokens: [n] int32, the end included where there is one; score: what it is ranked by; log_prob: its plain log P."""

    tokens: np.ndarray
    score: float
    log_prob: float


@dataclasses.dataclass(frozen=True)
class Search:
    """How an answer is looked for. beam, length_penalty, coverage_penalty, groups, diversity: see `beam_search`.

    An answer to S source tokens has at most length_factor * S + length_margin tokens, a given prefix not counted, and never
    more than max_length. exact: the best answers there are, by `exact_search`, one row after another; for small problems.
    no_repeat: no so many tokens in a row are written twice; 0: off. min_length: an answer has at least so many tokens, the
    end counted, where that is possible. n_best: how many answers are returned. sampler: draws the answer instead of
    searching for it. average: of several models, see `Ensemble`; configs have no such field.
    """

    beam: int = 1
    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    groups: int = 1
    diversity: float = 0.0
    no_repeat: int = 0
    min_length: int = 0
    max_length: int = 256
    length_factor: float = 2.0
    length_margin: int = 10
    n_best: int = 1
    exact: bool = False
    sampler: Sampler | None = None
    average: str = 'probability'

    def __post_init__(self):
        for field in ('length_penalty', 'coverage_penalty', 'diversity', 'no_repeat', 'min_length', 'length_factor',
                      'length_margin'):
            if not 0 <= getattr(self, field) < float('inf'):
                raise FieldError(field, getattr(self, field), 'must be at least 0')
        if self.sampler is not None:
            self._check_drawing()
        if self.exact:
            self._check_exact()
        check_width(self.beam, self.groups, self.diversity, 'beam')
        if self.n_best < 1 or self.n_best > self.beam and not self.exact:
            raise FieldError('n_best', self.n_best, f'must be at least 1 and at most beam={self.beam}')
        if self.max_length < 1:
            raise FieldError('max_length', self.max_length, 'must be at least 1')
        if self.length_factor + self.length_margin < 1:
            raise FieldError('length_margin', self.length_margin, f'with length_factor={self.length_factor} a source of one '
                             'token has no answer; write 1')

    def _check_drawing(self):
        """What a sampler does not read must not be asked for."""
        for field, unread in (('beam', 1), ('n_best', 1), ('groups', 1), ('diversity', 0.0), ('length_penalty', 0.0),
                              ('coverage_penalty', 0.0)):
            if getattr(self, field) != unread:
                raise FieldError(field, getattr(self, field), f'a sampler draws one answer; write {field}={unread}, or leave '
                                 'out the sampler')

    def _check_exact(self):
        """What an exact search does not read must not be asked for."""
        if self.sampler is not None:
            raise FieldError('exact', True, 'searches for an answer, and a sampler draws it; leave out one of them')
        for field, unread in (('beam', 1), ('groups', 1), ('diversity', 0.0), ('coverage_penalty', 0.0)):
            if getattr(self, field) != unread:
                raise FieldError(field, getattr(self, field), f'is of a beam, and an exact search has none; write {unread}')

    def limit(self, length, prefix=0):
        """How many tokens an answer to so many source tokens may have that begins with so many given ones."""
        return min(self.max_length, prefix + int(self.length_factor * length) + self.length_margin)


def translate(model, params, rows, *, search=Search(), batch_size=32, shapes=SHAPES, start=START, end=END, key=None,
              seen=None, prefixes=None):
    """The n best answers to every row, in the order of the rows: a list of lists of `Translation`, best first.

    model, params: one of each, or lists of them, which become an `Ensemble`. rows: 1-D integer arrays; a row of no tokens
    has no answers. Rows of like length share a batch of batch_size rows, padded to the next of `shapes`: as many programs
    are compiled as shapes occur. Neither batch_size nor shapes changes an answer. key: for a sampler; an answer depends on
    it and on the number of its row. seen(n) is called when another n rows are done. prefixes: 1-D integer arrays, one for
    every row; its answers begin with it.
    """
    lists = isinstance(model, (list, tuple))
    models, params = (tuple(model), tuple(params)) if lists else ((model,), (params,))
    if search.sampler is not None and search.sampler.temperature > 0 and key is None:
        raise ValueError('a sampler draws: give a key')
    lengths = np.array([len(row) for row in rows], np.int32)
    given = np.array([0 if prefixes is None else len(prefixes[n]) for n in range(len(rows))], np.int32)
    longest = int(given.max(initial=0))  # one number for all batches: one program for every shape
    if longest >= search.max_length:
        raise ValueError(f'a prefix has {longest} tokens, and an answer at most {search.max_length}; raise max_length')
    answers, batch_size = [[] for _ in rows], 1 if search.exact else batch_size
    for shape, places in _batches(lengths, sorted(shapes), batch_size):
        inputs, used = np.zeros((batch_size, shape), np.int32), np.zeros(batch_size, np.int32)
        numbers, limits = np.zeros(batch_size, np.int32), np.zeros(batch_size, np.int32)
        prefix = Prefix(np.zeros((batch_size, longest), np.int32), np.zeros(batch_size, np.int32)) if longest else None
        for n, place in enumerate(places):
            inputs[n, :lengths[place]] = rows[place]
            used[n], numbers[n], limits[n] = lengths[place], place, search.limit(lengths[place], given[place])
            if longest:
                prefix.tokens[n, :given[place]], prefix.lengths[n] = prefixes[place], given[place]
        key, limit = jax.random.key(0) if key is None else key, search.limit(shape, longest)
        if search.exact:
            found = _answer_exactly(models, search, limit, start, end, params, inputs, used, limits, prefix)
        else:
            found = jax.device_get(answer_batch(models, search, limit, start, end, params, inputs, used, limits, numbers, key,
                                                prefix))
        for n, place in enumerate(places):
            answers[place] = _listed(jax.tree.map(lambda leaf: leaf[n], found), search.n_best)
        if seen is not None:
            seen(len(places))
    return answers


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4), static_argnames='trace')
def answer_batch(models, search, max_length, start, end, params, inputs, lengths, limits, numbers, key, prefix=None, trace=False):
    """`Hypotheses` of one batch; with trace, for a beam, also its `BeamTrace`. limits: 0 for rows that are padding. prefix: a
    `Prefix`, or None."""
    writer = _writer(models, params, start, search.average)
    memory, state = writer.begin(inputs, lengths, max_length)
    same = dict(max_length=max_length, end=end, limits=limits, constraints=_constraints(search, end, prefix))
    step, first = functools.partial(writer.step, memory), writer.first(inputs, lengths)
    if search.sampler is not None:
        keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(numbers)
        return sample(step, state, first, sampler=search.sampler, keys=keys, **same)
    return beam_search(step, state, first, width=search.beam, length_penalty=search.length_penalty,
                       coverage_penalty=search.coverage_penalty, attention=writer.attention,
                       source_mask=jnp.arange(inputs.shape[1]) < lengths[:, None], groups=search.groups,
                       diversity=search.diversity, trace=trace, **same)


def _writer(models, params, start, average):
    return decoder(models[0], params[0], start) if len(models) == 1 else ensemble(models, params, start, average)


def _constraints(search, end, prefix):
    constraints = (NoRepeat(search.no_repeat),) if search.no_repeat else ()
    constraints += (MinLength(search.min_length, end),) if search.min_length else ()
    return constraints + (() if prefix is None else (prefix,))


def _answer_exactly(models, search, max_length, start, end, params, inputs, lengths, limits, prefix):
    """The same as of `answer_batch`, of one row, by an exact search."""
    memory, state = _begin(models, start, search.average, max_length, params, inputs, lengths)
    first = _writer(models, params, start, search.average).first(inputs, lengths)
    step, state = _exact_step(models, start, search.average), (params, memory, state)
    tokens = jax.eval_shape(step, state, first)[1].shape[-1]
    grown = min(EXACT_STEPS, EXACT_WAYS // tokens)
    try:
        return exact_search(step, state, first, max_length=int(limits[0]), end=end, length_penalty=search.length_penalty,
                            constraints=_constraints(search, end, prefix), n_best=search.n_best, expansions=grown)
    except FieldError as error:
        if error.field != 'expansions':
            raise
        raise FieldError('exact', True, f'there is too much to search: {grown:,} beginnings of answers to a row of {lengths[0]} '
                         f'tokens do not show the best one, of up to {limits[0]} tokens out of {tokens:,}; write false and '
                         'search with a beam, or make it easier with length_penalty=0 or a smaller max_new_tokens') from None


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _begin(models, start, average, max_length, params, inputs, lengths):
    return _writer(models, params, start, average).begin(inputs, lengths, max_length)


@functools.cache
def _exact_step(models, start, average):
    """A step that is the same function for every row, so that it is compiled once: all it needs is in the state."""
    def step(state, tokens):
        params, memory, state = state
        state, logits = _writer(models, params, start, average).step(memory, state, tokens)
        return (params, memory, state), logits

    return step


def _batches(lengths, shapes, batch_size):
    """(shape, places of at most batch_size rows) for all rows that have tokens.

    The longest come first, so that a last batch of few rows is one of few steps.
    """
    if len(lengths) and lengths.max() > shapes[-1]:
        raise ValueError(f'row {lengths.argmax()} has {lengths.max()} tokens, and the longest of shapes is {shapes[-1]}; '
                         'split the row, or declare a longer shape')
    places = np.flatnonzero(lengths)
    places = places[np.argsort(-lengths[places], kind='stable')]
    for begin in range(0, len(places), batch_size):
        some = places[begin:begin + batch_size]
        yield next(shape for shape in shapes if shape >= lengths[some[0]]), some


def _listed(found, n_best):
    """The answers of one row that there are; found: `Hypotheses` without its first axis."""
    return [Translation(tokens[:length], float(score), float(log_prob))
            for tokens, length, score, log_prob in zip(*found) if length][:n_best]
