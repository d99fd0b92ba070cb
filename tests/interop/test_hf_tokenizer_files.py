"""Tokenizers of runs as files of Hugging Face's: transformers gives the numbers that the run gives, of any text."""

import json
import random

import numpy as np
import pytest

from seqjax import interop, runs
from seqjax.data.text import tokenizers
from seqjax.data import LabelledCodec, TextCodec
from seqjax.data.text.pair_codec import PairCodec, Vocabulary
from seqjax.data.text.pretrained_tokenizer import PretrainedTokenizer
from seqjax.errors import UserError
from seqjax.runs import load_model
from seqjax.modes.hugging_face import write_hugging_face
from tests.labelled_files import untrained_run
from tests.tiny import tiny_config, write_text

library = pytest.importorskip('transformers')

RNG = random.Random(0)
LETTERS = "ab cd  eé\n\r\t\x0b\x0c\x1c\x1f\x85\u2028\xa0\u3000\u200bİΣς😀中\0[]<>'s 12"
TEXTS = [''.join(RNG.choices(LETTERS, k=RNG.randint(1, 30))) for _ in range(200)] + [' ', '\n\n', '\r\n\r\n a', "it's  \n  x"]
KNOWN = '\n'.join(TEXTS[:100])
MAKE = dict(bpe=lambda: tokenizers.BPETokenizer.train(KNOWN, 400), unigram=lambda: tokenizers.UnigramTokenizer.train(KNOWN, 400),
            byte=tokenizers.ByteTokenizer, char=lambda: tokenizers.CharTokenizer.train(''.join(TEXTS), 0),
            word=lambda: tokenizers.symbols('word', [KNOWN], 50), symbols=lambda: tokenizers.symbols('char', [KNOWN[:99]]),
            lines=lambda: tokenizers.train('word', KNOWN, 50))


def written(reads, directory, kind):
    """What transformers reads."""
    (directory / 'config.json').write_text(json.dumps(dict(model_type=kind)))
    interop.tokenizer_to_hf(reads, directory, context_length=64)
    return library.AutoTokenizer.from_pretrained(directory)


@pytest.mark.parametrize('kind', ['gpt2', 'bert', 't5'])
@pytest.mark.parametrize('name', MAKE)
def test_every_text_has_the_numbers_that_it_has_here(name, kind, tmp_path):
    tokenizer = MAKE[name]()
    if name in ('char', 'lines') and kind != 'gpt2':
        return  # the others have symbols
    encoding, side = LabelledCodec('', tokenizer, marked=True, longest=64), Vocabulary(tokenizer)
    pairs = PairCodec(side, side)
    reads, ours = dict(gpt2=(tokenizer, tokenizer.encode), bert=(encoding, encoding.inputs), t5=(pairs, pairs.source))[kind]
    theirs = written(reads, tmp_path, kind)
    for text in TEXTS:
        assert theirs(text)['input_ids'] == ours(text).tolist(), repr(text)
    assert ('token_type_ids' in theirs('a')) == (kind == 'bert')
    if kind == 'gpt2' and name not in ('word', 'lines'):
        assert theirs.decode(theirs('ab cd')['input_ids']) == 'ab cd'
    if kind == 'bert':
        assert (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id, theirs.mask_token_id) == (
            0, 1, 2, 3, 4)
        assert theirs('a', 'b')['token_type_ids'] == [0] * len(ours('a')) + [1] * (len(ours('b')) - 1)


def test_a_pretrained_tokenizer_is_written_as_it_came(tmp_path):
    tokenizer = MAKE['bpe']()
    state = tokenizer.state()
    pretrained = PretrainedTokenizer.from_state(dict(tokenizer=state, vocabulary=500, context_length=8))
    theirs = written(pretrained, tmp_path, 'gpt2')
    assert all(theirs(text)['input_ids'] == pretrained.encode(text).tolist() for text in TEXTS)


side = Vocabulary(tokenizers.ByteTokenizer())


@pytest.mark.parametrize('reads, reason', [
    (tokenizers.symbols('word', ['a'], lowercase=True), 'it makes capitals small as Python does, where a letter may depend on '),
    (PairCodec(side, side, lowercase=True), 'it makes capitals small as Python does, '),
    (PairCodec(side, Vocabulary(tokenizers.ByteTokenizer())), 'its two sides have vocabularies of their own'),
    (PairCodec(*[Vocabulary(tokenizers.ByteTokenizer(), ('<de>',))] * 2), 'its sources begin with tags'),
    (PairCodec(*[Vocabulary(tokenizers.ByteTokenizer(), (), 3)] * 2), 'blanks before a sentinel are read otherwise there'),
    (LabelledCodec('', tokenizers.ByteTokenizer()), 'its rows are not marked as those of bert are'),
    (LabelledCodec('', tokenizers.symbols('word', ['a [MASK]']), marked=True), '[MASK] is a token of the text, and the name of a ')])
def test_what_cannot_be_said_exactly_is_not_written(reads, reason, tmp_path):
    with pytest.raises(UserError) as caught:
        interop.tokenizer_to_hf(reads, tmp_path)
    assert str(caught.value).startswith(reason) and not list(tmp_path.iterdir())


def test_a_run_is_written_with_its_tokenizer(tmp_path, monkeypatch):
    config = tiny_config('gpt', data=dict(source=f'file:{write_text(tmp_path / "text.txt", 2000)}', tokenizer='bpe',
                                          vocabulary=300), parallel=dict(data=1))
    untrained_run(config, tmp_path / 'run')
    said = []
    path = write_hugging_face(config, tmp_path / 'run', report=said.append)
    theirs, ours = library.AutoTokenizer.from_pretrained(path), runs.RunDirectory(tmp_path / 'run').codec('text').tokenizer
    assert theirs('a text\n and \N{SNOWMAN}')['input_ids'] == ours.encode('a text\n and \N{SNOWMAN}').tolist() and not said
    model, params = load_model(tmp_path / 'run')
    inputs = theirs('a text', return_tensors='pt')
    logits = library.AutoModelForCausalLM.from_pretrained(path)(**inputs).logits.detach().numpy()
    np.testing.assert_allclose(logits, model.apply({'params': params}, inputs['input_ids'].numpy()), atol=1e-4)
    assert sorted(each.name for each in path.iterdir()) == ['config.json', 'model.safetensors', 'tokenizer.json',
                                                            'tokenizer_config.json']
    words = tokenizers.symbols('word', [tuple(map(str, range(298)))], lowercase=True)
    monkeypatch.setattr(runs.RunDirectory, 'codec', lambda run: TextCodec(words, 16))
    write_hugging_face(config, tmp_path / 'run', report=said.append)
    assert sorted(each.name for each in path.iterdir()) == ['config.json', 'model.safetensors']
    assert said == ['without a tokenizer, which transformers cannot have exactly as it is: it makes capitals small as Python '
                    'does, where a letter may depend on those around it']
