"""--mode=predict --explain of images: attention of a Transformer, class activation maps of a ResNet, and what is refused."""

import jax
import numpy as np
from PIL import Image
import pytest

from seqjax import config as configs
from seqjax import models, params, train
from seqjax.analysis import figures
from seqjax.analysis.vision.class_activation import class_activation
from seqjax.errors import UserError
from seqjax.modes.command.image_paths import image_paths
from seqjax.modes.predict import predict_lines

SMALL = dict(vit=dict(width=8, depth=1, heads=2, patch_size=4), resnet=dict(width=2, depth=8))


def trained(name, workdir):
    config = configs.defaults(model=name, task='classification', source='digits')
    config.data.update(batch_size=32, normalise=True)
    config.model.update(**SMALL[name])
    config.train.update(steps=1, eval_batches=1)
    config.optimizer.warmup_steps = 0
    train.train(config, workdir)
    return config


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Ten images of 8 x 8 pixels, of which one is damaged."""
    folder, rng = tmp_path_factory.mktemp('digits'), np.random.default_rng(0)
    for number in range(10):
        Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(folder / f'{number}.png')
    (folder / '3.png').write_bytes(b'no image')
    return folder


def test_class_activation_maps_add_up_to_the_logits():
    model, images = models.ResNet(outputs=3, width=2, depth=8), np.random.default_rng(0).random((4, 12, 12, 1), np.float32)
    variables = params.unbox(model.init(jax.random.key(0), images))
    values = jax.tree.map(lambda x: x + 0.1, variables['params'])
    with_statistics = models.WithStatistics(model, variables['batch_stats'])
    logits = with_statistics.apply({'params': values}, images)
    for c in range(3):
        maps = class_activation(with_statistics, values, images, [c] * 4)
        assert maps.shape == (4, 3, 3)
        np.testing.assert_allclose(maps.mean(axis=(1, 2)) + values['output']['bias'][c], logits[:, c], rtol=1e-5)


@pytest.mark.parametrize('name, maps', [('vit', 2), ('resnet', 1)])
def test_the_first_images_are_drawn_with_their_labels(name, maps, folder, tmp_path, monkeypatch, capsys):
    config, drawn = trained(name, tmp_path), []
    monkeypatch.setattr(figures, 'save', lambda figure, path: drawn.append((figure, path)))
    found = list(predict_lines(config, tmp_path, image_paths(str(folder)), explain=True))
    (figure, path), = drawn
    assert path == tmp_path / 'explain' / 'predictions.png' and f'picture: {path}' in capsys.readouterr().err
    labels = [answer['label'] for answer in found if answer['label'] is not None]
    assert len(labels) == 9 and found[3]['label'] is None
    rows = np.array(figure.axes).reshape(8, maps + 1)
    assert [row[0].get_title() for row in rows] == labels[:8]
    assert rows[0][1].get_title() == ('head 1' if name == 'vit' else 'evidence')
    assert all(np.ptp(axes.images[0].get_array()) > 0 for axes in rows[:, 0])


def test_what_has_nothing_to_draw_is_refused_before_anything_is_predicted(folder, tmp_path):
    config = configs.defaults(model='reader', task='classification', source='digits')
    config.data.update(batch_size=32, images_as='rows')
    config.model.update(encoder='gru', width=4)
    config.train.update(steps=1, eval_batches=1)
    config.optimizer.warmup_steps = 0
    train.train(config, tmp_path)
    with pytest.raises(UserError, match='--explain: draws the attention of a Transformer .* this is neither .Reader.'):
        next(iter(predict_lines(config, tmp_path, image_paths(str(folder)), explain=True)))
