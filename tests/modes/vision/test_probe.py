"""--mode=probe and --mode=embed of runs that learned without labels: trained, killed, opened, probed; and what they refuse."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import params as trees
from seqjax import runs, train
from seqjax.errors import UserError
from seqjax.modes.vision.embed import embed, write_npz
from seqjax.modes.vision.probe import probe, table
from seqjax.runs.checkpoints import Checkpoints
from seqjax.train.loop import Interrupted

ROOT = pathlib.Path(__file__).parents[3]
LOCAL = 'resized_crop(size=4, area=(0.2, 0.6))'


def make_config(task, **changes):
    config = configs.defaults(model='vit', task=task, source='digits')
    config.data.update(batch_size=32, augment='crop(padding=1), colour_jitter(saturation=0.0, hue=0.0)')
    config.model.update(width=8, depth=1, heads=2, patch_size=4)
    config.train.update(steps=4, eval_every=2, eval_batches=2, save_every=2, projection_hidden=8, projection_width=4)
    if task == 'dino':
        config.train.update(prototypes=16, local_augment=LOCAL, local_views=1, teacher_momentum=0.5)
    config.optimizer.update(warmup_steps=1, learning_rate=1e-2)
    config.train.update(changes)
    return config


@pytest.fixture(scope='module', params=['simclr', 'dino'])
def trained(request, tmp_path_factory):
    workdir = tmp_path_factory.mktemp(request.param)
    config = make_config(request.param)
    return config, workdir, train.train(config, workdir)


def test_a_run_says_what_guessing_costs_and_whether_it_has_collapsed(trained):
    config, workdir, result = trained
    expected = np.log(63 if config.task == 'simclr' else 16)
    assert result['train/guessing'] == pytest.approx(expected, rel=1e-5)
    assert {'eval/feature_std', 'eval/feature_rank', 'eval/knn_accuracy', 'test/feature_rank', 'collapsed'} <= result.keys()
    assert isinstance(result['collapsed'], str)


def test_features_are_scored_beside_pixels_and_the_untrained_network(trained):
    config, workdir, _ = trained
    found = probe(config, workdir, labels=[2], draws=2)
    assert found['rows'] == dict(train=1294, validation=144, test=359)
    for name, width in dict(pixels=64, random=8, trained=8).items():
        assert found[name]['width'] == width and 0.2 < found[name]['linear'] <= 1 and 0.2 < found[name]['knn'] <= 1
        assert 0.1 < found[name]['few_shot/2'] < 1
    assert found['pixels']['linear'] > 0.9
    frozen = found['trained']['frozen']
    assert frozen['before'] == frozen['after'] != found['random']['frozen']['after']
    assert frozen['before'] == trees.digest(dict(params=runs.load_model(workdir)[1], batch_stats={}))
    result = json.loads((workdir / 'result.json').read_text())
    assert result['probe/frozen/before'] == result['probe/frozen/after'] == frozen['after']
    assert result['probe/trained/knn'] == found['trained']['knn'] and 'eval/loss' in result
    assert json.loads((workdir / 'probe.json').read_text())['step'] == 4
    for name in ('feature_map', 'attention_maps', 'patches'):
        assert (workdir / f'{name}.png').stat().st_size > 1000
    lines = table(found)
    assert len(lines) == 4 and lines[0].split()[0] == 'features' and '2 labels per class' in lines[0]


def test_the_features_of_another_set_are_scored(trained, tmp_path):
    config, workdir, _ = trained
    rng = np.random.default_rng(0)
    np.savez(tmp_path / 'other.npz', images=rng.integers(256, size=(60, 8, 8, 1)).astype(np.uint8), labels=rng.integers(2, size=60))
    found = probe(config, workdir, labels=[], source=f'file:{tmp_path}/other.npz')
    assert found['source'] == f'file:{tmp_path}/other.npz' and sum(found['rows'].values()) == 60


def test_features_are_written_as_arrays(trained, tmp_path):
    config, workdir, _ = trained
    write_npz(tmp_path / 'features.npz', embed(config, workdir))
    with np.load(tmp_path / 'features.npz', allow_pickle=False) as file:
        assert {name: file[name].shape for name in file} == dict(
            train=(1294, 8), train_targets=(1294,), validation=(144, 8), validation_targets=(144,), test=(359, 8),
            test_targets=(359,), classes=(10,))
        model, params = runs.load_model(workdir)
        parts = train.build(config, runs.RunDirectory(workdir))
        image = parts.dataset.rows['test'][3]['inputs'][None]
        normal = parts.task.prepare(dict(inputs=image))['inputs']
        np.testing.assert_allclose(file['test'][3], model.apply({'params': params}, normal, method='features')[0], rtol=1e-4, atol=1e-5)


def test_what_is_opened_of_a_run_with_a_teacher_is_the_teacher(trained):
    config, workdir, _ = trained
    arrays = Checkpoints(workdir / 'checkpoints').manifest(4)['arrays']
    model, params = runs.load_model(workdir)
    part = 'task_state/teacher' if config.task == 'dino' else 'params'
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = {f'{part}/cls': jax.ShapeDtypeStruct(arrays[f'{part}/cls']['shape'], 'float32', sharding=place)}
    expected = Checkpoints(workdir / 'checkpoints').restore(4, target, part=True)[f'{part}/cls']
    np.testing.assert_array_equal(params['cls'], expected)
    assert 'projection' not in params and f'{part}/projection/out/kernel' in arrays


def test_a_classifier_begins_with_what_was_learned(trained, tmp_path):
    config, workdir, _ = trained
    classifier = configs.defaults(model='vit', task='classification', source='digits')
    classifier.update(init_from=str(workdir))
    classifier.data.batch_size = 32
    classifier.model.update(config.model)
    classifier.train.update(steps=2, eval_every=0, save_every=0, eval_batches=1)
    classifier.optimizer.update(freeze='*,!output/*', warmup_steps=0)
    train.train(classifier, tmp_path)
    before, after = (runs.load_model(path)[1] for path in (workdir, tmp_path))
    assert after.pop('output')['kernel'].shape == (8, 10)
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.parametrize('task', ['simclr', 'dino'])
def test_a_run_that_is_left_and_resumed_ends_bit_for_bit_where_an_undisturbed_one_does(task, tmp_path, monkeypatch):
    train.train(make_config(task), tmp_path / 'whole')
    from seqjax.train.interrupts import Interrupts

    monkeypatch.setattr(Interrupts, 'requested', lambda self, step: step == 2)
    monkeypatch.setattr(Interrupts, 'exit_code', 0, raising=False)
    with pytest.raises(Interrupted):
        train.train(make_config(task), tmp_path / 'parts')
    monkeypatch.undo()
    train.train(make_config(task), tmp_path / 'parts')

    def outcome(workdir):
        checkpoints, place = Checkpoints(workdir / 'checkpoints'), jax.sharding.SingleDeviceSharding(jax.devices()[0])
        target = {path: jax.ShapeDtypeStruct(tuple(x['shape']), x['dtype'], sharding=place)
                  for path, x in checkpoints.manifest(4)['arrays'].items()}
        log = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
        return {path: np.asarray(x).tobytes() for path, x in checkpoints.restore(4, target).items()}, [
            {name: value for name, value in line.items() if name != 'time'} for line in log]

    (arrays, log), (resumed, their_log) = outcome(tmp_path / 'whole'), outcome(tmp_path / 'parts')
    assert arrays == resumed and [line for line in log if 'train/loss' in line] == [line for line in their_log if 'train/loss' in line]
    assert any(path.startswith('task_state/teacher/') for path in arrays) == (task == 'dino')


def test_a_collapsed_run_says_so_on_the_screen_and_in_its_result(tmp_path, capsys):
    result = train.train(make_config('dino', teacher_temperature=1000.0, steps=2), tmp_path)  # no sharpening: targets are uniform
    assert result['collapsed'].startswith('collapsed: the targets are uniform (entropy 2.77')
    assert f'warning: {result["collapsed"]}' in capsys.readouterr().err


def test_what_has_no_features_or_no_images_is_refused(tmp_path):
    config = configs.defaults(model='reader', source='reviews')
    config.data.train_examples = 100
    config.model.update(encoder='gru', width=4)
    config.train.update(steps=1, eval_every=0, eval_batches=1, save_every=0, baselines=False)
    config.optimizer.warmup_steps = 0
    train.train(config, tmp_path)
    for mode in (probe, embed):
        with pytest.raises(UserError, match='images|features'):
            mode(config, tmp_path)


def test_launched_it_prints_a_table(trained):
    config, workdir, _ = trained
    command = [sys.executable, 'launch.py', f'--workdir={workdir}', '--mode=probe', '--labels=1']
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[0].startswith('features')
    assert '  1 label per class' in ended.stdout and 'frozen leaves: ' in ended.stderr
    ended = subprocess.run([*command[:-1], '--labels=0,x'], cwd=ROOT, capture_output=True, text=True)
    assert '--labels=0,x: must be numbers of labels per class, as 1,10,100' in ended.stderr
