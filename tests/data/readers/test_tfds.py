"""Sets of TFDS that are built and read without TensorFlow: their text, their text and its labels, or translations."""

import functools
import os
import socket
import sys
import time
import urllib.request

import jax
import numpy as np
import pytest

from seqjax import data
from seqjax.data import loading
from seqjax.data.readers import tfds
from seqjax.data.readers.splits import hold_out
from seqjax.errors import FieldError
from tests.tiny import tiny_config

OPINIONS = [(f'{word} é {number}', word == 'fine') for number in range(10) for word in ('fine', 'dull')]
LENGTHS = [('a' * number, number / 2) for number in range(1, 21)]


@pytest.fixture(scope='module')
def sets():
    """Names of tiny sets."""
    pytest.importorskip('tensorflow_datasets')
    from tests.tfds_sets import CLASSES, NUMBERS, make_set

    lines = [f'line {number} é\n' for number in range(20)]
    opinions, lengths = [(text, int(good)) for text, good in OPINIONS], LENGTHS
    withheld = [(text, -1) for text, _ in opinions[:5]]
    made = [make_set('seqjax_plain', {'train': lines}),
            make_set('seqjax_split', {'train': lines, 'validation': ['held', 'out']}),
            make_set('seqjax_tested', {'train': lines, 'test': ['to', 'test']}),
            make_set('seqjax_pair', {'train': lines}, features=('one', 'two')),
            make_set('seqjax_opinions', {'train': opinions, 'validation': opinions[:3], 'test': opinions[3:8]},
                     target=CLASSES),
            make_set('seqjax_unsplit', {'train': opinions, 'test': opinions[:2]}, target=CLASSES),
            make_set('seqjax_withheld', {'train': opinions, 'test': withheld}, target=CLASSES),
            make_set('seqjax_unlabelled', {'train': withheld, 'test': opinions}, target=CLASSES),
            make_set('seqjax_measured', {'train': lengths[4:], 'validation': lengths[:4]}, target=NUMBERS),
            make_set('seqjax_untrained', {'test': lines}),
            make_set('seqjax_broken', {}, error=OSError('the server is asleep\nand more'))]
    return {builder.name.removeprefix('seqjax_'): builder.name for builder in made}


# ------------------------------------------------------------------------------------------------ text

@pytest.mark.parametrize('name, validation', [('plain', None), ('split', 'held\nout'), ('tested', 'test\nto')])
def test_a_tfds_set_is_built_and_read_without_tensorflow(sets, name, validation, tmp_path):
    text = data.load_text(f'tfds:{sets[name]}', held_out=0.25, directory=str(tmp_path))
    assert 'tensorflow' not in sys.modules
    assert text == data.load_text(f'tfds:{sets[name]}', held_out=0.25, directory=str(tmp_path))
    if validation is None:
        whole = text.train + text.validation
        assert len(text.validation) == round(len(whole) / 4)
    else:
        whole = text.train
        assert '\n'.join(sorted(text.validation.split('\n'))) == validation
    lines = [line for line in whole.split('\n') if line]
    assert sorted(lines) == sorted(f'line {number} é' for number in range(20))


# ------------------------------------------------------------------------------------------------ text with labels

def load(name, task, directory, **changed):
    options = tiny_config('reader', data=dict(source=f'tfds:{name}', directory=str(directory), **changed)).data
    return data.load_examples(options, task)


def pairs(examples):
    return sorted((example.inputs, example.target) for example in examples)


def named(opinions):
    return sorted((text, 'good' if good else 'bad') for text, good in opinions)


def test_a_set_with_classes_has_their_names_and_its_own_splits(sets, tmp_path):
    found = load(sets['opinions'], 'classification', tmp_path)
    assert pairs(found.train) == named(OPINIONS)
    assert pairs(found.validation) == named(OPINIONS[:3]) and pairs(found.test) == named(OPINIONS[3:8])
    assert found.report == 'tfds:seqjax_opinions: 28 records'
    assert 'tensorflow' not in sys.modules


