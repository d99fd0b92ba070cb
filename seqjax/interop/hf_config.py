"""config.json of Hugging Face's gpt2, llama, mixtral, bert, t5, mamba and rwkv, and the fields of our models: one from the other.

Keys that a file does not have get the defaults of transformers. What our models cannot do is added to a list of problems.
"""

import dataclasses

from seqjax import models
from seqjax.interop.hf_names import ARCHITECTURES
from seqjax.special_tokens import END, PADDING, START

MODELS = {'gpt2': models.GPT, 'llama': models.Llama, 'bert': models.BERT, 't5': models.T5, 'mamba': models.Mamba,
          'rwkv': models.RWKV, 'mixtral': models.Llama}

ACTIVATIONS = {'gelu': 'gelu', 'gelu_python': 'gelu', 'gelu_new': 'gelu_tanh', 'gelu_pytorch_tanh': 'gelu_tanh',
               'gelu_python_tanh': 'gelu_tanh', 'gelu_fast': 'gelu_tanh', 'gelu_accurate': 'gelu_tanh', 'relu': 'relu',
               'silu': 'silu', 'swish': 'silu'}
THEIR_ACTIVATION = {'gelu': 'gelu', 'gelu_tanh': 'gelu_new', 'relu': 'relu', 'silu': 'silu'}

# Fields that change nothing of what a trained network computes.
HARMLESS = ('dropout', 'embedding_dropout', 'attention_dropout', 'init_scale', 'scan', 'remat', 'dtype', 'parent', 'name')


class Options:
    """The keys of a config. One that makes no sense is a problem, and counts as its default so that the rest can be looked at."""

    def __init__(self, config, problems):
        self.config, self.problems = config, problems
        self.has_sizes = True  # False: what shapes weights should have is not known

    def get(self, key, default=None):
        value = self.config.get(key)
        return default if value is None else value

    def size(self, key, default):
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.has_sizes = False
            return self.refuse(key, value, 'must be a number of at least 1', default)
        return value

    def number(self, key, default):
        value = self.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return self.refuse(key, value, 'must be a number', default)
        return float(value)

    def flag(self, key, default):
        value = self.get(key, default)
        return value if isinstance(value, bool) else self.refuse(key, value, 'must be true or false', default)

    def activation(self, key, default):
        return self.named(key, self.get(key, default), default)

    def named(self, key, name, default):
        """Our name of an activation."""
        if not isinstance(name, str) or name not in ACTIVATIONS:
            name = self.refuse(key, name, f'is no activation here; choose one of: {", ".join(sorted(ACTIVATIONS))}', default)
        return ACTIVATIONS[name]

    def only(self, key, value, otherwise):
        """A key that may have but one value."""
        if self.get(key, value) != value:
            self.refuse(key, self.get(key), otherwise)

    def refuse(self, key, value, reason, default=None):
        self.problems.append(f'config.json: {key}={value!r}: {reason}')
        return default


# ------------------------------------------------------------------------------------------------------------- From theirs

def model_fields(kind, config, architecture, tie, problems):
    """The fields of our model that a config describes; None where its sizes are not known."""
    options = Options(config, problems)
    if config.get('quantization_config'):
        options.refuse('quantization_config', '...', 'weights of so few bits are not read; save the model without')
    read = dict(gpt2=_from_gpt2, llama=_from_llama, mixtral=_from_mixtral, bert=_from_bert, t5=_from_t5, mamba=_from_mamba,
                rwkv=_from_rwkv)[kind]
    fields = read(options, architecture, tie)
    return fields if options.has_sizes else None


def _from_gpt2(options, architecture, tie):
    width = options.size('n_embd', 768)
    options.only('scale_attn_weights', True, 'scores are always divided by sqrt(K) here')
    options.only('add_cross_attention', False, 'there is no attention to another network here')
    return dict(
        vocabulary=options.size('vocab_size', 50257), context_length=options.size('n_positions', 1024), width=width,
        depth=options.size('n_layer', 12), heads=options.size('n_head', 12), feed_forward=options.size('n_inner', 4 * width),
        activation=options.activation('activation_function', 'gelu_new'), epsilon=options.number('layer_norm_epsilon', 1e-5),
        bias=True, tie=tie, dropout=options.number('resid_pdrop', 0.1), embedding_dropout=options.number('embd_pdrop', 0.1),
        attention_dropout=options.number('attn_pdrop', 0.1), init_scale=options.number('initializer_range', 0.02),
        scale_attn_by_inverse_layer_idx=options.flag('scale_attn_by_inverse_layer_idx', False))


