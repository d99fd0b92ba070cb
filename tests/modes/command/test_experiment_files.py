"""Experiment files are read without being run, and what is wrong with one is one sentence."""

import pytest

from seqjax.errors import UserError
from seqjax.modes.command import experiment_files

GOOD = '"""Two widths.\n\nMore."""\nVARIANTS = ("narrow", "wide")\ndef get_config(variant="wide"):\n    return variant\n'


@pytest.fixture
def file(tmp_path):
    def write(text, name='two.py'):
        (tmp_path / name).write_text(text)
        return tmp_path / name
    return write


def test_a_file_says_its_title_and_its_variants(file):
    path = file(GOOD)
    assert experiment_files.title(path) == 'Two widths.'
    assert experiment_files.variants(path) == ('narrow', 'wide')
    assert experiment_files.variants(file('x = 1\n', 'one.py')) == ()
    assert experiment_files.split(f'{path}:wide') == (path, 'wide') and experiment_files.split(str(path)) == (path, '')


def test_a_variant_is_passed_on_and_left_out_where_none_is_named(file):
    path = file(GOOD)
    assert [experiment_files.load(f'{path}{variant}') for variant in ('', ':narrow', ':wide')] == ['wide', 'narrow', 'wide']
    for variant in ('', ':narrow'):
        experiment_files.check(f'{path}{variant}')


@pytest.mark.parametrize('named, variant', [('', 'wide'), (':narrow', 'narrow')])
def test_the_variant_is_said_with_how_to_name_another(named, variant, file):
    path = file(GOOD)
    assert experiment_files.say_variant(f'{path}{named}') == (
        f'variant {variant} of {path}; for another write --config={path}:NAME, with one of: narrow, wide')
    assert experiment_files.say_variant(str(file('def get_config(): pass\n', 'one.py'))) == ''


@pytest.mark.parametrize('text, name, sentence', [
    (GOOD, 'two.py:wid', "no such variant; did you mean 'wide'?"),
    (GOOD, 'two.py:x', 'no such variant; choose one of: narrow, wide'),
    ('def get_config(): pass\n', 'two.py:x', 'the experiment has no variants; write --config='),
    ('VARIANTS = tuple(x)\ndef get_config(): pass\n', 'two.py', 'VARIANTS must be a plain tuple of names'),
    ('def get_config(:\n', 'two.py', 'line 1 is not Python: '),
    ('x = 1\n', 'two.py', 'an experiment is a Python file with get_config()'),
    (GOOD, 'three.py', 'no such file; the experiments are: '),
    (GOOD, 'char_gpt', 'no such file; did you mean '),
])
def test_what_cannot_be_used_is_refused(text, name, sentence, file):
    path = file(text)
    with pytest.raises(UserError) as caught:
        experiment_files.check(str(path.parent / name))
    assert str(caught.value).startswith(f'--config={path.parent / name}: {sentence}')


def test_our_own_experiments_can_be_read():
    for path in experiment_files.ours():
        assert experiment_files.title(path)
        experiment_files.check(str(path))
