"""Files of Hugging Face that cannot be read, models that cannot be written: one error that says all of it."""

import json
import struct

import numpy as np
import pytest
import safetensors.numpy

from seqjax import interop, models
from seqjax.errors import FieldError, UserError
from seqjax.interop.hf_config import MODELS
from tests.reference.parameters import random_parameters

KINDS = ', '.join(sorted(MODELS))  # of config.json
TOKENS = np.zeros((1, 2), np.int32)
MODEL = models.GPT(11, context_length=6, width=4, depth=1, heads=2, bias=True)
OTHERS = {'llama': models.Llama(11, context_length=6, width=4, depth=1, heads=2),
          'bert': models.BERT(11, context_length=6, width=4, depth=1, heads=2),
          'mixtral': models.Llama(11, context_length=6, width=4, depth=1, heads=2, experts=2, experts_per_token=1),
          't5': models.T5(11, width=4, depth=1, heads=2, shared=True),
          'mamba': models.Mamba(11, width=4, depth=1), 'rwkv': models.RWKV(11, width=4, depth=2)}


def write(directory, model=MODEL):
    inputs = (TOKENS, None, TOKENS) if isinstance(model, models.T5) else (TOKENS,)
    interop.to_hf(model, directory, {'params': random_parameters(model, *inputs)})
    return directory


def change_config(directory, **changes):
    config = json.loads((directory / 'config.json').read_text())
    (directory / 'config.json').write_text(json.dumps(config | changes))


def change_tensors(directory, change):
    tensors = safetensors.numpy.load_file(directory / 'model.safetensors')
    change(tensors)
    safetensors.numpy.save_file(tensors, directory / 'model.safetensors')


def lines(directory):
    """What is said of a directory, without its name."""
    with pytest.raises(UserError) as caught:
        interop.from_hf(directory)
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(str(directory)), first
    return [line.strip() for line in rest]


# ------------------------------------------------------------------------------------------------------------------- Files

def test_a_directory_that_is_none(tmp_path):
    with pytest.raises(UserError, match='there is no such directory'):
        interop.from_hf(tmp_path / 'nowhere')


def test_an_empty_directory(tmp_path):
    assert lines(tmp_path) == ['config.json: No such file or directory', 'no *.safetensors']


def test_a_pickle_is_not_read(tmp_path):
    (write(tmp_path) / 'model.safetensors').rename(tmp_path / 'pytorch_model.bin')
    assert lines(tmp_path) == ['no *.safetensors; pytorch_model.bin is a pickle, which is not read because it may run code: load it with '
                               'transformers and save it again']


@pytest.mark.parametrize('text, problem', [('{"model_type": ', 'is not JSON: Expecting value'), ('[1, 2]', 'holds no JSON object')])
def test_a_config_that_is_no_object(tmp_path, text, problem):
    (write(tmp_path) / 'config.json').write_text(text)
    (line,) = lines(tmp_path)
    assert line.startswith(f'config.json: {problem}')


@pytest.mark.parametrize('damage', ['truncated', 'header', 'text'])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = write(tmp_path) / 'model.safetensors'
    data = path.read_bytes()
    path.write_bytes(dict(truncated=data[:-5], header=struct.pack('<Q', 2 ** 40) + data[8:], text=b'not weights at all')[damage])
    (line,) = lines(tmp_path)
    assert line.startswith('model.safetensors: is damaged, or is no safetensors file: ')


def test_all_that_is_wrong_with_an_index_and_its_files(tmp_path):
    write(tmp_path)
    tensors = safetensors.numpy.load_file(tmp_path / 'model.safetensors')
    (tmp_path / 'model.safetensors').unlink()
    names = sorted(tensors)
    place = dict(zip(names, ['a.safetensors'] * 4 + ['b.safetensors'] * 4 + ['c.safetensors'] * len(names)))
    for file in ('a', 'b'):
        part = {name: tensors[name] for name in names if place[name] == f'{file}.safetensors'}
        safetensors.numpy.save_file(part | dict(more=np.zeros(2)) if file == 'b' else part, tmp_path / f'{file}.safetensors')
    (tmp_path / 'a.safetensors').write_bytes((tmp_path / 'a.safetensors').read_bytes()[:-1])
    place[names[-1]] = 'b.safetensors'
    (tmp_path / 'model.safetensors.index.json').write_text(json.dumps(dict(weight_map=place)))
    first, *rest = lines(tmp_path)
    assert first.startswith('a.safetensors: is damaged')
    assert rest == [f'b.safetensors: {names[-1]} is missing, which model.safetensors.index.json says is there',
                    'b.safetensors: more is not in model.safetensors.index.json', 'c.safetensors: no such file']


