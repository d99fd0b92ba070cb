"""Options of files and of parts, where nothing reads them: refused by name, and without effect."""

import pytest

from seqjax import config as configs
from seqjax import data
from seqjax.errors import FieldError
from tests.tiny import tiny_config, write_text

FIELDS = dict(format='tsv', input_column='a', target_column='b', split_column='c', label_file='l', mask_file='m')
RUNS = [('gpt', 'python', 'language_model'), ('bert', 'python', 'masked_lm'), ('reader', 'reviews', 'classification'),
        ('seq2seq', 'reverse', 'translation'), ('reader', 'adding', 'regression'), ('gpt', 'file:words.txt', 'language_model'),
        ('t5', 'file:words.txt', 'span_corruption')]


@pytest.mark.parametrize('model, source, task', RUNS)
@pytest.mark.parametrize('field', FIELDS)
def test_an_option_of_files_is_refused_where_no_table_is_read(model, source, task, field):
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config(model, task=task, data={'source': source, field: FIELDS[field]}))
    assert str(caught.value).startswith(f'config.data.{field}={FIELDS[field]!r}: is for files of examples')
    assert str(caught.value).endswith(f'; this run is for {task} on {source!r}; leave it out')


@pytest.mark.parametrize('field', ['format', 'split_column', 'label_file', 'mask_file'])
def test_what_a_set_of_tfds_does_not_have_is_refused(field):
    with pytest.raises(FieldError, match=f"config.data.{field}='.*': is for files of examples; this run is for "):
        configs.validate(tiny_config('reader', task='classification', data={'source': 'tfds:x', field: FIELDS[field]}))


def test_a_text_of_tfds_has_no_column_of_targets():
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config('gpt', data=dict(source='tfds:x', target_column='good')))
    assert str(caught.value) == ("config.data.target_column='good': is for files of examples and sets of TFDS, but not for language "
                                 'models, masked language models and span corruption; this run is for language_model on '
                                 "'tfds:x'; leave it out")


@pytest.mark.parametrize('model, source', [('seq2seq', 'addition'), ('seq2seq', 'reverse'), ('reader', 'python_docs'),
                                           ('reader', 'adding'), ('recurrent', 'copy')])
def test_parts_of_their_own_sizes_are_not_cut_otherwise(model, source):
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config(model, data=dict(source=source, held_out=0.2)))
    assert str(caught.value).startswith('config.data.held_out=0.2: is for ')
    assert str(caught.value).endswith(f'; this run is for {data.default_task(source)} on {source!r}; leave it out')


def test_a_text_may_be_called_anything(tmp_path):
    options = tiny_config('gpt', data=dict(source=f'file:{write_text(tmp_path / "words.dat")}')).data
    assert data.load(options, 'language_model').train.size
