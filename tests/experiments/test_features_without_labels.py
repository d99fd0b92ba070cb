"""The experiments of SimCLR, DINO, CLIP and transfer run from end to end, small: pretraining, head, fine-tuning, prompts."""

import json
import pathlib

import numpy as np
import pytest

from seqjax import train
from seqjax.errors import FieldError
from seqjax.modes.command import experiment_files
from seqjax.modes.vision.zero_shot import classify
from seqjax.runs import load_model
from tests.tiny import loaded

FOLDER = pathlib.Path(__file__).parents[2] / 'experiments' / 'vision'


def load(name, **model):
    config = experiment_files.load(f'{FOLDER / name}')
    config.data.batch_size = 16
    config.model.update(model)
    config.train.update(steps=2, eval_every=0, eval_batches=1, save_every=0)
    config.optimizer.warmup_steps = 1
    return config


@pytest.fixture(scope='module')
def pretrained(tmp_path_factory):
    workdir = tmp_path_factory.mktemp('simclr')
    assert np.isfinite(train.train(load('simclr_fashion.py', width=4, channels=()), workdir)['eval/loss'])
    return workdir


def test_a_sweep_of_transfer_begins_with_what_was_learned_and_draws_accuracy_against_labels(
        pretrained, tmp_path):
    kinds, labels, variants = ('scratch', 'frozen', 'fine_tuned'), ('1', '30'), {}
    for name in (f'{kind}_{count}_0' for kind in kinds for count in labels):
        variants[name] = load(f'transfer_fashion.py:{name}', width=4, channels=())
        if not name.startswith('scratch'):
            assert variants[name].init_from == 'runs/simclr_fashion'
            variants[name].init_from = str(pretrained)
    results = train.sweep(variants, tmp_path)
    stem = lambda workdir: load_model(workdir)[1]['stem_conv']['kernel']
    for name in variants:
        assert np.array_equal(stem(pretrained), stem(tmp_path / name)) == name.startswith('frozen')
    found = json.loads((tmp_path / 'by_labels.json').read_text())
    assert list(found) == list(kinds) and (tmp_path / 'by_labels.png').stat().st_size > 1000
    for kind, (one, more) in found.items():
        assert (one['labels'], one['runs'], more['labels']) == (1, 1, 30)
        assert one['mean'] == results[f'{kind}_1_0']['test/accuracy']


@pytest.mark.slow
def test_dino_learns_from_digits_too(tmp_path):
    result = train.train(load('dino_fashion.py', width=8, depth=1, heads=2), tmp_path)
    assert np.isfinite(result['eval/loss']) and result['eval/guessing'] == pytest.approx(np.log(1024), rel=1e-4)


def test_clip_classifies_digits_that_stand_alone(tmp_path):
    with loaded(FOLDER / 'clip_digits.py'):  # the set that it registers is let go afterwards
        config = load('clip_digits.py', width=8, depth=1, heads=2, text_width=8, text_depth=1, text_heads=2)
        train.train(config, tmp_path)
        found = classify(config, tmp_path, source='single_digits', templates=('a {}', 'an {}'))
    assert found['rows'] == 359 and {'zero', 'seven'} < set(found['classes']) and len(found['classes']) == 10


def test_clip_of_emoji_has_an_embedded_set(tmp_path):
    result = train.train(load('clip_emoji.py', width=8, depth=1, heads=2, text_width=8, text_depth=1, text_heads=2), tmp_path)
    assert {'eval/retrieval/image_to_text@10', 'eval/retrieval/text_to_image@10'} <= result.keys()
