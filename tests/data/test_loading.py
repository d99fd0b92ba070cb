"""Options of files and of parts, where nothing reads them: refused by name."""

import pytest

from seqjax import data
from seqjax.errors import FieldError
from tests.tiny import tiny_config, write_text

FIELDS = dict(format='tsv', input_column='a', target_column='b', split_column='c', label_file='l', mask_file='m')
SOURCES = [('python', 'language_model'), ('python', 'masked_lm'), ('reviews', 'classification'), ('reverse', 'translation'),
           ('adding', 'regression'), ('file:words.txt', 'language_model'), ('file:words.txt', 'span_corruption')]


@pytest.mark.parametrize('source, task', SOURCES)
@pytest.mark.parametrize('field', FIELDS)
def test_an_option_of_files_is_refused_where_no_table_is_read(source, task, field):
    options = tiny_config('reader', data={'source': source, field: FIELDS[field]}).data
    with pytest.raises(FieldError) as caught:
        data.load(options, task)
    way_out = 'leave it empty, or name another task' if source.startswith('file:') else 'leave it empty'
    assert str(caught.value) == f'data.{field}={FIELDS[field]!r}: means nothing for {source!r} and {task}; {way_out}'


@pytest.mark.parametrize('field', ['format', 'split_column', 'label_file', 'mask_file'])
def test_what_a_set_of_tfds_does_not_have_is_refused(field):
    options = tiny_config('reader', data={'source': 'tfds:x', field: FIELDS[field]}).data
    with pytest.raises(FieldError, match=f"data.{field}='.*': means nothing for 'tfds:x' and classification; leave it empty"):
        data.load(options, 'classification')


@pytest.mark.parametrize('source', ['addition', 'reverse', 'python_docs', 'adding', 'copy'])
def test_parts_of_their_own_sizes_are_not_cut_otherwise(source):
    options = tiny_config('reader', data=dict(source=source, held_out=0.2)).data
    with pytest.raises(FieldError) as caught:
        data.load(options, data.default_task(source))
    assert str(caught.value) == (f'data.held_out=0.2: means nothing for {source!r}, whose parts have sizes of their own; leave it '
                                 'at 0.1')


def test_a_text_may_be_called_one_and_the_default_is_that_of_the_config(tmp_path):
    options = tiny_config('gpt', data=dict(source=f'file:{write_text(tmp_path / "words.dat")}', format='text')).data
    assert data.load(options, 'language_model').train.size
    assert data.loading.HELD_OUT == options.held_out
