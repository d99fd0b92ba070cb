"""What Hugging Face calls the parameters of its models, and how it lays them out: one `Link` for every tensor of a file.

    theirs                                    ours
    Linear [out, in]                          kernel [in, out], where `in` and `out` may be several axes, as [D, H, K]
    Conv1D of GPT-2 [in, out]                 kernel [in, out]
    c_attn of GPT-2 [D, 3 D]                  query, key and value, one after another
    key, value [G K, D]                       key, value [D, G, K]
    gate_proj, wi_0                           feed_forward/in, what the activation is of
    up_proj, wi_1                             feed_forward/gate
    experts.7.w1 of Mixtral                   feed_forward/in_kernel[7]; w3: gate_kernel, w2: out_kernel
    in_proj of Mamba [2 E, D]                 mixer/in and mixer/gate, one after another
    conv1d of Mamba [E, 1, K]                 mixer/conv_kernel [K, E]
    time_mix_key of RWKV [1, 1, D]            key_mix [D]
"""

import dataclasses

from seqjax.interop.hf_links import Link, attention, linear, norm, table
from seqjax.interop.hf_vision import names as vision


@dataclasses.dataclass(frozen=True)
class Family:
    """What all models of one `model_type` have in common.

    prefix: of names of the body, in a model with a head. tied: (output weights, embedding), one array where they are tied.
    repeats: {name: the one that it repeats}; files may have both or either. unused: patterns of tensors that nothing reads.
    """

    prefix: str
    tied: tuple[str, str]
    repeats: dict
    unused: tuple[str, ...]


MASK_TOKEN = r'embeddings\.mask_token'  # for pre-training
BATCHES = r'.*\.normalization\.num_batches_tracked'  # by a batch norm
FAMILIES = {
    'gpt2': Family('transformer.', ('lm_head.weight', 'wte.weight'), {}, (r'h\.\d+\.attn\.(masked_)?bias',)),
    'llama': Family('model.', ('lm_head.weight', 'embed_tokens.weight'), {},
                    (r'(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq',)),
    'bert': Family('bert.', ('cls.predictions.decoder.weight', 'embeddings.word_embeddings.weight'),
                   {'cls.predictions.decoder.bias': 'cls.predictions.bias'}, (r'embeddings\.position_ids',)),
    't5': Family('', ('lm_head.weight', 'shared.weight'),
                 {'encoder.embed_tokens.weight': 'shared.weight', 'decoder.embed_tokens.weight': 'shared.weight'},
                 (r'decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight',)),
    'mixtral': Family('model.', ('lm_head.weight', 'embed_tokens.weight'), {}, ()),
    'mamba': Family('backbone.', ('lm_head.weight', 'embeddings.weight'), {}, ()),
    'rwkv': Family('rwkv.', ('head.weight', 'embeddings.weight'), {}, ()),
    'vit': Family('vit.', ('', ''), {}, (MASK_TOKEN,)),
    'dinov2': Family('dinov2.', ('', ''), {}, (MASK_TOKEN,)),
    'dinov2_with_registers': Family('dinov2_with_registers.', ('', ''), {}, (MASK_TOKEN,)),
    'resnet': Family('resnet.', ('', ''), {}, (BATCHES,)),
    'clip': Family('', ('', ''), {}, (r'(text|vision)_model\.embeddings\.position_ids',)),
}
HEADS = ('lm_head.', 'head.', 'cls.', 'classifier.', 'qa_outputs.')  # names that never have the prefix

# The parts of a network that every class of transformers must find in its files; others of the family may be there.
ARCHITECTURES = {
    'GPT2Model': ('gpt2', ('body',)),
    'GPT2LMHeadModel': ('gpt2', ('body', 'head')),
    'LlamaModel': ('llama', ('body',)),
    'LlamaForCausalLM': ('llama', ('body', 'head')),
    'BertModel': ('bert', ('body',)),
    'BertForMaskedLM': ('bert', ('body', 'masked')),
    'BertForPreTraining': ('bert', ('body', 'pooler', 'masked', 'next')),
    'BertForNextSentencePrediction': ('bert', ('body', 'pooler', 'next')),
    'BertForSequenceClassification': ('bert', ('body', 'pooler', 'classifier')),
    'BertForTokenClassification': ('bert', ('body', 'classifier')),
    'BertForQuestionAnswering': ('bert', ('body', 'classifier')),
    'T5EncoderModel': ('t5', ('body',)),
    'T5Model': ('t5', ('body', 'decoder')),
    'T5ForConditionalGeneration': ('t5', ('body', 'decoder', 'head')),
    'MixtralModel': ('mixtral', ('body',)),
    'MixtralForCausalLM': ('mixtral', ('body', 'head')),
    'MambaModel': ('mamba', ('body',)),
    'MambaForCausalLM': ('mamba', ('body', 'head')),
    'RwkvModel': ('rwkv', ('body',)),
    'RwkvForCausalLM': ('rwkv', ('body', 'head')),
    'ViTModel': ('vit', ('body',)),
    'ViTForImageClassification': ('vit', ('body', 'classifier')),
    'Dinov2Model': ('dinov2', ('body',)),
    'Dinov2ForImageClassification': ('dinov2', ('body', 'classifier')),
    'Dinov2WithRegistersModel': ('dinov2_with_registers', ('body',)),
    'Dinov2WithRegistersForImageClassification': ('dinov2_with_registers', ('body', 'classifier')),
    'ResNetModel': ('resnet', ('body',)),
    'ResNetForImageClassification': ('resnet', ('body', 'classifier')),
    'CLIPModel': ('clip', ('body',)),
}