def _from_llama(options, architecture, tie):
    width, heads = options.size('hidden_size', 4096), options.size('num_attention_heads', 32)
    in_attention, elsewhere = options.flag('attention_bias', False), options.flag('mlp_bias', False)
    if elsewhere and not in_attention:
        options.refuse('mlp_bias', True, 'goes together with attention_bias here')
    return dict(
        vocabulary=options.size('vocab_size', 32000), context_length=options.size('max_position_embeddings', 2048), width=width,
        depth=options.size('num_hidden_layers', 32), heads=heads, key_heads=options.size('num_key_value_heads', heads),
        head_width=options.size('head_dim', max(width // heads, 1)), feed_forward=options.size('intermediate_size', 11008),
        activation=options.activation('hidden_act', 'silu'), epsilon=options.number('rms_norm_eps', 1e-6),
        bias=elsewhere and in_attention, attention_bias=in_attention and not elsewhere, tie=tie,
        attention_dropout=options.number('attention_dropout', 0.0), init_scale=options.number('initializer_range', 0.02),
        **_from_rope(options))


def _from_mixtral(options, architecture, tie):
    width, heads = options.size('hidden_size', 4096), options.size('num_attention_heads', 32)
    options.only('router_jitter_noise', 0.0, 'what chooses the experts is not disturbed here')
    options.only('output_router_logits', False, 'what the experts were chosen by is no output here')
    return dict(
        vocabulary=options.size('vocab_size', 32000), context_length=options.size('max_position_embeddings', 131072), width=width,
        depth=options.size('num_hidden_layers', 32), heads=heads, key_heads=options.size('num_key_value_heads', 8),
        head_width=options.size('head_dim', max(width // heads, 1)), feed_forward=options.size('intermediate_size', 14336),
        experts=options.size('num_local_experts', 8), experts_chosen=options.size('num_experts_per_tok', 2),
        window=options.size('sliding_window', 1) if options.get('sliding_window') is not None else 0,
        activation=options.activation('hidden_act', 'silu'), epsilon=options.number('rms_norm_eps', 1e-5), tie=tie,
        attention_dropout=options.number('attention_dropout', 0.0), init_scale=options.number('initializer_range', 0.02),
        **_from_rope(options, base=1e6))


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
    dropout = options.number('hidden_dropout_prob', 0.1)
    return dict(
        vocabulary=options.size('vocab_size', 30522), context_length=options.size('max_position_embeddings', 512),
        width=options.size('hidden_size', 768), depth=options.size('num_hidden_layers', 12),
        heads=options.size('num_attention_heads', 12), feed_forward=options.size('intermediate_size', 3072),
        activation=options.activation('hidden_act', 'gelu'), epsilon=options.number('layer_norm_eps', 1e-12),
        typed=options.size('type_vocab_size', 2), outputs=count if 'classifier' in ARCHITECTURES[architecture][1] else 0,
        per_step=architecture in ('BertForTokenClassification', 'BertForQuestionAnswering'), tie=tie, dropout=dropout,
        embedding_dropout=dropout, attention_dropout=options.number('attention_probs_dropout_prob', 0.1),
        init_scale=options.number('initializer_range', 0.02))


def _from_t5(options, architecture, tie):
    options.only('is_decoder', False, 'the first of the two stacks looks both ways here')
    form = options.get('feed_forward_proj', 'relu')
    gate, _, activation = str(form).rpartition('-')
    if gate not in ('', 'gated'):
        options.refuse('feed_forward_proj', form, "must be an activation, or 'gated-' and an activation")
    activation = 'gelu_new' if form == 'gated-gelu' else activation
    key = 'dense_act_fn' if options.get('dense_act_fn') else 'feed_forward_proj'
    width, depth = options.size('d_model', 512), options.size('num_layers', 6)
    # transformers 5 ties T5 whatever the config says, and takes tie_word_embeddings=false for "outputs are not scaled".
    scaled = options.flag('scale_decoder_outputs', options.get('tie_word_embeddings') is not False)
    dropout = options.number('dropout_rate', 0.1)
    return dict(
        vocabulary=options.size('vocab_size', 32128), width=width, depth=depth,
        decoder_depth=options.size('num_decoder_layers', depth), heads=options.size('num_heads', 8),
        head_width=options.size('d_kv', 64), feed_forward=options.size('d_ff', 2048),
        activation=options.named(key, options.get('dense_act_fn', activation), 'relu'),
        gated=options.flag('is_gated_act', gate == 'gated'), epsilon=options.number('layer_norm_epsilon', 1e-6),
        relative_buckets=options.size('relative_attention_num_buckets', 32),
        relative_limit=options.size('relative_attention_max_distance', 128), shared=True, tie=tie,
        output_scale=0.0 if scaled == tie else width ** -0.5 if scaled else 1.0, dropout=dropout, embedding_dropout=dropout,
        attention_dropout=dropout)


def _from_mamba(options, architecture, tie):
    width = options.size('hidden_size', 768)
    if options.activation('hidden_act', 'silu') != 'silu':
        options.refuse('hidden_act', options.get('hidden_act'), "what is convolved goes through 'silu' here")
    rank = 0 if options.get('time_step_rank', 'auto') == 'auto' else options.size('time_step_rank', 1)
    return dict(
        vocabulary=options.size('vocab_size', 50280), width=width, depth=options.size('num_hidden_layers', 32),
        expand=options.size('expand', 2), state_size=options.size('state_size', 16), kernel_size=options.size('conv_kernel', 4),
        rank=rank, bias=options.flag('use_bias', False), conv_bias=options.flag('use_conv_bias', True),
        epsilon=options.number('layer_norm_epsilon', 1e-5), tie=tie)


def _from_rwkv(options, architecture, tie):
    width = options.size('hidden_size', 4096)
    options.only('attention_hidden_size', width, f'is hidden_size={width} here')
    options.only('layer_norm_epsilon', 1e-5, 'all norms have 1e-5 here, as the last one has there')
    return dict(
        vocabulary=options.size('vocab_size', 50277), width=width, depth=options.size('num_hidden_layers', 32),
        feed_forward=options.size('intermediate_size', 4 * width), tie=tie)


# --------------------------------------------------------------------------------------------------------------- To theirs

def make_config(model, problems):
    """(model_type, architecture, config.json) for a model of ours; fields that their model does not have are problems."""
    kind = next((kind for kind, made in MODELS.items() if isinstance(model, made)), None)
    if kind is None:
        able = ', '.join(dict.fromkeys(made.__name__ for made in MODELS.values()))
        problems.append(f'{type(model).__name__} has no counterpart; these have: {able}')
        return None, None, {}
    if kind == 'llama' and model.experts:
        kind = 'mixtral'
    write = dict(gpt2=_to_gpt2, llama=_to_llama, mixtral=_to_mixtral, bert=_to_bert, t5=_to_t5, mamba=_to_mamba,
                 rwkv=_to_rwkv)[kind]
    architecture, config = write(model)
    config = dict(architectures=[architecture], model_type=kind, dtype='float32', **config)
    fields = model_fields(kind, config, architecture, model.tie, problems)
    if fields is None:
        return kind, architecture, config
    ours, theirs = _facts(model), _facts(MODELS[kind](**fields))
    problems += [f'{field}={value!r}: {kind} has only {theirs[field]!r}' for field, value in ours.items()
                 if theirs[field] != value]
    return kind, architecture, config


def _facts(model):
    """{field: value} of all that weights depend on, with what 0 stands for written out."""
    facts = {field.name: getattr(model, field.name) for field in dataclasses.fields(model) if field.name not in HARMLESS}
    if 'feed_forward' in facts:
        facts['feed_forward'] = model.feed_forward or 4 * model.width
    if 'heads' in facts:
        facts['head_width'], facts['key_heads'] = model.head_width or model.width // model.heads, model.key_heads or model.heads
    if 'rank' in facts:
        facts['rank'] = model.rank or -(-model.width // 16)
    if 'decoder_depth' in facts:
        facts['decoder_depth'] = model.decoder_depth or model.depth
        facts['target_vocabulary'] = model.target_vocabulary or model.vocabulary
    if 'output_scale' in facts:
        facts['output_scale'] = model.output_scale or (model.width ** -0.5 if model.tie else 1.0)
    if isinstance(model, models.GPT):
        facts['bias'] = True  # what is not there is zero
    return facts


def _to_gpt2(model):
    return 'GPT2LMHeadModel', dict(
        vocab_size=model.vocabulary, n_positions=model.context_length, n_embd=model.width, n_layer=model.depth,
        n_head=model.heads, n_inner=model.feed_forward or 4 * model.width, activation_function=THEIR_ACTIVATION[model.activation],
        layer_norm_epsilon=model.epsilon, resid_pdrop=model.dropout, embd_pdrop=model.embedding_dropout,
        attn_pdrop=model.attention_dropout, initializer_range=model.init_scale or 0.02, tie_word_embeddings=model.tie,
        scale_attn_by_inverse_layer_idx=model.scale_attn_by_inverse_layer_idx, bos_token_id=None, eos_token_id=None)


def _to_llama(model):
    rope = dict(rope_type='default', rope_theta=model.rotary_base)
    if model.rotary_length:
        rope.update(rope_type='llama3', factor=model.rotary_factor, low_freq_factor=model.rotary_low,
                    high_freq_factor=model.rotary_high, original_max_position_embeddings=model.rotary_length)
    elif model.rotary_factor != 1:
        rope.update(rope_type='linear', factor=model.rotary_factor)
    return 'LlamaForCausalLM', dict(
        vocab_size=model.vocabulary, max_position_embeddings=model.context_length, hidden_size=model.width,
        num_hidden_layers=model.depth, num_attention_heads=model.heads, num_key_value_heads=model.key_heads or model.heads,
        head_dim=model.head_width or model.width // model.heads, intermediate_size=model.feed_forward or 4 * model.width,
        hidden_act=THEIR_ACTIVATION[model.activation], rms_norm_eps=model.epsilon, mlp_bias=model.bias,
        attention_bias=model.bias or model.attention_bias, attention_dropout=model.attention_dropout,
        initializer_range=model.init_scale or 0.02, tie_word_embeddings=model.tie, rope_parameters=rope, bos_token_id=None,
        eos_token_id=None)


def _to_mixtral(model):
    _, config = _to_llama(model)
    dense = {key: value for key, value in config.items() if key not in ('mlp_bias', 'attention_bias')}  # it has none of these
    return 'MixtralForCausalLM', dict(dense, num_local_experts=model.experts, num_experts_per_tok=model.experts_chosen,
                                      sliding_window=model.window or None)


def _to_bert(model):
    architecture, labels = 'BertForPreTraining', {}
    if model.outputs:
        architecture = 'BertForTokenClassification' if model.per_step else 'BertForSequenceClassification'
        names = [f'LABEL_{n}' for n in range(model.outputs)]
        labels = dict(id2label=dict(enumerate(names)), label2id={name: n for n, name in enumerate(names)})
    return architecture, dict(
        vocab_size=model.vocabulary, max_position_embeddings=model.context_length, hidden_size=model.width,
        num_hidden_layers=model.depth, num_attention_heads=model.heads, intermediate_size=model.feed_forward or 4 * model.width,
        hidden_act=THEIR_ACTIVATION[model.activation], layer_norm_eps=model.epsilon, type_vocab_size=model.typed,
        hidden_dropout_prob=model.dropout, attention_probs_dropout_prob=model.attention_dropout,
        initializer_range=model.init_scale or 0.02, tie_word_embeddings=model.tie, pad_token_id=PADDING, **labels)


def _to_t5(model):
    activation = THEIR_ACTIVATION[model.activation]
    form = 'gated-gelu' if model.gated and activation == 'gelu_new' else f'gated-{activation}' if model.gated else activation
    scaled = (model.output_scale or (model.width ** -0.5 if model.tie else 1.0)) != 1
    return 'T5ForConditionalGeneration', dict(
        vocab_size=model.vocabulary, d_model=model.width, num_layers=model.depth,
        num_decoder_layers=model.decoder_depth or model.depth, num_heads=model.heads,
        d_kv=model.head_width or model.width // model.heads, d_ff=model.feed_forward or 4 * model.width, feed_forward_proj=form,
        dense_act_fn=activation, is_gated_act=model.gated, layer_norm_epsilon=model.epsilon,
        relative_attention_num_buckets=model.relative_buckets, relative_attention_max_distance=model.relative_limit,
        dropout_rate=model.dropout, scale_decoder_outputs=scaled, tie_word_embeddings=model.tie or scaled,
        is_encoder_decoder=True, pad_token_id=PADDING, decoder_start_token_id=START, eos_token_id=END)


def _to_mamba(model):
    return 'MambaForCausalLM', dict(
        vocab_size=model.vocabulary, hidden_size=model.width, num_hidden_layers=model.depth, expand=model.expand,
        intermediate_size=model.expand * model.width, state_size=model.state_size, conv_kernel=model.kernel_size,
        time_step_rank=model.rank or -(-model.width // 16), use_bias=model.bias, use_conv_bias=model.conv_bias, hidden_act='silu',
        layer_norm_epsilon=model.epsilon, tie_word_embeddings=model.tie, pad_token_id=None, bos_token_id=None, eos_token_id=None)


def _to_rwkv(model):
    return 'RwkvForCausalLM', dict(
        vocab_size=model.vocabulary, hidden_size=model.width, attention_hidden_size=model.width, num_hidden_layers=model.depth,
        intermediate_size=model.feed_forward or 4 * model.width, layer_norm_epsilon=1e-5, tie_word_embeddings=model.tie,
        bos_token_id=None, eos_token_id=None)
