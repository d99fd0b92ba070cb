"""Published sizes: every preset has, to the last one, the parameters that transformers or a formula counts for it."""

import functools

import jax
import numpy as np
import pytest

from seqjax import models
from seqjax.errors import FieldError
from seqjax.modes.command import experiment_files

TOKENS = jax.ShapeDtypeStruct((1, 2), np.int32)
# What the papers say, in millions and rounded. Of T5's large, which has 738, the paper says 770.
PUBLISHED = {
    'transformer_base': 65, 'transformer_big': 213, 'bert_base': 110, 'bert_large': 340,
    'gpt2_small': 124, 'gpt2_medium': 355, 'gpt2_large': 774, 'gpt2_xl': 1_558,  # of the second, corrected table
    'gpt3_small': 125, 'gpt3_medium': 350, 'gpt3_large': 760, 'gpt3_xl': 1_300, 'gpt3_2.7b': 2_700, 'gpt3_6.7b': 6_700,
    'gpt3_13b': 13_000, 'gpt3_175b': 175_000, 't5_small': 60, 't5_base': 220, 't5_3b': 2_800, 't5_11b': 11_000,
    'llama_7b': 6_700, 'llama_13b': 13_000, 'llama_33b': 32_500, 'llama_65b': 65_200, 'llama2_70b': 70_000, 'llama3_8b': 8_000,
    'llama3_70b': 70_000, 'mamba_130m': 130, 'mamba_370m': 370, 'mamba_790m': 790, 'mamba_1.4b': 1_400, 'mamba_2.8b': 2_800,
    'rwkv4_169m': 169.3, 'rwkv4_430m': 430.4, 'rwkv4_1b5': 1_515, 'rwkv4_3b': 2_985, 'rwkv4_7b': 7_393, 'rwkv4_14b': 14_150}


@functools.cache
def count(name):
    """Nothing is allocated; one block stands for all, so that a hundred layers are traced once."""
    return models.parameter_count(models.preset(name, scan_layers=True), TOKENS)


def of_family(*families):
    return [name for name, preset in models.PRESETS.items() if preset.model in families and not name.startswith('gpt3')]


# ------------------------------------------------------------------------------------------------ transformers

def in_transformers(name):
    """The same model of Hugging Face's library, without a byte of memory."""
    transformers, torch = pytest.importorskip('transformers'), pytest.importorskip('torch')
    model, fields, vocabulary, length = models.PRESETS[name]
    get = {**models.fields(model), **fields}.__getitem__
    if model in ('mamba', 'rwkv'):
        made, config = {'mamba': (transformers.MambaForCausalLM, transformers.MambaConfig),
                        'rwkv': (transformers.RwkvForCausalLM, transformers.RwkvConfig)}[model]
        with torch.device('meta'):
            return made(config(vocab_size=vocabulary, hidden_size=get('width'), num_hidden_layers=get('depth')))
    sizes = dict(vocab_size=vocabulary, num_hidden_layers=get('depth'), hidden_size=get('width'),
                 num_attention_heads=get('heads'), intermediate_size=get('feed_forward'), max_position_embeddings=length)
    if model == 'gpt':
        made = transformers.GPT2LMHeadModel, transformers.GPT2Config(
            vocab_size=vocabulary, n_positions=length, n_embd=get('width'), n_layer=get('depth'), n_head=get('heads'),
            n_inner=get('feed_forward'))
    elif model == 'bert':
        made = transformers.BertForPreTraining, transformers.BertConfig(**sizes)
    elif model == 't5':
        made = transformers.T5ForConditionalGeneration, transformers.T5Config(
            vocab_size=vocabulary, d_model=get('width'), d_kv=get('head_width'), d_ff=get('feed_forward'),
            num_layers=get('depth'), num_heads=get('heads'), feed_forward_proj='gated-gelu' if get('gated') else 'relu',
            tie_word_embeddings=get('tie_embeddings'))
    else:
        made = transformers.LlamaForCausalLM, transformers.LlamaConfig(
            **sizes, num_key_value_heads=get('kv_heads') or get('heads'))
    with torch.device('meta'):
        return made[0](made[1])


@pytest.mark.parametrize('name', of_family('gpt', 'bert', 't5', 'llama', 'mamba', 'rwkv'))
def test_counts_are_those_of_transformers(name):
    model = in_transformers(name)
    theirs = sum(parameter.numel() for parameter in model.parameters())  # tied ones once
    if name.startswith('t5_1.1') and model.lm_head.weight is model.shared.weight:
        theirs += model.lm_head.weight.numel()  # transformers 5 ties them until it reads a file that has both, as the published ones
    assert count(name) == theirs


# ------------------------------------------------------------------------------------------------ formulas

def of_gpt3(D, L, H, K, V=50257, T=2048):
    """Four projections with biases, two of the feed-forward network, two norms a layer, one at the end, and the two tables."""
    layer = 4 * D * H * K + 3 * H * K + D + 8 * D * D + 5 * D + 4 * D
    return V * D + T * D + L * layer + 2 * D


# Brown et al. 2020, table 2.1: L, D, H, K. Its 24 heads of 'xl' do not give its 1.3B; and 40 of 128 are 5120, not 5140.
@pytest.mark.parametrize('name, sizes', [
    ('small', (12, 768, 12, 64)), ('medium', (24, 1024, 16, 64)), ('large', (24, 1536, 16, 96)), ('xl', (24, 2048, 16, 128)),
    ('2.7b', (32, 2560, 32, 80)), ('6.7b', (32, 4096, 32, 128)), ('13b', (40, 5140, 40, 128)), ('175b', (96, 12288, 96, 128))])
def test_gpt3_has_what_its_table_gives(name, sizes):
    L, D, H, K = sizes
    assert count(f'gpt3_{name}') == of_gpt3(D, L, H, K)


@pytest.mark.parametrize('name, D, F', [('base', 512, 2048), ('big', 1024, 4096)])
def test_the_transformer_of_2017_has_what_its_table_gives(name, D, F):
    attention, network, norm = 4 * D * D + 4 * D, 2 * D * F + F + D, 2 * D
    encoder, decoder = attention + network + 2 * norm, 2 * attention + network + 3 * norm
    assert count(f'transformer_{name}') == 37000 * D + 6 * (encoder + decoder)  # one table for both languages and the output


# ------------------------------------------------------------------------------------------------ what papers say

@pytest.mark.parametrize('name', PUBLISHED)
def test_the_size_is_the_published_one(name):
    assert count(name) == pytest.approx(PUBLISHED[name] * 1e6, rel=0.03)


def test_blocks_one_by_one_have_as_many_parameters_as_scanned_ones():
    assert models.parameter_count(models.preset('gpt2_small'), TOKENS) == count('gpt2_small')


def test_a_preset_can_be_changed_and_a_wrong_name_is_met_with_a_suggestion():
    model = models.preset('llama_7b', depth=2, vocabulary=100)
    assert (model.depth, model.vocabulary, model.feed_forward, model.context_length) == (2, 100, 11008, 2048)
    with pytest.raises(FieldError, match="preset='gpt2_smal': no such preset; did you mean 'gpt2_small'"):
        models.preset('gpt2_smal')
    with pytest.raises(FieldError, match="'gpt' has no such field; did you mean 'depth'"):
        models.preset('gpt2_small', dept=2)


def test_every_preset_is_an_experiment():
    assert experiment_files.variants(experiment_files.FOLDER / 'scaling' / 'presets.py') == tuple(models.PRESETS)
