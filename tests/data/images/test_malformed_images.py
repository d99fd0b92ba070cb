"""Image files that cannot be read: each is named, with the reason, or counted as `config.data.on_error` says."""

import io
import re
import struct
import zlib

import numpy as np
from PIL import Image
import pytest

from seqjax import data
from seqjax.data.images import decoding
from seqjax.errors import FieldError, UserError
from tests.tiny import tiny_config

H, W = 6, 5
GREY = np.random.default_rng(0).integers(256, size=(H, W), dtype=np.uint8)
COLORS = np.random.default_rng(1).integers(256, size=(H, W, 3), dtype=np.uint8)


def encoded(image, kind='PNG', **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(width, height, *, depth=8, color=0, data=b''):
    """A PNG of which nothing needs to be so."""
    chunk = lambda name, body: struct.pack('>I', len(body)) + name + body + struct.pack('>I', zlib.crc32(name + body))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, depth, color, 0, 0, 0))
            + chunk(b'IDAT', zlib.compress(data)) + chunk(b'IEND', b''))


def alpha(value):
    image = Image.fromarray(COLORS).convert('RGBA')
    image.putalpha(Image.fromarray(np.full((H, W), value, np.uint8)))
    return image


GOOD_PNG, GOOD_JPEG = encoded(Image.fromarray(GREY)), encoded(Image.fromarray(GREY), 'JPEG')
RGB_PNG = encoded(Image.fromarray(COLORS))
FRAMES = [Image.fromarray(GREY), Image.fromarray(255 - GREY)]
HEADER = {  # what is found before a run begins
    'empty.png': (b'', 'is empty'),
    'text.png': (b'no image at all', 'is no image that can be read'),
    'html.jpg': (b'<html>404</html>', 'is no image that can be read'),
    'signature.png': (GOOD_PNG[:8], 'is no image that can be read'),
    'header.png': (GOOD_PNG[:20], 'is no image that can be read'),
    'begun.jpg': (GOOD_JPEG[:12], 'is no image that can be read'),
    'cut.png': (GOOD_PNG[:-8], 'is cut off: its end mark is missing'),
    'half.png': (GOOD_PNG[:len(GOOD_PNG) // 2 + 8], 'is cut off'),
    'cut.jpg': (GOOD_JPEG[:-2], 'is cut off'),
    'half.jpg': (GOOD_JPEG[:len(GOOD_JPEG) - 9], 'is cut off'),
    'cmyk.jpg': (encoded(Image.new('CMYK', (W, H)), 'JPEG'), 'has CMYK colours: convert it to RGB'),
    'deep.png': (encoded(Image.fromarray(np.full((H, W), 40_000, np.uint16))), 'has more than 8 bits a channel'),
    'deep_colors.png': (png(W, H, depth=16, color=2, data=bytes(H * (1 + 6 * W))), 'has more than 8 bits a channel'),
    'deep_alpha.png': (png(W, H, depth=16, color=6, data=bytes(H * (1 + 8 * W))), 'has more than 8 bits a channel'),
    'cut.webp': (encoded(Image.fromarray(COLORS), 'WEBP')[:-9], 'is no image that can be read|cannot be decoded'),
    'gif.png': (encoded(Image.fromarray(GREY), 'GIF'), 'is no image that can be read'),
    'tiff.png': (encoded(Image.fromarray(GREY), 'TIFF'), 'is no image that can be read'),
    'bmp.jpg': (encoded(Image.fromarray(GREY), 'BMP'), 'is no image that can be read'),
    'animation.png': (encoded(FRAMES[0], save_all=True, append_images=FRAMES[1:]), 'is an animation: 2 frames'),
    'animation.webp': (encoded(FRAMES[0], 'WEBP', save_all=True, append_images=FRAMES[1:]), 'is an animation: 2 frames'),
    'narrow.png': (png(0, H), 'is no image that can be read|has no pixels'),
    'flat.png': (png(W, 0), 'is no image that can be read|has no pixels'),
    'bomb.png': (png(9000, 9000, data=bytes(100)), 'has more than 67,108,864 pixels: 9,000 x 9,000'),
    'large_bomb.png': (png(60_000, 60_000, data=bytes(100)), 'has more than 67,108,864 pixels'),
    'long_bomb.png': (png(2 ** 31 - 1, 1), 'has more than 67,108,864 pixels|is no image that can be read'),
    'larger.png': (encoded(Image.new('L', (W + 1, H))), f'has another size than the first image: {H} x {W + 1} pixels, and .*has {H} x {W}: '
                                                        'set config.data.image_size'),
    'colored.png': (RGB_PNG, 'has colours, and the others are grey'),
}
PIXELS = {  # what is found when an image is decoded
    'damaged.png': (GOOD_PNG[:45] + bytes([GOOD_PNG[45] ^ 255]) + GOOD_PNG[46:], 'cannot be decoded'),
    'no_rows.png': (png(W, H), 'cannot be decoded'),
    'few_rows.png': (png(W, H, data=bytes(3)), 'cannot be decoded'),
    'no_zlib.png': (png(W, H).replace(zlib.compress(b''), b'x' * len(zlib.compress(b''))), 'cannot be decoded'),
    'no_scan.jpg': (GOOD_JPEG[:GOOD_JPEG.index(b'\xff\xda')] + b'\xff\xd9', 'cannot be decoded'),
    'transparent.png': (encoded(alpha(100)), 'has transparent pixels: put it on a background'),
    'half_transparent.png': (encoded(alpha(254)), 'has transparent pixels'),
    'grey_alpha.png': (encoded(alpha(0).convert('LA')), 'has transparent pixels'),
    'transparent_palette.png': (encoded(Image.fromarray(COLORS).convert('P', palette=Image.Palette.ADAPTIVE), transparency=0), 'has transparent pixels'),
}
GREY_ONES = {'grey_alpha.png'}


def options_of(directory, **changes):
    return tiny_config('reader', data=dict(source=f'file:{directory}', **changes)).data


def write_set(directory, bad, first=GOOD_PNG):
    for name, count in (('cat', 8), ('dog', 8)):
        (directory / name).mkdir(parents=True)
        for i in range(count):
            (directory / name / f'{i}.png').write_bytes(first)
    for name, content in bad.items():
        (directory / 'dog' / f'x_{name}').write_bytes(content)


def of(cases, name):
    content, sentence = cases[name]
    return content, sentence, GOOD_PNG if cases is HEADER or name in GREY_ONES or 'transparent' not in name else RGB_PNG


@pytest.mark.parametrize('name', HEADER)
def test_what_a_header_tells_stops_the_run_before_it_begins_or_is_left_out_and_counted(tmp_path, name):
    content, sentence, first = of(HEADER, name)
    write_set(tmp_path, {name: content}, first)
    path = f'{tmp_path}/dog/x_{name}'
    with pytest.raises(FieldError, match=f'data.source=.*{re.escape(path)}: ({sentence}).*; repair or remove it, or set config.data.on_error=skip'):
        data.load(options_of(tmp_path), 'classification')
    found = data.load(options_of(tmp_path, on_error='skip'), 'classification')
    assert sum(map(len, found.rows.values())) == 16
    reason = re.split(': |[|]', sentence)[0]
    assert re.search(rf'16 images \(skipped 1: .*, in {re.escape(path)}\)', found.report), found.report
    assert reason.split('|')[0][:8] in found.report


@pytest.mark.parametrize('name', PIXELS)
def test_what_the_pixels_tell_stops_the_run_or_counts_with_weight_0(tmp_path, name):
    content, sentence, first = of(PIXELS, name)
    write_set(tmp_path, {name: content}, first)
    path = f'{tmp_path}/dog/x_{name}'
    source = data.ClassFolders(tmp_path)
    assert len(source) == 17
    with pytest.raises(UserError, match=f'^{re.escape(path)}: {sentence}.*; repair or remove it, or set config.data.on_error=skip'):
        source[16]
    source = data.ClassFolders(tmp_path, on_error='skip')
    with pytest.warns(UserWarning, match=f'{re.escape(path)}: {sentence}.*; it counts with weight 0'):
        found = source[16]
    assert found.weight == 0 and found.target == source[0].target  # the next in its place: the first, after the last
    np.testing.assert_array_equal(found.inputs, source[0].inputs)
    assert source[16].weight == 0  # and is said once
    loaded = data.load(options_of(tmp_path, on_error='skip'), 'classification')
    with pytest.warns(UserWarning):
        weights = [row['weights'] for rows in loaded.rows.values() for row in rows]
    assert sum(weights) == 16 and len(weights) == 17


def test_there_are_thirty_of_them():
    assert len(HEADER) + len(PIXELS) >= 30


SOUND = {
    'palette.png': (encoded(Image.fromarray(COLORS).convert('P', palette=Image.Palette.ADAPTIVE)), 3),
    'one_bit.png': (encoded(Image.fromarray(GREY > 99)), 1),
    'opaque.png': (encoded(alpha(255)), 3),
    'grey_opaque.png': (encoded(alpha(255).convert('LA')), 1),
    'color.webp': (encoded(Image.fromarray(COLORS), 'WEBP', lossless=True), 3),
    'progressive.jpg': (encoded(Image.fromarray(COLORS), 'JPEG', progressive=True), 3),
    'named_otherwise.jpg': (GOOD_PNG, 1),
}


@pytest.mark.parametrize('name', SOUND)
def test_other_modes_are_read_as_they_are(tmp_path, name):
    content, C = SOUND[name]
    (tmp_path / name).write_bytes(content)
    pixels = data.decoded(tmp_path / name)
    expected = np.asarray(Image.open(io.BytesIO(content)).convert('L' if C == 1 else 'RGB')).reshape(H, W, C)
    np.testing.assert_array_equal(pixels, expected)
    assert pixels.dtype == np.uint8 and decoding.look(content) == (H, W, C)


def test_a_grey_image_among_colored_ones_has_three_equal_channels(tmp_path):
    write_set(tmp_path, {'grey.png': GOOD_PNG}, RGB_PNG)
    pixels = data.ClassFolders(tmp_path)[16].inputs
    np.testing.assert_array_equal(pixels, np.repeat(GREY[:, :, None], 3, axis=2))


def test_an_image_on_its_side_is_turned_as_its_camera_says(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(Image.fromarray(COLORS), 'PNG', exif=exif)
    assert decoding.look(content) == (W, H, 3)
    np.testing.assert_array_equal(decoding.pixels_of(content), np.rot90(COLORS, -1))


def test_a_link_to_nothing_is_named(tmp_path):
    write_set(tmp_path, {})
    (tmp_path / 'dog' / 'x.png').symlink_to(tmp_path / 'nothing.png')
    with pytest.raises(FieldError, match='dog/x.png: is not there; repair or remove it'):
        data.load(options_of(tmp_path), 'classification')
    found = data.load(options_of(tmp_path, on_error='skip'), 'classification')
    assert '16 images (skipped 1: is not there, in ' in found.report


def test_nothing_is_left(tmp_path):
    write_set(tmp_path, {}, b'no image')
    with pytest.raises(FieldError, match='no image is left; 0 images .skipped 16: is no image that can be read, in .*, [.]{3}'):
        data.load(options_of(tmp_path, on_error='skip'), 'classification')


def test_headers_are_kept_until_a_file_changes(tmp_path, monkeypatch):
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path / 'cache'))
    write_set(tmp_path / 'set', {f'{i}.png': GOOD_PNG for i in range(100)})
    looked = []
    look = decoding.look
    monkeypatch.setattr('seqjax.data.images.lazy.look', lambda file: looked.append(file) or look(file))
    for expected in (116, 116):
        data.ClassFolders(tmp_path / 'set')
        assert len(looked) == expected
    (tmp_path / 'set' / 'dog' / 'x_7.png').write_bytes(b'')
    with pytest.raises(UserError, match='x_7.png: is empty'):
        data.ClassFolders(tmp_path / 'set')
