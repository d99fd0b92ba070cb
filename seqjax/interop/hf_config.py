"""config.json of Hugging Face's gpt2, llama, mixtral, bert, t5, mamba and rwkv, and the fields of our models: one from the other.

A table for each family has the keys that stand for a field, whichever way it is read; what is not one to one stands in the two
functions of the family. Keys that a file does not have get the defaults of transformers. What our models cannot do is added to
a list of problems.
"""

from seqjax import models
from seqjax.interop.hf_names import ARCHITECTURES
from seqjax.interop.hf_options import HARMLESS, THEIR_ACTIVATION, Options, facts, keys
from seqjax.interop.hf_vision import config as vision
from seqjax.special_tokens import END, PADDING, START

MODELS = {'gpt2': models.GPT, 'llama': models.Llama, 'bert': models.BERT, 't5': models.T5, 'mamba': models.Mamba,
          'rwkv': models.RWKV, 'mixtral': models.Llama, **vision.MODELS}

# --------------------------------------------------------------------------------------------------------- What is one to one
#
# {their key: (our field, their default, or a function of the fields before it)}. The type of the default says what a key holds.

GPT2 = dict(
    vocab_size=('vocabulary', 50257), n_positions=('context_length', 1024), n_embd=('width', 768), n_layer=('depth', 12),
    n_head=('heads', 12), n_inner=('feed_forward', lambda found: 4 * found['width']), activation_function=('activation', 'gelu_new'),
    layer_norm_epsilon=('epsilon', 1e-5), resid_pdrop=('dropout', 0.1), embd_pdrop=('embedding_dropout', 0.1),
    attn_pdrop=('attention_dropout', 0.1), initializer_range=('init_scale', 0.02),
    scale_attn_by_inverse_layer_idx=('scale_attn_by_inverse_layer_idx', False))
