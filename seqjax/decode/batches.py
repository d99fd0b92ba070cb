"""From many sequences of tokens to what is decoded from them, batch by batch, with few compiled programs."""

from collections.abc import Callable, Sequence
import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.decode.beam import Greedy
from seqjax.decode.constraints import MinLength, NoRepeat, Prefix
from seqjax.decode.continuous import serve
from seqjax.decode.decoder import LanguageModelDecoder
from seqjax.decode.hypotheses import NONE, Hypotheses, check_not_negative
from seqjax.decode.lengths import of_like_length
from seqjax.decode.problem import Problem
from seqjax.decode.sampling import Sample
from seqjax.errors import FieldError

SHAPES = (16, 32, 64, 128, 256)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What answers may be, whatever the method.

    An answer to S source tokens has at most length_factor * S + length_margin tokens, a given prefix not counted, and never
    more than max_length; the continuation of a prompt and the caption of an image have at most max_length. min_length: an answer
    has at least so many tokens, the end counted, where that is possible. no_repeat_ngram_size: no-repeat n-gram blocking; 0: off.
    """

    max_length: int = 256
    length_factor: float = 2.0
    length_margin: int = 10
    min_length: int = 0
    no_repeat_ngram_size: int = 0

    def __post_init__(self):
        check_not_negative(self, 'no_repeat_ngram_size', 'min_length', 'length_factor', 'length_margin')
        if self.max_length < 1:
            raise FieldError('max_length', self.max_length, 'must be at least 1')
        if self.length_factor + self.length_margin < 1:
            raise FieldError('length_margin', self.length_margin, f'with length_factor={self.length_factor} a source of one '
                             'token has no answer; write 1')

    def of(self, decoder: Any, length: int | None, prefix: int = 0) -> int:
        """How many tokens an answer to so many source tokens, None: to an image, may have that begins with so many given ones."""
        if length is None or isinstance(decoder, LanguageModelDecoder):
            return self.max_length
        return min(self.max_length, prefix + int(self.length_factor * length) + self.length_margin)

    def constraints(self, end: int, prefix: Prefix | None = None) -> tuple:
        chosen = (NoRepeat(self.no_repeat_ngram_size),) if self.no_repeat_ngram_size else ()
        chosen += (MinLength(self.min_length, end),) if self.min_length else ()
        return chosen + (() if prefix is None else (prefix,))


class Batch(NamedTuple):
    """B rows: inputs [B, S] or images [B, H, W, C], lengths [B], limits [B] (0: padding), the numbers of the rows [B], and a `Prefix`
    or None."""

    inputs: np.ndarray
    lengths: np.ndarray
    limits: np.ndarray
    numbers: np.ndarray
    prefix: Prefix | None = None


def search(decoder: Any, inputs: Sequence, method: Any = Greedy(), *, limits: Limits = Limits(), key: jax.Array | None = None,
           batch_size: int = 32, shapes: Sequence[int] = SHAPES, prefixes: Sequence | None = None,
           seen: Callable[[int], None] = lambda count: None, report: Callable[[dict], None] | None = None) -> list[Hypotheses]:
    """Decode every input: a list of `Hypotheses`, one for each, best first.

        decoder = decode.make_decoder(model, params)
        found = decode.search(decoder, rows, decode.Beam(5, length_penalty=0.6))
        found[0].texts[0], found[0].scores[0]

    Args:
        decoder: see `make_decoder`: an encoder-decoder, a language model or an `Ensemble`.
        inputs: 1-D integer arrays: sources, or prompts to continue. A row of no tokens has no hypotheses. Or images [H, W, C] of one
            size, each of which is asked for once.
        method: `Greedy`, `Sample`, `Beam`, `Exact`, `Contrastive`, `Speculative`, or any frozen dataclass with
            solve(problem) -> Hypotheses (see `Problem`) or write(decoder, prompts, max_new_tokens=, key=, report=).
        limits: what answers may be.
        key: for a method that draws; an answer depends on it and on the number of its row.
        batch_size, shapes: rows of like length share a batch, padded to the next of `shapes`: as many programs are compiled
            as shapes occur. Neither changes an answer.
        prefixes: 1-D integer arrays, one for every row; its answers begin with it.
        seen: called with n when another n rows are done. report: told facts of a method, as {'accepted': share} of `Speculative`.

    A method that can `write` continues prompts of a language model past its context length: its window moves along. With
    prefixes, min_length or no_repeat_ngram_size it does not.
    """
    if getattr(method, 'draws', False) and key is None:
        raise ValueError('a sampler draws: give a key')
    plain = prefixes is None and not limits.min_length and not limits.no_repeat_ngram_size
    if isinstance(decoder, LanguageModelDecoder) and hasattr(method, 'write') and (plain or not hasattr(method, 'solve')):
        options = dict(key=key, max_new_tokens=limits.max_length)
        if isinstance(method, Sample) and len(inputs) > batch_size:
            return serve(decoder, inputs, method, rows=batch_size, **options)[0]
        return method.write(decoder, inputs, report=report, **options)
    if not hasattr(method, 'solve'):
        raise FieldError('method', type(method).__name__, 'continues prompts of one language model, without prefixes, min_length '
                         'and no_repeat_ngram_size; choose another method')
    size = np.shape(inputs[0]) if len(inputs) and np.ndim(inputs[0]) > 1 else ()  # of images
    lengths = np.ones(len(inputs), np.int32) if size else np.array([len(row) for row in inputs], np.int32)
    given = np.array([0 if prefixes is None else len(prefixes[n]) for n in range(len(inputs))], np.int32)
    longest = int(given.max(initial=0))  # one number for all batches: one program for every shape
    if longest >= limits.max_length:
        raise ValueError(f'a prefix has {longest} tokens, and an answer at most {limits.max_length}; raise max_length')
    on_host = getattr(method, 'on_host', False)
    answers, batch_size = [NONE] * len(lengths), 1 if on_host else batch_size
    key = jax.random.key(0) if key is None else key
    for shape, places in of_like_length(lengths, batch_size, (1,) if size else sorted(shapes)):
        rows = np.zeros((batch_size, *size), np.asarray(inputs[0]).dtype) if size else np.zeros((batch_size, shape), np.int32)
        batch = Batch(rows, *np.zeros((3, batch_size), np.int32))
        if longest:
            batch = batch._replace(prefix=Prefix(np.zeros((batch_size, longest), np.int32), np.zeros(batch_size, np.int32)))
        for n, place in enumerate(places):
            batch.inputs[n, :None if size else lengths[place]] = inputs[place]
            batch.lengths[n], batch.numbers[n] = lengths[place], place
            batch.limits[n] = limits.of(decoder, None if size else lengths[place], given[place])
            if longest:
                batch.prefix.tokens[n, :given[place]], batch.prefix.lengths[n] = prefixes[place], given[place]
        solve = solve_on_host if on_host else solve_batch
        most = limits.of(decoder, None if size else shape, longest)
        found = jax.device_get(solve(method, limits, most, decoder, batch, key)).rows()
        for n, place in enumerate(places):
            answers[place] = found[n]
        seen(len(places))
    return answers


@functools.partial(jax.jit, static_argnums=(0, 1, 2), static_argnames='solve')
def solve_batch(method, limits, max_length, decoder, batch, key, solve='solve'):
    """What method.solve(problem) finds for a batch. solve: another of its functions, as 'traced'."""
    memory, state = decoder.begin(batch.inputs, batch.lengths, max_length)
    return getattr(method, solve)(_problem(limits, max_length, decoder, batch, state, key,
                                           functools.partial(decoder.step, memory)))


def solve_on_host(method, limits, max_length, decoder, batch, key):
    """The same by a method that calls the step itself."""
    memory, state = _begin(max_length, decoder, batch.inputs, batch.lengths)
    return method.solve(_problem(limits, max_length, decoder, batch, (decoder, memory, state), key, _step))


def _problem(limits, max_length, decoder, batch, state, key, step):
    end = -1 if decoder.end is None else decoder.end
    mask = jnp.arange(batch.inputs.shape[1]) < batch.lengths[:, None] if batch.inputs.ndim == 2 else None
    return Problem(step, state, decoder.first(batch.inputs, batch.lengths), max_length, end, batch.limits,
                   limits.constraints(end, batch.prefix),
                   jax.vmap(lambda number: jax.random.fold_in(key, number))(batch.numbers), decoder.attention, mask)


@functools.partial(jax.jit, static_argnums=0)
def _begin(max_length, decoder, inputs, lengths):
    return decoder.begin(inputs, lengths, max_length)


@jax.jit
def _step(state, tokens):
    """The same function for every row, so that it is compiled once: all it needs is in the state."""
    decoder, memory, state = state
    state, logits = decoder.step(memory, state, tokens)
    return (decoder, memory, state), logits
