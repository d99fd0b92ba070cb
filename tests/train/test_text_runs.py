"""Runs of language models whose text is in files of its own parts, and of words."""

import json

import numpy as np

from seqjax import train
from seqjax.modes.continue_text import generate_text
from tests.tiny import tiny_config, write_text


def test_the_test_part_of_a_text_is_measured_when_the_run_is_done(tmp_path):
    for name, characters in (('train', 3000), ('valid', 600), ('test', 500)):
        write_text(tmp_path / f'{name}.txt', characters)
    config = tiny_config('recurrent', data=dict(source=f'file:{tmp_path}/{{train,valid,test}}.txt', tokenizer='word',
                                                vocabulary=40), parallel=dict(data=1))
    result = train.train(config, tmp_path / 'run')
    facts = json.loads((tmp_path / 'run' / 'data.json').read_text())
    assert {'eval/loss', 'test/loss', 'test/perplexity'} <= set(result) and np.isfinite(result['test/loss'])
    assert facts['test_tokens'] > 50 and 0 < facts['unknown_share'] < 1
    config.decode.prompt = '\n'  # a line end is a word
    written, = generate_text(config, tmp_path / 'run')
    assert written.startswith('\n') and len(written) > 1
