"""Small files of labelled sequences, ragged and the same every time, and runs over them that need no training."""

import json
import random

import jax
import numpy as np

from seqjax.runs import Checkpoints, RunDirectory
from seqjax.train import build
from tests.tiny import tiny_config

LETTERS = {'ash': 'abcd', 'birch': 'cdef', 'cedar': 'efgh'}  # what the texts of a class are written with
LONGEST = 12
SPLITS = dict(train=40, validation=13, test=21)


def write_labelled(path, task, seed=0):
    """Writes SPLITS records of a task as JSON lines, their lengths 1 to LONGEST; returns the path.

    classification: texts of LETTERS. tagging: 'vowel' or 'other' for every letter. regression: 10 + the number of a's,
    with a little noise.
    """
    rng, lines = random.Random(seed), []
    for split, count in SPLITS.items():
        for _ in range(count):
            label = rng.choice(list(LETTERS))
            text = ''.join(rng.choices(LETTERS[label], k=rng.randint(1, LONGEST)))
            target = dict(classification=label, tagging=['vowel' if letter in 'ae' else 'other' for letter in text],
                          regression=10 + text.count('a') + rng.uniform(-0.1, 0.1))[task]
            lines.append(json.dumps(dict(text=text, label=target, split=split)))
    path.write_text('\n'.join(lines) + '\n', 'utf-8')
    return path


def labelled_config(path, task, encoder='gru', **sections):
    """A tiny reader over that file on one device, every row as long as the longest; sections: as for `tiny_config`."""
    sections = {**dict(data={}, model={}, parallel=dict(data=1)), **sections}
    sections['data'] = dict(source=f'file:{path}', batching='pad', **sections['data'])
    heads = dict(heads=2) if encoder == 'attention' else {}
    sections['model'] = dict(encoder=encoder, width=8, **heads, **sections['model'])
    return tiny_config('reader', task=task, **sections)


def untrained_run(config, workdir, changed=lambda params: params):
    """A run whose one checkpoint has parameters that were drawn at random, then changed; returns its parts and these."""
    run, rng = RunDirectory(workdir), np.random.default_rng(0)
    parts = build(config, run)
    run.claim(config, parts.dataset, parts.saved_model(config))
    draw = lambda x: jax.device_put(rng.normal(size=x.shape).astype(x.dtype), x.sharding)
    params = changed(jax.tree.map(draw, parts.target.params))
    Checkpoints(run.checkpoints).save({'params': params}, step=1, config=config.to_dict())
    return parts, params
