"""Sets of images in files, whatever their format, as `Examples`: their parts, what is held out, and what is said of them.

    images    a folder for every class, of PNG, JPEG or WebP
    idx       idx-ubyte files, as MNIST has them
    npz       arrays of NumPy; captions may stand in a file beside it; arrays of floats are sequences of numbers, and no images
    listed    a table or JSON lines with the path of an image, as HF's metadata.csv, and its label or its captions, a line
    tar       shards of the WebDataset layout

All but class folders may have captions.
"""

import os

import numpy as np

from seqjax.data.images import arrays
from seqjax.data.images.class_folders import ClassFolders
from seqjax.data.images.idx import idx_files, read_idx
from seqjax.data.images.lazy import LazyImages
from seqjax.data.images.listed import listed_images, read_column
from seqjax.data.images.tar_shards import tar_images
from seqjax.data.readers.columns import Record
from seqjax.data.readers.examples import SPLITS, Example, Examples
from seqjax.data.readers.lines import WAY_OUT, Malformed, plural, sound
from seqjax.data.readers.splits import hold_out
from seqjax.data.readers.targets import EXAMPLES, TARGETS
from seqjax.errors import FieldError, UserError
from seqjax.tasks import TASKS

FORMATS = 'images', 'idx', 'npz', 'listed', 'tar'


def read_images(paths, format, task, options):
    """The images of one path, or of two or three that are the parts: training, validation, test. options: `config.data`."""
    try:
        return _read(paths, format, task, options)
    except FieldError:
        raise
    except UserError as error:
        raise FieldError('data.source', options.source, str(error)) from None


def _read(paths, format, task, options):
    found, report = {}, []
    for path, split in zip(paths, SPLITS):
        for part, (source, said) in READERS[format](path, task, options).items():
            if len(paths) > 1 and part != 'train':
                raise UserError(f'{path}: has parts of its own, {part} among them; name one path')
            found[split if len(paths) > 1 else part] = source
            report.append(f'{os.path.basename(os.path.normpath(path))}: {said}' + (f' for {part}' if part != 'train' else ''))
    parts = {**dict.fromkeys(SPLITS, []), **found}
    if not len(parts['validation']) and TASKS[task].data != 'series':
        parts['train'], parts['validation'] = hold_out(parts['train'], task, part=options.held_out, seed=options.split_seed)
        report.append(f'{len(parts["validation"]):,} of {len(parts["train"]) + len(parts["validation"]):,} training records held out')
    return Examples(**parts, report='; '.join(report), normalise=np.ndim(parts['train'][0].inputs) == 2)


def _folders(path, task, options):
    source = ClassFolders(path, options.image_size, options.on_error, options.cache_images)
    return {'train': (source, source.summary())}


def _idx(path, task, options):
    found = {}
    for part, files in idx_files(path).items():
        images = arrays.checked_images(files['images'], read_idx(files['images']))
        if 'labels' not in files:
            raise UserError(f'{files["images"]}: has no file of labels beside it, *-labels-idx1-ubyte')
        labels = arrays.checked_targets(files['labels'], read_idx(files['labels'], 1), len(images))
        found[part] = _array(path, images, labels, task, options)
    if 'train' not in found:
        raise UserError(f'{path}: has no training part, train-images-idx3-ubyte')
    return found


def _npz(path, task, options):
    beside = options.label_file
    file, names = arrays.npz_parts(path, options.input_column, '' if beside else options.target_column)
    if beside and len(names) > 1:
        raise FieldError('data.label_file', beside, f'is for an .npz with images of one part, and {path} has {len(names)}')
    found, read = {}, set()
    for part, (images, targets) in names.items():
        inputs = file[images]
        series = TASKS[task].takes() == 'series'
        numbers = inputs.dtype.kind == 'f' and not beside and targets
        lengths = _lengths(file, part) if series or numbers else None
        read |= {images, None if series or beside else targets, lengths}
        if series:
            several = inputs if inputs.ndim == 3 else inputs[None]
            rows = arrays.checked_sequences(path, several, images, lengths and file[lengths])
            made, skipped = _sound(f'{path}: {images}', 'sequence', rows, lambda row: Example(row, 0.0),
                                   options)
            found[part] = made, f'{len(made):,} series of {several.shape[1]:,} steps{skipped}'
        elif numbers:
            rows = arrays.checked_sequences(path, inputs, images, lengths and file[lengths])
            padded = lengths and inputs.shape[1]
            found[part] = _sequences(path, images, rows, targets, file[targets], padded, task, options)
        else:
            pixels = arrays.checked_images(path, inputs, images)
            labels = _targets(path, file, images, targets, len(pixels), task, options)
            found[part] = _array(path, pixels, labels, task, options)
    if unread := [name for name in file if name not in read]:
        source, said = found['train']
        shown = ', '.join(unread[:3]) + ', ...' * (len(unread) > 3)
        found['train'] = source, f'{said}, {plural(len(unread), "array")} not read: {shown}'
    return found


