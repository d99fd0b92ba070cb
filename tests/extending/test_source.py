"""A source of images from outside (`augmented_images`): lazy, augmented, and killed and resumed to the same last bit."""

import importlib
import json
import pathlib
import re
import signal

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import data
from seqjax.runs import Checkpoints
from tests.processes import finish, start

FILE = pathlib.Path(__file__).with_name('augmented_images.py')


@pytest.fixture(scope='module')
def module():
    """The file, whose source is registered while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.SOURCES, '_things', dict(data.SOURCES))
        yield importlib.import_module('tests.extending.augmented_images')


def outcome(workdir, step):
    """(the arrays of the last checkpoint, the log, result.json but for times)."""
    checkpoints = Checkpoints(workdir / 'checkpoints')
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = {path: jax.ShapeDtypeStruct(tuple(x['shape']), x['dtype'], sharding=place)
              for path, x in checkpoints.manifest(step)['arrays'].items()}
    arrays = {path: np.asarray(x).tobytes() for path, x in checkpoints.restore(step, target).items()}
    result = json.loads((workdir / 'result.json').read_text())
    return arrays, (workdir / 'metrics.jsonl').read_text(), {name: result[name] for name in result if '/' in name}


def test_a_run_that_is_killed_goes_on_with_the_same_augmented_images(tmp_path):
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    begin = lambda workdir: start(f'--config={FILE}', f'--workdir={workdir}')
    assert finish(begin(whole))[0] == 0
    with begin(killed) as process:
        for line in process.stderr:
            if re.match(r'step \d+: saved', line):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL and not (killed / 'result.json').exists()
    code, _, errors = finish(begin(killed))
    assert code == 0 and 'resumed from step' in errors, errors
    assert outcome(killed, 200) == outcome(whole, 200)
    result = outcome(whole, 200)[2]
    assert result['eval/accuracy'] > 0.9 < result['test/accuracy']  # half of them are of one class
    assert json.loads((whole / 'data.json').read_text())['train'] == 50_000
    code, _, errors = finish(start(f'--workdir={whole}', '--mode=eval'))
    assert code == 2 and "'stripes'" in errors and '--config' in errors, errors


def test_images_are_made_when_they_are_needed_and_augmented_for_training_alone(module, monkeypatch):
    made, plain = [], module.Stripes.__getitem__
    monkeypatch.setattr(module.Stripes, '__getitem__', lambda self, i: made.append((self.split, i)) or plain(self, i))
    config = module.get_config()
    found = data.load(config.data, configs.task_name(config))
    assert isinstance(found, data.Dataset) and len(found.rows['train']) == 50_000 and len(found.facts()['sha256']) == 64
    assert len(made) < 10
    made.clear()
    batch = found.training_batches(batch_size=16, seed=0)[1000]
    numbers = [i for split, i in made if split == 'train']
    assert len(numbers) == len(made) == 16
    originals = [plain(module.Stripes('train'), i) for i in numbers]
    for row, target, original in zip(batch['inputs'], batch['targets'], originals):
        assert module.CLASSES[target] == original.target
        distance = [np.abs(np.roll(turned, shift, axis=(0, 1)) - row).mean() for turned in (original.inputs, original.inputs[::-1, ::-1])
                    for shift in np.ndindex(module.SIDE, module.SIDE)]
        assert min(distance) < 0.06 and 0 < np.abs(original.inputs - row).mean()  # the noise alone has 0.04
    held_out = found.evaluation_batches(batch_size=16)[0]
    known = [plain(module.Stripes('validation'), i).inputs for i in range(128)]
    assert all(any(np.array_equal(row, image) for image in known) for row in held_out['inputs'])