# ----------------------------------------------------------------------------------------------------------------- Tensors

def test_tensors_that_are_missing_unknown_or_misshapen_are_all_listed_and_options_too(tmp_path):
    def change(tensors):
        del tensors['transformer.h.0.ln_1.bias'], tensors['transformer.wpe.weight']
        tensors['transformer.h.1.ln_1.bias'] = np.zeros(4, np.float32)
        tensors['score.weight'] = np.zeros((2, 4), np.float32)
        tensors['transformer.h.0.mlp.c_fc.weight'] = tensors['transformer.h.0.mlp.c_fc.weight'].T.copy()
        tensors['transformer.ln_f.weight'] = np.zeros(4, np.int8)

    change_tensors(write(tmp_path), change)
    change_config(tmp_path, activation_function='mish', add_cross_attention=True)
    assert sorted(lines(tmp_path)) == sorted([
        "config.json: activation_function='mish': is no activation here; choose one of: gelu, gelu_accurate, gelu_fast, gelu_new, "
        'gelu_python, gelu_python_tanh, gelu_pytorch_tanh, quick_gelu, relu, silu, swish',
        'config.json: add_cross_attention=True: there is no attention to another network here',
        'missing: transformer.wpe.weight [6, 4]', 'missing: transformer.h.0.ln_1.bias [4]',
        'transformer.h.0.mlp.c_fc.weight [16, 4]: expected [4, 16]',
        'transformer.ln_f.weight: its numbers are int8, and are read as float32, float16 or bfloat16',
        'not expected: score.weight [2, 4]', 'not expected: transformer.h.1.ln_1.bias [4]'])


def test_a_tensor_that_is_there_twice_or_differs_from_what_it_repeats(tmp_path):
    change_tensors(write(tmp_path / 'gpt2'), lambda tensors: tensors.update({'wte.weight': tensors['transformer.wte.weight']}))
    assert lines(tmp_path / 'gpt2') == ['wte.weight: is there twice, as transformer.wte.weight too']
    write(tmp_path / 't5', OTHERS['t5'])
    change_tensors(tmp_path / 't5', lambda tensors: tensors.update({'encoder.embed_tokens.weight': 2 * tensors['shared.weight']}))
    assert lines(tmp_path / 't5') == ['encoder.embed_tokens.weight: differs from shared.weight, which it should repeat']


def test_tensors_of_networks_that_carry_a_state_are_listed_too(tmp_path):
    def change(tensors):
        tensors['backbone.layers.0.mixer.conv1d.weight'] = tensors['backbone.layers.0.mixer.conv1d.weight'][:, 0]
        tensors['backbone.layers.0.mixer.A_log'] = tensors['backbone.layers.0.mixer.A_log'].T.copy()
        del tensors['backbone.layers.0.mixer.dt_proj.bias']

    change_tensors(write(tmp_path / 'mamba', OTHERS['mamba']), change)
    assert sorted(lines(tmp_path / 'mamba')) == [
        'backbone.layers.0.mixer.A_log [16, 8]: expected [8, 16]',
        'backbone.layers.0.mixer.conv1d.weight [8, 4]: expected [8, 1, 4]',
        'missing: backbone.layers.0.mixer.dt_proj.bias [8]']
    change_tensors(write(tmp_path / 'rwkv', OTHERS['rwkv']), lambda tensors: tensors.pop('rwkv.blocks.1.attention.time_mix_key'))
    assert lines(tmp_path / 'rwkv') == ['missing: rwkv.blocks.1.attention.time_mix_key [1, 1, 4]']


def test_a_head_must_be_there_where_the_config_says_so(tmp_path):
    change_tensors(write(tmp_path, OTHERS['llama']), lambda tensors: tensors.pop('lm_head.weight'))
    assert lines(tmp_path) == ['missing: lm_head.weight [11, 4]']


# ----------------------------------------------------------------------------------------------------------------- Options