def _lengths(file, part):
    """The name of the array that says how long sequences are, or None."""
    names = 'lengths', f'{part}_lengths', f'lengths_{part}'
    return next((name for name in names if name in file), None)


def _targets(path, file, images, targets, count, task, options):
    """Those of the images of one part of an .npz, in it or in a file beside it."""
    if beside := options.label_file:
        labels = [target for _, target in read_column(beside, TASKS[task].takes(), options)]
        if len(labels) != count:
            raise FieldError('data.label_file', beside,
                             f'has {len(labels):,} records, and {path} has {count:,} images')
        return labels
    if targets is None:
        raise UserError(f'{path}: has no labels of {images}; call them labels, or name them in '
                        'config.data.target_column')
    return arrays.checked_targets(path, file[targets], count, targets)


def _sequences(path, name, rows, targets, labels, padded, task, options):
    """(examples, what is said of them) of sequences of numbers.

    name, targets: of the arrays of both. padded: the steps that sequences have before they are cut to
    their lengths, as labels of steps then have, too; None: they are not cut.
    """
    convert = EXAMPLES[TASKS[task].takes()]
    if len(labels) != len(rows):
        raise UserError(f'{path}: {targets}: has {len(labels):,} labels for {len(rows):,} sequences')

    def example(pair):
        row, label = sound(pair[0]), pair[1]
        cut = padded and isinstance(label, list) and len(label) == padded
        return convert(Record(row, label[:len(row)] if cut else label))

    pairs = list(zip(rows, labels.tolist()))
    made, skipped = _sound(f'{path}: {name}', 'sequence', pairs, example, options)
    return made, plural(len(made), 'sequence') + skipped


def _array(path, images, targets, task, options):
    """(source, what is said of it)"""
    convert, pairs = TARGETS[TASKS[task].takes()], list(enumerate(targets))
    made, skipped = _sound(path, 'image', pairs, lambda pair: (pair[0], convert(pair[1])), options)
    images = images[[i for i, _ in made]] if len(made) < len(images) else images
    source = arrays.ImageArray(images, [target for _, target in made], options.image_size)
    return source, plural(len(made), 'image') + skipped


def _sound(path, noun, items, convert, options):
    """([convert(item)] of those that are not malformed, what is to be said of the others), or stops."""
    made, skipped = [], {}
    for i, item in enumerate(items):
        try:
            made.append(convert(sound(item)))
        except Malformed as problem:
            if options.on_error == 'stop':
                raise UserError(f'{path}: {noun} {i}: {problem}; {WAY_OUT}') from None
            skipped.setdefault(problem.reason, []).append(str(i))
    shown = lambda numbers: ', '.join(numbers[:3]) + ', ...' * (len(numbers) > 3)
    said = '; '.join(f'{len(numbers):,}: {reason}, in {noun} {shown(numbers)}'
                     for reason, numbers in skipped.items())
    if not made:
        raise UserError(f'{path}: no {noun} is left; skipped {said}')
    return made, f' (skipped {said})' if said else ''


def _lazy(found, path, options, file=None):
    """{part: (source, what is said of it)} of [(part, Found)]. file: the `File` that names them, if one does."""
    if not found:
        raise UserError(f'{path}: has no images')
    parts = {}
    for split in SPLITS:
        own = [one for part, one in found if part == split]
        if own:
            source = LazyImages(own, options.image_size, options.on_error, options.cache_images)
            lines = f' ({file.summary(len(found))})' if file and split == 'train' and file.skipped else ''
            parts[split] = source, source.summary() + lines
    if 'train' not in parts:
        raise UserError(f'{path}: has no images for training')
    return parts


def _listed(path, task, options):
    found, file = listed_images(path, TASKS[task].takes(), options)
    return _lazy(found, path, options, file)


def _tar(path, task, options):
    found, skipped = tar_images(path, TASKS[task].takes(), options)
    parts = _lazy([('train', one) for one in found], path, options)
    source, said = parts['train']
    return {'train': (source, f'{said} (skipped {skipped})' if skipped else said)}


READERS = {'images': _folders, 'idx': _idx, 'npz': _npz, 'listed': _listed, 'tar': _tar}
