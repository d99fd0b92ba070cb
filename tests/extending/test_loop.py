"""A stranger's training loop takes the steps that the loop of seqjax takes."""

import json
import pathlib
import subprocess
import sys

import pytest

from seqjax.errors import FieldError
from seqjax import train
from seqjax.modes.command import experiment_files

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / 'tests' / 'extending' / 'plain_loop.py'


def test_it_takes_the_same_steps_as_the_default_loop(tmp_path):
    launch = lambda *words: subprocess.run([sys.executable, 'launch.py', f'--config={FILE}', *words], cwd=ROOT, check=True,
                                           capture_output=True, text=True).stdout
    out = launch(f'--workdir={tmp_path / "plain"}')
    losses = json.loads(out[:out.rindex('}') + 1])['losses']
    launch(f'--workdir={tmp_path / "usual"}', '--config.train.loop=default')
    lines = [json.loads(line) for line in (tmp_path / 'usual' / 'metrics.jsonl').read_text().splitlines()]
    assert losses == [line['train/loss'] for line in lines if 'train/loss' in line] and len(losses) == 3


def test_a_loop_that_nobody_registered_is_refused_before_data_is_read(tmp_path):
    config = experiment_files.load(str(FILE))
    config.train.loop = 'plian'
    with pytest.raises(FieldError, match="config.train.loop='plian': no such training loop; did you mean 'plain'"):
        train.train(config, tmp_path)