@pytest.mark.parametrize('kind, changes, problem', [
    ('gpt2', dict(model_type='gtp2'), "model_type='gtp2': did you mean 'gpt2'?"),
    ('gpt2', dict(model_type=None), "model_type=None: choose one of: " + KINDS),
    ('gpt2', dict(architectures=['GPT2ForSequenceClassification']), "architectures=['GPT2ForSequenceClassification']: choose one of: "
     'GPT2LMHeadModel, GPT2Model'),
    ('mixtral', dict(router_jitter_noise=0.1), 'router_jitter_noise=0.1: what chooses the experts is not disturbed here'),
    ('mixtral', dict(output_router_logits=True), 'output_router_logits=True: what the experts were chosen by is no output here'),
    ('mixtral', dict(sliding_window=0), 'sliding_window=0: must be a number of at least 1'),
    ('mixtral', dict(num_experts_per_tok=3), 'as experts_per_token of Llama here: experts_per_token=3: must be at least 1 and at most experts=2'),
    ('gpt2', dict(scale_attn_weights=False), 'scale_attn_weights=False: scores are always divided by sqrt(K) here'),
    ('gpt2', dict(scale_attn_by_inverse_layer_idx='all'), "scale_attn_by_inverse_layer_idx='all': must be true or false"),
    ('gpt2', dict(n_layer='2'), "n_layer='2': must be a number of at least 1"),
    ('gpt2', dict(resid_pdrop=None, layer_norm_epsilon='small'), "layer_norm_epsilon='small': must be a number"),
    ('gpt2', dict(quantization_config=dict(bits=4)), "quantization_config='...': weights of so few bits are not read; save the model "
     'without'),
    ('llama', dict(rope_parameters=dict(rope_type='yarn', rope_theta=1e4, factor=2.0)), "rope_type='yarn': no such scaling of rotary "
     'positions here; choose one of: default, linear, llama3'),
    ('llama', dict(rope_parameters=None, rope_scaling=dict(type='dynamic', factor=2.0)), "rope_type='dynamic': no such scaling of rotary "
     'positions here; choose one of: default, linear, llama3'),
    ('llama', dict(rope_parameters=dict(rope_theta=5e5), rope_scaling=dict(type='linear', factor=2.0)), "rope_scaling={'type': 'linear', "
     "'factor': 2.0}: transformers takes it, and not rope_parameters={'rope_theta': 500000.0}, which differs; take one of them out"),
    ('llama', dict(partial_rotary_factor=0.5), 'partial_rotary_factor=0.5: all of a head is turned here'),
    ('llama', dict(rope_parameters=7), 'rope_parameters=7: must be an object'),
    ('llama', dict(mlp_bias=True), 'mlp_bias=True: goes together with attention_bias here'),
    ('llama', dict(attention_bias='no'), "attention_bias='no': must be true or false"),
    ('bert', dict(position_embedding_type='relative_key'), "position_embedding_type='relative_key': positions are a table here"),
    ('bert', dict(is_decoder=True), 'is_decoder=True: steps look both ways here'),
    ('t5', dict(feed_forward_proj='tanh', dense_act_fn=None), "feed_forward_proj='tanh': is no activation here; choose one of: gelu, "
     'gelu_accurate, gelu_fast, gelu_new, gelu_python, gelu_python_tanh, gelu_pytorch_tanh, quick_gelu, relu, silu, swish'),
    ('mamba', dict(hidden_act='gelu'), "hidden_act='gelu': what is convolved goes through 'silu' here"),
    ('mamba', dict(conv_kernel=0), 'conv_kernel=0: must be a number of at least 1'),
    ('rwkv', dict(attention_hidden_size=8), 'attention_hidden_size=8: is hidden_size=4 here'),
    ('rwkv', dict(layer_norm_epsilon=1e-3), 'layer_norm_epsilon=0.001: all norms have 1e-5 here, as the last one has there'),
    ('t5', dict(feed_forward_proj='half-relu'), "feed_forward_proj='half-relu': must be an activation, or 'gated-' and an activation"),
])
def test_an_option_that_is_not_there_is_named(tmp_path, kind, changes, problem):
    change_config(write(tmp_path, OTHERS.get(kind, MODEL)), **changes)
    assert lines(tmp_path) == [f'config.json: {problem}']


def test_positions_may_be_said_twice(tmp_path):
    write(tmp_path, OTHERS['llama'])
    change_config(tmp_path, rope_theta=300.0, rope_scaling=dict(type='linear', factor=2),
                  rope_parameters=dict(rope_type='linear', factor=2.0, rope_theta=300))
    model = interop.from_hf(tmp_path).model
    assert (model.rotary_base, model.rotary_factor) == (300, 2)


def test_a_config_that_says_nothing(tmp_path):
    (write(tmp_path) / 'config.json').write_text('{}')
    assert lines(tmp_path) == ['config.json: model_type=None: choose one of: ' + KINDS]


def test_sizes_that_make_no_model(tmp_path):
    change_config(write(tmp_path), n_head=3)
    assert lines(tmp_path) == ['config.json: as heads of GPT here: heads=3: must divide width=4; 1, 2, 4 would']


def test_a_type_that_nothing_computes_in(tmp_path):
    with pytest.raises(FieldError, match="^dtype='float16': "):
        interop.from_hf(tmp_path, dtype='float16')


# ----------------------------------------------------------------------------------------------------------------- Inputs

