"""Pictures of how a line was translated: where the models looked, and what the beam thought of."""

import functools

import jax
import numpy as np

from seqjax import decode
from seqjax.analysis.alignment import plot_alignment
from seqjax.analysis.beam_tree import beam_tree_svg
from seqjax.decode.translate import answer_batch
from seqjax.special_tokens import END, START


def explain_row(models, params, encoding, row, search, directory, number, prefix=()):
    """Writes directory/NUMBER_beam.svg and, of models with attention, directory/NUMBER_alignment.png. row: source tokens;
    prefix: target tokens that the answer begins with.

    Where the search has found no answer there is nothing to show.
    """
    shape = next((shape for shape in decode.SHAPES if shape >= len(row)), len(row))
    inputs, lengths = np.pad(row, (0, shape - len(row)))[None], np.array([len(row)], np.int32)
    limits, numbers = np.array([search.limit(len(row), len(prefix))], np.int32), np.zeros(1, np.int32)
    given = decode.Prefix(np.asarray(prefix, np.int32)[None], np.array([len(prefix)], np.int32)) if len(prefix) else None
    found, trace = jax.device_get(answer_batch(models, search, search.limit(shape, len(prefix)), START, END, params, inputs,
                                               lengths, limits, numbers, jax.random.key(0), given, trace=True))
    answer = found.tokens[0, 0, :found.lengths[0, 0]]
    if not len(answer):
        return
    beam_tree_svg(trace, 0, lambda token: encoding.target_words([token])[0], directory / f'{number:03d}_beam.svg', answer)
    weights = jax.device_get(_looked(models, params, inputs, lengths, found.tokens[:, 0]))
    if weights is not None:
        plot_alignment(weights[0, :len(answer), :len(row)], encoding.source_words(row), encoding.target_words(answer),
                       directory / f'{number:03d}_alignment.png')


def pictures(directory):
    """The files that `explain_row` has written there, and no others."""
    return [path for kind in ('beam.svg', 'alignment.png') for path in directory.glob(f'[0-9][0-9][0-9]_{kind}')]


@functools.partial(jax.jit, static_argnums=0)
def _looked(models, params, inputs, lengths, tokens):
    """[B, T, S]: where the models looked while they wrote tokens [B, T], the mean of those that look; None: none does."""
    looked = [model.apply({'params': own}, inputs, lengths, tokens, method='align') for model, own in zip(models, params)]
    looked = [weights for weights in looked if weights is not None]
    return sum(looked) / len(looked) if looked else None
