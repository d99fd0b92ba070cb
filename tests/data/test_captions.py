"""Images with captions: rows, batches and the codec, and the same again after saving; from npz, lists of files and tar shards."""

import gzip
import io
import json
import tarfile

import numpy as np
from PIL import Image
import pytest

from seqjax import data, tasks
from seqjax.data.captions import Captions, load_captions
from seqjax.data.embedded import digit_scenes
from seqjax.data.options import DataOptions
from seqjax.data.readers.examples import Example, Examples
from seqjax.errors import FieldError
from seqjax.fields import whole
from seqjax.special_tokens import END
from seqjax.tasks.images import OfImages
from tests.tiny import tiny_config

H, W = 6, 5
RNG = np.random.default_rng(0)


class Describing(OfImages, tasks.Task):
    """A task that learns from captions, whatever it does with them."""

    data, output_kind = 'captions', 'row'


@pytest.fixture(autouse=True)
def a_task_of_captions(monkeypatch):
    monkeypatch.setattr(tasks.TASKS, '_things', {**tasks.TASKS._things, 'describing': Describing})


def images(count, C=3):
    return RNG.integers(256, size=(count, H, W, C), dtype=np.uint8)


def options_of(source, **changes):
    return tiny_config('reader', task='describing', data=dict(source=source, tokenizer='word', **changes)).data


def load(source, **changes):
    return data.load(options_of(source, **changes), 'describing')


SEVERAL = [('A red dog', 'a dog'), 'a cat', ('a red cat sleeps here', 'a cat sleeps', 'a cat'), 'two dogs']


def examples(captions=SEVERAL):
    made = [Example(image, caption) for image, caption in zip(images(len(captions)), captions)]
    return Examples(made, made[:2], [], 'four images')


def of(examples, **changes):
    return load_captions(examples, whole(DataOptions, dict(tokenizer='word', **changes)))


def test_in_training_an_image_comes_with_each_caption_and_in_evaluation_with_the_first():
    given = examples()
    found = of(given, lowercase=True)
    assert isinstance(found, Captions) and {split: len(rows) for split, rows in found.rows.items()} == dict(train=7, validation=2, test=0)
    words = [(found.codec.text(row['targets']), bytes(row['inputs'])) for row in found.rows['train']]
    expected = [(text.lower(), bytes(example.inputs)) for example in given.train
                for text in ([example.target] if isinstance(example.target, str) else example.target)]
    assert words == expected
    assert [found.codec.text(row['targets']) for row in found.rows['validation']] == ['a red dog', 'a cat']
    pictures, references = found.texts('validation')
    assert references == [('a red dog', 'a dog'), ('a cat',)] and len(pictures) == 2
    np.testing.assert_array_equal(pictures[1], given.validation[1].inputs)


def test_rows_have_one_length_and_end():
    found = of(examples())
    T = found.codec.length
    assert T == 6 and found.for_model() == dict(vocabulary=found.codec.target_side.size, target_vocabulary=found.codec.target_side.size,
                                                context_length=6)
    for row in found.rows['train']:
        n = int(row['weights'].sum())
        assert row['targets'].shape == row['weights'].shape == (T,) and row['targets'][n - 1] == END and not row['targets'][n:].any()
        assert row['inputs'].dtype == np.uint8 and row['inputs'].shape == (H, W, 3)
    assert found.shapes == (1, 1) and found.steps == pytest.approx(np.mean([4, 3, 3, 6, 4, 3, 3]))
    batch = found.training_batches(batch_size=3, seed=0)[5]
    assert batch['inputs'].shape == (3, H, W, 3) and batch['targets'].shape == (3, T) and 'lengths' not in batch


def test_long_captions_are_left_out_of_training_and_cut_in_evaluation():
    given = examples()
    found = of(Examples(given.train, given.train, [], ''), max_length=2)
    assert found.report == '; 3 training captions of more than 2 tokens left out' and len(found.rows['train']) == 4
    assert [found.codec.text(row['targets']) for row in found.rows['train']] == ['a dog', 'a cat', 'a cat', 'two dogs']
    cut = found.rows['validation'][2]
    assert found.codec.text(cut['targets']) == 'a <unk>' or len(found.codec.text(cut['targets']).split()) == 2
    assert cut['targets'][-1] == END and cut['weights'].sum() == 3
    with pytest.raises(FieldError, match='no training caption is that short'):
        of(given, max_length=1)


