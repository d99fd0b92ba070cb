"""kill -9 at ten random moments, start again each time: the end is the end of an undisturbed run, bit for bit."""

import json
import random
import re
import signal
import time

import jax
from jax.sharding import SingleDeviceSharding
import numpy as np
import pytest

from seqjax.runs import Checkpoints
from tests.processes import finish, start
from tests.tiny import write_text

STEPS = 200
MOMENTS = ['compile', 'step', 'save', 'evaluation', 'save', 'step', 'evaluation', 'compile', 'save', 'step']


def command(workdir, text):
    return ['--config=experiments/language/char_gpt.py', f'--workdir={workdir}', f'--config.data.source=file:{text}',
            '--config.data.held_out=0.5', '--config.data.sequence_length=16', '--config.data.batch_size=8',
            '--config.model.width=16', '--config.model.depth=1', '--config.model.heads=2', '--config.model.dropout=0.1',
            f'--config.train.steps={STEPS}', '--config.train.eval_every=10', '--config.train.save_every=10',
            '--config.optimizer.warmup_steps=10', '--config.optimizer.ema_decay=0.9']


def of_images(workdir, _):
    """Augmentation, batch norms, an average of both."""
    return ['--config=experiments/vision/digits_resnet.py', f'--workdir={workdir}', '--config.data.batch_size=8',
            '--config.model.width=8', '--config.data.augment=crop(padding=1), mixup', '--config.data.normalise=true',
            f'--config.train.steps={STEPS}', '--config.train.eval_every=10', '--config.train.save_every=10',
            '--config.train.eval_batches=2', '--config.optimizer.warmup_steps=10']


def without_labels(workdir, _):
    """Views, an EMA teacher with its centre, and batch norms."""
    return ['--config=experiments/vision/digits_resnet.py', f'--workdir={workdir}', '--config.task=dino',
            '--config.data.batch_size=8', '--config.data.augment=crop(padding=1), flip', '--config.model.width=4',
            '--config.train.prototypes=16', '--config.train.projection_hidden=8', '--config.train.local_views=1',
            '--config.train.local_augment=resized_crop(size=8)', f'--config.train.steps={STEPS}',
            '--config.train.eval_every=10', '--config.train.save_every=10', '--config.train.eval_batches=2',
            '--config.optimizer.warmup_steps=10']


def kill_at(process, moment, checkpoints, rng):
    """Waits until the process is about to do what `moment` names, and a random time more, and kills it."""
    for line in process.stderr:
        if moment == 'compile' and 'parameters' in line:
            time.sleep(rng.uniform(0, 1))
            break
        if moment != 'compile' and re.match(r'step \d+: saved', line):
            break
    if moment == 'step':
        time.sleep(rng.uniform(0, 0.04))
    elif moment == 'evaluation':  # follows ten steps after a save
        time.sleep(rng.uniform(0.03, 0.2))
    elif moment == 'save':
        while process.poll() is None and not list(checkpoints.glob('.*.writing')):
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, 0.1))
    process.send_signal(signal.SIGKILL)
    process.wait()
    return process.returncode == -signal.SIGKILL


def outcome(workdir):
    """Everything that must be the same: the arrays of the last checkpoint, and the log but for its times."""
    checkpoints = Checkpoints(workdir / 'checkpoints')
    assert checkpoints.newest_intact() == STEPS
    place = SingleDeviceSharding(jax.devices()[0])
    target = {path: jax.ShapeDtypeStruct(tuple(x['shape']), x['dtype'], sharding=place)
              for path, x in checkpoints.manifest(STEPS)['arrays'].items()}
    arrays = {path: np.asarray(x).tobytes() for path, x in checkpoints.restore(STEPS, target).items()}
    log = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
    return arrays, log


@pytest.mark.parametrize('command, moments', [
    (command, MOMENTS[:4]), pytest.param(command, MOMENTS, marks=pytest.mark.slow),
    pytest.param(of_images, MOMENTS[1:4], marks=pytest.mark.slow),
    pytest.param(without_labels, MOMENTS[1:4], marks=pytest.mark.slow),
], ids=['one of each', 'ten', 'of images', 'without labels'])
def test_kills_change_nothing(command, moments, tmp_path):
    text, rng = write_text(tmp_path / 'text.txt', characters=30000), random.Random(20)
    undisturbed, killed = tmp_path / 'undisturbed', tmp_path / 'killed'
    code, _, errors = finish(start(*command(undisturbed, text)))
    assert code == 0, errors
    done = []
    for moment in moments:
        with start(*command(killed, text)) as process:
            if kill_at(process, moment, killed / 'checkpoints', rng):
                done.append(moment)
    assert len(done) == len(moments), f'the run was over before it could be killed: {done}'
    code, _, errors = finish(start(*command(killed, text)))
    assert code == 0, errors
    arrays, log = outcome(undisturbed)
    their_arrays, their_log = outcome(killed)
    logged = [line for line in log if 'batch' in line or 'eval/loss' in line]
    assert len(arrays) > 20 and len(logged) == STEPS + STEPS // 10
    assert [line['step'] for line in log if 'batch' in line] == list(range(1, STEPS + 1))
    assert [line.get('batch') for line in their_log] == [line.get('batch') for line in log]
    assert their_log == log
    assert their_arrays == arrays