def test_where_there_is_no_validation_split_a_part_of_the_training_split_is_held_out(sets, tmp_path):
    found = load(sets['unsplit'], 'classification', tmp_path, held_out=0.2, split_seed=3)
    assert pairs(found.train + found.validation) == named(OPINIONS) and pairs(found.test) == named(OPINIONS[:2])
    assert sorted(example.target for example in found.validation) == ['bad', 'bad', 'good', 'good']
    whole = tfds.tfds_examples(sets['unsplit'], str(tmp_path), 'classification', lambda examples: (examples, []))
    assert hold_out(whole.train, 'classification', part=0.2, seed=3) == (found.train, found.validation)


def test_records_without_a_label_are_left_out_and_counted(sets, tmp_path):
    found = load(sets['withheld'], 'classification', tmp_path)
    assert found.test == [] and pairs(found.train + found.validation) == named(OPINIONS)
    assert found.report == 'tfds:seqjax_withheld: 20 records, 5 without a label left out'


def test_a_set_with_numbers(sets, tmp_path):
    found = load(sets['measured'], 'regression', tmp_path)
    assert pairs(found.train) == sorted(LENGTHS[4:]) and pairs(found.validation) == sorted(LENGTHS[:4])
    assert {type(example.target) for example in found.train} == {float}


# ------------------------------------------------------------------------------------------------ several of a kind

NUMBERS = [1.5, float('nan'), -2.0, float('inf'), 1e300, 0.25]  # as a float32 the last but one is not finite either


@pytest.fixture(scope='module')
def many():
    """A set with two features of every kind."""
    tfds = pytest.importorskip('tensorflow_datasets')

    class Many(tfds.core.GeneratorBasedBuilder):
        """A few records."""

        name = 'seqjax_many'
        VERSION = tfds.core.Version('1.0.0')

        def _info(self):
            label, number = tfds.features.ClassLabel(names=['no', 'yes']), tfds.features.Tensor(shape=(), dtype=np.float64)
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(dict(
                body=tfds.features.Text(), good=label, height=tfds.features.Scalar(np.float32), long=label,
                place=tfds.features.Tensor(shape=(2,), dtype=np.float32), title=tfds.features.Text(), weight=number)))

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples() for split in ('train', 'validation')}

        def _generate_examples(self):
            for i, number in enumerate(NUMBERS):
                yield i, dict(title=f't{i}', body=f'b{i}', good=i % 2, long=i > 2, weight=number, height=i, place=[i, i])

    return Many.name


@pytest.mark.parametrize('task, target, expected', [
    ('classification', 'good', ['no', 'yes', 'no', 'yes', 'no', 'yes']),
    ('classification', 'long', ['no', 'no', 'no', 'yes', 'yes', 'yes']),
    ('regression', 'height', [0, 1, 2, 3, 4, 5]), ('regression', 'weight', NUMBERS)])
def test_the_config_names_what_is_read_and_what_is_learned(many, task, target, expected, tmp_path):
    found = load(many, task, tmp_path, input_column='body', target_column=target)
    expected = [(f'b{i}', answer) for i, answer in enumerate(expected) if not (target == 'weight' and i in (1, 3, 4))]
    assert pairs(found.train) == pairs(found.validation) == expected
    left_out = ', 6 without a finite number left out' if target == 'weight' else ''
    assert found.report == f'tfds:seqjax_many: {2 * len(expected)} records{left_out}'


def test_the_config_names_the_text_that_is_read(many, tmp_path):
    options = tiny_config('gpt', data=dict(source=f'tfds:{many}', directory=str(tmp_path), input_column='body')).data
    made = data.load(options, 'language_model')
    assert sorted(made.tokenizer.decode(made.train).split('\n')) == [f'b{i}' for i in range(6)]


@pytest.mark.parametrize('task, columns, sentence', [
    ('classification', ('body', 'weight'), "data.target_column='weight': is no class of tfds:seqjax_many; write one of: good, "
     'long'),
    ('regression', ('body', 'good'), "data.target_column='good': is no number of tfds:seqjax_many; write one of: height, weight"),
    ('classification', ('body', ''), "data.source='tfds:seqjax_many': needs exactly one class feature, and the set has ['good', "
     "'long']; name one in config.data.target_column"),
    ('language_model', ('good', ''), "data.input_column='good': is no text of tfds:seqjax_many; write one of: body, title")])