def test_the_codec_comes_back_with_its_statistics():
    given = examples()
    found = of(given, normalise=True, augment='flip')
    again = data.load_codec(found.codec.dumps())
    assert again.dumps() == found.codec.dumps() and again.length == found.codec.length
    pixels = np.stack([example.inputs for example in given.train]) / 255
    np.testing.assert_allclose(found.for_task()['mean'], pixels.mean(axis=(0, 1, 2)))
    assert found.for_task()['augment'] == 'flip'
    more = load_captions(given, whole(DataOptions, dict(tokenizer='word')), again)
    np.testing.assert_array_equal(more.rows['train'][3]['targets'], found.rows['train'][3]['targets'])
    assert data.inherited(again, 'describing') is again
    with pytest.raises(FieldError, match='mixes classes, and the set has captions'):
        of(given, augment='mixup')
    with pytest.raises(FieldError, match='captions are of images'):
        of(Examples([Example('text', 'text')], [], [], ''))


def test_scenes_are_such_a_set(monkeypatch):
    monkeypatch.setattr(digit_scenes, 'SCENES', dict(train=300, validation=20, test=20))
    found = load('digit_scenes')
    assert str(found) == '300 train, 20 validation, 20 test images of 32 x 32 x 1 with captions of up to 6 tokens'
    assert load('digit_scenes').facts() == found.facts() and tasks.TASKS[data.default_task('digit_scenes')].data == 'captions'


# ---------------------------------------------------------------------------------------------------------- files

def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, 'PNG')
    return file.getvalue()


def write_listed(folder, captions, name='list.jsonl', key='caption', image='image'):
    folder.mkdir(exist_ok=True)
    pixels = images(len(captions))
    for i, one in enumerate(pixels):
        (folder / f'{i}.png').write_bytes(png(one))
    lines = [json.dumps({image: f'{i}.png', key: caption}) for i, caption in enumerate(captions)]
    (folder / name).write_text('\n'.join(lines) + '\n')
    return pixels


TEXTS = [f'number {i % 5} here' for i in range(20)]


def pairs(found):
    return sorted((bytes(row['inputs']), found.codec.text(row['targets'])) for rows in found.rows.values() for row in rows)


def expected(pixels, texts=TEXTS):
    return sorted(zip(map(bytes, pixels), texts))


def test_json_lines_and_tables_name_images(tmp_path):
    pixels = write_listed(tmp_path, TEXTS)
    assert pairs(load(f'file:{tmp_path}/list.jsonl')) == expected(pixels)
    (tmp_path / 'list.csv').write_text('file_name,text\n' + ''.join(f'{i}.png,"{text}"\n' for i, text in enumerate(TEXTS)))
    assert pairs(load(f'file:{tmp_path}/list.csv')) == expected(pixels)
    (tmp_path / 'plain.tsv').write_text(''.join(f'{i}.png\t{text}\n' for i, text in enumerate(TEXTS)))
    assert pairs(load(f'file:{tmp_path}/plain.tsv')) == expected(pixels)
    (tmp_path / 'parts.csv').write_text('what,path,set\n' + ''.join(
        f'{text},{i}.png,{"test" if i < 4 else "train"}\n' for i, text in enumerate(TEXTS)))
    found = load(f'file:{tmp_path}/parts.csv', target_column='what', held_out=0.25)
    assert pairs(found) == expected(pixels) and [len(rows) for rows in found.rows.values()] == [12, 4, 4]


def test_captions_below_a_key_of_an_object(tmp_path):
    pixels = write_listed(tmp_path, [dict(en=text, de='nichts') for text in TEXTS])
    assert pairs(load(f'file:{tmp_path}/list.jsonl', target_column='caption.en')) == expected(pixels)
    with pytest.raises(FieldError, match="line 1: has no key 'fr'"):
        load(f'file:{tmp_path}/list.jsonl', target_column='caption.fr')
    with pytest.raises(FieldError, match="line 1: has no object 'name'"):
        load(f'file:{tmp_path}/list.jsonl', target_column='name.fr')