def is_headless(architecture):
    return architecture.endswith('Model') and not architecture.endswith('HeadModel')


def links(kind, model, architecture):
    """The links of all that a model of this kind may have, in the order of its layers."""
    if kind == 'bert':
        return list(_bert(model, 'qa_outputs' if architecture == 'BertForQuestionAnswering' else 'classifier'))
    return list(dict(gpt2=_gpt2, llama=_llama, mixtral=_llama, t5=_t5, mamba=_mamba, rwkv=_rwkv, vit=vision.vit,
                     dinov2=vision.dinov2, dinov2_with_registers=vision.dinov2, clip=vision.clip, resnet=vision.resnet)[kind](model))


# ---------------------------------------------------------------------------------------------------------- The families

def _gpt2(model):
    conv = dict(bias=True, transposed=False)
    yield from table('wte', 'embedding')
    yield from table('wpe', 'positions')
    for layer in range(model.depth):
        name, path = f'h.{layer}', f'decoder/block_{layer}'
        yield from norm(f'{name}.ln_1', f'{path}/attention_norm', bias=True)
        yield from linear(f'{name}.attn.c_attn', *(f'{path}/attention/{part}' for part in ('query', 'key', 'value')), **conv)
        yield from linear(f'{name}.attn.c_proj', f'{path}/attention/out', contract=2, **conv)
        yield from norm(f'{name}.ln_2', f'{path}/feed_forward_norm', bias=True)
        yield from linear(f'{name}.mlp.c_fc', f'{path}/feed_forward/in', **conv)
        yield from linear(f'{name}.mlp.c_proj', f'{path}/feed_forward/out', **conv)
    yield from norm('ln_f', 'decoder/norm', bias=True)
    if not model.tie_embeddings:
        yield from linear('lm_head', 'output', bias=False, part='head')


def _llama(model):
    yield from table('embed_tokens', 'embedding')
    for layer in range(model.depth):
        name, path = f'layers.{layer}', f'decoder/block_{layer}'
        yield from norm(f'{name}.input_layernorm', f'{path}/attention_norm', bias=False)
        yield from attention([f'{name}.self_attn.{letter}_proj' for letter in 'qkvo'], f'{path}/attention',
                              bias=model.bias or model.attention_bias)
        yield from norm(f'{name}.post_attention_layernorm', f'{path}/feed_forward_norm', bias=False)
        if model.experts:
            yield from _experts(f'{name}.block_sparse_moe', f'{path}/feed_forward', model.experts)
            continue
        for theirs, ours in (('gate', 'in'), ('up', 'gate'), ('down', 'out')):
            yield from linear(f'{name}.mlp.{theirs}_proj', f'{path}/feed_forward/{ours}', bias=model.bias)
    yield from norm('norm', 'decoder/norm', bias=False)
    if not model.tie_embeddings:
        yield from linear('lm_head', 'output', bias=False, part='head')


def _experts(name, path, experts):
    yield from linear(f'{name}.gate', f'{path}/router', bias=False)
    for expert in range(experts):
        for theirs, ours in (('w1', 'in'), ('w3', 'gate'), ('w2', 'out')):
            yield Link(f'{name}.experts.{expert}.{theirs}.weight', (f'{path}/{ours}_kernel/{expert}',), 1, transposed=True)


def _bert(model, classifier):
    for theirs, ours in (('word', 'embedding'), ('position', 'positions'), ('token_type', 'types')):
        yield from table(f'embeddings.{theirs}_embeddings', ours)
    yield from norm('embeddings.LayerNorm', 'embedding_norm', bias=True)
    for layer in range(model.depth):
        name, path = f'encoder.layer.{layer}', f'encoder/block_{layer}'
        yield from attention([*(f'{name}.attention.self.{part}' for part in ('query', 'key', 'value')),
                               f'{name}.attention.output.dense'], f'{path}/attention', bias=True)
        yield from norm(f'{name}.attention.output.LayerNorm', f'{path}/attention_norm', bias=True)
        yield from linear(f'{name}.intermediate.dense', f'{path}/feed_forward/in', bias=True)
        yield from linear(f'{name}.output.dense', f'{path}/feed_forward/out', bias=True)
        yield from norm(f'{name}.output.LayerNorm', f'{path}/feed_forward_norm', bias=True)
    if not model.per_step:
        yield from linear('pooler.dense', 'pooler', bias=True, part='pooler')
    if model.outputs:
        yield from linear(classifier, 'classifier', bias=True, part='classifier')
        return
    yield from linear('cls.predictions.transform.dense', 'masked_dense', bias=True, part='masked')
    yield from norm('cls.predictions.transform.LayerNorm', 'masked_norm', bias=True, part='masked')
    yield Link('cls.predictions.bias', ('masked_bias',), part='masked')
    if not model.tie_embeddings:
        yield from linear('cls.predictions.decoder', 'masked_output', bias=False, part='masked')
    yield from linear('cls.seq_relationship', 'next', bias=True, part='next')


