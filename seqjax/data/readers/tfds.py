"""Sets of TensorFlow Datasets, read without TensorFlow: their text, their text and its labels, or translations."""

import functools
import importlib
import pathlib
import socket
import urllib.parse
import urllib.request

import numpy as np

from seqjax.data.images.tfds_images import TfdsImages
from seqjax.data.readers.columns import named, two
from seqjax.data.readers.examples import SPLITS, Example, Examples, TextPair
from seqjax.data.readers.targets import LARGEST
from seqjax.errors import FieldError, suggestion
from seqjax.tasks import TASKS, taking

_NOUNS = {'class': 'a label', 'number': 'a finite number', 'pairs': 'a translation', 'captions': 'a caption'}  # by `Task.takes`


def tfds_files(name, directory):
    """The paths of all files of a set, which is built if it is not there; none of a set of images, which is not read at the start."""
    builder, _ = _open(name, directory)
    return [] if _features(builder, 'image') else _files(builder)


def tfds_texts(name, directory, wanted=''):
    """({split: a function that reads its chunks}, the paths of all files) of the wanted or the only text feature of a set.

    The split is '' where it has no validation or test split: then that is still to be held out.
    """
    builder, read = _open(name, directory)
    feature = _feature(name, builder, 'text', 'input_column', wanted)

    def chunks(split):
        for number, record in enumerate(read(split)):
            yield '\n' * (number > 0) + record[feature].decode('utf-8')

    held_out = next((split for split in ('validation', 'test') if split in builder.info.splits), None)
    splits = dict(train='train', validation=held_out) if held_out else {'': 'train'}
    return {ours: functools.partial(chunks, theirs) for ours, theirs in splits.items()}, _files(builder)


def tfds_examples(name, directory, task, held_out, columns=('', ''), image_size=0):
    """The text or image feature of a set with its class label, with its number where `task` is regression, with its translation or caption.

    held_out(examples) -> (training examples, validation examples), for a set that has no validation split.
    columns: the languages to translate from and into, as the set itself says where they are ''; for the other tasks the text
    feature, or two of them, 'premise,hypothesis', and the label; each is needed where the set has more than one.
    """
    builder, read = _open(name, directory)
    kind = TASKS[task].takes()
    if kind not in _NOUNS:
        *others, last = map(repr, taking(*_NOUNS))
        raise FieldError('data.source', f'tfds:{name}',
                         f'sets of TFDS are read for {", ".join(others)} and {last}, not for {task!r}')
    images = _features(builder, 'image')
    if images and columns[0] not in _features(builder, 'text'):
        return _of_images(name, builder, read, kind, held_out, columns, image_size)
    if kind == 'captions':
        raise FieldError('data.source', f'tfds:{name}', f'has no image feature, and the task is {task!r}')
    if kind == 'pairs':
        made = _translation(name, builder, read, columns)
    else:
        made = _labelled(builder, _texts(name, builder, columns[0]), kind,
                         _feature(name, builder, kind, 'target_column', columns[1]))
    parts = [[made(record) for record in read(split)] if split in builder.info.splits else [] for split in SPLITS]
    without = sum(part.count(None) for part in parts)
    train, validation, test = ([example for example in part if example is not None] for part in parts)
    noun = _NOUNS[kind]
    if not train:
        raise FieldError('data.source', f'tfds:{name}', f'no record of its training split has {noun}')
    if not validation:
        train, validation = held_out(train)
    return Examples(train, validation, test, f'tfds:{name}: {len(train) + len(validation) + len(test):,} records'
                    + (f', {without:,} without {noun} left out' if without else ''))


def _files(builder):
    folder = pathlib.Path(builder.data_dir)
    return sorted(folder.iterdir()) if folder.is_dir() else []  # it may be in a cloud