def test_an_array_with_captions_in_it_or_in_a_file_beside_it(tmp_path):
    pixels = images(20)
    np.savez(tmp_path / 'in.npz', images=pixels, captions=np.array(TEXTS))
    assert pairs(load(f'file:{tmp_path}/in.npz')) == expected(pixels)
    np.savez(tmp_path / 'beside.npz', images=pixels)
    with gzip.open(tmp_path / 'texts.jsonl.gz', 'wt') as file:
        file.writelines(json.dumps(dict(image='x.png', caption=dict(en=text))) + '\n' for text in TEXTS)
    beside = dict(label_file=f'{tmp_path}/texts.jsonl.gz', target_column='caption.en')
    assert pairs(load(f'file:{tmp_path}/beside.npz', **beside)) == expected(pixels)
    (tmp_path / 'few.csv').write_text('caption\n' + 'x\n' * 7)
    with pytest.raises(FieldError, match='data.label_file=.*has 7 records, and .*beside.npz has 20 images'):
        load(f'file:{tmp_path}/beside.npz', label_file=f'{tmp_path}/few.csv')


def write_tar(path, members, mode='w'):
    with tarfile.open(path, mode) as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))


def members(pixels, texts, begin=0):
    made = {}
    for i, (image, text) in enumerate(zip(pixels, texts), begin):
        made[f'{i:04}.png'] = png(image)
        made.update({f'{i:04}.txt': f'{text}\n'.encode()} if i % 2 else {f'{i:04}.json': json.dumps(dict(caption=[text])).encode()})
    return made


def test_shards(tmp_path):
    pixels = images(20)
    (tmp_path / 'set').mkdir()
    write_tar(tmp_path / 'set' / '000.tar', members(pixels[:12], TEXTS[:12]))
    write_tar(tmp_path / 'set' / '001.tar', members(pixels[12:], TEXTS[12:], 12))
    found = load(f'file:{tmp_path}/set')
    assert pairs(found) == expected(pixels) and found.report == 'set: 20 images; 2 of 20 training records held out'
    assert len(load(f'file:{tmp_path}/set/000.tar').rows['train']) == 11
    with tarfile.open(tmp_path / 'set' / '000.tar') as one, tarfile.open(tmp_path / 'classes.tar', 'w') as other:
        for member in one:
            if member.name.endswith('.png'):
                other.addfile(member, one.extractfile(member))
                info = tarfile.TarInfo(member.name.replace('.png', '.cls'))
                info.size = 1
                other.addfile(info, io.BytesIO(b'7' if int(member.name[:4]) % 2 else b'8'))
    labelled = data.load(tiny_config('reader', task='classification', data=dict(source=f'file:{tmp_path}/classes.tar')).data, 'classification')
    assert labelled.codec.classes == ('7', '8') and len(labelled.rows['train']) == 11


def test_lines_of_one_image_are_one_record_and_in_one_part(tmp_path):
    lines = ['image, caption', *(f'{"./" * j}{i}.png,{word} dog {i}' for j, word in enumerate(['red', 'big']) for i in range(6))]
    for i, image in enumerate(images(6)):
        (tmp_path / f'{i}.png').write_bytes(png(image))
    (tmp_path / 'a.csv').write_text('\n'.join(lines))
    found = load(f'file:{tmp_path}/a.csv', held_out=0.3)
    assert {split: len(rows) for split, rows in found.rows.items()} == dict(train=8, validation=2, test=0)
    seen = {split: {bytes(row['inputs']) for row in found.rows[split]} for split in ('train', 'validation')}
    assert len(seen['train']) == 4 and not seen['train'] & seen['validation']
    for split in seen:
        for captions in found.captions[split]:
            assert captions in {(f'red dog {i}', f'big dog {i}') for i in range(6)}
    (tmp_path / 'a.csv').write_text('\n'.join(['image,caption,split', '0.png,a,train', '1.png,b,train', '0.png,c,test']))
    with pytest.raises(FieldError, match='a.csv.*line 4: the image is in two parts: train and test'):
        load(f'file:{tmp_path}/a.csv')


