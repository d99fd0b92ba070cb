"""Which checkpoint a run is evaluated with, and which run can write."""

import os
import types

import pytest

from seqjax.errors import UserError
from seqjax.train import Checkpoints, RunDirectory, generate
from seqjax.train.modes import find_checkpoint
from tests.tiny import tiny_config
from tests.train.test_checkpoints import save


@pytest.fixture
def run(tmp_path):
    """A run whose best checkpoint, step 1, is not its newest, step 3."""
    checkpoints = Checkpoints(tmp_path / 'checkpoints', keep_latest=3)
    for step, score in ((1, 0.5), (2, 2.0), (3, 1.0)):
        save(checkpoints, step, score)
    return RunDirectory(tmp_path)


@pytest.mark.parametrize('which, step', [('latest', 3), ('best', 1), ('2', 2)])
def test_latest_best_or_a_step(run, which, step):
    assert find_checkpoint(run, which)[0] == step


@pytest.mark.parametrize('which', ['newest', '7', '-1'])
def test_what_is_not_there_is_refused(run, which):
    with pytest.raises(UserError, match=f"--checkpoint={which}: write 'latest', 'best' or a step; there are: 1, 2, 3"):
        find_checkpoint(run, which)


def damage(run, step):
    os.truncate(run.checkpoints / f'{step:08d}' / 'arrays' / '_METADATA', 5)


def test_a_damaged_newest_one_is_passed_over_and_reported_apart_from_the_output(run, capsys):
    damage(run, 3)
    assert find_checkpoint(run, 'latest')[0] == 2
    output, errors = capsys.readouterr()
    assert output == '' and 'checkpoint 3 is damaged' in errors


def test_a_damaged_one_that_was_asked_for_is_refused(run):
    damage(run, 1)
    with pytest.raises(UserError, match='--checkpoint=best: step 1 is damaged .*; choose another of: 1, 2, 3'):
        find_checkpoint(run, 'best')


def test_no_checkpoint_yet(tmp_path):
    with pytest.raises(UserError, match='no checkpoint yet; train first'):
        find_checkpoint(RunDirectory(tmp_path), 'latest')


@pytest.mark.parametrize('model, source, sentence', [
    ('per_step', 'python', "--mode=generate: 'per_step' cannot continue a text; models that can: gpt, recurrent"),
    ('recurrent', 'copy', 'the run was not trained on text, so there is no text to continue'),
    ('reader', 'reviews', "--mode=generate: 'reader' cannot continue a text; models that can: gpt, recurrent"),
])
def test_a_run_that_cannot_continue_a_text_says_why(model, source, sentence, tmp_path):
    config = tiny_config(model, data=dict(source=source))
    RunDirectory(tmp_path).claim(config, types.SimpleNamespace(files=dict, facts=dict))
    with pytest.raises(UserError) as caught:
        generate(config, tmp_path)
    assert sentence in str(caught.value)
