"""Labels for lines that are read with marks: two texts a line, words in pieces, lines longer than the model has places for."""

import json
import random

import jax
import numpy as np
import pytest

from seqjax.modes.predict import predict_lines
from seqjax.special_tokens import END, MASK, START
from tests.labelled_files import untrained_run
from tests.tiny import tiny_config, write_text

LONGEST = 20


def make(directory, lines, task, **options):
    """(config, workdir, parts, parameters) of a run of a tiny BERT."""
    (directory / 'lines.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines), 'utf-8')
    config = tiny_config('bert', task=task, parallel=dict(data=1), model=dict(heads=2, width=8), data=dict(
        source=f'file:{directory / "lines.jsonl"}', special_tokens=True, batching='pad', max_length=LONGEST, **options))
    return config, directory / 'run', *untrained_run(config, directory / 'run')


def answers(run, lines):
    config, workdir, *_ = run
    return list(predict_lines(config, workdir, lines))


@pytest.fixture(scope='module')
def judge(tmp_path_factory):
    rng = random.Random(0)
    text = lambda: ''.join(rng.choices('abc ', k=rng.randint(1, 12))).strip() or 'a'
    lines = [dict(premise=text(), hypothesis=text(), label=rng.choice(['yes', 'no'])) for _ in range(30)]
    return make(tmp_path_factory.mktemp('judge'), lines, 'classification', input_column='premise,hypothesis')


def test_a_line_has_two_texts_with_a_tab_between_them(judge):
    lines = ['ab c\tbc', 'a\tb', 'only one', 'a\t', '\tb', '', 'a' * 30 + '\tb', 'a b\tc\td', 'ab\tß']
    found = answers(judge, lines)
    assert [answer['input'] for answer in found] == lines
    for place, reason in ((2, 'no TAB between two texts'), (3, 'an empty text'), (4, 'an empty text'), (5, 'no TAB between two texts')):
        assert found[place] == dict(input=lines[place], label=None, reason=reason)
    _, _, parts, params = judge
    how = parts.dataset.codec
    cut = {6: [START, *how.tokens('a' * 16), END, *how.tokens('b'), END]}
    for place in (0, 1, 6, 7, 8):
        first, _, second = lines[place].partition('\t')
        row = np.array(cut.get(place) or [START, *how.tokens(first), END, *how.tokens(second), END], np.int32)
        assert len(row) <= LONGEST
        padded = np.pad(row, (0, LONGEST - len(row)))[None]
        logits = jax.jit(parts.task.model.apply)({'params': params}, padded, np.array([len(row)], np.int32))
        expected = np.float64(jax.nn.softmax(logits[0]))
        np.testing.assert_allclose(list(found[place]['probabilities'].values()), expected, atol=1e-5)
        assert found[place]['label'] == how.classes[expected.argmax()]


def test_a_tagger_of_pieces_labels_words(tmp_path):
    rng = random.Random(1)
    word = lambda: ''.join(rng.choices('abcdé', k=rng.randint(1, 4)))
    lines = []
    for _ in range(12):
        words = [word() for _ in range(rng.randint(1, 4))]
        lines.append(dict(tokens=words, tags=[('A' if name[0] == 'a' else 'B') for name in words]))
    run = make(tmp_path, [*lines, dict(tokens=['a', 'b'], tags=['A', 'B'])], 'tagging', tokenizer='byte')
    _, _, parts, params = run
    found = answers(run, ['ab  ca é', ' ', 'aaaa bbbb cccc dddd eeee'])
    assert found[0]['tokens'] == ['ab', 'ca', 'é'] and len(found[0]['labels']) == len(found[0]['probabilities']) == 3
    assert found[1] == dict(input=' ', labels=None, reason='an empty line')
    assert found[2]['tokens'] == ['aaaa', 'bbbb', 'cccc', 'dddd'] and len(found[2]['labels']) == 4  # 18 bytes have a place
    how = parts.dataset.codec
    row = how.inputs(('ab', 'ca', 'é'))
    logits = jax.jit(parts.task.model.apply)({'params': params}, row[None], np.array([len(row)], np.int32))[0]
    for place, label, p in zip((1, 3, 6), found[0]['labels'], found[0]['probabilities']):
        expected = np.float64(jax.nn.softmax(logits[place]))
        assert how.classes[expected.argmax()] == label and p == pytest.approx(expected.max(), abs=1e-5)


@pytest.mark.parametrize('kind', ['char', 'bpe', 'word'])
def test_masked_tokens_are_filled_in(kind, tmp_path):
    config = tiny_config('bert', task='masked_lm', parallel=dict(data=1), model=dict(heads=2, width=8), data=dict(
        source=f'file:{write_text(tmp_path / "text.txt", 2000)}', sequence_length=LONGEST, tokenizer=kind, vocabulary=300))
    parts, params = untrained_run(config, tmp_path / 'run')
    lines = ['a <mask> c', 'none', '<mask>', 'b b b b b b b b b b <mask> c<mask>']
    found = list(predict_lines(config, tmp_path / 'run', lines))
    assert [answer['input'] for answer in found] == lines
    assert found[1] == dict(input='none', text=None, reason='no <mask> in it')
    how = parts.dataset.codec
    before = dict(char='a ', bpe='a', word='a')[kind]
    row = np.array([START, *how.tokens(before), MASK, *how.tokens(' c'), END], np.int32)
    logits = jax.jit(parts.task.model.apply)({'params': params}, row[None], np.array([len(row)], np.int32))['tokens'][0]
    expected = np.float64(jax.nn.softmax(logits[len(how.tokens(before)) + 1]))
    best = np.argsort(-expected)[:5]
    names, probabilities = zip(*found[0]['tokens'][0])
    assert list(names) == [how.name(token) for token in best]  # of byte pairs several are called U+FFFD
    np.testing.assert_allclose(probabilities, expected[best], atol=1e-5)
    glue = ' ' if kind == 'word' else ''
    assert found[0]['text'] == before + glue + how.name(best[0]) + (glue or ' ') + 'c'
    if kind == 'char':  # the row has no room for the last one
        assert len(found[3]['tokens']) == 0 and found[3]['text'] == lines[3]
    elif kind == 'word':
        assert len(found[3]['tokens']) == 2
