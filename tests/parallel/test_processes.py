"""Two processes with two devices each, joined over loopback: they train, save and resume as one process with four."""

import json
import os
import socket

import jax
import pytest

from seqjax import parallel
from tests.processes import finish, start
from tests.tiny import write_text


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def command(workdir, text, steps, *more):
    return ['--config=experiments/language/char_gpt.py', f'--workdir={workdir}', f'--config.data.source=file:{text}',
            '--config.data.sequence_length=16', '--config.data.batch_size=8', '--config.model.width=16',
            '--config.model.depth=1', '--config.model.heads=2', f'--config.train.steps={steps}', '--config.train.eval_every=4',
            '--config.train.save_every=4', '--config.optimizer.schedule=constant', '--config.optimizer.warmup_steps=2',
            '--config.parallel.deadline=100', *more]  # one that hangs says where it waits


def run_in_two_processes(*arguments):
    port = free_port()
    processes = [start(*arguments, '--cpu_devices=2', f'--coordinator=127.0.0.1:{port}', '--processes=2', f'--process={i}', quick=True)
                 for i in range(2)]
    ends = [finish(process) for process in processes]
    assert [code for code, _, _ in ends] == [0, 0], '\n\n'.join(errors for _, _, errors in ends)  # whole: pytest cuts lists


def log_of(workdir):
    return [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]


@pytest.mark.parametrize('mesh', [['--config.parallel.data=2', '--config.parallel.fsdp=2'],
                                  pytest.param(['--config.parallel.strategy=pmap'], marks=pytest.mark.slow)], ids=['jit', 'pmap'])
def test_two_processes_train_save_and_resume_as_one(mesh, tmp_path):
    text = write_text(tmp_path / 'text.txt')
    run_in_two_processes(*command(tmp_path / 'two', text, 6, *mesh))
    run_in_two_processes(*command(tmp_path / 'two', text, 10, *mesh))
    code, _, errors = finish(start(*command(tmp_path / 'one', text, 10, *mesh), '--cpu_devices=4', quick=True))
    assert code == 0, errors
    two, one = log_of(tmp_path / 'two'), log_of(tmp_path / 'one')
    steps = [[line for line in log if 'batch' in line] for log in (one, two)]
    assert [line['batch'] for line in steps[0]] == [line['batch'] for line in steps[1]] and len(steps[0]) == 10
    assert [line['train/loss'] for line in steps[1]] == pytest.approx([line['train/loss'] for line in steps[0]], abs=1e-5)
    assert two[-1]['eval/loss'] == pytest.approx(one[-1]['eval/loss'], abs=1e-5)
    code, output, errors = finish(start(f'--workdir={tmp_path / "two"}', '--mode=eval', quick=True))  # and one device alone can read it
    assert code == 0, errors
    assert json.loads(output)['eval/loss'] == pytest.approx(two[-1]['eval/loss'], abs=1e-5)


@pytest.mark.parametrize('before, cores, count, threads', [('', 2, 8, '16'), ('', 64, 8, '64'),
                                                           ('32', 2, 8, '32'), ('4', 64, 8, '16')])
def test_simulated_devices_have_threads_enough_for_their_collectives(before, cores, count, threads, monkeypatch):
    set_to = {}
    monkeypatch.setattr(jax.config, 'update', set_to.__setitem__)
    monkeypatch.setattr(os, 'cpu_count', lambda: cores)
    monkeypatch.setenv('NPROC', before)
    parallel.simulate_devices(count)
    assert set_to == {'jax_num_cpu_devices': count} and os.environ['NPROC'] == threads
