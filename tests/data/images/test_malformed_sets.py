"""Sets in which something is malformed, as a run reads them: the file is named, on_error obeyed.

Image files themselves are in test_malformed_images.
"""

import io
import json
import re
import tarfile

import numpy as np
from PIL import Image
import pytest

from seqjax import data
from seqjax.errors import FieldError
from tests.data.images.test_malformed_images import COLORS, GREY, encoded, png
from tests.tiny import tiny_config

N = 12
GOOD = [encoded(Image.fromarray(GREY + i)) for i in range(N)]
CMYK = encoded(Image.new('CMYK', (5, 6)), 'JPEG')
DEEP = png(5, 6, depth=16, color=2, data=bytes(6 * 31))
BOMB = png(9000, 9000, data=bytes(100))


def shard(path, **changes):
    """Twelve records; a change, k3_png=b'...', is the content of 0003.png; None: leave it out."""
    members = {}
    for i in range(N):
        members |= {f'{i:04}.png': GOOD[i], f'{i:04}.cls': b'%d' % (i % 2)}
    members |= {f'000{name[1]}.{name[3:]}': content for name, content in changes.items()}
    with tarfile.open(path, 'w') as file:
        for name, content in members.items():
            if content is not None:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    return path.read_bytes()


def listed(path, line, images=None):
    """Images beside a file of lines, a caption each, of which line 4 is another."""
    for i, content in enumerate(GOOD):
        (path.parent / f'{i}.png').write_bytes(content)
    for name, content in (images or {}).items():
        (path.parent / name).write_bytes(content)
    lines = [json.dumps(dict(image=f'{i}.png', caption=f'picture {i}')) for i in range(N)]
    lines[3] = line if isinstance(line, str) else json.dumps(line)
    path.write_text('\n'.join(lines))


def arrays(path, **changes):
    labels = np.resize([0, 1], N)
    np.savez(path, **{**dict(images=np.stack([GREY] * N), labels=labels), **changes})


def table(path, row, name='steps'):
    """Six sequences of two steps, or of one feature a row, of which row 4 is another."""
    steps = [f's{i // 2},{i % 2},{i}.5,{i},{"ab"[i // 2 % 2]}' for i in range(N)]
    rows = steps if name == 'steps' else [f'{"ab"[i % 2]},{i}.5,{i},1' for i in range(N)]
    rows[3] = row
    path.write_text('\n'.join((['id,time,x,y,label'] if name == 'steps' else []) + rows))


def lists(path, value):
    lines = [json.dumps(dict(sequence=[[i, 1.5], [2.0, i]], label='ab'[i % 2])) for i in range(N)]
    lines[3] = f'{{"sequence": {value}, "label": "b"}}'
    path.write_text('\n'.join(lines))


def with_one(images, i, value):
    images = images.astype(np.float32)
    images[i, 2] = value
    return images