def _t5(model):
    yield from table('shared', 'target_embedding')
    for stack, depth, place, part in (('encoder', model.depth, 'source_positions', 'body'),
                                      ('decoder', model.decoder_depth or model.depth, 'target_positions', 'decoder')):
        yield from table(f'{stack}.block.0.layer.0.SelfAttention.relative_attention_bias', place, part)
        for layer in range(depth):
            name, path = f'{stack}.block.{layer}.layer', f'{stack}/block_{layer}'
            layers = [('SelfAttention', 'attention'), ('EncDecAttention', 'cross')][:1 if stack == 'encoder' else 2]
            for n, (theirs, ours) in enumerate(layers):
                yield from norm(f'{name}.{n}.layer_norm', f'{path}/{ours}_norm', bias=False, part=part)
                yield from attention([f'{name}.{n}.{theirs}.{letter}' for letter in 'qkvo'], f'{path}/{ours}', False, part)
            yield from norm(f'{name}.{len(layers)}.layer_norm', f'{path}/feed_forward_norm', bias=False, part=part)
            network = [('wi_0', 'in'), ('wi_1', 'gate'), ('wo', 'out')] if model.gated else [('wi', 'in'), ('wo', 'out')]
            for theirs, ours in network:
                yield from linear(f'{name}.{len(layers)}.DenseReluDense.{theirs}', f'{path}/feed_forward/{ours}', bias=False,
                                   part=part)
        yield from norm(f'{stack}.final_layer_norm', f'{stack}/norm', bias=False, part=part)
    if not model.tie_embeddings:
        yield from linear('lm_head', 'output', bias=False, part='head')


def _mamba(model):
    yield from table('embeddings', 'embedding')
    for layer in range(model.depth):
        name, path = f'layers.{layer}.mixer', f'decoder/block_{layer}/mixer'
        yield from norm(f'layers.{layer}.norm', f'{path}_norm', bias=False)
        yield Link(f'{name}.A_log', (f'{path}/A_log',), 1, transposed=True)
        yield Link(f'{name}.D', (f'{path}/D',))
        yield from linear(f'{name}.in_proj', f'{path}/in', f'{path}/gate', bias=model.bias)
        yield Link(f'{name}.conv1d.weight', (f'{path}/conv_kernel',), 1, transposed=True, ones=(1,))
        if model.conv_bias:
            yield Link(f'{name}.conv1d.bias', (f'{path}/conv_bias',))
        yield from linear(f'{name}.x_proj', f'{path}/selection', bias=False)
        yield from linear(f'{name}.dt_proj', f'{path}/step', bias=False)
        yield Link(f'{name}.dt_proj.bias', (f'{path}/step_bias',))
        yield from linear(f'{name}.out_proj', f'{path}/out', bias=model.bias)
    yield from norm('norm_f', 'decoder/norm', bias=False)
    if not model.tie_embeddings:
        yield from linear('lm_head', 'output', bias=False, part='head')


def _rwkv(model):
    yield from table('embeddings', 'embedding')
    yield from norm('blocks.0.pre_ln', 'embedding_norm', bias=True)
    for layer in range(model.depth):
        name, path = f'blocks.{layer}', f'decoder/block_{layer}'
        for place, theirs, ours, parts in (
                ('ln1', 'attention', 'time_mixing', dict(key='key', value='value', receptance='receptance', output='out')),
                ('ln2', 'feed_forward', 'channel_mixing', dict(key='key', receptance='receptance', value='value'))):
            yield from norm(f'{name}.{place}', f'{path}/{ours}_norm', bias=True)
            mixed = ('key', 'value', 'receptance') if theirs == 'attention' else ('key', 'receptance')
            for part in mixed:
                yield Link(f'{name}.{theirs}.time_mix_{part}', (f'{path}/{ours}/{part}_mix',), ones=(0, 1))
            for part, our_part in parts.items():
                yield from linear(f'{name}.{theirs}.{part}', f'{path}/{ours}/{our_part}', bias=False)
        yield Link(f'{name}.attention.time_decay', (f'{path}/time_mixing/decay',))
        yield Link(f'{name}.attention.time_first', (f'{path}/time_mixing/bonus',))
    yield from norm('ln_out', 'decoder/norm', bias=True)
    if not model.tie_embeddings:
        yield from linear('head', 'output', bias=False, part='head')
