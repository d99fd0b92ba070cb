"""Sets of TensorFlow Datasets, read without TensorFlow: their text, their text and its labels, or translations."""

import dataclasses
import socket
import urllib.parse
import urllib.request

import numpy as np

from seqjax.data.examples import Example, Examples, TextPair
from seqjax.data.read_columns import named, two
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Text:
    """A text cut in two: what is trained on and what is held out."""

    train: str
    validation: str


def tfds_text(name, directory):
    """The one text feature of a set: a Text where it has a validation or a test split, otherwise a str."""
    builder, read = _open(name, directory)
    feature = _feature(name, builder, 'text')
    join = lambda split: '\n'.join(record[feature].decode('utf-8') for record in read(split))
    held_out = next((split for split in ('validation', 'test') if split in builder.info.splits), None)
    return Text(join('train'), join(held_out)) if held_out else join('train')


def tfds_examples(name, directory, task, held_out, columns=('', '')):
    """The text feature of a set with its class label, with its number where `task` is regression, or with its translation.

    held_out(examples) -> (training examples, validation examples), for a set that has no validation split.
    columns: the features to translate from and into, as the set itself says where they are ''; for the other tasks the
    first is the text feature or two of them, 'premise,hypothesis', and needed where the set has more than one.
    """
    builder, read = _open(name, directory)
    kind = dict(classification='class', regression='number', translation='text').get(task)
    if kind is None:
        raise FieldError('data.source', f'tfds:{name}',
                         f"sets of TFDS are read for 'classification', 'regression' and 'translation', not for {task!r}")
    if kind == 'text':
        source, target = _languages(name, builder, columns)
        texts = [source]
    else:
        texts, target = _texts(name, builder, columns[0]), _feature(name, builder, kind)
    decoded = lambda record: [record[text].decode('utf-8') for text in texts]
    convert, has_label = {
        'class': (getattr(builder.info.features[target], 'int2str', None),
                  lambda record: record[target] >= 0),  # GLUE keeps the labels of its test splits, and writes -1
        'number': (float, lambda record: True),
        'text': (lambda text: text.decode('utf-8'), lambda record: decoded(record)[0].strip() and record[target].strip()),
    }[kind]
    inputs = lambda record: TextPair(*decoded(record)) if len(texts) == 2 else decoded(record)[0]
    splits = [list(read(split)) if split in builder.info.splits else [] for split in ('train', 'validation', 'test')]
    train, validation, test = ([Example(inputs(record), convert(record[target])) for record in split if has_label(record)]
                               for split in splits)
    without = sum(not has_label(record) for split in splits for record in split)
    noun = 'translation' if task == 'translation' else 'label'
    if not validation:
        train, validation = held_out(train)
    return Examples(train, validation, test, f'tfds:{name}: {len(train) + len(validation) + len(test):,} records'
                    + (f', {without:,} without a {noun} left out' if without else ''))


def _open(name, directory):
    """(the builder of a set, a function: split -> its records)."""
    import tensorflow_datasets as tfds  # here, because it takes a second to import and few runs need it

    try:
        builder = tfds.builder(name, data_dir=directory or None, file_format='array_record')
    except (tfds.core.registered.DatasetNotFoundError, ImportError, ValueError) as error:
        raise FieldError('data.source', f'tfds:{name}',
                         f'{_first_line(error)} The sets are at https://www.tensorflow.org/datasets/catalog') from error
    try:
        _look_up_hosts(builder)
        builder.download_and_prepare(file_format='array_record')
    except Exception as error:  # whatever the set's own script raises: most often no network or no TensorFlow
        raise FieldError(
            'data.source', f'tfds:{name}',
            f'TFDS could not build the set here ({_first_line(error)}); build it where it can be with '
            f"'tfds build {name} --file_format=array_record', copy it here and set config.data.directory, "
            'or write the text to a file and use file:PATH') from error
    read = lambda split: tfds.data_source(name, data_dir=directory or None, split=split, download=False,
                                          builder_kwargs=dict(file_format='array_record'))
    return builder, read


def _feature(name, builder, kind):
    """The one feature of a set that is a text, a class or a number."""
    from tensorflow_datasets import features

    kinds = {'text': features.Text, 'class': features.ClassLabel, 'number': features.Scalar}
    found = [key for key, feature in builder.info.features.items()
             if isinstance(feature, kinds[kind]) and (kind != 'number' or np.issubdtype(feature.np_dtype, np.floating))]
    if len(found) != 1:
        raise FieldError('data.source', f'tfds:{name}', f'needs exactly one {kind} feature, and the set has {found}')
    return found[0]


def _text_features(builder):
    from tensorflow_datasets import features

    return [key for key, feature in builder.info.features.items() if isinstance(feature, features.Text)]


def _texts(name, builder, wanted):
    """The text features of a set that are read together: the wanted ones, one or two, or the only one there is."""
    if not wanted:
        return [_feature(name, builder, 'text')]
    texts = _text_features(builder)
    found = named(wanted, texts)
    for key in found:
        if key not in texts:
            raise FieldError('data.input_column', wanted, f'{key!r} is no text of tfds:{name}; write one or two of: '
                             f'{", ".join(texts)}')
    return found if len(found) == 1 else two(wanted, found)


def _languages(name, builder, wanted):
    """The two text features of a set that are to be translated: the wanted ones, or the set's own choice."""
    texts = _text_features(builder)
    source, target = (ours or theirs for ours, theirs in zip(wanted, builder.info.supervised_keys or ('', '')))
    if len(texts) < 2:
        raise FieldError('data.source', f'tfds:{name}', f'needs a text and its translation, and the texts are {texts}')
    for field, key in (('input_column', source), ('target_column', target)):
        if key not in texts:
            raise FieldError(f'data.{field}', key, f'is no text of tfds:{name}; write one of: {", ".join(texts)}')
    if source == target:
        raise FieldError('data.target_column', target, f'is what tfds:{name} is translated from, too; write another of: '
                         f'{", ".join(texts)}')
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
