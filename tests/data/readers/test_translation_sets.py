"""The translation sets of TFDS by their own names and with their own features, built of a few sentences."""

import json

import pytest

from seqjax import data
from seqjax.data.readers import tfds as catalogue
from seqjax.errors import FieldError
from tests.tiny import tiny_config

tfds = pytest.importorskip('tensorflow_datasets')

SPLITS = dict(train=8, validation=3, test=2)
FRENCH = ('phrase un', 'phrase une')


def wmt(split, number):
    return dict(de=f'{split} Satz {number} ä', en=f'{split} sentence {number}')


def ted(split, number):
    """Of three records one has no French, which is there twice in the others."""
    french = dict(fr=[f'{split} {phrase} {number}' for phrase in FRENCH]) if number % 3 else {}
    return dict(talk_name='a talk', translations={**wmt(split, number), **french})


def hrlr(split, number):
    return dict(pt=f'{split} frase {number} ã', en=f'{split} sentence {number}')


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    """Where the sets are, as if they had been built with TensorFlow and copied here."""
    path = tmp_path_factory.mktemp('tfds')
    for name, record in (('wmt14_translate/de-en', wmt), ('ted_multi_translate', ted), ('ted_hrlr_translate/pt_to_en', hrlr)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(catalogue, '_look_up_hosts', no_network)
            with pytest.raises(FieldError, match=r"^data.source='tfds:.*': TFDS could not build the set here \(no network\); "):
                catalogue._open(name, str(path))
            patched.setattr(catalogue, '_look_up_hosts', lambda builder: None)
            patched.setattr(tfds.builder_cls(name.partition('/')[0]), '_split_generators', lambda builder, downloads: {
                split: [(number, record(split, number)) for number in range(count)] for split, count in SPLITS.items()})
            catalogue._open(name, str(path))
    return path


def no_network(builder):
    raise OSError('no network')


def load(name, directory, source='', target=''):
    options = tiny_config('seq2seq', data=dict(source=f'tfds:{name}', directory=str(directory), input_column=source,
                                               target_column=target)).data
    found = data.load_examples(options, 'translation')
    parts = {split: sorted((example.inputs, example.target) for example in getattr(found, split)) for split in SPLITS}
    return parts, found.report


@pytest.mark.parametrize('name, record, columns, expected', [
    ('wmt14_translate/de-en', wmt, ('', ''), ('de', 'en')),  # as the set says
    ('wmt14_translate/de-en', wmt, ('de', 'en'), ('de', 'en')),
    ('wmt14_translate/de-en', wmt, ('en', ''), ('en', 'de')),  # of two languages one says which is the other
    ('wmt14_translate/de-en', wmt, ('', 'de'), ('en', 'de')),
    ('ted_hrlr_translate/pt_to_en', hrlr, ('', ''), ('pt', 'en'))])
def test_a_set_of_two_languages(directory, name, record, columns, expected):
    source, target = expected
    parts, report = load(name, directory, *columns)
    for split, count in SPLITS.items():
        records = [record(split, number) for number in range(count)]
        assert parts[split] == sorted((each[source], each[target]) for each in records)
    assert report == f'tfds:{name}: 13 records'


def test_records_without_a_language_are_left_out_and_counted(directory):
    parts, report = load('ted_multi_translate', directory, 'de', 'fr')
    for split, count in SPLITS.items():
        assert parts[split] == [(f'{split} Satz {number} ä', f'{split} phrase un {number}')
                                for number in range(count) if number % 3]
    assert report == 'tfds:ted_multi_translate: 8 records, 5 without a translation left out'
    assert load('ted_multi_translate', directory, 'de', 'en')[1] == 'tfds:ted_multi_translate: 13 records'


def test_its_pairs_are_batches(directory):
    config = tiny_config('seq2seq', task='translation', data=dict(
        source='tfds:ted_multi_translate', directory=str(directory), input_column='en', target_column='de', batch_size=2))
    made = data.load(config.data, 'translation')
    assert made.splits == ('train', 'validation', 'test')
    assert sum(len(batch['targets']) for batch in made.evaluation_batches(batch_size=1, split='test')) == 2


@pytest.mark.parametrize('name, columns, sentence', [
    ('wmt14_translate/de-en', ('fr', 'en'), "data.input_column='fr': is no language of tfds:wmt14_translate/de-en; write one of: "
     'de, en'),
    ('wmt14_translate/de-en', ('de', 'de'), "data.target_column='de': is what tfds:wmt14_translate/de-en is translated from, "
     'too; write another of: de, en'),
    ('wmt14_translate/de-xx', ('', ''), "data.source='tfds:wmt14_translate/de-xx': wmt14_translate has no 'de-xx'; did you mean "
     "'de-en'?"),
    ('ted_multi_translate', ('de', 'talk_name'), "data.target_column='talk_name': is no language of tfds:ted_multi_translate; "
     'write one of: ar, az, be, '),
    ('ted_multi_translate', ('', ''), "data.input_column='': is no language of tfds:ted_multi_translate; write one of: ar, az, "),
    ('ted_multi_translate', ('de', 'el'), "data.source='tfds:ted_multi_translate': no record of its training split has a "
     'translation')])
def test_what_a_set_does_not_have_is_refused(directory, name, columns, sentence):
    with pytest.raises(FieldError) as caught:
        load(name, directory, *columns)
    assert str(caught.value).startswith(sentence)


def test_languages_that_a_set_does_not_declare_are_those_of_its_training_split(tmp_path):
    class SeqjaxUndeclared(tfds.core.GeneratorBasedBuilder):
        """A few sentences."""

        VERSION = tfds.core.Version('1.0.0')
        several = False

        def _info(self):
            text = {'text': tfds.features.TranslationVariableLanguages()}
            more = {'title': tfds.features.Translation(languages=('de', 'en'))} if self.several else {}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({**text, **more}))

        def _split_generators(self, dl_manager):
            return {'train': self._generate_examples()}

        def _generate_examples(self):
            for number in range(4):
                record = wmt('train', number)
                yield number, {'text': record, **({'title': record} if self.several else {})}

    parts, _ = load('seqjax_undeclared', tmp_path / 'one', 'en', 'de')
    assert sorted(parts['train'] + parts['validation']) == [(f'train sentence {i}', f'train Satz {i} ä') for i in range(4)]
    with pytest.raises(FieldError) as caught:
        load('seqjax_undeclared', tmp_path / 'one', 'es', 'de')
    assert str(caught.value) == "data.input_column='es': is no language of tfds:seqjax_undeclared; write one of: de, en"
    SeqjaxUndeclared.several = True
    with pytest.raises(FieldError) as caught:
        load('seqjax_undeclared', tmp_path / 'two', 'en', 'de')
    assert str(caught.value) == ("data.source='tfds:seqjax_undeclared': needs one feature of translations, and the set has "
                                 "['text', 'title']")


def test_a_set_in_files_of_tensorflow_says_how_to_convert_it(directory, tmp_path):
    info = json.loads((directory / 'wmt14_translate/de-en/1.0.0/dataset_info.json').read_text())
    path = tmp_path / 'wmt14_translate/de-en/1.0.0'
    path.mkdir(parents=True)
    (path / 'dataset_info.json').write_text(json.dumps({**info, 'fileFormat': 'tfrecord'}))
    (path / 'features.json').write_text((directory / 'wmt14_translate/de-en/1.0.0/features.json').read_text())
    with pytest.raises(FieldError) as caught:
        load('wmt14_translate/de-en', tmp_path)
    assert str(caught.value) == (
        "data.source='tfds:wmt14_translate/de-en': is there in files that only TensorFlow reads; write it again where that is "
        "installed, with 'tfds convert_format --dataset_dir=DIR --out_file_format=array_record --out_dir=OTHER_DIR', and copy it "
        'here')
