"""The tokens of a run as the files that transformers reads its tokenizers from: tokenizer.json and tokenizer_config.json.

Only where every text gets the same numbers there; what cannot be said in these files exactly is not written. As everywhere in
transformers, a text in which the name of a special token stands, '[MASK]', has that token.
"""

import json
import pathlib

from seqjax.data.text.codec import TextCodec
from seqjax.data.text.labelled_codec import LabelledCodec
from seqjax.data.text.pair_codec import PairCodec
from seqjax.data.text.pretrained_tokenizer import BERT_MARKS, PretrainedTokenizer
from seqjax.data.text.tokenizers import LINE_END, BPETokenizer, ByteTokenizer, SymbolTokenizer
from seqjax.errors import UserError

PAIR_NAMES = ('<pad>', '<unk>', '<s>', '</s>')
NO_WORDS = ('<no word>', '<unknown word>')  # names that are no words, where only padding and unknown are special
LINE_ENDS = '\r\n|[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]'  # as str.splitlines ends a line
BLANKS = '[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+'  # as str.split cuts words
NAMES = ('pad_token', 'unk_token', 'cls_token', 'sep_token', 'mask_token'), ('pad_token', 'unk_token', 'bos_token', 'eos_token')


def tokenizer_to_hf(reads, directory, *, context_length=None):
    """Writes tokenizer.json and tokenizer_config.json to a directory.

    reads: a tokenizer or the codec of a run: a `TextCodec` (language models), a `LabelledCodec` (bert) or a `PairCodec` (t5).
    context_length: tokens that the model has places for. A UserError says why it cannot be written.
    """
    import tokenizers

    reads = reads.tokenizer if isinstance(reads, TextCodec) else reads
    tokenizer, names, marks = _parts(reads)
    if isinstance(tokenizer, PretrainedTokenizer):
        made = tokenizer.state()['tokenizer']  # as it came
    else:
        made = _described(tokenizer, names)
        begins_with_blank = isinstance(reads, PairCodec) and isinstance(tokenizer, BPETokenizer)
        made['normalizer'] = {'type': 'Prepend', 'prepend': ' '} if begins_with_blank else None
        if getattr(tokenizer, 'line_ends', False):
            made['normalizer'] = {'type': 'Replace', 'pattern': {'String': '\n'}, 'content': f' {LINE_END} '}
        made['added_tokens'] = [dict(id=token, content=name, single_word=False, lstrip=False, rstrip=False, normalized=False,
                                     special=True) for token, name in enumerate(names if marks else ())]
        made['post_processor'] = _around(reads, names) if marks else None
    inputs = ['input_ids', 'token_type_ids', 'attention_mask'] if isinstance(reads, LabelledCodec) else ['input_ids', 'attention_mask']
    settings = dict(tokenizer_class='PreTrainedTokenizerFast', clean_up_tokenization_spaces=False, model_input_names=inputs,
                    **dict(zip(marks, names)), **(dict(model_max_length=context_length) if context_length else {}))
    written = tokenizers.Tokenizer.from_str(json.dumps(made)).to_str(pretty=True)
    directory = pathlib.Path(directory)
    (directory / 'tokenizer.json').write_text(written + '\n', 'utf-8')
    (directory / 'tokenizer_config.json').write_text(json.dumps(settings, indent=2, ensure_ascii=False) + '\n', 'utf-8')


def _parts(reads):
    """(tokenizer, names of the special tokens, what transformers calls them)"""
    if isinstance(reads, LabelledCodec):
        if not reads.marked or reads.tokenizer is None:
            raise UserError('its rows are not marked as those of bert are')
        return _without_capitals(reads.tokenizer), BERT_MARKS, NAMES[0]
    if isinstance(reads, PairCodec):
        for wrong, why in ((not reads.shared, 'its two sides have vocabularies of their own'), (reads.lowercase, _CAPITALS),
                           (reads.source_side.tags, 'its sources begin with tags'),
                           (reads.source_side.sentinels, 'blanks before a sentinel are read otherwise there')):
            if wrong:
                raise UserError(why)
        return reads.source_side.tokenizer, PAIR_NAMES, NAMES[1]
    return _without_capitals(reads), NO_WORDS if isinstance(reads, SymbolTokenizer) else (), ()


_CAPITALS = 'it makes capitals small as Python does, where a letter may depend on those around it'


def _without_capitals(tokenizer):
    if getattr(tokenizer, 'lowercase', False):
        raise UserError(_CAPITALS)
    return tokenizer


def _described(tokenizer, names):
    """tokenizer.json with the special tokens `names` before all others."""
    if isinstance(tokenizer, BPETokenizer):
        made = tokenizer.state()
        lines = {'type': 'Split', 'pattern': {'Regex': LINE_ENDS}, 'behavior': 'MergedWithPrevious', 'invert': False}
        made['pre_tokenizer'] = {'type': 'Sequence', 'pretokenizers': [lines, made['pre_tokenizer']]}
        model = made['model']
        if isinstance(model['vocab'], list):  # a unigram model: all bytes are pieces, so that none of the names is ever likelier
            _check_names(names, [piece for piece, _ in model['vocab']])
            model['vocab'] = [*([name, -1e6] for name in names), *model['vocab']]
        else:
            model['vocab'] = _numbered(names, sorted(model['vocab'], key=model['vocab'].get))
        return made
    if isinstance(tokenizer, ByteTokenizer):
        pieces = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}
        return _file({'type': 'BPE', 'vocab': _numbered(names, _letters_of_bytes()), 'merges': []}, pieces, pieces)
    words = getattr(tokenizer, 'unit', 'char') == 'word'
    cut = {'type': 'Split', 'pattern': {'Regex': BLANKS if words else r'[\s\S]'}, 'behavior': 'Removed' if words else 'Isolated',
           'invert': False}
    symbols = tokenizer.symbols[2:] if isinstance(tokenizer, SymbolTokenizer) else tokenizer.characters
    model = {'type': 'WordLevel', 'vocab': _numbered(names, symbols), 'unk_token': names[1] if names else NO_WORDS[1]}
    return _file(model, cut, None if words else {'type': 'Fuse'})


def _file(model, pre_tokenizer, decoder):
    return dict(version='1.0', truncation=None, padding=None, model=model, pre_tokenizer=pre_tokenizer, decoder=decoder)


def _numbered(names, symbols):
    _check_names(names, symbols)
    return {symbol: token for token, symbol in enumerate([*names, *symbols])}


def _check_names(names, symbols):
    if taken := set(names).intersection(symbols):
        raise UserError(f'{", ".join(sorted(taken))} is a token of the text, and the name of a special one there')


def _letters_of_bytes():
    """What the library writes for every byte: the letter of that number where it can be seen, and else one from 256 on."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in seen else next(others)) for byte in range(256)]


def _around(reads, names):
    """The tokens that are put around texts."""
    def token(name):
        return {'SpecialToken': {'id': name, 'type_id': 0}}

    def text(which, kind=0):
        return {'Sequence': {'id': which, 'type_id': kind}}

    if isinstance(reads, PairCodec):
        end, single = names[3], [text('A'), token(names[3])]
        pair, used = [*single, text('B'), token(end)], (end,)
    else:
        start, end = names[2:4]
        single, used = [token(start), text('A'), token(end)], (start, end)
        pair = [*single, text('B', 1), {'SpecialToken': {'id': end, 'type_id': 1}}]
    return dict(type='TemplateProcessing', single=single, pair=pair, special_tokens={
        name: dict(id=name, ids=[names.index(name)], tokens=[name]) for name in used})
