"""The experiments of SimCLR, DINO, CLIP and transfer run from end to end, small: pretraining, head, fine-tuning, prompts."""

import pathlib

import numpy as np
import pytest

from seqjax import train
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
    assert np.isfinite(train.train(load('simclr_fashion.py', width=4), workdir)['eval/loss'])
    return workdir


@pytest.mark.parametrize('variant', ['scratch', 'frozen', 'fine_tuned'])
def test_transfer_begins_with_what_was_learned_without_labels(variant, pretrained, tmp_path):
    config = load(f'transfer_fashion.py:{variant}', width=4)
    if variant != 'scratch':
        assert config.init_from == 'runs/simclr_fashion'
        config.init_from = str(pretrained)
    train.train(config, tmp_path)
    (_, before), (_, after) = load_model(pretrained), load_model(tmp_path)
    same = np.array_equal(before['stem_conv']['kernel'], after['stem_conv']['kernel'])
    assert same == (variant == 'frozen')


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
