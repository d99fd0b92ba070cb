"""Pictures of how a line was translated: where the models looked, and what the beam thought of."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from seqjax import decode
from seqjax.analysis.alignment import plot_alignment
from seqjax.analysis.beam_tree import beam_tree_svg
from seqjax.special_tokens import END


def explain_row(models, params, encoding, row, search, directory, number):
    """Writes directory/NUMBER_beam.svg and, of models with attention, directory/NUMBER_alignment.png. row: source tokens."""
    directory.mkdir(exist_ok=True)
    shape = next((shape for shape in decode.SHAPES if shape >= len(row)), len(row))
    inputs, lengths = np.pad(row, (0, shape - len(row)))[None], np.array([len(row)], np.int32)
    limits = np.array([search.limit(len(row))], np.int32)
    found, trace, weights = jax.device_get(_searched(models, search, search.limit(shape), params, inputs, lengths, limits))
    answer = found.tokens[0, 0, :found.lengths[0, 0]]
    beam_tree_svg(trace, 0, lambda token: encoding.target_words([token])[0], directory / f'{number:03d}_beam.svg', answer)
    if weights is not None:
        plot_alignment(weights[0, :len(answer), :len(row)], encoding.source_words(row), encoding.target_words(answer),
                       directory / f'{number:03d}_alignment.png')


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _searched(models, search, max_length, params, inputs, lengths, limits):
    """(Hypotheses, BeamTrace, where the models looked while they wrote the best one, [B, T, S] or None)."""
    writer = decode.ensemble(models, params)
    memory, state = writer.begin(inputs, lengths, max_length)
    found, trace = decode.beam_search(
        functools.partial(writer.step, memory), state, writer.first(inputs, lengths), width=search.beam,
        max_length=max_length, end=END, limits=limits, length_penalty=search.length_penalty,
        coverage_penalty=search.coverage_penalty, attention=writer.attention,
        source_mask=jnp.arange(inputs.shape[1]) < lengths[:, None], groups=search.groups, diversity=search.diversity,
        constraints=(decode.NoRepeat(search.no_repeat),) if search.no_repeat else (), trace=True)
    looked = [model.apply({'params': own}, inputs, lengths, found.tokens[:, 0], method='align')
              for model, own, part in zip(models, params, state) if model.attended(part) is not None]
    return found, trace, sum(looked) / len(looked) if looked else None