def test_a_column_of_another_kind_is_refused(many, task, columns, sentence, tmp_path):
    options = tiny_config('reader', data=dict(source=f'tfds:{many}', directory=str(tmp_path), input_column=columns[0],
                                              target_column=columns[1])).data
    with pytest.raises(FieldError) as caught:
        data.load(options, task)
    assert str(caught.value) == sentence


# ------------------------------------------------------------------------------------------------ translations

SENTENCES = [dict(de=f'Satz {number} ä', en=f'sentence {number}', fr=f'phrase {number} é') for number in range(20)]
EMPTY = [dict(de=' ', en='nothing', fr=''), dict(de='nichts', en='', fr='rien')]


@pytest.fixture(scope='module')
def translations():
    """Names of tiny sets of translations: one says itself from what into what, one does not and has no held-out part."""
    tfds = pytest.importorskip('tensorflow_datasets')

    def make(title, splits, keys):
        class Sentences(tfds.core.GeneratorBasedBuilder):
            """A few sentences."""

            name = title
            VERSION = tfds.core.Version('1.0.0')

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.Translation(languages=('de', 'en', 'fr')),
                                             supervised_keys=keys)

            def _split_generators(self, dl_manager):
                return {split: self._generate_examples(records) for split, records in splits.items()}

            def _generate_examples(self, records):
                yield from enumerate(records)

        return Sentences

    parts = {'train': SENTENCES[:12] + EMPTY, 'validation': SENTENCES[12:17], 'test': SENTENCES[17:]}
    made = [make('seqjax_sentences', parts, ('de', 'en')),
            make('seqjax_undecided', {'train': SENTENCES}, None)]
    return {builder.name.removeprefix('seqjax_'): builder.name for builder in made}


def test_a_set_of_translations_says_from_what_into_what(translations, tmp_path):
    found = load(translations['sentences'], 'translation', tmp_path)
    expected = sorted((each['de'], each['en']) for each in SENTENCES)
    assert pairs(found.train + found.validation + found.test) == expected
    assert [len(part) for part in (found.train, found.validation, found.test)] == [12, 5, 3]
    assert found.report == 'tfds:seqjax_sentences: 20 records, 2 without a translation left out'
    assert 'tensorflow' not in sys.modules


def test_columns_are_languages(translations, tmp_path):
    found = load(translations['undecided'], 'translation', tmp_path, input_column='fr', target_column='de', held_out=0.2)
    assert pairs(found.train + found.validation) == sorted((each['fr'], each['de']) for each in SENTENCES)
    assert len(found.validation) == 4 and found.test == []
    other = load(translations['sentences'], 'translation', tmp_path, target_column='fr')
    assert pairs(other.test) == sorted((each['de'], each['fr']) for each in SENTENCES[17:])


@pytest.mark.parametrize('name, changed, sentence', [
    ('undecided', {}, "data.input_column='': is no language of tfds:seqjax_undecided; write one of: de, en, fr"),
    ('sentences', dict(input_column='es'), "data.input_column='es': is no language of tfds:seqjax_sentences; write one of: "
     'de, en, fr'),
    ('sentences', dict(input_column='en'), "data.target_column='en': is what tfds:seqjax_sentences is translated from, too; "
     'write another of: de, en, fr')])
def test_languages_that_cannot_be_translated_are_refused(translations, name, changed, sentence, tmp_path):
    with pytest.raises(FieldError) as caught:
        load(translations[name], 'translation', tmp_path, **changed)
    assert str(caught.value) == sentence


# ------------------------------------------------------------------------------------------------ what cannot be used

