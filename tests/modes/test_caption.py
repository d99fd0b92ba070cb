"""Images are captioned, scored and explained by a finished run of seconds."""

import json
import types

import numpy as np
from PIL import Image
import pytest

import launch
import seqjax
from seqjax import train
from seqjax.analysis.vision.caption_attention import grid_of, plot_caption
from seqjax.errors import FieldError, UserError
from seqjax.modes import generate
from seqjax.modes.caption import caption_images, score_captions
from tests.image_captions import SPLITS, caption_config, write_captions


@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    """(config, workdir, folder of images)"""
    directory = tmp_path_factory.mktemp('captioned')
    config = caption_config(write_captions(directory))
    train.train(config, directory / 'run')
    return config, directory / 'run', directory / 'images'


def changed(config, **decode):
    config = config.copy_and_resolve_references()
    config.decode.update(decode)
    return config


def test_images_are_captioned_in_their_order_and_malformed_ones_have_a_reason(ended, tmp_path, capsys):
    config, workdir, images = ended
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / 'small.png')
    (tmp_path / 'broken.png').write_bytes(b'no image')
    paths = [str(images / 'test_00.png'), str(tmp_path / 'small.png'), str(images / 'test_01.png'), str(tmp_path / 'broken.png')]
    found = list(caption_images(changed(config, batch_size=2), workdir, paths))
    assert [one['image'] for one in found] == paths
    assert 'left' in found[0]['caption'] and 'right' in found[2]['caption'] and found[0]['score'] < 0
    assert found[1]['caption'] is found[3]['caption'] is None and 'has another size' in found[1]['reason']
    said = capsys.readouterr().err
    assert '1 image without a caption (has another size' in said and '1 image without a caption (is no image' in said


def test_the_best_of_a_beam_have_their_scores(ended):
    config, workdir, images = ended
    one, = caption_images(changed(config, num_beams=3, n_best=2), workdir, [str(images / 'test_00.png')])
    assert len(one['captions']) == 2 and one['captions'][0][0] >= one['captions'][1][0]


def test_captions_that_are_there_are_scored(ended):
    config, workdir, images = ended
    path = str(images / 'test_00.png')
    written, = caption_images(changed(config, length_penalty=0.0), workdir, [path])
    lines = [f'{path}\t{written["caption"]}', f'{path}\tthe right half is dark', path, f'{path}.png\ta', f'{path}\t' + 'a ' * 40]
    found = list(score_captions(config, workdir, lines))
    assert found[0]['log_prob'] == pytest.approx(written['score'], rel=1e-4) == pytest.approx(sum(found[0]['log_probs']), abs=1e-3)
    assert found[1]['log_prob'] < found[0]['log_prob'] and len(found[0]['tokens']) == len(found[0]['log_probs'])
    assert [one['log_prob'] for one in found[2:]] == [None] * 3 and 'TAB' in found[2]['reason'] and 'not there' in found[3]['reason']
    assert 'more than' in found[4]['reason']


def test_pictures_show_where_the_decoder_looks(ended):
    config, workdir, images = ended
    (workdir / 'explain').mkdir(exist_ok=True)
    (workdir / 'explain' / '007_caption.png').write_bytes(b'old')
    list(caption_images(config, workdir, [str(images / 'test_00.png')], explain=True))
    assert [path.name for path in (workdir / 'explain').iterdir()] == ['001_caption.png']
    with Image.open(workdir / 'explain' / '001_caption.png') as picture:
        assert picture.size[0] > 200


def test_places_lie_in_the_proportions_of_the_image(tmp_path):
    assert grid_of(64, 32, 32) == (8, 8) and grid_of(32, 16, 32) == (4, 8)
    assert grid_of(8, 32, 64) == (2, 4)
    plot_caption(np.random.default_rng(0).random((8, 16, 3)), ['a', '$b$'], np.eye(8)[:2], tmp_path / 'a.png')
    assert (tmp_path / 'a.png').stat().st_size > 1000
    with pytest.raises(FieldError, match='weights='):
        plot_caption(np.zeros((8, 8, 1)), ['a'], np.ones((2, 4)), tmp_path / 'b.png')


def test_the_launcher_and_an_opened_run_caption_a_directory(ended, capsys):
    config, workdir, images = ended
    launch.main([f'--workdir={workdir}', '--mode=generate', f'--input={images}'])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == sum(SPLITS.values()) and lines[0]['image'].endswith('test_00.png')
    assert seqjax.open_run(workdir).caption([lines[0]['image']]) == [lines[0]['caption']]
    with pytest.raises(UserError, match='is no image and no directory of images'):
        generate.MODE.run(types.SimpleNamespace(config=config, workdir=workdir, flags=types.SimpleNamespace(
            input='lines.txt', ensemble=[], explain=False, checkpoint='latest')))


def test_what_draws_has_no_explanation(ended):
    config, workdir, images = ended
    with pytest.raises(UserError, match='--explain'):
        list(caption_images(changed(config, sample=True), workdir, [], explain=True))