def _of_images(name, builder, read, kind, held_out, columns, image_size):
    """Images of a set with their labels, numbers or captions; one is decoded when it is asked for."""
    from tensorflow_datasets import decode

    image = _feature(name, builder, 'image', 'input_column', columns[0])
    target = _feature(name, builder, 'text' if kind == 'captions' else kind, 'target_column', columns[1])
    convert, has_label = _converting(builder, kind, target)
    encoded = lambda split: read(split, decoders={image: decode.SkipDecoding()})
    parts = {split: TfdsImages(f'tfds:{name}', split, encoded(split), image, target, convert, has_label, image_size)
             if split in builder.info.splits else [] for split in SPLITS}
    if not len(parts['train']):
        raise FieldError('data.source', f'tfds:{name}', f'no record of its training split has {_NOUNS[kind]}')
    count, without = (sum(of(part) for part in parts.values()) for of in (len, lambda part: getattr(part, 'without', 0)))
    if not len(parts['validation']):
        parts['train'], parts['validation'] = held_out(parts['train'])
    return Examples(**parts, report=f'tfds:{name}: {count:,} images' + (f', {without:,} without {_NOUNS[kind]} left out' if without else ''))


def _converting(builder, kind, target):
    """(a label of a record -> a target, a record -> whether it has one)."""
    return {
        'class': (getattr(builder.info.features[target], 'int2str', None),
                  lambda record: record[target] >= 0),  # GLUE keeps the labels of its test splits, and writes -1
        'number': (float, lambda record: abs(float(record[target])) <= LARGEST),  # False for nan, too
        'captions': (lambda text: text.decode('utf-8'), lambda record: bool(record[target].strip())),
    }[kind]


def _labelled(builder, texts, kind, target):
    """A function: a record -> its Example, or None where it has no label."""
    convert, has_label = _converting(builder, kind, target)

    def made(record):
        if not has_label(record):
            return None
        inputs = [record[text].decode('utf-8') for text in texts]
        return Example(TextPair(*inputs) if len(texts) == 2 else inputs[0], convert(record[target]))

    return made


def _translation(name, builder, read, wanted):
    """A function: a record -> an Example of two of its languages, the wanted ones, or None where it has not got both."""
    noun, languages, spoken = _spoken(name, builder, read)
    source, target = _languages(name, builder, noun, languages, wanted)

    def made(record):
        texts = spoken(record)
        pair = [texts.get(language, b'').decode('utf-8') for language in (source, target)]
        return Example(*pair) if all(text.strip() for text in pair) else None

    return made


def _open(name, directory):
    """(the builder of a set, a function: split -> its records)."""
    import tensorflow_datasets as tfds  # here, because it takes a second to import and few runs need it

    make = lambda: tfds.builder(name, data_dir=directory or None, file_format='array_record')
    unknown = tfds.core.registered.DatasetNotFoundError
    try:
        try:
            builder = make()
        except unknown:
            for package in ('text', 'translate'):  # TFDS knows GLUE's and WMT's sets only after these imports
                importlib.import_module(f'tensorflow_datasets.{package}')
            builder = make()
    except (unknown, ImportError, ValueError) as error:
        raise FieldError('data.source', f'tfds:{name}', _why_unknown(tfds, name, error)) from error
    try:
        _look_up_hosts(builder)
        builder.download_and_prepare(file_format='array_record')
    except Exception as error:  # whatever the set's own script raises: most often no network or no TensorFlow
        raise FieldError(
            'data.source', f'tfds:{name}',
            f'TFDS could not build the set here ({_first_line(error)}); build it where it can be with '
            f"'tfds build {name} --file_format=array_record', copy it here and set config.data.directory, "
            'or write the text to a file and use file:PATH') from error
    if 'train' not in builder.info.splits:
        raise FieldError('data.source', f'tfds:{name}', f'has no split train, only: {", ".join(builder.info.splits)}')
    read = lambda split, **options: tfds.data_source(name, data_dir=directory or None, split=split, download=False,
                                                     builder_kwargs=dict(file_format='array_record'), **options)
    return builder, read


def _why_unknown(tfds, name, error):
    """What to do about a set that TFDS cannot even describe."""
    title, _, version = name.partition('/')
    if 'ile format' in str(error):
        return ("is there in files that only TensorFlow reads; write it again where that is installed, with 'tfds convert_format "
                "--dataset_dir=DIR --out_file_format=array_record --out_dir=OTHER_DIR', and copy it here")
    if 'BuilderConfig' in str(error):
        return f'{title} has no {version!r}; {suggestion(version, tfds.builder_cls(title).builder_configs)}'
    return f'{_first_line(error)} The sets are at https://www.tensorflow.org/datasets/catalog'


