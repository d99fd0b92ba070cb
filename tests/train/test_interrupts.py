"""SIGTERM and Ctrl-C: the run saves and leaves, whatever it is doing."""

import json
import os
import re
import signal
import time

import pytest

from seqjax.runs import Checkpoints
from seqjax.train.interrupts import Interrupts
from tests.processes import finish, start
from tests.tiny import write_text

SECONDS_TO_LEAVE = 15  # generous for a machine with other work; what is tested is that it leaves at all


def command(workdir, text, *more):
    return ['--config=experiments/language/char_lstm.py', f'--workdir={workdir}', f'--config.data.source=file:{text}',
            '--config.data.sequence_length=16', '--config.data.batch_size=8', '--config.model.width=16',
            '--config.model.depth=1', '--config.train.steps=100000', '--config.train.eval_every=50',
            '--config.train.save_every=50', '--config.optimizer.warmup_steps=10', *more]


def wait_for(process, pattern):
    for line in process.stderr:
        if re.search(pattern, line):
            return
    raise AssertionError(f'the run ended before it said {pattern!r}')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_between_steps_saves_the_step_reached(number, tmp_path):
    text = write_text(tmp_path / 'text.txt')
    with start(*command(tmp_path / 'run', text)) as process:
        wait_for(process, 'step 50: saved')
        time.sleep(0.3)
        process.send_signal(number)
        code, _, errors = finish(process, SECONDS_TO_LEAVE)
    assert code == 128 + number, errors
    step = int(re.search(r'stopped at step (\d+), saved; the same command goes on from there', errors)[1])
    checkpoints = Checkpoints(tmp_path / 'run' / 'checkpoints')
    assert step > 50 and checkpoints.newest_intact() == step
    lines = [json.loads(line) for line in (tmp_path / 'run' / 'metrics.jsonl').read_text().splitlines()]
    assert [line['step'] for line in lines if 'batch' in line] == list(range(1, step + 1))
    assert (tmp_path / 'run' / 'loss.png').is_file()


def test_a_signal_during_evaluation_saves_and_the_evaluation_is_made_up_for(tmp_path):
    text = write_text(tmp_path / 'text.txt', characters=600_000)
    run = command(tmp_path / 'run', text, '--config.data.held_out=0.9', '--config.train.eval_every=5',
                  '--config.train.save_every=5', '--config.train.eval_batches=0', '--config.optimizer.warmup_steps=2')
    with start(*run) as process:  # nearly all the time goes into evaluation: 5 steps, then 4,000 batches
        wait_for(process, 'step 5: saved')
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        code, _, errors = finish(process, SECONDS_TO_LEAVE)
    assert code == 128 + signal.SIGTERM, errors
    checkpoints = Checkpoints(tmp_path / 'run' / 'checkpoints')
    assert checkpoints.newest_intact() == 10 and checkpoints.manifest(10)['score'] is None
    code, _, errors = finish(start(*run, '--config.train.steps=10', '--config.train.eval_batches=5'))
    assert code == 0, errors
    lines = [json.loads(line) for line in (tmp_path / 'run' / 'metrics.jsonl').read_text().splitlines()]
    assert [line['step'] for line in lines if 'eval/loss' in line] == [5, 10]


def test_a_signal_during_compilation_ends_the_process_at_once_and_changes_nothing(tmp_path):
    text = write_text(tmp_path / 'text.txt')
    with start(*command(tmp_path / 'run', text, '--config.model.depth=24'), cache=tmp_path / 'cold cache') as process:
        wait_for(process, 'parameters')
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        code, _, errors = finish(process, SECONDS_TO_LEAVE)
    assert code == 128 + signal.SIGTERM
    assert 'SIGTERM: stopped; nothing was saved yet; the same command starts again' in errors
    assert not Checkpoints(tmp_path / 'run' / 'checkpoints').steps()


@pytest.mark.parametrize('steps, sentence', [
    ([], 'nothing was saved yet; the same command starts again'), ([50], 'what was saved before is untouched')])
def test_leaving_at_once_says_whether_there_is_something_to_go_on_from(steps, sentence, monkeypatch, capsys):
    codes, leaving = [], Interrupts(lambda: steps)
    monkeypatch.setattr(os, '_exit', codes.append)
    leaving.signal = signal.SIGINT
    leaving._leave()
    assert codes == [130] and capsys.readouterr().err == f'\nSIGINT: stopped; {sentence}\n'
