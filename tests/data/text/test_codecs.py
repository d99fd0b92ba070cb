"""One codec for all kinds of records: what every kind promises, and files of older runs."""

import json
import pathlib

import numpy as np
import pytest

from seqjax import data
from seqjax.data import CharTokenizer, LabelledCodec, PairCodec, TextCodec
from seqjax.data.readers.examples import Example
from seqjax.data.text.pair_codec import Vocabulary
from seqjax.errors import FieldError

OLD = json.loads(pathlib.Path(__file__).with_name('codecs_of_older_runs.json').read_text('utf-8'))  # written at 17184a0
MADE = {'text': (TextCodec(CharTokenizer(' abc'), 8), 'ab cab'),
        'labelled': (LabelledCodec('classification', CharTokenizer(' abc'), classes=('x', 'y')), Example('ab', 'y')),
        'marked': (LabelledCodec('classification', CharTokenizer(' abc'), classes=('x', 'y'), marked=True), Example('ab', 'y')),
        'pairs': (PairCodec(*[Vocabulary(CharTokenizer(' abc'))] * 2), Example('ab', 'ba'))}


@pytest.mark.parametrize('name', OLD)
def test_files_of_older_runs_give_the_same_numbers(name):
    old = OLD[name]
    codec = data.saved_codec({old['file']: old['text']}.get)
    line = {'text': 'ba ca\n', 'pairs': '<fr> dog', 'spans': 'a <extra_id_1> c'}.get(name.split()[0], 'ab zc')
    numbers = codec.inputs(line)
    assert (numbers['words'] if isinstance(numbers, dict) else numbers).tolist() == old['tokens']
    if 'target_tokens' in old:
        assert codec.target(dict(pairs='un', spans='b')[name]).tolist() == old['target_tokens']
    assert getattr(codec, 'task', None) == (json.loads(old['text'])['task'] if 'target' in old else None)
    assert data.load_codec(codec.dumps()).dumps() == codec.dumps()


@pytest.mark.parametrize('name', MADE)
def test_every_kind_reads_writes_and_is_read_back(name):
    codec, example = MADE[name]
    again = data.load_codec(codec.dumps())
    assert type(again) is type(codec) is data.CODECS[codec.kind] and json.loads(codec.dumps())['kind'] == codec.kind
    text = example if isinstance(example, str) else example.inputs
    assert again.text(again.inputs(text)) == text
    assert again.for_model() == codec.for_model() and again.as_options() == codec.as_options()
    row = again.row(example)
    assert set(row) == {'inputs', 'targets', 'weights'} and np.shape(row['targets']) == np.shape(row['weights'])
    assert again.without_answers().inputs(text).tolist() == codec.inputs(text).tolist()


def test_an_unknown_kind_is_refused_and_files_of_others_are_none():
    with pytest.raises(FieldError, match="codec='txt': no such codec; did you mean 'text'?"):
        data.load_codec('{"kind": "txt"}')
    assert data.load_codec('{"version": "1.0"}') is None