FLOATS = np.ones((N, 5))
# {what: (the file, what is written to it, place and problem as the error has them, records left)}
SETS = {
    # a record of a shard
    'shard, no image': ('a.tar', lambda p: shard(p, k3_png=None), ':0003: has no image', 11),
    'shard, no label': ('a.tar', lambda p: shard(p, k3_cls=None),
                        ':0003: has no label or caption', 11),
    'shard, empty label': ('a.tar', lambda p: shard(p, k3_cls=b' '),
                           ':0003: the label is empty', 11),
    'shard, label in latin-1': ('a.tar', lambda p: shard(p, k3_cls=b'caf\xe9'),
                                ':0003: a label is not UTF-8', 11),
    'shard, long label': ('a.tar', lambda p: shard(p, k3_cls=b'x' * (2 << 20)),
                          ':0003: a label has more than', 11),
    'shard, two images': ('a.tar', lambda p: shard(p, k3_jpg=GOOD[0]), ':0003: has 2 images', 11),
    'shard, no JSON': ('a.tar', lambda p: shard(p, k3_json=b'{'),
                       ':0003: the .json is no JSON', 11),
    'shard, JSON list': ('a.tar', lambda p: shard(p, k3_json=b'[1]'),
                         ':0003: the .json is no object', 11),
    'shard, empty image': ('a.tar', lambda p: shard(p, k3_png=b''), ':0003.png: is empty', 11),
    'shard, other file': ('a.tar', lambda p: shard(p, k3_png=b'<html>'),
                          ':0003.png: is no image that can be read', 11),
    'shard, image cut off': ('a.tar', lambda p: shard(p, k3_png=GOOD[3][:-8]),
                             ':0003.png: is cut off', 11),
    'shard, CMYK': ('a.tar', lambda p: shard(p, k3_png=CMYK), ':0003.png: has CMYK colours', 11),
    'shard, 16 bits': ('a.tar', lambda p: shard(p, k3_png=DEEP),
                       ':0003.png: has more than 8 bits a channel', 11),
    'shard, bomb': ('a.tar', lambda p: shard(p, k3_png=BOMB),
                    ':0003.png: has more than 67,108,864 pixels', 11),
    'shard, no pixels': ('a.tar', lambda p: shard(p, k3_png=png(0, 6)), ':0003.png: ', 11),
    # a line of a list with captions
    'list, no caption': ('a.jsonl', lambda p: listed(p, dict(image='3.png')),
                         "line 4: has no key 'caption'", 11),
    'list, empty caption': ('a.jsonl', lambda p: listed(p, dict(image='3.png', caption=' ')),
                            'line 4: the caption is empty', 11),
    'list, null': ('a.jsonl', lambda p: listed(p, dict(image='3.png', caption=None)),
                   'line 4: the caption is null', 11),
    'list, no image': ('a.jsonl', lambda p: listed(p, dict(image='', caption='a')),
                       'line 4: names no image', 11),
    'list, no JSON': ('a.jsonl', lambda p: listed(p, '{"image": '), 'line 4: is no JSON', 11),
    'list, no file': ('a.jsonl', lambda p: listed(p, dict(image='no.png', caption='a')),
                      'no.png: is not there', 11),
    'list, split': ('a.jsonl', lambda p: listed(p, dict(image='0.png', caption='a', split='never')),
                    'line 4: .*split', 11),
    'list, alpha': ('a.jsonl', lambda p: listed(p, dict(image='x.jpg', caption='a'), {'x.jpg': CMYK}),
                    'x.jpg: has CMYK', 11),
    'list, colors': ('a.jsonl', lambda p: listed(p, dict(image='x.png', caption='a'), {
        'x.png': encoded(Image.fromarray(COLORS))}), 'x.png: has colours, and the others are grey', 11),
    # a row of an array
    'array, empty label': ('a.npz', lambda p: arrays(p, labels=np.resize(['a', 'b',
                           ''], N)[[0, 1, 0, 2] * 3]),
                           ': image 3: the label is empty', 9),
    'array, NaN': ('a.npz', lambda p: arrays(p, images=with_one(FLOATS, 3, np.nan)),
                   ': images: sequence 3: has a number that', 11),
    'array, infinite': ('a.npz', lambda p: arrays(p, images=with_one(FLOATS, 3, np.inf)),
                        ': images: sequence 3: has a number', 11),
    'array, half a class': ('a.npz', lambda p: arrays(p, labels=np.resize([0, 1, 0.5], N)),
                            ': image 0: the label is a number', 0),
    # a step, a row of one feature, and a list
    'steps, NaN': ('a.csv', lambda p: table(p, 's1,1,nan,3,b'),
                   'line 5: a number of the input is not finite', 5),
    'steps, no number': ('a.csv', lambda p: table(p, 's1,1,?,3,b'),
                         'line 5: a cell of the input is no number', 5),
    'steps, ragged': ('a.csv', lambda p: table(p, 's1,1,3,b'),
                      'line 5: has 4 columns and 5 are needed', 5),
    'steps, two targets': ('a.csv', lambda p: table(p, 's1,1,2,3,c'),
                           'line 4: the target changes within a sequence', 5),
    'steps, time': ('a.csv', lambda p: table(p, 's1,-1,2,3,b'),
                    'line 5: the time goes back within a sequence', 5),
    'series, inf': ('b.csv', lambda p: table(p, 'b,1,inf,2', 'series'),
                    'line 4: a number of the input is not finite', 11),
    'series, hole': ('b.csv', lambda p: table(p, 'b,1,,2', 'series'),
                     'line 4: a cell of the input is no number', 11),
    'series, empty': ('b.csv', lambda p: table(p, 'b,,,', 'series'),
                      'line 4: the input is empty', 11),
    'series, no label': ('b.csv', lambda p: table(p, ',1,2,3', 'series'),
                         'line 4: the label is empty', 11),
    'lists, ragged': ('b.jsonl', lambda p: lists(p, '[[1, 2], [3]]'),
                      'line 4: the steps of a sequence have different numbers', 11),
    'lists, NaN': ('b.jsonl', lambda p: lists(p, '[[1, NaN]]'),
                   'line 4: a number of the input is not finite', 11),
    'lists, text': ('b.jsonl', lambda p: lists(p, '[[1, "2"]]'),
                    'line 4: a step of the input has something else', 11),
    'lists, fewer features': ('b.jsonl', lambda p: lists(p, '[[1], [2]]'),
                              'line 4: has another number of features', 11),
}
# What stops a run always: after it nothing can be read, or nothing of it is known.
WHOLE = {
    'shard, cut between members': ('a.tar', lambda p: p.write_bytes(shard(p)[:14 * 1024]),
                                   'it is cut off after 14,336 bytes'),
    'shard, cut in a header': ('a.tar', lambda p: p.write_bytes(shard(p)[:14 * 1024 + 200]),
                               'it is cut off after 14,336 bytes'),
    'shard, cut in a member': ('a.tar', lambda p: p.write_bytes(shard(p)[:14 * 1024 + 560]),
                               'unexpected end of data'),
    'shard, damaged header': ('a.tar', lambda p: p.write_bytes(shard(p).replace(b'0007.png', b'0007.pnx')),
                              'a member is damaged'),
    'shard, two joined': ('a.tar', lambda p: p.write_bytes(shard(p) * 2),
                          'members follow its end mark'),
    'shard, compressed': ('a.tar', lambda p: p.write_bytes(b'\x1f\x8b' + bytes(600)),
                          'is no .tar file that can be read'),
    'array, cut off': ('a.npz', lambda p: (arrays(p), p.write_bytes(p.read_bytes()[:-40])),
                       'is no .npz file that can be read'),
    'array, 16 bits': ('a.npz', lambda p: arrays(p, images=np.zeros((N, 6, 5), np.uint16)),
                       'has numbers of type uint16'),
}
TASK = {'a.jsonl': ('captioning', dict(tokenizer='word')), 'a.csv': ('classification', dict(format='steps')),
        'b.csv': ('classification', dict(format='series'))}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path_factory.mktemp('cache')))


