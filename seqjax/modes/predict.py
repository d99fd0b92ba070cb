"""Labels new sequences with a run, or fills in what is masked: one line in, one dict out, in the same order."""

import functools

import jax
import numpy as np

from seqjax import config as configs
from seqjax import decode, tasks
from seqjax.data.batches import ragged
from seqjax.data.readers.files import read_sentences
from seqjax.errors import UserError
from seqjax.runs.restore import for_these_devices, open_run, restored
from seqjax.modes.input_warnings import Noticed
from seqjax.modes.lines import answered, open_input, print_objects
from seqjax.modes.mode import CHECKPOINT, INPUT, Mode, one_process



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
    one_process('predict')
    config = for_these_devices(config)
    run = open_run(config, workdir)
    encoding = run.codec('labelled')
    if encoding.tokenizer is None:
        raise UserError(f'--workdir={run.path}: the run labels clips of frames, which are no lines of text; '
                        'use --mode=eval, or tasks and models as a library')
    learned = configs.task_of(config)
    if not learned.answer:
        raise UserError(f'--mode=predict: {configs.task_name(config)!r} predicts nothing about single sequences; use --mode=eval')
    model, params = restored(run, config, checkpoint)
    task = tasks.build(configs.task_name(config), model, **{**encoding.for_task(), **learned.settings(config.train)})
    label, noticed = functools.partial(jax.jit(task.predict), params), Noticed(encoding.marks.unknown)

    def answer(piece, done, bar):
        sequences = [task.parse(line, encoding) for line in piece]
        rows = [task.row(sequence, encoding) if reason is None else None for sequence, reason in sequences]
        for number, (line, row, (_, reason)) in enumerate(zip(piece, rows, sequences), done + 1):
            _look(noticed, number, line, row, reason)
        return _predict_lines(task, piece, sequences, rows, encoding, label, config.data.batch_size)

    yield from answered('predict', lines, noticed, answer)


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


def _run(request):
    with open_input(request) as lines:
        sentences = read_sentences(request.flags.input, request.config.data)
        if sentences and not configs.task_of(request.config).per_step:
            raise UserError(f'--input={request.flags.input}: a CoNLL file is for runs that label every word, and this one does '
                            'not; write a sequence a line, in a file with another suffix')
        print_objects(predict_lines(request.config, request.workdir, sentences or lines, request.flags.checkpoint))


MODE = Mode(_run, 'Label every line of --input, or fill in its masked tokens.', (CHECKPOINT, INPUT),
            reads=('data.batch_size', 'quantise', 'parallel'))
