"""--mode=predict over images: what the run says of each, in their order, whatever the batch; and of frames as lines of JSON."""

import json

import jax
import numpy as np
from PIL import Image
import pytest

from seqjax import data, runs, train
from seqjax.errors import UserError
from seqjax.modes.command.image_paths import image_paths
from seqjax.modes.predict import predict_lines
from tests.data.images.test_class_folders import write_images
from tests.tiny import tiny_config

COUNTS, SIZE = dict(cat=12, dog=9), (5, 6)


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, run directory, folder of images) of a run over grey images of 6 x 5 pixels."""
    folder, workdir = tmp_path_factory.mktemp('images'), tmp_path_factory.mktemp('run')
    write_images(folder / 'set', COUNTS, size=SIZE)
    config = tiny_config('reader', task='classification', data=dict(source=f'file:{folder / "set"}', batch_size=8, normalise=True),
                         model=dict(encoder='gru', width=8), train=dict(steps=2))
    train.train(config, workdir)
    return config, workdir, folder


def expected(config, workdir, pixels):
    """{class: p} by hand."""
    model, params = runs.load_model(workdir)
    codec = data.load_codec((workdir / 'codec.json').read_text())
    numbers = ((pixels / 255 - codec.mean) / codec.deviation).astype(np.float32)[None]
    probabilities = jax.nn.softmax(model.apply({'params': params}, numbers))[0]
    return dict(zip(codec.classes, map(float, probabilities)))


def test_every_image_of_a_directory_gets_its_label(run):
    config, workdir, folder = run
    paths = image_paths(str(folder / 'set'))
    found = list(predict_lines(config, workdir, paths))
    assert [answer['input'] for answer in found] == sorted(map(str, (folder / 'set').glob('*/*.png'))) and len(found) == 21
    for answer in found[::5]:
        pixels = np.asarray(Image.open(answer['input']))[:, :, None]
        wanted = expected(config, workdir, pixels)
        assert answer['probabilities'] == pytest.approx(wanted, abs=1e-5) and answer['label'] == max(wanted, key=wanted.get)
    json.dumps(found)
    alone, = predict_lines(config, workdir, image_paths(found[3]['input']))
    assert alone['probabilities'] == pytest.approx(found[3]['probabilities'], abs=1e-5)


def test_what_is_no_image_for_the_run_is_counted_and_named(run, tmp_path, capsys):
    config, workdir, folder = run
    good = sorted((folder / 'set').glob('*/*.png'))[0]
    (tmp_path / 'a.png').write_bytes(good.read_bytes())
    (tmp_path / 'b.png').write_bytes(good.read_bytes()[:-8])
    Image.new('L', (9, 9)).save(tmp_path / 'c.png')
    Image.fromarray(np.full((6, 5, 3), [255, 0, 0], np.uint8)).save(tmp_path / 'd.png')
    (tmp_path / 'e.txt').write_text('no image')
    found = list(predict_lines(config, workdir, image_paths(str(tmp_path))))
    assert [answer['label'] is None for answer in found] == [False, True, True, True]
    assert [answer.get('reason') for answer in found] == [
        None, 'is cut off: its end mark is missing', 'has another size than the images of the run: 9 x 9 pixels, and they have 6 x 5',
        'has colours, and the others are grey']
    said = capsys.readouterr().err
    assert '1 file left out, which are no images' in said and '1 image without an answer (is cut off: its end mark is missing): 2' in said
    missing = list(predict_lines(config, workdir, [str(tmp_path / 'nothing.png')]))
    assert missing == [dict(input=str(tmp_path / 'nothing.png'), label=None, reason='is not there')]
    (tmp_path / 'empty').mkdir()
    with pytest.raises(UserError, match='has no image'):
        image_paths(str(tmp_path / 'empty'))
    assert image_paths('lines.txt') is None and image_paths('-') is None
    np.savez(tmp_path / 'set.npz', images=np.zeros((2, 9, 9), np.uint8))
    for name in ('photo.bmp', 'photo.gif', 'photo.tiff', 'set.npz'):
        if name != 'set.npz':
            Image.new('L', (9, 9)).save(tmp_path / name)
        with pytest.raises(UserError, match=f'{name}: has neither lines of text nor the suffix of an image'):
            image_paths(str(tmp_path / name))
    (tmp_path / 'list.txt').write_text('a.png')
    assert image_paths(str(tmp_path / 'list.txt')) is None


def test_images_are_resized_where_those_of_the_run_were(run):
    codec = data.LabelledCodec('classification', classes=('0', '1'), shape=(8, 8, 3), image_size=8)
    path = sorted((run[2] / 'set').glob('*/*.png'))[0]
    image, reason = codec.sequence(str(path))
    assert reason is None and image.shape == (8, 8, 3)
    assert data.load_codec(codec.dumps()) == codec


def test_frames_are_lists_of_json(tmp_path):
    rng = np.random.default_rng(0)
    lines = [rng.normal(size=(n, 2)).round(2).tolist() for n in (2, 3, 4, 5, 6, 7) * 3]
    (tmp_path / 'a.jsonl').write_text(''.join(json.dumps(dict(sequence=line, label='ab'[i % 2])) + '\n' for i, line in enumerate(lines)))
    config = tiny_config('reader', task='classification', data=dict(source=f'file:{tmp_path / "a.jsonl"}', batch_size=8),
                         model=dict(encoder='gru', width=8), train=dict(steps=2))
    train.train(config, tmp_path / 'run')
    found = list(predict_lines(config, tmp_path / 'run', [*map(json.dumps, lines[:3]), '[[1, 2, 3]]', 'text', '[]', '[[1, NaN]]']))
    model, params = runs.load_model(tmp_path / 'run')
    codec = data.load_codec((tmp_path / 'run' / 'codec.json').read_text())
    for line, answer in zip(lines, found[:3]):
        probabilities = jax.nn.softmax(model.apply({'params': params}, codec.inputs(np.array(line, np.float32))[None]))[0]
        np.testing.assert_allclose([answer['probabilities'][name] for name in 'ab'], probabilities, atol=1e-5)
    assert [answer['reason'] for answer in found[3:]] == [
        'has another number of features than the run: 3 and 2', 'is no JSON', 'is no list of numbers', 'a number of the input is not finite: step 1: nan']
    with pytest.raises(UserError, match='has images, and the run labels frames; give it a file of lines'):
        list(predict_lines(config, tmp_path / 'run', image_paths(str(tmp_path / 'x.png'))))
