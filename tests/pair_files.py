"""Small files of pairs, ragged and the same every time: words, and the same words in other letters."""

import random

import numpy as np

from seqjax.special_tokens import END
from tests.labelled_files import untrained_run
from tests.tiny import tiny_config

SOURCE, TARGET = 'abcd', 'wxyz'  # letter by letter
SPLITS = dict(train=200, validation=15, test=25)


def write_pairs(path, seed=0, tag=''):
    """Writes SPLITS pairs of one to five words as a table; returns the path. tag: what every source begins with."""
    rng, lines = random.Random(seed), ['source\ttarget\tsplit']
    for split, count in SPLITS.items():
        for _ in range(count):
            text = ' '.join(''.join(rng.choices(SOURCE, k=rng.randint(1, 2))) for _ in range(rng.randint(1, 5)))
            lines.append(f'{tag}{text}\t{translated(text)}\t{split}')
    path.write_text('\n'.join(lines) + '\n', 'utf-8')
    return path


def translated(text):
    return text.translate(str.maketrans(SOURCE, TARGET))


def pair_config(path, **sections):
    """A tiny translator of that file on one device, every row as long as the longest; sections: as for `tiny_config`."""
    sections = {**dict(data={}, model={}, parallel=dict(data=1), decode={}), **sections}
    sections['data'] = dict(source=f'file:{path}', batching='pad', **sections['data'])
    sections['model'] = dict(width=8) | sections['model']
    sections['decode'] = dict(max_new_tokens=16) | sections['decode']
    return tiny_config('seq2seq', task='translation', **sections)


def untrained_translator(config, workdir):
    """`untrained_run` with long and different answers: END is rare, and the other tokens that stand for no text are never
    written."""
    def changed(params):
        bias = np.array(params['output']['bias'])
        bias[:END], bias[END] = -50, -3
        return {**params, 'output': {**params['output'], 'bias': bias}}

    return untrained_run(config, workdir, changed)