LLAMA = dict(
    vocab_size=('vocabulary', 32000), max_position_embeddings=('context_length', 2048), hidden_size=('width', 4096),
    num_hidden_layers=('depth', 32), num_attention_heads=('heads', 32),
    num_key_value_heads=('kv_heads', lambda found: found['heads']),
    head_dim=('head_width', lambda found: max(found['width'] // found['heads'], 1)), intermediate_size=('feed_forward', 11008),
    hidden_act=('activation', 'silu'), rms_norm_eps=('epsilon', 1e-6), attention_dropout=('attention_dropout', 0.0),
    initializer_range=('init_scale', 0.02))
MIXTRAL = LLAMA | dict(
    max_position_embeddings=('context_length', 131072), num_key_value_heads=('kv_heads', 8), intermediate_size=('feed_forward', 14336),
    num_local_experts=('experts', 8), num_experts_per_tok=('experts_per_token', 2), rms_norm_eps=('epsilon', 1e-5))
BERT = dict(
    vocab_size=('vocabulary', 30522), max_position_embeddings=('context_length', 512), hidden_size=('width', 768),
    num_hidden_layers=('depth', 12), num_attention_heads=('heads', 12), intermediate_size=('feed_forward', 3072),
    type_vocab_size=('typed', 2), hidden_act=('activation', 'gelu'), layer_norm_eps=('epsilon', 1e-12),
    hidden_dropout_prob=('dropout', 0.1), attention_probs_dropout_prob=('attention_dropout', 0.1),
    initializer_range=('init_scale', 0.02))
T5 = dict(
    vocab_size=('vocabulary', 32128), d_model=('width', 512), num_layers=('depth', 6),
    num_decoder_layers=('decoder_depth', lambda found: found['depth']), num_heads=('heads', 8), d_kv=('head_width', 64),
    d_ff=('feed_forward', 2048), relative_attention_num_buckets=('relative_buckets', 32),
    relative_attention_max_distance=('relative_max_distance', 128), layer_norm_epsilon=('epsilon', 1e-6),
    dropout_rate=('dropout', 0.1))
MAMBA = dict(
    vocab_size=('vocabulary', 50280), hidden_size=('width', 768), num_hidden_layers=('depth', 32), expand=('expand', 2),
    state_size=('state_size', 16), conv_kernel=('kernel_size', 4), use_bias=('bias', False), use_conv_bias=('conv_bias', True),
    layer_norm_epsilon=('epsilon', 1e-5))
RWKV = dict(
    vocab_size=('vocabulary', 50277), hidden_size=('width', 4096), num_hidden_layers=('depth', 32),
    intermediate_size=('feed_forward', lambda found: 4 * found['width']))


# ------------------------------------------------------------------------------------------------------------- From theirs

def model_fields(kind, config, architecture, tie, problems, names=()):
    """The fields of our model that a config describes; None where its sizes are not known. names: of the tensors of the files."""
    options = Options(config, problems)
    if config.get('quantization_config'):
        options.refuse('quantization_config', '...', 'weights of so few bits are not read; save the model without')
    if kind in vision.READ:
        fields = vision.READ[kind](options, architecture, names)
        return fields if options.has_sizes else None
    read = dict(gpt2=_from_gpt2, llama=_from_llama, mixtral=_from_mixtral, bert=_from_bert, t5=_from_t5, mamba=_from_mamba,
                rwkv=_from_rwkv)[kind]
    fields = dict(read(options, architecture, tie), tie_embeddings=tie)
    return fields if options.has_sizes else None


def _from_gpt2(options, architecture, tie):
    options.only('scale_attn_weights', True, 'scores are always divided by sqrt(K) here')
    options.only('add_cross_attention', False, 'there is no attention to another network here')
    return dict(options.fields(GPT2), bias=True)


def _from_llama(options, architecture, tie):
    in_attention, elsewhere = options.flag('attention_bias', False), options.flag('mlp_bias', False)
    if elsewhere and not in_attention:
        options.refuse('mlp_bias', True, 'goes together with attention_bias here')
    return dict(options.fields(LLAMA), bias=elsewhere and in_attention, attention_bias=in_attention and not elsewhere,
                **_from_rope(options))


def _from_mixtral(options, architecture, tie):
    options.only('router_jitter_noise', 0.0, 'what chooses the experts is not disturbed here')
    options.only('output_router_logits', False, 'what the experts were chosen by is no output here')
    window = options.size('sliding_window', 1) if options.get('sliding_window') is not None else 0
    return dict(options.fields(MIXTRAL), sliding_window=window, **_from_rope(options, base=1e6))


def _from_rope(options, base=10000.0):
    """Rotary positions: `rope_parameters` of transformers 5, `rope_theta` and `rope_scaling` of earlier ones."""
    found = []
    for key in ('rope_scaling', 'rope_parameters'):
        value = options.get(key) or {}
        value = value if isinstance(value, dict) else options.refuse(key, value, 'must be an object', {})
        found += [_complete(value, options, base)]
    if options.get('rope_scaling') and options.get('rope_parameters') and found[0] != found[1]:
        options.refuse('rope_scaling', options.get('rope_scaling'), 'transformers takes it, and not rope_parameters='
                       f'{options.get("rope_parameters")!r}, which differs; take one of them out')
    scaling = found[0] if options.get('rope_scaling') else found[1]
    kind, inner = scaling['rope_type'], Options(scaling, options.problems)
    base = dict(rotary_base=inner.number('rope_theta', base))
    for place in (inner, options):
        place.only('partial_rotary_factor', 1.0, 'all of a head is turned here')
    if kind == 'default':
        return base
    if kind == 'linear':
        return dict(base, rotary_factor=inner.number('factor', 1.0))
    if kind == 'llama3':
        return dict(base, rotary_factor=inner.number('factor', 8.0), rotary_low=inner.number('low_freq_factor', 1.0),
                    rotary_high=inner.number('high_freq_factor', 4.0),
                    rotary_length=inner.size('original_max_position_embeddings', options.size('max_position_embeddings', 2048)))
    options.refuse('rope_type', kind, 'no such scaling of rotary positions here; choose one of: default, linear, llama3')
    return base


def _complete(scaling, options, base):
    """What an object says of rotary positions, with what is said elsewhere and by older names."""
    rest = {key: value for key, value in scaling.items() if key != 'type' and value is not None}
    return dict(rope_type=scaling.get('type', 'default'), rope_theta=options.get('rope_theta', base)) | rest


def _from_bert(options, architecture, tie):
    options.only('position_embedding_type', 'absolute', 'positions are a table here')
    options.only('is_decoder', False, 'steps look both ways here')
    options.only('add_cross_attention', False, 'there is no attention to another network here')
    labels = options.get('id2label')
    count = len(labels) if isinstance(labels, dict) and labels else options.size('num_labels', 2)
    fields = options.fields(BERT)
    return dict(fields, embedding_dropout=fields['dropout'],
                outputs=count if 'classifier' in ARCHITECTURES[architecture][1] else 0,
                per_step=architecture in ('BertForTokenClassification', 'BertForQuestionAnswering'))


def _from_t5(options, architecture, tie):
    options.only('is_decoder', False, 'the first of the two stacks looks both ways here')
    form = options.get('feed_forward_proj', 'relu')
    gate, _, activation = str(form).rpartition('-')
    if gate not in ('', 'gated'):
        options.refuse('feed_forward_proj', form, "must be an activation, or 'gated-' and an activation")
    activation = 'gelu_new' if form == 'gated-gelu' else activation
    key = 'dense_act_fn' if options.get('dense_act_fn') else 'feed_forward_proj'
    fields = options.fields(T5)
    # transformers 5 ties T5 whatever the config says, and takes tie_word_embeddings=false for "outputs are not scaled".
    scaled = options.flag('scale_decoder_outputs', options.get('tie_word_embeddings') is not False)
    return dict(
        fields, activation=options.named(key, options.get('dense_act_fn', activation), 'relu'),
        gated=options.flag('is_gated_act', gate == 'gated'), shared=True,
        output_scale=0.0 if scaled == tie else fields['width'] ** -0.5 if scaled else 1.0,
        embedding_dropout=fields['dropout'], attention_dropout=fields['dropout'])


def _from_mamba(options, architecture, tie):
    if options.activation('hidden_act', 'silu') != 'silu':
        options.refuse('hidden_act', options.get('hidden_act'), "what is convolved goes through 'silu' here")
    rank = 0 if options.get('time_step_rank', 'auto') == 'auto' else options.size('time_step_rank', 1)
    return dict(options.fields(MAMBA), rank=rank)


def _from_rwkv(options, architecture, tie):
    fields = options.fields(RWKV)
    options.only('attention_hidden_size', fields['width'], f'is hidden_size={fields["width"]} here')
    options.only('layer_norm_epsilon', 1e-5, 'all norms have 1e-5 here, as the last one has there')
    return fields


# --------------------------------------------------------------------------------------------------------------- To theirs

def make_config(model, params, problems):
    """(model_type, architecture, config.json) for a model of ours; fields that their model does not have are problems."""
    kind = vision.kind_of(model) or next((kind for kind, made in MODELS.items() if isinstance(model, made)), None)
    if kind is None:
        able = ', '.join(dict.fromkeys(made.__name__ for made in MODELS.values()))
        problems.append(f'{type(model).__name__} has no counterpart; these have: {able}')
        return None, None, {}
    if kind == 'llama' and model.experts:
        kind = 'mixtral'
    if kind in vision.WRITE:
        architecture, config = vision.WRITE[kind](model, vision.channels_of(params))
        return _checked(model, kind, architecture, dict(architectures=[architecture], model_type=kind, dtype='float32') | config, problems)
    write = dict(gpt2=_to_gpt2, llama=_to_llama, mixtral=_to_mixtral, bert=_to_bert, t5=_to_t5, mamba=_to_mamba,
                 rwkv=_to_rwkv)[kind]
    architecture, config = write(model)
    config = dict(architectures=[architecture], model_type=kind, dtype='float32', tie_word_embeddings=model.tie_embeddings) | config
    return _checked(model, kind, architecture, config, problems)


def _checked(model, kind, architecture, config, problems):
    """What `make_config` returns, after a look at what would be read from it."""
    names = ('pooler.dense.weight',) if getattr(model, 'representation_size', 0) else ()
    fields = model_fields(kind, config, architecture, getattr(model, 'tie_embeddings', False), problems, names)
    if fields is None:
        return kind, architecture, config
    ours, theirs = facts(model), facts(MODELS[kind](**fields))
    problems += [f'{field}={value!r}: {kind} has only {theirs[field]!r}' for field, value in ours.items()
                 if field not in HARMLESS and theirs[field] != value]
    return kind, architecture, config


def _to_gpt2(model):
    return 'GPT2LMHeadModel', dict(keys(model, GPT2), bos_token_id=None, eos_token_id=None)


def _to_llama(model):
    return 'LlamaForCausalLM', dict(keys(model, LLAMA), mlp_bias=model.bias, attention_bias=model.bias or model.attention_bias,
                                    rope_parameters=_to_rope(model), bos_token_id=None, eos_token_id=None)


def _to_mixtral(model):
    return 'MixtralForCausalLM', dict(keys(model, MIXTRAL), sliding_window=model.sliding_window or None,
                                      rope_parameters=_to_rope(model), bos_token_id=None, eos_token_id=None)


def _to_rope(model):
    rope = dict(rope_type='default', rope_theta=model.rotary_base)
    if model.rotary_length:
        rope.update(rope_type='llama3', factor=model.rotary_factor, low_freq_factor=model.rotary_low,
                    high_freq_factor=model.rotary_high, original_max_position_embeddings=model.rotary_length)
    elif model.rotary_factor != 1:
        rope.update(rope_type='linear', factor=model.rotary_factor)
    return rope


def _to_bert(model):
    architecture, labels = 'BertForPreTraining', {}
    if model.outputs:
        architecture = 'BertForTokenClassification' if model.per_step else 'BertForSequenceClassification'
        names = [f'LABEL_{n}' for n in range(model.outputs)]
        labels = dict(id2label=dict(enumerate(names)), label2id={name: n for n, name in enumerate(names)})
    return architecture, dict(keys(model, BERT), pad_token_id=PADDING, **labels)


def _to_t5(model):
    activation = THEIR_ACTIVATION[model.activation]
    form = 'gated-gelu' if model.gated and activation == 'gelu_new' else f'gated-{activation}' if model.gated else activation
    scaled = facts(model)['output_scale'] != 1
    return 'T5ForConditionalGeneration', dict(
        keys(model, T5), feed_forward_proj=form, dense_act_fn=activation, is_gated_act=model.gated, scale_decoder_outputs=scaled,
        tie_word_embeddings=model.tie_embeddings or scaled, is_encoder_decoder=True, pad_token_id=PADDING,
        decoder_start_token_id=START, eos_token_id=END)


def _to_mamba(model):
    return 'MambaForCausalLM', dict(
        keys(model, MAMBA), intermediate_size=model.expand * model.width, time_step_rank=facts(model)['rank'], hidden_act='silu',
        pad_token_id=None, bos_token_id=None, eos_token_id=None)


def _to_rwkv(model):
    return 'RwkvForCausalLM', dict(keys(model, RWKV), attention_hidden_size=model.width, layer_norm_epsilon=1e-5, bos_token_id=None,
                                   eos_token_id=None)
