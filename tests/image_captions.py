"""A set of images with captions that is learned in seconds, for tests of runs: an .npz and files of images."""

import json

import numpy as np
from PIL import Image

from tests.tiny import tiny_config

WORDS = 'left', 'right'
SPLITS = dict(train=64, validation=12, test=8)


def scene(side, level, size=8):
    """A bright half."""
    image = np.full((size, size, 1), 10, np.uint8)
    image[:, slice(0, size // 2) if side == 0 else slice(size // 2, size)] = level
    return image


def captions_of(side, level):
    return [f'a {"bright" if level > 150 else "dark"} {WORDS[side]} half', f'the {WORDS[side]} half is {"bright" if level > 150 else "dark"}']


def write_captions(directory, size=8):
    """Images as files and captions.jsonl that names them, two captions each; returns its path."""
    rng, lines = np.random.default_rng(0), []
    (directory / 'images').mkdir(parents=True)
    for split, count in SPLITS.items():
        for n in range(count):
            side, level = n % 2, int(rng.choice([90, 220]) + rng.integers(-20, 20))
            name = f'images/{split}_{n:02d}.png'
            Image.fromarray(scene(side, level, size)[:, :, 0]).save(directory / name)
            lines.append(dict(image=name, caption=captions_of(side, level), split=split))
    path = directory / 'captions.jsonl'
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return path


def caption_config(path, model='captioner', **sections):
    """A run that learns them within some dozens of steps."""
    own = dict(data=dict(source=f'file:{path}', tokenizer='word', batch_size=16, normalise=True), task='captioning',
               optimizer=dict(learning_rate=0.02, schedule='constant'), train=dict(steps=60, eval_every=30, save_every=60))
    for name, fields in sections.items():
        own[name] = {**own.get(name, {}), **fields} if isinstance(fields, dict) else fields
    small = dict(encoder_width=4, **(dict(heads=2) if model == 'transformer_captioner' else {}))
    own['model'] = {**small, **own.get('model', {})}
    return tiny_config(model, **own)