def _features(builder, kind):
    """The features of a set that are texts, images, classes or numbers."""
    from tensorflow_datasets import features

    fits = {'text': lambda feature: isinstance(feature, features.Text),
            'image': lambda feature: isinstance(feature, features.Image),
            'class': lambda feature: isinstance(feature, features.ClassLabel),
            'number': lambda feature: (isinstance(feature, features.Tensor) and feature.shape == ()
                                       and np.issubdtype(feature.np_dtype, np.floating))}
    return [key for key, feature in builder.info.features.items() if fits[kind](feature)]


def _feature(name, builder, kind, field, wanted):
    """A feature of a set that is a text, a class or a number: the one that a field of the config names, or the only one."""
    found = _features(builder, kind)
    if wanted and found and wanted not in found:
        raise FieldError(f'data.{field}', wanted, f'is no {kind} of tfds:{name}; write one of: {", ".join(found)}')
    if len(found) != 1 and not (wanted and found):
        raise FieldError('data.source', f'tfds:{name}', f'needs exactly one {kind} feature, and the set has {found}'
                         + (f'; name one in config.data.{field}' if found else ''))
    return wanted or found[0]


def _texts(name, builder, wanted):
    """The text features of a set that are read together: the wanted ones, one or two, or the only one there is."""
    if not wanted:
        return [_feature(name, builder, 'text', 'input_column', '')]
    texts = _features(builder, 'text')
    found = named(wanted, texts)
    for key in found:
        if key not in texts:
            raise FieldError('data.input_column', wanted, f'{key!r} is no text of tfds:{name}; write one or two of: '
                             f'{", ".join(texts)}')
    return found if len(found) == 1 else two(wanted, found)


def _spoken(name, builder, read):
    """What a set of translations has: (what it calls them, the languages, a function: a record -> {language: text})."""
    from tensorflow_datasets.core import features

    own = builder.info.features  # of WMT's sets a Translation itself; others have one, or one of varying languages, in it
    inner = [key for key, feature in own.items()
             if isinstance(feature, (features.Translation, features.TranslationVariableLanguages))]
    if len(inner) > 1:
        raise FieldError('data.source', f'tfds:{name}', f'needs one feature of translations, and the set has {inner}')
    if not inner:
        return 'language' if isinstance(own, features.Translation) else 'text', _features(builder, 'text'), dict
    key, = inner
    if isinstance(own[key], features.Translation):
        return 'language', own[key].languages, lambda record: record[key]

    def said(record):
        texts = zip(record[key]['language'], record[key]['translation'])
        return {language.decode('utf-8'): text for language, text in reversed(list(texts))}  # the first of several counts

    return 'language', own[key].languages or sorted({word for record in read('train') for word in said(record)}), said


def _languages(name, builder, noun, there, wanted):
    """The two languages of a set to translate from and into: the wanted ones, or the set's own choice."""
    if len(there) < 2:
        raise FieldError('data.source', f'tfds:{name}', f'needs a text and its translation, and the texts are {there}')
    other = dict(zip(there, reversed(there))) if len(there) == 2 else {}  # of two languages one says which is the other
    own = builder.info.supervised_keys or ('', '')
    source = wanted[0] or other.get(wanted[1], own[0])
    target = wanted[1] or other.get(wanted[0], own[1])
    for field, key in (('input_column', source), ('target_column', target)):
        if key not in there:
            raise FieldError(f'data.{field}', key, f'is no {noun} of tfds:{name}; write one of: {", ".join(there)}')
    if source == target:
        raise FieldError('data.target_column', target, f'is what tfds:{name} is translated from, too; write another of: '
                         f'{", ".join(there)}')
    return source, target


def _look_up_hosts(builder):
    """Fails at once where the set must be downloaded and its hosts cannot be found: TFDS itself tries for minutes."""
    if builder.is_prepared() or urllib.request.getproxies():
        return
    for host in sorted({urllib.parse.urlsplit(url).hostname for url in builder.url_infos or ()}):
        try:
            socket.getaddrinfo(host, 443)
        except socket.gaierror as error:
            raise OSError(f'{host} cannot be found: {error.strerror}') from None


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
