"""The labels of source code against labels written by hand and against Python's parser."""

import ast
import collections
import pathlib
import sysconfig

import pytest

from seqjax.data.embedded import python_tokens
from seqjax.data.embedded.python_tokens import labelled_runs, python_token_examples, token_labels

LETTERS = dict(name='n', keyword='k', number='d', string='s', comment='c', operator='o', space='.')
MODULES = [pathlib.Path(sysconfig.get_path('stdlib')) / f'{name}.py' for name in (
    'bisect', 'cmd', 'colorsys', 'fnmatch', 'graphlib', 'queue', 'sched', 'selectors', 'string', 'textwrap', 'timeit')]
SOURCES = [path.read_text('ascii') for path in MODULES]


@pytest.fixture(scope='module')
def whole():
    return python_token_examples('tagging', held_out=0.1, seed=0)


def few(monkeypatch, **changes):
    monkeypatch.setattr(python_tokens, '_modules', lambda: MODULES)
    return python_token_examples('tagging', **dict(dict(held_out=0.2, seed=1), **changes))


def parts(examples):
    return examples.train, examples.validation, examples.test


@pytest.mark.parametrize('source, letters', [
    ("for form in [1, 2.5e-3]:\n", 'kkk.nnnn.kk.odo.ddddddoo.'),
    ("x = 'for'  # for 'x'\n", 'n.o.sssss..ccccccccc.'),
    ("f(rb'a', y=None)\n", 'nossssso.nokkkko.'),
    ("s = f'{a!r:>{w}} in' 'b'\n", 'n.o.ssssssssssssssss.sss.'),
    ("s = f'{f\"{b}\"}{{' + c\n", 'n.o.sssssssssssss.o.n.'),
    ("s = '''a # b\nif''' \\\n + 1\n", 'n.o.ssssssssssssss....o.d.'),
    ("@match\ndef case(_): ...\n", 'onnnnn.kkk.nnnnonoo.ooo.'),
])
def test_every_character_has_the_label_that_a_reader_gives_it(source, letters):
    labels, _ = token_labels(source)
    assert ''.join(LETTERS[label] for label in labels) == letters


@pytest.mark.parametrize('source', SOURCES, ids=lambda source: '')
def test_the_parser_agrees(source):
    """Constants and names of the syntax tree, which knows nothing of tokens, lie where the labels say."""
    labels, _ = token_labels(source)
    begins = [0]
    for line in source.split('\n'):
        begins.append(begins[-1] + len(line) + 1)
    numbers = 0
    nodes = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Name)):
            begin = begins[node.lineno - 1] + node.col_offset
            end = begins[node.end_lineno - 1] + node.end_col_offset
            found = set(labels[begin:end])
            if isinstance(node, ast.Name):
                assert found == {'name'}
            elif isinstance(node, ast.JoinedStr) or isinstance(node.value, (str, bytes)):
                assert labels[begin] == labels[end - 1] == 'string'
                assert found <= {'string', 'space', 'comment'}  # the latter between strings that are one when joined
            elif node.value is None or node.value is True or node.value is False:
                assert found == {'keyword'}
            elif node.value is not ...:
                assert found == {'number'}
                numbers += end - begin
        if not isinstance(node, ast.JoinedStr):
            nodes += ast.iter_child_nodes(node)
    assert labels.count('number') == numbers


@pytest.mark.parametrize('source', SOURCES, ids=lambda source: '')
def test_a_run_is_made_of_whole_statements(source):
    labels, _ = token_labels(source)
    inside = {line for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and not hasattr(node, 'body')
              for line in range(node.lineno + 1, node.end_lineno + 1)}  # where no run may begin
    end = 0
    for run in labelled_runs(source):
        begin = source.index(run.inputs, end)
        end = begin + len(run.inputs)
        assert source[begin - 1:begin] in ('', '\n') and run.inputs.endswith('\n')
        assert {source.count('\n', 0, place) + 1 for place in (begin, end)}.isdisjoint(inside)
        assert run.target == tuple(labels[begin:end])
        assert 0 < len(run.inputs) <= 200


def test_a_statement_that_is_too_long_is_left_out_alone():
    lines = ['a = 1\n', f"b = '{'b' * 200}'\n", 'c = 3\n', '\n', f'd = [{"1, " * 30}\n{"2, " * 40}]\n', 'e = 5\n', 'f = 6\n']
    assert [run.inputs for run in labelled_runs(''.join(lines))] == ['a = 1\n', 'c = 3\n\n', 'e = 5\nf = 6\n']


def test_the_standard_library_makes_thousands_of_different_runs(whole):
    examples = [example for part in parts(whole) for example in part]
    assert 15_000 < len(examples) < 25_000 and len(whole.train) > 10_000
    assert min(len(whole.validation), len(whole.test)) > 500
    assert len({example.inputs for example in examples}) == len(examples)  # so no part has a run of another's
    assert all(len(example.inputs) == len(example.target) <= 200 for example in examples)
    labels = collections.Counter(label for example in examples for label in example.target)
    assert set(labels) == set(LETTERS) and max(labels.values()) < 0.4 * labels.total()
    assert f'{len(examples):,} different runs' in whole.report and f'{labels.total():,} of their ' in whole.report


def test_a_module_is_in_one_part_only(monkeypatch):
    homes = [{number for number, source in enumerate(SOURCES) for example in part if example.inputs in source}
             for part in parts(few(monkeypatch))]
    assert list(map(len, homes)) == [6, 2, 3] and set.union(*homes) == set(range(11))


def test_the_parts_depend_on_the_seed_and_on_nothing_else(monkeypatch):
    assert few(monkeypatch) == few(monkeypatch)
    assert few(monkeypatch, seed=2).test != few(monkeypatch).test
    assert len(few(monkeypatch, held_out=0.5).test) > len(few(monkeypatch).test)
