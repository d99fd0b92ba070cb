"""Whole runs over the pieces of a unigram model: trained, started again, asked to write, to fill in and to translate."""

import json

import jax
import numpy as np

from seqjax import train
from seqjax.data import load_codec
from seqjax.data.text import tokenizers
from seqjax.modes.continue_text import generate_text
from seqjax.modes.predict import predict_lines
from seqjax.modes.translate import cut, translate_lines
from seqjax.runs import RunDirectory
from seqjax.special_tokens import END, MASK, START
from tests.labelled_files import untrained_run
from tests.pair_files import pair_config, untrained_translator, write_pairs
from tests.test_launch import GPT, SIZES, launch, run_here  # noqa: F401 (a fixture)
from tests.tiny import tiny_config, write_text

PIECES = dict(tokenizer='unigram', vocabulary=300)



def test_a_language_model_is_trained_goes_on_and_writes(tmp_path):
    config = tiny_config(data=dict(source=f'file:{write_text(tmp_path / "text.txt", 3000)}', **PIECES))
    result = train.train(config, tmp_path / 'run')
    assert 0 < result['eval/bits_per_byte'] < result['eval/bits_per_token']
    saved = (tmp_path / 'run' / 'codec.json').read_text('utf-8')
    assert tokenizers.name_of(load_codec(saved).tokenizer) == 'unigram' and RunDirectory(tmp_path / 'run').codec('text').tokenizer.vocabulary <= 300
    config.train.steps = 6
    assert train.train(config, tmp_path / 'run')['steps'] == 6
    assert (tmp_path / 'run' / 'codec.json').read_text('utf-8') == saved
    config.decode.prompt = ' naïve 😀\n'
    written, = generate_text(config, tmp_path / 'run')
    assert written.startswith(' naïve 😀\n')


def test_the_launcher_refuses_too_few(launch, tmp_path, monkeypatch):  # noqa: F811
    words = [f'--config={GPT}', f'--workdir={tmp_path / "run"}', *SIZES, '--config.data.tokenizer=unigram',
             f'--config.data.source=file:{write_text(tmp_path / "text.txt", 3000)}']
    code, _, errors = run_here(launch, [*words, '--config.data.vocabulary=256'], monkeypatch)
    assert code == 2 and 'config.data.vocabulary=256: pieces are 256 bytes and longer ones; ask for more' in errors
    assert not (tmp_path / 'run').exists()


def test_masked_pieces_are_filled_in_with_the_blank_before_them(tmp_path):
    source = f'file:{write_text(tmp_path / "text.txt", 2000)}'
    config = tiny_config('bert', task='masked_lm', parallel=dict(data=1), model=dict(heads=2, width=8),
                         data=dict(source=source, sequence_length=20, **PIECES))
    parts, params = untrained_run(config, tmp_path / 'run')
    answer, = predict_lines(config, tmp_path / 'run', ['a <mask> c'])
    how = parts.dataset.codec
    row = np.array([START, *how.tokens('a'), MASK, *how.tokens(' c'), END], np.int32)
    logits = jax.jit(parts.task.model.apply)({'params': params}, row[None], np.array([len(row)], np.int32))['tokens'][0]
    best = int(logits[len(how.tokens('a')) + 1].argmax())
    assert answer['tokens'][0][0][0] == how.name(best) and answer['text'] == 'a' + how.name(best) + ' c'


def test_a_translator_reads_long_lines_in_pieces_and_writes(tmp_path):
    config = pair_config(write_pairs(tmp_path / 'pairs.tsv'), data=PIECES)
    parts, _ = untrained_translator(config, tmp_path / 'run')
    how = parts.dataset.codec
    saved = json.loads((tmp_path / 'run' / 'codec.json').read_text('utf-8'))
    assert {json.loads(saved[side])['state']['model']['type'] for side in ('source', 'target')} == {'Unigram'}
    line = 'ab cd da ' * 20 + 'b'
    tokens = how.source(line)
    rows = cut(tokens, how, 16)
    assert np.concatenate([row[:-1] for row in rows]).tolist() == tokens[:-1].tolist()  # no blank is lost, none is added
    assert all(how.source_words(row)[0].startswith('▁') for row in rows)
    found = list(translate_lines(config, tmp_path / 'run', ['ab cd', line]))
    assert len(found) == 2 and all(isinstance(answers[0][1], str) for answers in found)
