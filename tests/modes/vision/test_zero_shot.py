"""--mode=zero_shot: prompts as a classifier, against a loop; unknown words, and what is refused."""

import json

import numpy as np
import pytest

from seqjax import config as configs
from seqjax import runs, train
from seqjax.errors import FieldError, UserError
from seqjax.modes.vision.zero_shot import classify

NAMES = ('zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine')
TEMPLATES = 'a {}', 'a {} above a three'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    workdir = tmp_path_factory.mktemp('clip')
    config = configs.defaults(model='clip', task='clip', source='digit_scenes')
    config.data.update(batch_size=32, tokenizer='word')
    config.model.update(width=8, depth=1, heads=2, patch_size=8, projection_width=4)
    config.train.update(steps=3, eval_every=0, eval_batches=1, save_every=0)
    config.optimizer.update(warmup_steps=1, learning_rate=1e-2)
    train.train(config, workdir)
    return config, workdir


@pytest.fixture(scope='module')
def labelled(tmp_path_factory):
    path = tmp_path_factory.mktemp('set') / 'set.npz'
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 10
    np.savez(path, images=rng.integers(256, size=(60, 32, 32, 1)).astype(np.uint8), labels=labels)
    return path


def test_prompts_classify_as_a_loop_does(trained, labelled):
    config, workdir = trained
    found = classify(config, workdir, source=f'file:{labelled}', templates=TEMPLATES, classes=NAMES)
    model, params = runs.load_model(workdir)
    codec, parts = runs.RunDirectory(workdir).codec(), train.build(config, runs.RunDirectory(workdir))
    weights = []
    for name in NAMES:
        unit = []
        for template in TEMPLATES:
            tokens, mask = codec.caption(template.replace('{}', name))
            unit.append(np.asarray(model.apply({'params': params}, tokens[None], mask[None], method='encode_text'))[0])
        weights.append(np.mean(unit, axis=0) / np.linalg.norm(np.mean(unit, axis=0)))
    from seqjax.modes.vision.probe import labelled_set

    rows = labelled_set(config, f'file:{labelled}').rows['validation']
    right = 0
    for row in (rows[i] for i in range(len(rows))):
        image = parts.task.prepare(dict(inputs=row['inputs'][None], targets=None, weights=None))['inputs']
        embedding = np.asarray(model.apply({'params': params}, image, method='encode_image'))[0]
        right += int(np.argmax([embedding @ weight for weight in weights]) == row['targets'])
    assert found['rows'] == len(rows) and found['accuracy'] == pytest.approx(right / len(rows))
    assert list(found['templates']) == list(TEMPLATES) and json.loads((workdir / 'zero_shot.json').read_text()) == found


def test_words_that_no_caption_had_are_named(trained, labelled, capsys):
    config, workdir = trained
    classify(config, workdir, source=f'file:{labelled}', templates=('a photo of a {}',), classes=NAMES)
    assert 'warning: no caption had the words photo' in capsys.readouterr().err.replace('\n', ' ')


def test_classes_that_are_not_as_many_and_runs_without_texts_are_refused(trained, labelled, tmp_path):
    config, workdir = trained
    with pytest.raises(FieldError, match="--classes='a,b': names 2 classes, and file:.* has 10: 0, 1, 2"):
        classify(config, workdir, source=f'file:{labelled}', classes=('a', 'b'))
    unknown = "^--source='mine': write 'file:PATH' .* a set that an experiment file registers needs --config=FILE"
    with pytest.raises(FieldError, match=unknown):
        classify(config, workdir, source='mine')
    with pytest.raises(FieldError, match="templates='a photo': must have {} once"):
        classify(config, workdir, source=f'file:{labelled}', templates=('a photo',), classes=NAMES)
    other = configs.defaults(model='vit', task='classification', source='digits')
    other.model.update(width=8, depth=1, heads=2, patch_size=4)
    other.train.update(steps=1, eval_every=0, eval_batches=1, save_every=0)
    other.optimizer.warmup_steps = 0
    train.train(other, tmp_path)
    with pytest.raises(UserError):
        classify(other, tmp_path, source='digits')
