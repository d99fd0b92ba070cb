"""Labels new sequences with a run, or fills in what is masked: one line in, one dict out, in the same order."""

import functools

import jax
import numpy as np

from seqjax import config as configs
from seqjax import decode
from seqjax.data import TextPair
from seqjax.data.batches import ragged
from seqjax.errors import UserError
from seqjax.modes.eval import find_checkpoint, for_these_devices, open_run, restore_parameters
from seqjax.modes.input_warnings import Noticed
from seqjax.modes.lines import open_input, print_objects
from seqjax.modes.mode import CHECKPOINT, INPUT, Mode
from seqjax.train.experiment import make_task
from seqjax.train.progress import ProgressBar

LINES_AT_ONCE = 4096


def predict_lines(config, workdir, lines, checkpoint='latest'):
    """Yields one dict for every line: its input, and what the run says of it.

        classification   label, probabilities {class: p}
        regression       prediction
        tagging          tokens, labels, and the probability of each label
        masked_lm        text, with the likeliest token for every '<mask>', and tokens, [[token, p], ...] of the likeliest

    A run over two texts a row reads them with a TAB between them. A line with nothing in it, or without a TAB where there must
    be one, gets a null and the reason. lines: any iterable of str, read a few thousand at a time. At the end it is said what
    was unusual about them, and in which.
    """
    if jax.process_count() > 1:
        raise UserError(f'--mode=predict: is done by one process and not by {jax.process_count()}; leave out --coordinator')
    config = for_these_devices(config)
    run = open_run(config, workdir)
    encoding = run.codec('labelled')
    if encoding.tokenizer is None:
        raise UserError(f'--workdir={run.path}: the run labels clips of frames, which are no lines of text; '
                        'use --mode=eval, or tasks and models as a library')
    if not configs.task_of(config).answer:
        raise UserError(f'--mode=predict: {configs.task_name(config)!r} predicts nothing about single sequences; use --mode=eval')
    sample = {'inputs': jax.tree.map(lambda x: x[None], encoding.inputs(TextPair('a', 'a') if encoding.pairs else 'a'))}
    task = make_task(config, for_model=encoding.for_model(), for_task=encoding.for_task(), sample=sample['inputs'])
    step, checkpoints = find_checkpoint(run, checkpoint)
    label = functools.partial(jax.jit(task.predict), restore_parameters(config, task, checkpoints, step, sample))
    with ProgressBar('predict', None, unit='line') as bar:
        noticed, done = Noticed(encoding.marks.unknown), 0
        for piece in pieces_of(lines):
            bar.update(done, '' if done else 'compiling')
            sequences = [task.parse(line, encoding) for line in piece]
            rows = [task.row(sequence, encoding) if reason is None else None for sequence, reason in sequences]
            for number, (line, row, (_, reason)) in enumerate(zip(piece, rows, sequences), done + 1):
                _look(noticed, number, line, row, reason)
            yield from _predict_lines(task, piece, sequences, rows, encoding, label, config.data.batch_size)
            done += len(piece)
            bar.update(done)
        for sentence in noticed.sentences():
            bar.say(sentence)


def _look(noticed, number, line, row, reason):
    """Notes what is unusual about a line; row: None where there is a reason to say nothing of it."""
    if row is None:
        noticed.note(number, f'without an answer ({reason})')
        return noticed.look(number, line)
    inputs = row['inputs']
    noticed.look(number, line, inputs['words'] if isinstance(inputs, dict) else inputs)


def _predict_lines(task, lines, sequences, rows, encoding, label, batch_size):
    lengths = np.array([0 if row is None else ragged.length_of(row) for row in rows])
    answers = [{'input': line, task.answer: None, 'reason': reason} for line, (_, reason) in zip(lines, sequences)]
    for row_length, places in decode.of_like_length(lengths, batch_size, longest=encoding.longest):
        most = max(len(rows[place].get('places', ())) for place in places)
        sizes = dict(inputs=row_length, places=min(row_length, 2 ** most.bit_length()))
        batch = ragged.padded([rows[place] for place in places], sizes, batch_size)
        outputs = jax.device_get(label(batch))
        for number, place in enumerate(places):
            of_row = {name: value[number] for name, value in outputs.items()}
            answers[place] = task.render(lines[place], sequences[place][0], rows[place], of_row, encoding)
    return answers


def pieces_of(lines):
    """Lists of at most LINES_AT_ONCE lines, without their ends."""
    piece = []
    for line in lines:
        piece.append(line.rstrip('\r\n'))
        if len(piece) == LINES_AT_ONCE:
            yield piece
            piece = []
    if piece:
        yield piece


def _run(request):
    with open_input(request) as lines:
        print_objects(predict_lines(request.config, request.workdir, lines, request.flags.checkpoint))


MODE = Mode(_run, 'Label every line of --input, or fill in its masked tokens.', (CHECKPOINT, INPUT),
            reads=('data.batch_size', 'quantise', 'parallel'))