@pytest.mark.parametrize('kind, inputs, problem', [
    ('gpt2', dict(input_id=TOKENS), "input_id='...': GPT2LMHeadModel has no such input; did you mean 'input_ids'?"),
    ('gpt2', dict(attention_mask=TOKENS), 'input_ids=None: GPT2LMHeadModel needs token numbers'),
    ('gpt2', dict(input_ids=TOKENS + 11), 'input_ids=11: must be at least 0 and less than vocabulary=11'),
    ('gpt2', dict(input_ids=TOKENS - 1), 'input_ids=-1: must be at least 0'),
    ('gpt2', dict(input_ids=TOKENS[0]), r"input_ids='int32 \[2\]': must be whole numbers, \[rows, steps\]"),
    ('gpt2', dict(input_ids=TOKENS * 1.0), r"input_ids='float64 \[1, 2\]': must be whole numbers"),
    ('gpt2', dict(input_ids=TOKENS, attention_mask=TOKENS + 2), r'attention_mask=\[1, 2\]: must be of 0 and 1, \[1, 2\]'),
    ('gpt2', dict(input_ids=TOKENS, attention_mask=TOKENS[:, :1]), r'attention_mask=\[1, 1\]: must be of 0 and 1, \[1, 2\]'),
    ('gpt2', dict(input_ids=TOKENS, position_ids=TOKENS + 6), 'position_ids=6: must be at least 0 and less than context_length=6'),
    ('bert', dict(input_ids=TOKENS, token_type_ids=TOKENS + 2), 'token_type_ids=2: must be at least 0 and less than typed=2'),
    ('mamba', dict(input_ids=TOKENS, attention_mask=[[0, 1]]),
     "attention_mask='...': MambaForCausalLM carries a state from step to step, and can leave out only the ends of rows"),
    ('rwkv', dict(input_ids=TOKENS, position_ids=TOKENS), "position_ids='...': RwkvForCausalLM has no such input"),
    ('t5', dict(input_ids=TOKENS), 'decoder_input_ids=None: T5ForConditionalGeneration needs token numbers'),
])
def test_inputs_that_make_no_sense_are_refused_by_their_names(tmp_path, kind, inputs, problem):
    loaded = interop.from_hf(write(tmp_path, OTHERS.get(kind, MODEL)))
    with pytest.raises(FieldError, match=problem):
        loaded.apply(**inputs)


# ------------------------------------------------------------------------------------------------------------- On the way out

def test_what_transformers_has_no_option_for_is_listed(tmp_path):
    model = models.GPT(11, context_length=6, width=4, depth=1, heads=2, sliding_window=3, norm='rms', kv_heads=1)
    with pytest.raises(UserError) as caught:
        interop.to_hf(model, tmp_path, {'params': random_parameters(model, TOKENS)})
    assert str(caught.value).splitlines() == [
        'GPT cannot be written as gpt2:', "  norm='rms': gpt2 has only 'layer'", '  sliding_window=3: gpt2 has only 0', '  kv_heads=1: gpt2 has only 2']
    assert not list(tmp_path.iterdir())


def test_experts_with_biases_are_not_those_of_mixtral(tmp_path):
    model = models.Llama(11, context_length=6, width=4, depth=1, heads=2, experts=2, bias=True)
    with pytest.raises(UserError, match='Llama cannot be written as mixtral:\n  bias=True: mixtral has only False'):
        interop.to_hf(model, tmp_path, {'params': random_parameters(model, TOKENS)})


def test_a_bert_that_is_not_told_which_text_a_step_is_of(tmp_path):
    with pytest.raises(UserError, match='type_vocab_size=0: must be a number of at least 1'):
        interop.to_hf(models.BERT(11, context_length=6, width=4, heads=2, typed=0), tmp_path, {'params': {}})


def test_a_model_without_a_counterpart(tmp_path):
    with pytest.raises(UserError, match='Transformer has no counterpart; these have: GPT, Llama, BERT, T5, Mamba, RWKV'):
        interop.to_hf(models.Transformer(11, width=4, heads=2), tmp_path, {'params': {}})


def test_parameters_of_another_model_are_listed(tmp_path):
    params = random_parameters(MODEL, TOKENS)
    params['extra'] = params['decoder'].pop('norm')['scale']
    params['embedding']['table'] = params['embedding']['table'][:-1]
    with pytest.raises(UserError) as caught:
        interop.to_hf(MODEL, tmp_path, {'params': params})
    assert str(caught.value).splitlines() == [
        'GPT cannot be written as gpt2:', '  missing: decoder/norm/scale [4]', '  missing: decoder/norm/bias [4]',
        '  not expected: extra [4]', '  embedding/table [10, 4]: expected [11, 4]']
    with pytest.raises(FieldError, match="variables='NoneType': must be a dict with 'params'"):
        interop.to_hf(MODEL, tmp_path)
