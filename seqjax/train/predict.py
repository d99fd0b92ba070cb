"""Labels new sequences with a run: one line in, one dict out, in the same order."""

import functools

import jax
import numpy as np

from seqjax.data import batching
from seqjax.errors import UserError
from seqjax.train.experiment import make_task
from seqjax.train.modes import find_checkpoint, for_these_devices, open_run, restore_parameters
from seqjax.train.progress import ProgressBar

LINES_AT_ONCE = 4096
SHORTEST_ROW = 16  # rows are as long as the next power of two: few programs, whatever the lines
ANSWERS = {'classification': 'label', 'regression': 'prediction', 'tagging': 'labels'}


def predict(config, workdir, lines, checkpoint='latest'):
    """Yields one dict for every line: its input, and what the run says of it.

        classification   label, probabilities {class: p}
        regression       prediction
        tagging          tokens, labels, and the probability of each label

    A line with nothing in it gets a null and the reason. lines: any iterable of str, read a few thousand at a time.
    """
    if jax.process_count() > 1:
        raise UserError(f'--mode=predict: is done by one process and not by {jax.process_count()}; leave out --coordinator')
    config = for_these_devices(config)
    run = open_run(config, workdir)
    encoding = run.encoding()
    if encoding.tokenizer is None:
        raise UserError(f'--workdir={run.path}: the run labels clips of frames, which are no lines of text; '
                        'use --mode=eval, or tasks and models as a library')
    sample = {'inputs': jax.tree.map(lambda x: x[None], encoding.inputs('a'))}
    task = make_task(config, for_model=encoding.for_model(), for_task=encoding.for_task(), sample=sample['inputs'])
    step, checkpoints = find_checkpoint(run, checkpoint)
    label = functools.partial(jax.jit(task.predict), restore_parameters(config, task, checkpoints, step, sample))
    with ProgressBar('predict', None) as bar:
        done = 0
        for piece in _pieces(lines):
            yield from _predict_lines(piece, encoding, label, config.data.batch_size)
            done += len(piece)
            bar.update(done, f'{done:,} lines')


def _predict_lines(lines, encoding, label, batch_size):
    sequences = [dict(inputs=encoding.inputs(line)) for line in lines]
    lengths = np.array([batching.length_of(sequence) for sequence in sequences])
    answers = [None] * len(lines)
    rows = np.maximum(SHORTEST_ROW, 2 ** np.ceil(np.log2(np.maximum(lengths, 1))).astype(int))
    for row_length in np.unique(rows):
        places = np.flatnonzero((rows == row_length) & (lengths > 0))
        for start in range(0, len(places), batch_size):
            chosen = places[start:start + batch_size]
            batch = batching.padded([sequences[place] for place in chosen], row_length, batch_size)
            outputs = jax.device_get(label(batch))
            for number, place in enumerate(chosen):
                of_row = {name: value[number] for name, value in outputs.items()}
                answers[place] = _describe(lines[place], lengths[place], of_row, encoding)
    nothing = {ANSWERS[encoding.task]: None, 'reason': 'an empty line'}
    return [answer or dict(input=line, **nothing) for line, answer in zip(lines, answers)]


def _describe(line, length, outputs, encoding):
    if encoding.task == 'regression':
        return dict(input=line, prediction=float(outputs['predictions']))
    if encoding.task == 'classification':
        probabilities = {name: float(p) for name, p in zip(encoding.classes, outputs['probabilities'])}
        return dict(input=line, label=max(probabilities, key=probabilities.get), probabilities=probabilities)
    labels = outputs['labels'][:length]
    tokens = line.split() if encoding.tokenizer.unit == 'word' else list(line)
    return dict(input=line, tokens=tokens, labels=[encoding.classes[label] for label in labels],
                probabilities=[float(p[label]) for p, label in zip(outputs['probabilities'], labels)])


def _pieces(lines):
    """Lists of at most LINES_AT_ONCE lines, without their ends."""
    piece = []
    for line in lines:
        piece.append(line.rstrip('\r\n'))
        if len(piece) == LINES_AT_ONCE:
            yield piece
            piece = []
    if piece:
        yield piece
