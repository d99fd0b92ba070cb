"""Tokenizers from the files that Hugging Face keeps beside its weights, through the `tokenizers` library."""

import pathlib

import numpy as np

from seqjax.errors import UserError
from seqjax.interop.hf_files import read_json

FILES = ('tokenizer.json',), ('vocab.json', 'merges.txt'), ('vocab.txt',)  # any of these


def has_tokenizer(directory):
    """Whether a directory has files that `tokenizer_from_hf` reads."""
    directory = pathlib.Path(directory)
    return any(all((directory / name).is_file() for name in names) for names in FILES)


def tokenizer_from_hf(directory):
    """The tokenizer in a directory: tokenizer.json, or vocab.json and merges.txt (GPT-2), or vocab.txt (BERT)."""
    import tokenizers

    directory, problems = pathlib.Path(directory), []
    if not directory.is_dir():
        raise UserError(f'{directory}: there is no such directory')
    settings = read_json(directory / 'tokenizer_config.json', problems) if (directory / 'tokenizer_config.json').is_file() else {}
    try:
        if (directory / 'tokenizer.json').is_file():
            made = tokenizers.Tokenizer.from_file(str(directory / 'tokenizer.json'))
        elif (directory / 'merges.txt').is_file() and (directory / 'vocab.json').is_file():
            made = _with_added(_byte_pairs(directory, settings), directory, settings, problems)
        elif (directory / 'vocab.txt').is_file():
            made = _with_added(_word_pieces(directory, settings), directory, settings, problems)
        else:
            problems.append('has neither tokenizer.json, nor vocab.json and merges.txt, nor vocab.txt; of a sentencepiece model '
                            'transformers makes the first: AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)')
    except Exception as error:  # the library raises nothing more exact
        problems.append(f'the tokenizer cannot be read: {error}')
    if problems:
        raise UserError(f'{directory}:' + ''.join(f'\n  {problem}' for problem in problems))
    return Tokenizer(made, settings)


class Tokenizer:
    """encode(text) -> tokens [n], decode(tokens) -> text, and for a model's inputs

        tokenizer(['a text', 'another'])             dict(input_ids, attention_mask), [B, T] each, short rows padded at their end
        tokenizer(['a question'], ['an answer'])     with token_type_ids for BERT, which tell the two apart

    Tokens that mark the ends of a text, such as [CLS] and [SEP], are put around it, unless special=False; decode leaves them
    out, unless special=True. `tokenizer` is the one of the library.
    """

    def __init__(self, tokenizer, settings=None):
        self.tokenizer, self._settings = tokenizer, settings or {}
        self._padding = _padding(tokenizer, self._settings)
        tokenizer.no_padding()  # files may say how training rows were cut and padded
        tokenizer.no_truncation()

    @property
    def vocabulary(self):
        """How many tokens there are."""
        return self.tokenizer.get_vocab_size()

    def encode(self, text, second=None, *, special=True):
        """Tokens [n] of a text, or of two."""
        return np.array(self.tokenizer.encode(text, second, add_special_tokens=special).ids, np.int32)

    def decode(self, tokens, *, special=False):
        return self.tokenizer.decode([int(token) for token in tokens], skip_special_tokens=not special)

    def token(self, text):
        """The number of a token, as of '[MASK]' or '<|endoftext|>'; None where there is no such token."""
        return self.tokenizer.token_to_id(text)

    def __call__(self, texts, seconds=None, *, max_length=None):
        """max_length: longer rows are cut, of two texts the longer one first."""
        if isinstance(texts, str) or isinstance(seconds, str):
            raise TypeError('texts must be a list of texts')
        if max_length is not None:
            self.tokenizer.enable_truncation(max_length)
        try:
            rows = self.tokenizer.encode_batch(list(texts) if seconds is None else list(zip(texts, seconds, strict=True)))
        finally:
            self.tokenizer.no_truncation()
        inputs = dict(input_ids=_padded([row.ids for row in rows], self._padding),
                      attention_mask=_padded([row.attention_mask for row in rows], 0))
        if type(self.tokenizer.model).__name__ == 'WordPiece':
            inputs['token_type_ids'] = _padded([row.type_ids for row in rows], 0)
        return inputs


def _padded(rows, filler):
    array = np.full((len(rows), max(map(len, rows), default=0)), filler, np.int32)
    for row, values in zip(array, rows):
        row[:len(values)] = values
    return array


def _padding(tokenizer, settings):
    """The token that short rows are filled with. A model is told not to look at it, so that any would do."""
    named = settings.get('pad_token')
    named = named.get('content') if isinstance(named, dict) else named
    for name in (named, (tokenizer.padding or {}).get('pad_token'), '[PAD]', '<pad>'):
        if name is not None and tokenizer.token_to_id(name) is not None:
            return tokenizer.token_to_id(name)
    return 0


def _byte_pairs(directory, settings):
    """GPT-2 (Radford et al. 2019, section 2.2): byte pairs within what looks like a word, blanks at its front."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    made = Tokenizer(models.BPE.from_file(str(directory / 'vocab.json'), str(directory / 'merges.txt')))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(settings.get('add_prefix_space', False)))
    made.post_processor, made.decoder = processors.ByteLevel(trim_offsets=False), decoders.ByteLevel()
    made.add_special_tokens([name for name in ('<|endoftext|>',) if made.token_to_id(name) is not None])
    return made


def _word_pieces(directory, settings):
    """BERT (Devlin et al. 2019, section 3): words and punctuation, then the longest pieces of each that there are."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    # Not splitlines, which also ends a line at U+2028 and the like: a token may have one.
    lines = (directory / 'vocab.txt').read_text('utf-8').removesuffix('\n').split('\n')
    vocabulary = {word: n for n, word in enumerate(lines)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token='[UNK]'))
    made.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.get('tokenize_chinese_chars', True), strip_accents=settings.get('strip_accents'),
        lowercase=settings.get('do_lower_case', True))
    made.pre_tokenizer, made.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    made.add_special_tokens([name for name in ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]') if name in vocabulary])
    made.post_processor = processors.BertProcessing(*((name, vocabulary[name]) for name in ('[SEP]', '[CLS]')))
    return made


def _with_added(made, directory, settings, problems):
    """The tokenizer with tokens that its vocabulary does not have: those of tokenizer_config.json, earlier of added_tokens.json."""
    from tokenizers import AddedToken

    if 'added_tokens_decoder' in settings:
        added = {int(number): AddedToken(**token) for number, token in settings['added_tokens_decoder'].items()}
    else:
        known = {name: read_json(directory / name, problems) for name in ('added_tokens.json', 'special_tokens_map.json')
                 if (directory / name).is_file()}
        special = _special(settings) | _special(known.get('special_tokens_map.json', {}))
        added = {number: AddedToken(name, normalized=name not in special, special=name in special)
                 for name, number in known.get('added_tokens.json', {}).items()}
    made.add_tokens([added[number] for number in sorted(added)])
    problems += [f'the added token {token.content!r} has the number {number}, and the vocabulary goes on with '
                 f'{made.token_to_id(token.content)}; let transformers write tokenizer.json: '
                 'AutoTokenizer.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)'
                 for number, token in sorted(added.items()) if made.token_to_id(token.content) != number]
    return made


def _special(settings):
    """The tokens that settings name, as pad_token and additional_special_tokens do."""
    named = [token for key, value in settings.items() if key.endswith(('_token', '_special_tokens'))
             for token in (value if isinstance(value, list) else [value])]
    return {token.get('content') if isinstance(token, dict) else token for token in named}
