"""A stranger's mode is run by launch.py, with its own flags and its own help."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from seqjax import runs

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / 'tests' / 'extending' / 'largest_mode.py'


@pytest.fixture(scope='module')
def launch(tmp_path_factory):
    workdir = tmp_path_factory.mktemp('largest') / 'run'

    def typed(*words):
        return subprocess.run([sys.executable, 'launch.py', f'--config={FILE}', f'--workdir={workdir}', *words], cwd=ROOT,
                              capture_output=True, text=True)

    result = typed()
    assert result.returncode == 0, result.stderr
    return typed, workdir


def test_it_is_run_by_its_name_with_its_flags(launch):
    typed, workdir = launch
    result = typed('--mode=largest', '--top=2')
    assert result.returncode == 0, result.stderr
    rows = [line.split('\t') for line in result.stdout.splitlines()]
    _, params = runs.load_model(workdir)
    sizes = sorted((np.size(leaf) for leaf in _leaves(params)), reverse=True)
    assert [int(size) for _, size, _ in rows] == sizes[:2]
    assert rows[0][2] == f'{np.sqrt(np.sum(np.square(_at(params, rows[0][0])))):.4f}'
    assert json.loads((workdir / 'config.json').read_text())['model']['width'] == 8


def test_its_help_lists_its_flags_and_what_it_reads(launch):
    typed, _ = launch
    result = typed('--mode=largest', '--help')
    assert 'List the largest parameters of a checkpoint.' in result.stdout and '--top: How many. (default: 5)' in result.stdout
    assert '--config.model.width' in result.stdout and '--config.train.steps' not in result.stdout


def test_what_is_mistyped_is_one_sentence(launch):
    typed, _ = launch
    for words, sentence in ((('--mode=largst',), "--mode=largst: no such mode; did you mean 'largest'?"),
                            (('--mode=largest', '--top=x'), '--top=x: must be a whole number'),
                            (('--mode=eval', '--top=3'), '--top=3: is for --mode=largest; leave it out')):
        result = typed(*words)
        assert (result.returncode, result.stdout) == (2, '') and sentence in result.stderr


def _leaves(tree):
    return [leaf for value in tree.values() for leaf in (_leaves(value) if isinstance(value, dict) else [value])]


def _at(tree, path):
    for name in path.split('/'):
        tree = tree[name]
    return np.asarray(tree)
