"""Pictures of how a line was translated: where the models looked, and what the beam thought of."""

import jax
import numpy as np

from seqjax import decode
from seqjax.analysis.alignment import plot_alignment
from seqjax.analysis.beam_tree import beam_tree_svg
from seqjax.decode.batches import Batch, solve_batch


def explain_row(decoder, encoding, row, method, limits, directory, number, prefix=()):
    """Writes directory/NUMBER_beam.svg and, of models with attention, directory/NUMBER_alignment.png. row: source tokens;
    prefix: target tokens that the answer begins with.

    Where the search has found no answer there is nothing to show.
    """
    shape = next((shape for shape in decode.SHAPES if shape >= len(row)), len(row))
    inputs, lengths = np.pad(row, (0, shape - len(row)))[None], np.array([len(row)], np.int32)
    most = np.array([limits.of(decoder, len(row), len(prefix))], np.int32)
    given = decode.Prefix(np.asarray(prefix, np.int32)[None], np.array([len(prefix)], np.int32)) if len(prefix) else None
    found, trace = jax.device_get(solve_batch(
        method, limits, limits.of(decoder, shape, len(prefix)), decoder, Batch(inputs, lengths, most, np.zeros(1, np.int32), given),
        jax.random.key(0), solve='traced'))
    answer = found.tokens[0, 0, :found.lengths[0, 0]]
    if not len(answer):
        return
    beam_tree_svg(trace, 0, lambda token: encoding.target_words([token])[0], directory / f'{number:03d}_beam.svg', answer)
    weights = jax.device_get(looked(decoder, inputs, lengths, found.tokens[:, 0]))
    if weights is not None:
        plot_alignment(weights[0, :len(answer), :len(row)], encoding.source_words(row), encoding.target_words(answer),
                       directory / f'{number:03d}_alignment.png')


def pictures(directory):
    """The files that `explain_row` has written there, and no others."""
    return [path for kind in ('beam.svg', 'alignment.png') for path in directory.glob(f'[0-9][0-9][0-9]_{kind}')]


@jax.jit
def looked(decoder, inputs, lengths, tokens):
    """[B, T, S]: the mean of the models' attention weights while they wrote tokens [B, T]; None: none has attention."""
    members = getattr(decoder, 'members', (decoder,))
    looked = [one.align(inputs, lengths, tokens) for one in members]
    looked = [weights for weights in looked if weights is not None]
    return sum(looked) / len(looked) if looked else None
