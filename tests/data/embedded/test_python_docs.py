"""Functions and sentences of the standard library: both answers for every text, and no part has read another's."""

import ast
import collections
import pathlib
import sysconfig

import pytest

from seqjax import data
from seqjax.data.embedded.python_docs import LONGEST, described_functions, python_doc_examples
from seqjax.data.labelled import load_labelled
from seqjax.errors import FieldError
from seqjax.metrics.baselines import baseline_scores
from tests.tiny import tiny_config

SOURCE = '''
class Path:
    def joined(self, *names, sep='/'):
        """Join names.  And more.

        The rest."""
    def size(self): return 0
async def read(file: str = None):
    r"""One \\d line
    in two"""
'''


@pytest.fixture(scope='module')
def made():
    return python_doc_examples('classification', seed=0)


def test_headers_and_first_sentences():
    assert list(described_functions(SOURCE)) == [
        ('def read(file: str=None)', r'One \d line in two'), ("def joined(self, *names, sep='/')", 'Join names.')]


def test_every_text_is_there_with_both_answers(made):
    for part in (made.train, made.validation, made.test):
        for side in ('first', 'second'):
            answers = collections.defaultdict(list)
            for example in part:
                answers[getattr(example.inputs, side)].append(example.target)
            assert all(sorted(found) == ['no', 'yes'] for found in answers.values())


def test_no_text_is_in_two_parts_and_none_is_long(made):
    texts = [{text for example in part for text in (example.inputs.first, example.inputs.second)}
             for part in (made.train, made.validation, made.test)]
    assert not texts[0] & texts[1] and not texts[1] & texts[2] and not texts[0] & texts[2]
    assert max(map(len, set().union(*texts))) <= LONGEST and all(texts)
    assert min(map(len, texts)) > 500


def test_answers_are_those_of_the_library(made):
    """Looked up in three modules, by the headers of functions: a method may have the name of a function."""
    described, checked = collections.defaultdict(set), collections.Counter()
    for name in ('shutil', 'gzip', 'textwrap'):
        source = pathlib.Path(sysconfig.get_path('stdlib'), f'{name}.py').read_text('utf-8')
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                described[' '.join(ast.get_docstring(node).split())].add(f'def {node.name}({ast.unparse(node.args)})')
    for example in made.train:
        for text, headers in described.items():
            if text.startswith(example.inputs.second):
                assert (example.inputs.first in headers) == (example.target == 'yes'), example
                checked[example.target] += 1
    assert checked['yes'] == checked['no'] > 30


def test_the_seed_mixes_and_deals_out(made):
    again, other = (python_doc_examples('classification', seed=seed) for seed in (0, 1))
    assert again == made and other.validation != made.validation
    assert {e.inputs.first for e in other.train} == {e.inputs.first for e in made.train}


def test_counting_words_does_not_help(made):
    options = tiny_config('reader', data=dict(source='python_docs', tokenizer='word', special_tokens=True, vocabulary=4000)).data
    rows = load_labelled(made, 'classification', options).rows
    scores = baseline_scores('class', rows)
    assert scores['eval/majority_accuracy'] == scores['test/majority_accuracy'] == 0.5
    assert abs(scores['eval/naive_bayes_accuracy'] - 0.5) < 0.02 and abs(scores['test/naive_bayes_accuracy'] - 0.5) < 0.02


def test_two_texts_need_marks():
    config = tiny_config('reader', data=dict(source='python_docs'))
    assert data.default_task('python_docs') == 'classification'
    with pytest.raises(FieldError, match='data.special_tokens=False: the set has two texts a row, which marks keep apart; set it to true'):
        data.load(config.data, 'classification')


def test_a_library_may_be_kept_in_a_directory_called_test(tmp_path, monkeypatch):
    root = tmp_path / 'test' / 'lib'
    function = 'def {0}one(a):\n    """Does {0} one."""\ndef {0}two(b):\n    """Does {0} two."""\n'
    for name in ('shutil', 'json/decoder', 'json/encoder', 'json/test/tool'):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f'{name}.py').write_text(function.format(name.rpartition('/')[2]))
    monkeypatch.setattr(sysconfig, 'get_path', lambda name: str(root))
    found = python_doc_examples('classification', seed=0)
    assert [len(part) for part in (found.train, found.validation, found.test)] == [4, 4, 4]
    assert not any('tool' in example.inputs.first for part in (found.validation, found.test) for example in part)
