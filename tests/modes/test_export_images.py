"""An exported run on images says what the run says, normalisation and running statistics within."""

import jax
import numpy as np
import pytest

import seqjax
from seqjax import config as configs
from seqjax import interop, train
from seqjax.errors import FieldError, UserError
from seqjax.modes.export import export_run

pytest.importorskip('flatbuffers')


@pytest.mark.parametrize('name, fields', [('resnet', dict(depth=8, width=4)), ('vit', dict(width=8, depth=1, heads=2, patch_size=4))])
def test_it_computes_what_the_run_computes(name, fields, tmp_path):
    config = configs.defaults(name, source='digits')
    config.model.update(fields)
    config.data.update(batch_size=16, normalise=True, augment='crop(padding=1)')
    config.parallel.data, config.optimizer.warmup_steps = 1, 0
    config.train.update(steps=3, eval_batches=1)
    train.train(config, tmp_path)
    path, signature = export_run(config, tmp_path)
    assert signature['inputs'] == dict(images=dict(shape=['B', 8, 8, 1], dtype='int32', at_most=255))
    assert signature['outputs']['logits']['shape'] == ['B', 10] and signature['classes'][3] == '3'
    exported, run = interop.load_exported(path), seqjax.open_run(tmp_path)
    assert ('stem_norm/mean' in exported.parameters) == (name == 'resnet')
    images = np.random.default_rng(0).integers(256, size=(5, 8, 8, 1)).astype(np.uint8)
    codec = run.codec
    normalised = (np.float32(images) / 255 - np.float32(codec.mean)) / np.float32(codec.deviation)
    wanted = jax.jit(lambda params: run.model.apply({'params': params}, normalised))(run.params)
    for rows in (5, 2):
        np.testing.assert_allclose(exported(images=images[:rows])['logits'], wanted[:rows], rtol=1e-4, atol=1e-5)
    with pytest.raises(FieldError, match='^images=256: must be at least 0 and at most 255$'):
        exported(images=np.full((1, 8, 8, 1), 256))


def test_what_predicts_nothing_of_an_image_is_refused(tmp_path):
    config = configs.defaults('resnet', task='simclr', source='digits')
    config.model.update(depth=8, width=4)
    config.data.update(batch_size=8, augment='flip')
    config.parallel.data, config.optimizer.warmup_steps = 1, 0
    config.train.update(steps=1, eval_batches=1)
    train.train(config, tmp_path)
    with pytest.raises(UserError, match='only what reads text or images is exported'):
        export_run(config, tmp_path)