GOOD = png(images(1)[0])
BAD_LINES = {
    'names no image': '{"image": "", "caption": "a"}',
    'the caption is empty': '{"image": "0.png", "caption": "  "}',
    'has no caption': '{"image": "0.png", "caption": []}',
    'the caption is null and a text or a list of texts is needed': '{"image": "0.png", "caption": null}',
    'a caption is a number and a text is needed': '{"image": "0.png", "caption": ["a", 3]}',
    "has no key 'caption'": '{"image": "0.png"}',
    'is no JSON': '{"image": "0.png", ',
}


@pytest.mark.parametrize('sentence', BAD_LINES)
def test_a_line_that_names_no_image_or_no_caption_stops_or_is_counted(tmp_path, sentence):
    write_listed(tmp_path, TEXTS)
    with open(tmp_path / 'list.jsonl', 'a') as file:
        file.write(BAD_LINES[sentence] + '\n')
    with pytest.raises(FieldError, match=f'list.jsonl.*: line 21: {sentence}.*; fix it, or set config.data.on_error=skip'):
        load(f'file:{tmp_path}/list.jsonl')
    found = load(f'file:{tmp_path}/list.jsonl', on_error='skip')
    assert f'skipped 1: {sentence.partition(":")[0]}' in found.report and len(pairs(found)) == 20


def test_an_image_that_is_named_and_not_there(tmp_path):
    write_listed(tmp_path, TEXTS)
    (tmp_path / '7.png').unlink()
    with pytest.raises(FieldError, match='7.png: is not there; repair or remove it'):
        load(f'file:{tmp_path}/list.jsonl')
    assert 'list.jsonl: 19 images (skipped 1: is not there, in ' in load(f'file:{tmp_path}/list.jsonl', on_error='skip').report


BAD_MEMBERS = {
    'has no image': {'x.txt': b'a'},
    'has 2 images': {'x.png': GOOD, 'x.jpg': GOOD, 'x.txt': b'a'},
    'has a member twice': None,
    'has no label or caption': {'x.png': GOOD},
    'the caption is empty': {'x.png': GOOD, 'x.txt': b' \n'},
    'the .json is no JSON': {'x.png': GOOD, 'x.json': b'{'},
    'the .json is no object': {'x.png': GOOD, 'x.json': b'[]'},
    'a label has more than 1,048,576 bytes': {'x.png': GOOD, 'x.txt': bytes(1 << 21)},
    'is empty': {'x.png': b'', 'x.txt': b'a'},
    'is no image that can be read': {'x.png': b'no image', 'x.txt': b'a'},
}


@pytest.mark.parametrize('sentence', BAD_MEMBERS)
def test_a_record_of_a_shard_that_is_none_stops_or_is_counted(tmp_path, sentence):
    shard = tmp_path / 'set.tar'
    write_tar(shard, members(images(20), TEXTS))
    if BAD_MEMBERS[sentence] is None:
        write_tar(shard, {'x.png': GOOD, 'x.txt': b'a'}, 'a')
        write_tar(shard, {'x.txt': b'b'}, 'a')
    else:
        write_tar(shard, BAD_MEMBERS[sentence], 'a')
    with pytest.raises(FieldError, match=f'set.tar:x[.a-z]*: {sentence}.*; repair or remove it, or set config.data.on_error=skip'):
        load(f'file:{shard}')
    found = load(f'file:{shard}', on_error='skip')
    assert f'skipped 1: {sentence}' in found.report and len(pairs(found)) == 20


def test_a_shard_that_is_broken_or_compressed(tmp_path):
    shard = tmp_path / 'set.tar'
    write_tar(shard, members(images(20), TEXTS))
    whole_shard = shard.read_bytes()
    for content, sentence in ((b'no tar' * 200, 'is no .tar file that can be read'), (gzip.compress(whole_shard), 'or is compressed'),
                              (whole_shard[:700], 'is no .tar file that can be read'), (b'', 'is no .tar file that can be read')):
        shard.write_bytes(content)
        with pytest.raises(FieldError, match=f'set.tar: .*{sentence}'):
            load(f'file:{shard}')
