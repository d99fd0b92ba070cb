"""Networks in the sizes that were published: the 2017 Transformer, BERT, GPT-2, GPT-3, T5, Llama, Mamba and RWKV.

`PRESETS` is plain data, and `models.preset` makes a module of it:

    models.preset('gpt2_small')                         a linen module with 124,439,808 parameters
    models.preset('gpt3_175b', scan_layers=True, remat=True)   the same, with other fields where asked
    models.PRESETS['bert_base'].fields                  for config.model.update(...)

What a paper calls its size is rounded, and not always counted the same way: docs/transformers.md has both numbers.
"""

from typing import Any, NamedTuple


class Preset(NamedTuple):
    """model: a name of `models.MODELS`. fields: those of the model that its defaults do not have. What the data decides otherwise:
    vocabulary, and context_length, the longest row; None: any.
    """

    model: str
    fields: dict[str, Any]
    vocabulary: int
    context_length: int | None


def _transformer(width, heads, feed_forward, dropout):
    return Preset('transformer', dict(width=width, depth=6, heads=heads, feed_forward=feed_forward, dropout=dropout,
                                      embedding_dropout=dropout), 37000, None)


def _bert(width, depth, heads):
    return Preset('bert', dict(width=width, depth=depth, heads=heads, feed_forward=4 * width, **_dropout(0.1)), 30522, 512)


def _gpt(width, depth, heads, head_width=0, context_length=1024, dropout=0.1):
    return Preset('gpt', dict(width=width, depth=depth, heads=heads, head_width=head_width, feed_forward=4 * width, bias=True,
                              activation='gelu_tanh', **_dropout(dropout)), 50257, context_length)


def _gpt3(width, depth, heads, head_width):
    return _gpt(width, depth, heads, head_width, 2048, dropout=0.0)


def _t5(width, depth, heads, head_width, feed_forward):
    return Preset('t5', dict(width=width, depth=depth, heads=heads, head_width=head_width, feed_forward=feed_forward,
                             **_dropout(0.1)), 32128, None)


def _t5_1_1(*sizes):
    first = _t5(*sizes)
    return first._replace(fields={**first.fields, **_dropout(0.0), 'gated': True, 'activation': 'gelu_tanh', 'tie_embeddings': False})


def _llama(width, depth, heads, feed_forward, kv_heads=0, vocabulary=32000, context_length=2048, epsilon=1e-6, **fields):
    return Preset('llama', dict(width=width, depth=depth, heads=heads, kv_heads=kv_heads, feed_forward=feed_forward,
                                epsilon=epsilon, **fields), vocabulary, context_length)


def _llama2(*sizes, kv_heads=0):
    return _llama(*sizes, kv_heads=kv_heads, context_length=4096, epsilon=1e-5)


def _llama3(*sizes):
    return _llama(*sizes, kv_heads=8, vocabulary=128256, context_length=8192, epsilon=1e-5, rotary_base=500000.0)


def _mamba(width, depth):
    return Preset('mamba', dict(width=width, depth=depth), 50280, None)


def _rwkv(width, depth):
    return Preset('rwkv', dict(width=width, depth=depth, feed_forward=4 * width), 50277, None)


def _dropout(rate):
    return dict(dropout=rate, embedding_dropout=rate, attention_dropout=rate)


PRESETS = {
    # Vaswani et al. 2017, table 3; byte pairs of both languages in one vocabulary of about 37,000 (section 5.1).
    'transformer_base': _transformer(512, 8, 2048, dropout=0.1),
    'transformer_big': _transformer(1024, 16, 4096, dropout=0.3),
    # Devlin et al. 2019, section 3. width, depth, heads
    'bert_base': _bert(768, 12, 12),
    'bert_large': _bert(1024, 24, 16),
    # Radford et al. 2019, table 2. width, depth, heads
    'gpt2_small': _gpt(768, 12, 12),
    'gpt2_medium': _gpt(1024, 24, 16),
    'gpt2_large': _gpt(1280, 36, 20),
    'gpt2_xl': _gpt(1600, 48, 25),
    # Brown et al. 2020, table 2.1. width, depth, heads, head width. Of 'xl' the table says 24 heads of 128, which would be 1.5B
    # parameters and not its 1.3B; 16 are.
    'gpt3_small': _gpt3(768, 12, 12, 64),
    'gpt3_medium': _gpt3(1024, 24, 16, 64),
    'gpt3_large': _gpt3(1536, 24, 16, 96),
    'gpt3_xl': _gpt3(2048, 24, 16, 128),
    'gpt3_2.7b': _gpt3(2560, 32, 32, 80),
    'gpt3_6.7b': _gpt3(4096, 32, 32, 128),
    'gpt3_13b': _gpt3(5140, 40, 40, 128),
    'gpt3_175b': _gpt3(12288, 96, 96, 128),
    # Raffel et al. 2020, section 3.7. width, depth of each stack, heads, head width, feed-forward width
    't5_small': _t5(512, 6, 8, 64, 2048),
    't5_base': _t5(768, 12, 12, 64, 3072),
    't5_large': _t5(1024, 24, 16, 64, 4096),
    't5_3b': _t5(1024, 24, 32, 128, 16384),
    't5_11b': _t5(1024, 24, 128, 128, 65536),
    # The second edition: gated, and with an output of its own (Shazeer 2020; released with mT5, Xue et al. 2021).
    't5_1.1_small': _t5_1_1(512, 8, 6, 64, 1024),
    't5_1.1_base': _t5_1_1(768, 12, 12, 64, 2048),
    't5_1.1_large': _t5_1_1(1024, 24, 16, 64, 2816),
    't5_1.1_xl': _t5_1_1(2048, 24, 32, 64, 5120),
    't5_1.1_xxl': _t5_1_1(4096, 24, 64, 64, 10240),
    # Touvron et al. 2023, table 2. width, depth, heads, feed-forward width: 8/3 of the width, up to a multiple of 256
    'llama_7b': _llama(4096, 32, 32, 11008),
    'llama_13b': _llama(5120, 40, 40, 13824),
    'llama_33b': _llama(6656, 60, 52, 17920),
    'llama_65b': _llama(8192, 80, 64, 22016),
    # Llama 2 (Touvron et al. 2023) and Llama 3 (Dubey et al. 2024, table 3), whose larger ones have groups of queries.
    'llama2_7b': _llama2(4096, 32, 32, 11008),
    'llama2_13b': _llama2(5120, 40, 40, 13824),
    'llama2_70b': _llama2(8192, 80, 64, 28672, kv_heads=8),
    'llama3_8b': _llama3(4096, 32, 32, 14336),
    'llama3_70b': _llama3(8192, 80, 64, 28672),
    # Gu & Dao 2023, section 4.2.1, with twice the layers of a Transformer; 50277 tokens, up to a multiple of 8. width, depth
    'mamba_130m': _mamba(768, 24),
    'mamba_370m': _mamba(1024, 48),
    'mamba_790m': _mamba(1536, 48),
    'mamba_1.4b': _mamba(2048, 48),
    'mamba_2.8b': _mamba(2560, 64),
    # Peng et al. 2023, table 2. width, depth
    'rwkv4_169m': _rwkv(768, 12),
    'rwkv4_430m': _rwkv(1024, 24),
    'rwkv4_1b5': _rwkv(2048, 24),
    'rwkv4_3b': _rwkv(2560, 32),
    'rwkv4_7b': _rwkv(4096, 32),
    'rwkv4_14b': _rwkv(5120, 40),
}
