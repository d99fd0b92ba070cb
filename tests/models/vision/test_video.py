"""Clips, frame by frame and all at once: padding changes nothing, parts do what they say, and a run learns."""

import functools

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import data, models, nn, train
from seqjax.errors import FieldError, UserError
from tests.reference.parameters import random_parameters

B, T, S = 3, 4, 8
CLIPS = np.random.default_rng(0).random((B, T, S, S, 1), np.float32)
LENGTHS = np.array([4, 1, 3])
SIZES = dict(outputs=5, width=4, encoder_width=8)
VARIANTS = {
    'gru': dict(),
    'attention': dict(encoder='attention', heads=2, non_local=1, pooling='attention'),
    'conv': dict(encoder='conv', bidirectional=False, pooling='last'),
    'mean': dict(encoder='', non_local=2, non_local_kind='dot_product'),
    'frames': dict(per_step=True, non_local=1, encoder='lstm'),
}


@functools.cache
def make(variant):
    model = models.build('video', **{**SIZES, **VARIANTS[variant]})
    params = random_parameters(model, CLIPS, LENGTHS, scale=0.3)
    return params, jax.jit(functools.partial(model.apply, {'params': params}))


@pytest.mark.parametrize('variant', VARIANTS)
def test_frames_past_the_end_of_a_clip_change_nothing(variant):
    _, run = make(variant)
    padded = CLIPS.copy()
    padded[1, 1:], padded[2, 3:] = 5.0, -3.0
    there = np.arange(T) < LENGTHS[:, None] if variant == 'frames' else slice(None)
    np.testing.assert_allclose(run(padded, LENGTHS)[there], run(CLIPS, LENGTHS)[there], atol=1e-5)
    short = run(CLIPS[1:2, :1], LENGTHS[1:2])
    np.testing.assert_allclose(short[0], run(CLIPS, LENGTHS)[1][:1] if variant == 'frames' else run(CLIPS, LENGTHS)[1], atol=1e-4)


def test_a_clip_is_its_frames_read_by_one_network_and_then_by_an_encoder():
    params, run = make('gru')
    frames = models.ResNet(width=4, depth=8, norm='group')
    read = jax.jit(functools.partial(frames.apply, {'params': params['network']}, method='features'))
    features = np.stack([np.asarray(read(CLIPS[:, t])) for t in range(T)], axis=1)
    encoder = nn.RecurrentEncoder(nn.Recurrent(8, 1, 'gru', bidirectional=True))
    outputs, _ = encoder.apply({'params': params['over_time']}, features, LENGTHS)
    pooled = np.stack([np.asarray(outputs[b, :LENGTHS[b]]).mean(axis=0) for b in range(B)])
    np.testing.assert_allclose(run(CLIPS, LENGTHS), pooled @ params['output']['kernel'] + params['output']['bias'], atol=1e-4)


def test_bytes_are_read_and_any_network_of_images_may_read_the_frames():
    model = models.VideoReader(frames=models.ViT(width=8, depth=1, heads=2, patch_size=4), outputs=2, non_local=1, encoder='')
    levels = np.uint8(CLIPS * 255)
    params = random_parameters(model, levels)
    assert params.keys() == {'frames', 'blocks_0', 'output'}
    assert model.apply({'params': params}, levels).shape == (B, 2)
    assert model.apply({'params': params}, levels, method='feature_map').shape == (B, T, 2, 2, 8)
    np.testing.assert_allclose(model.apply({'params': params}, levels), model.apply({'params': params}, np.float32(levels) / 255), atol=1e-5)


@pytest.mark.parametrize('fields, sentence', [
    (dict(encoder='grru'), "encoder='grru': did you mean 'gru'"), (dict(depth=0), 'depth=0: must be'), (dict(non_local=-1), 'non_local=-1: must be'),
    (dict(non_local_kind='gaussian'), "non_local_kind='gaussian': no such kind"), (dict(encoder='', pooling='last'), "pooling='last': is the last"),
    (dict(encoder='attention', heads=3), 'heads=3: must divide width=128'), (dict(dropout=1.0), 'dropout=1.0: must be'),
])
def test_an_impossible_field_is_refused(fields, sentence):
    with pytest.raises(FieldError) as error:
        models.build('video', **fields)
    assert str(error.value).startswith(sentence), error.value


class Lights(data.Source):
    """A light that goes to the left or to the right, in clips of several lengths; a frame alone does not tell."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        frames = np.zeros((rng.integers(3, 6), 6, 6, 1), np.uint8)
        start = rng.integers(6)
        for t in range(len(frames)):
            frames[t, rng.integers(6), (start + (t if i % 2 else -t)) % 6] = 255
        return data.Example(frames, self.targets[i])

    @property
    def targets(self):
        return ['right' if i % 2 else 'left' for i in range(self.count)]

    def manifest(self):
        return dict(count=self.count, seed=self.seed)


@pytest.fixture
def lights(monkeypatch):
    monkeypatch.setattr(data.SOURCES, '_things', dict(data.SOURCES))
    data.SOURCES.register('lights')(data.made_for('class')(lambda task: data.Examples(Lights(256, 0), Lights(64, 1), Lights(64, 2), 'lights')))


@pytest.mark.slow
def test_a_run_learns_what_no_frame_alone_tells(lights, tmp_path):
    config = configs.defaults('video', source='lights')
    config.data.batch_size = 32
    config.model.update(width=8, encoder_width=32)
    config.train.update(steps=120, eval_every=0, save_every=0)
    config.optimizer.update(learning_rate=5e-3, warmup_steps=5)
    assert train.train(config, tmp_path)['test/accuracy'] > 0.9  # of two classes


def test_data_that_has_no_clips_is_refused_by_name(tmp_path):
    config = configs.defaults('video', source='cldr')
    with pytest.raises(UserError, match="name='video': reads clips"):
        train.prepare(config, tmp_path)