def load(path, **changes):
    task, fields = TASK.get(path.name, ('classification', {}))
    options = dict(source=f'file:{path}', held_out=0.3, **fields, **changes)
    return data.load(tiny_config('reader', task=task, data=options).data, task)


@pytest.mark.parametrize('what', SETS)
def test_a_malformed_record_stops_the_run_and_is_named_or_is_left_out_and_counted(tmp_path, what):
    name, write, sentence, left = SETS[what]
    write(tmp_path / name)
    file = re.escape(str(tmp_path) if what.startswith('list') else name)
    with pytest.raises(FieldError, match=f'^data.source=.*{file}.*{sentence}.*on_error=skip'):
        load(tmp_path / name)
    if not left:
        return
    found = load(tmp_path / name, on_error='skip')
    assert sum(map(len, found.rows.values())) == left
    assert f'skipped {12 - left if name != "a.csv" else 1}: ' in found.report, found.report


@pytest.mark.parametrize('on_error', ['stop', 'skip'])
@pytest.mark.parametrize('what', WHOLE)
def test_a_malformed_file_stops_the_run_and_is_named(tmp_path, what, on_error):
    name, write, sentence = WHOLE[what]
    write(tmp_path / name)
    file = re.escape(str(tmp_path / name))
    with pytest.raises(FieldError, match=f'^data.source=.*{file}.*{re.escape(sentence)}'):
        load(tmp_path / name, on_error=on_error)


def test_there_are_thirty_of_them_and_without_them_nothing_is_malformed(tmp_path):
    assert len(SETS) + len(WHOLE) >= 30
    shard(tmp_path / 'a.tar'), arrays(tmp_path / 'a.npz'), lists(tmp_path / 'b.jsonl', '[[1, 2]]')
    table(tmp_path / 'a.csv', 's1,1,2,3,b'), table(tmp_path / 'b.csv', 'b,1,2,3', 'series')
    listed(tmp_path / 'a.jsonl', dict(image='3.png', caption='picture 3'))
    for name in ('a.tar', 'a.npz', 'b.jsonl', 'a.csv', 'b.csv', 'a.jsonl'):
        found = load(tmp_path / name)
        assert sum(map(len, found.rows.values())) == (6 if name == 'a.csv' else 12)
        assert 'skipped' not in found.report
