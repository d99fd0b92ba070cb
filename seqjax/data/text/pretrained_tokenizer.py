"""A tokenizer that came with pretrained weights: its numbers are theirs, special tokens included."""

import json

import numpy as np

from seqjax.errors import FieldError
from seqjax.special_tokens import Marks

BERT_MARKS = ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')


class PretrainedTokenizer:
    """A tokenizer of the `tokenizers` library. It marks nothing by itself: `data.marking` does, with the numbers of `marks`.

    vocabulary: tokens that the model has, which may be more than there are here. context_length: steps that the model has
    places for, 0: any number. marks: a `Marks`, or None where the vocabulary has none (GPT-2, Llama).
    """

    kind = 'pretrained'
    glue = ''

    def __init__(self, tokenizer, vocabulary, context_length):
        self._tokenizer = tokenizer
        tokenizer.no_padding()  # files may say how training rows were cut and padded
        tokenizer.no_truncation()
        self.vocabulary, self.context_length = max(vocabulary, tokenizer.get_vocab_size()), context_length
        numbers = [tokenizer.token_to_id(name) for name in BERT_MARKS]
        self.marks = None if None in numbers else Marks(*numbers)

    @classmethod
    def train(cls, text, vocabulary):
        raise FieldError('data.tokenizer', cls.kind, 'comes with the weights that config.init_from=DIRECTORY names; name them, or '
                         "learn tokens from the text with 'bpe'")

    def boundary(self, text):
        """Between words, where the library cuts there too; otherwise a text is tokenized as a whole."""
        from seqjax.data.text.tokenizers import between_words

        cuts = json.loads(self._tokenizer.to_str())['pre_tokenizer'] or {}
        safe = cuts.get('type') == 'BertPreTokenizer' or cuts.get('type') == 'ByteLevel' and not cuts['add_prefix_space']
        return between_words(text) if safe else 0

    def encode(self, text):
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, tokens):
        return self._tokenizer.decode([int(token) for token in tokens], skip_special_tokens=False)

    def sizes(self):
        """None: a token may stand for more text than it is written with."""

    def state(self):
        return dict(tokenizer=json.loads(self._tokenizer.to_str()), vocabulary=self.vocabulary, context_length=self.context_length)

    @classmethod
    def from_state(cls, state):
        import tokenizers

        return cls(tokenizers.Tokenizer.from_str(json.dumps(state['tokenizer'])), state['vocabulary'], state['context_length'])