@pytest.mark.parametrize('name, reason', [
    ('broken', "TFDS could not build the set here (the server is asleep); build it where it can be with 'tfds build "
               "seqjax_broken --file_format=array_record', copy it here and set config.data.directory, or write the text to "
               "a file and use file:PATH"),
    ('pair', "needs exactly one text feature, and the set has ['one', 'two']; name one in config.data.input_column"),
    ('untrained', 'has no split train, only: test'),
])
def test_a_tfds_set_that_cannot_be_used_says_what_to_do(sets, name, reason, tmp_path):
    with pytest.raises(FieldError) as caught:
        data.load_text(f'tfds:{sets[name]}', directory=str(tmp_path))
    assert str(caught.value) == f"data.source='tfds:{sets[name]}': {reason}"


@pytest.mark.parametrize('name, task, reason', [
    ('plain', 'classification', 'needs exactly one class feature, and the set has []'),
    ('plain', 'regression', 'needs exactly one number feature, and the set has []'),  # a whole number is no target
    ('opinions', 'regression', 'needs exactly one number feature, and the set has []'),
    ('measured', 'classification', 'needs exactly one class feature, and the set has []'),
    ('opinions', 'tagging', "sets of TFDS are read for 'classification', 'regression', 'translation', "),
    ('unlabelled', 'classification', 'no record of its training split has a label'),
    ('untrained', 'classification', 'has no split train, only: test'),
    ('plain', 'translation', "needs a text and its translation, and the texts are ['text']"),
    ('broken', 'classification', 'TFDS could not build the set here (the server is asleep); '),
])
def test_labels_that_a_set_does_not_have_are_refused(sets, name, task, reason, tmp_path):
    with pytest.raises(FieldError) as caught:
        load(sets[name], task, tmp_path)
    assert str(caught.value).startswith(f"data.source='tfds:{sets[name]}': {reason}")


def test_a_set_is_encoded_once(sets, tmp_path, monkeypatch):
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path / 'cache'))
    options = tiny_config('reader', data=dict(source=f'tfds:{sets["opinions"]}', directory=str(tmp_path / 'sets'))).data
    built = data.load(options, 'classification')
    for path in tfds.tfds_files(sets['opinions'], str(tmp_path / 'sets')):
        os.utime(path, (time.time() - 10,) * 2)
    first = data.load(options, 'classification')
    monkeypatch.setattr(loading, 'tfds_examples', lambda *arguments: pytest.fail('it is read again'))
    second = data.load(options, 'classification')
    assert first.facts() == second.facts() == built.facts() and first.files() == second.files() == built.files()
    for split in built.splits:
        jax.tree.map(np.testing.assert_array_equal, list(second.rows[split]), list(built.rows[split]))


@pytest.mark.parametrize('read', [tfds.tfds_texts, functools.partial(tfds.tfds_examples, task='classification',
                                                                         held_out=None)], ids=['text', 'labels'])
def test_an_unknown_tfds_set_is_refused_with_the_place_to_look(sets, read, tmp_path):
    with pytest.raises(FieldError) as caught:
        read('no_such_set', directory=str(tmp_path))
    assert str(caught.value) == ("data.source='tfds:no_such_set': Dataset no_such_set not found. "
                                 'The sets are at https://www.tensorflow.org/datasets/catalog')


class Unbuilt:
    """As much of a TFDS builder as the look-up of its hosts needs."""

    url_infos = {'https://nowhere.invalid/set.zip': None}

    def __init__(self, prepared):
        self.is_prepared = lambda: prepared


def test_a_set_whose_hosts_cannot_be_found_is_refused_at_once(monkeypatch):
    def unknown(host, port):
        raise socket.gaierror(-2, 'Name or service not known')

    monkeypatch.setattr(socket, 'getaddrinfo', unknown)
    monkeypatch.setattr(urllib.request, 'getproxies', dict)
    with pytest.raises(OSError, match='^nowhere.invalid cannot be found: Name or service not known$'):
        tfds._look_up_hosts(Unbuilt(prepared=False))
    tfds._look_up_hosts(Unbuilt(prepared=True))
    monkeypatch.setattr(urllib.request, 'getproxies', lambda: {'https': 'proxy'})  # a proxy looks names up itself
    tfds._look_up_hosts(Unbuilt(prepared=False))
