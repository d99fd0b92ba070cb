"""Labels new sequences with a run, or fills in what is masked: one line in, one dict out, in the same order."""

import functools

import jax
import numpy as np

from seqjax import config as configs
from seqjax import decode, tasks
from seqjax.data.batches import ragged
from seqjax.data.images.lazy import threaded
from seqjax.data.readers.files import read_sentences
from seqjax.errors import UserError
from seqjax.runs.restore import open_run, restored
from seqjax.modes.command.image_paths import ImagePaths, image_paths
from seqjax.modes.command.input_warnings import Noticed
from seqjax.modes.command.lines import answered, open_input, print_objects
from seqjax.modes.command.mode import CHECKPOINT, INPUT, Flag, Mode, one_process
from seqjax.modes.vision.where import Pictures


def predict_lines(config, workdir, lines, checkpoint='latest', *, explain=False):
    """Yields one dict for every line: its input, and what the run says of it.

        classification   label, probabilities {class: p}
        regression       prediction
        tagging          tokens, labels, and the probability of each label
        masked_lm        text, with the likeliest token for every '<mask>', and tokens, [[token, p], ...] of the likeliest

    A run over images is given their paths instead of lines, and one over frames a list of JSON a line, [[0.1, 2.0], [0.3, 1.9]].

    A run over two texts a row reads them with a TAB between them. A line with nothing in it, or without a TAB where there must
    be one, gets a null and the reason. lines: any iterable of str, read a few thousand at a time. At the end it is said what
    was unusual about them, and in which.

    explain: 'explain/predictions.png' in the directory of the run shows for the first images where the network
    looked: the attention of a Transformer, or the class activation map of a ResNet.
    """
    one_process('predict')
    config, run = open_run(config, workdir)
    encoding = run.codec('labelled')
    if encoding.tokenizer is None and not encoding.shape and not encoding.features:
        raise UserError(f'--workdir={run.path}: the run labels clips of frames, which are no lines of text; '
                        'use --mode=eval, or tasks and models as a library')
    if isinstance(lines, ImagePaths) and not encoding.shape:
        what = 'frames' if encoding.features else 'texts'
        raise UserError(f'--input={lines.name}: has images, and the run labels {what}; give it a file of lines')
    learned = configs.task_of(config)
    if not learned.answer:
        raise UserError(f'--mode=predict: {configs.task_name(config)!r} predicts nothing about single sequences; use --mode=eval')
    model, params = restored(run, config, checkpoint)
    task = tasks.build(configs.task_name(config), model, **{**encoding.for_task(), **learned.settings(config.train)})
    pictures = Pictures(task, model, params, encoding, run.path / 'explain') if explain else None
    predict = jax.jit(lambda params, batch: task.predict(params, task.prepare(batch)))
    noun = 'image' if encoding.shape else 'line'
    label, noticed = functools.partial(predict, params), Noticed(encoding.marks.unknown, noun)

    def answer(piece, done, bar):
        if encoding.shape:
            return _predict_images(task, piece, done, noticed, encoding, label, config.data.batch_size, pictures)
        sequences = [task.parse(line, encoding) for line in piece]
        rows = [task.row(sequence, encoding) if reason is None else None for sequence, reason in sequences]
        for number, (line, row, (_, reason)) in enumerate(zip(piece, rows, sequences), done + 1):
            _look(noticed, number, line, row, reason)
        return _predict_lines(task, piece, sequences, rows, encoding, label, config.data.batch_size)

    yield from answered('predict', lines, noticed, answer, unit=noun)
    if pictures:
        pictures.draw()


def _look(noticed, number, line, row, reason):
    """Notes what is unusual about a line; row: None where there is a reason to say nothing of it."""
    if row is None:
        noticed.note(number, f'without an answer ({reason})')
        return noticed.look(number, line)
    inputs = row['inputs']
    tokens = [inputs['words'] if isinstance(inputs, dict) else inputs]
    noticed.look(number, line, *(tokens if tokens[0].dtype == np.int32 else []))


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


def _predict_images(task, paths, done, noticed, encoding, label, batch_size, pictures=None):
    """The answers to images, decoded in threads, a batch at a time: more of them may not fit."""
    for begin in range(0, len(paths), batch_size):
        some = paths[begin:begin + batch_size]
        images = threaded(lambda path: task.parse(path, encoding), some)
        rows = [task.row(image, encoding)['inputs'] for image, reason in images if reason is None]
        outputs = iter(())
        if rows:
            filled = np.stack([*rows, *[np.zeros_like(rows[0])] * (batch_size - len(rows))])
            made = jax.device_get(label(dict(inputs=filled)))
            outputs = iter([{name: value[number] for name, value in made.items()} for number in range(len(rows))])
        for number, (path, (image, reason)) in enumerate(zip(some, images), done + begin + 1):
            if reason is None:
                found = task.render(path, image, dict(inputs=encoding.inputs(image)), next(outputs), encoding)
                if pictures:
                    pictures.take(image, found)
                yield found
            else:
                noticed.note(number, f'without an answer ({reason})')
                yield {'input': path, task.answer: None, 'reason': reason}


def _run(request):
    paths = image_paths(request.flags.input)
    if paths is not None:
        return print_objects(predict_lines(request.config, request.workdir, paths, request.flags.checkpoint,
                                           explain=request.flags.explain))
    if request.flags.explain:
        raise UserError(f'--explain: draws where a network looks in images, and --input={request.flags.input} names '
                        'none; leave it out')
    with open_input(request) as lines:
        sentences = read_sentences(request.flags.input, request.config.data)
        if sentences and not configs.task_of(request.config).per_step:
            raise UserError(f'--input={request.flags.input}: a CoNLL file is for runs that label every word, and this one does '
                            'not; write a sequence a line, in a file with another suffix')
        print_objects(predict_lines(request.config, request.workdir, sentences or lines, request.flags.checkpoint))


MODE = Mode(_run, 'Label every line of --input, or every image of it, or fill in masked tokens.', 
            (CHECKPOINT, INPUT, Flag('explain', False, 'Of images: a picture of where the network looked.')),
            reads=('data.batch_size', 'quantise', 'parallel'))
