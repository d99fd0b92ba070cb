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
from seqjax.data.readers.lines import Malformed, plural
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
    found = {}
    if beside and len(names) > 1:
        raise FieldError('data.label_file', beside, f'is for an .npz with images of one part, and {path} has {len(names)}')
    for part, (images, targets) in names.items():
        inputs = file[images]
        if TASKS[task].takes() == 'series':
            several = inputs if inputs.ndim == 3 else inputs[None]
            rows = arrays.checked_sequences(path, several, images)
            found[part] = [Example(row, 0.0) for row in rows], f'{len(rows):,} series of {several.shape[1]:,} steps'
            continue
        if inputs.dtype.kind == 'f' and not beside and targets:
            found[part] = _sequences(path, file, part, inputs, images, targets, task)
            continue
        pixels = arrays.checked_images(path, inputs, images)
        if beside:
            labels = [target for _, target in read_column(beside, TASKS[task].takes(), options)]
            if len(labels) != len(pixels):
                raise FieldError('data.label_file', beside, f'has {len(labels):,} records, and {path} has {len(pixels):,} images')
            found[part] = _array(path, pixels, labels, task, options)
            continue
        if targets is None:
            raise UserError(f'{path}: has no labels of {images}; call them labels, or name them in config.data.target_column')
        found[part] = _array(path, pixels, arrays.checked_targets(path, file[targets], len(pixels), targets), task, options)
    return found


def _sequences(path, file, part, inputs, name, targets, task):
    """(examples, what is said of them) of an array of numbers."""
    lengths = next((key for key in ('lengths', f'{part}_lengths', f'lengths_{part}') if key in file), None)
    rows = arrays.checked_sequences(path, inputs, name, file[lengths] if lengths else None)
    convert, made = EXAMPLES[TASKS[task].takes()], []
    labels = file[targets].tolist()
    if len(labels) != len(rows):
        raise UserError(f'{path}: {targets}: has {len(labels):,} labels for {len(rows):,} sequences')
    for i, (row, label) in enumerate(zip(rows, labels)):
        try:
            made.append(convert(Record(row, label[:len(row)] if isinstance(label, list) else label)))
        except Malformed as problem:
            raise UserError(f'{path}: sequence {i}: {problem}') from None
    return made, plural(len(made), 'sequence')


def _array(path, images, targets, task, options):
    """(source, what is said of it)"""
    convert, made = TARGETS[TASKS[task].takes()], []
    for i, target in enumerate(targets):
        try:
            made.append(convert(target))
        except Malformed as problem:
            raise UserError(f'{path}: image {i}: {problem}') from None
    return arrays.ImageArray(images, made, options.image_size), plural(len(images), 'image')


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
