"""From the fields of a config to modules: the one place where strings decide what a network is made of.

`TransformerFields` makes the blocks, norms and positions of Transformers, `encoder` and `word_embedding` what a `Reader` is made of.
"""

import functools

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, check_at_least, check_rates, refuse_unused, suggestion
from seqjax.models.composed import Composed

ATTENTION = ('softmax', 'linear')


class TransformerFields(Composed, kw_only=True):
    """The fields of a block and of all around it; a family of models is a subclass with its own defaults.

    heads: H. kv_heads: heads of keys and values, which groups of queries share; 0: H. head_width: K; 0: D / H.
    feed_forward: F; 0: 4 D. activation, gated: see `nn.FeedForward`. experts: so many feed-forward networks, of which every step
    chooses `experts_per_token`; 0: one (`nn.MixtureOfExperts`).
    attention: 'softmax' or 'linear'. positions: see `nn.Positions`;
    rotary_base: of rotary ones; relative_buckets, relative_max_distance: of relative ones. norm: 'layer' or 'rms', with its epsilon.
    norm_position: 'pre' or 'post', see `nn.Block`. bias: of projections and norms. dropout: on what every layer adds;
    attention_dropout: on the weights of attention. init_scale: the deviation of initial weights; 0: one that keeps
    the variance, whatever the width. A `block` that is passed in comes instead of the one that the fields describe.
    """

    heads: int = 4
    kv_heads: int = 0
    head_width: int = 0
    feed_forward: int = 0
    activation: str = 'gelu'
    gated: bool = False
    experts: int = 0
    experts_per_token: int = 2
    attention: str = 'softmax'
    positions: str = 'learned'
    rotary_base: float = 10000.0
    relative_buckets: int = 32
    relative_max_distance: int = 128
    norm: str = 'layer'
    epsilon: float = 1e-5
    norm_position: str = 'pre'
    bias: bool = False
    dropout: float = 0.0
    attention_dropout: float = 0.0
    init_scale: float = 0.02

    attention_scale = None  # of the scores; None: 1 / sqrt(K)
    attention_bias = False  # of the projections of attention, where `bias` is not for all
    scale_attn_by_inverse_layer_idx = False
    rotary_scaling = ()  # see `ops.rotate`
    embedding_scale = None  # the deviation of a new embedding; None: init_scale, and where that is 0 1 / sqrt(D)

    def __post_init__(self):
        super().__post_init__()
        check_transformer(self)

    def make_embedding(self, vocabulary):
        deviation = self.embedding_scale or self.init_scale or self.width ** -0.5
        return nn.Embedding(vocabulary, self.width, linen.initializers.normal(deviation), jnp.dtype(self.dtype))

    def make_positions(self, length=None, causal=False, name='positions'):
        return nn.Positions(self.positions, self.width, self.heads, length, causal, self.relative_buckets, self.relative_max_distance,
                            jnp.dtype(self.dtype), linen.initializers.normal(self.init_scale or 0.02), name=name)

    @linen.nowrap
    def make_stack(self, depth=0, cross=False, **options):
        depth, given = depth or self.depth, self.decoder_block if cross else self.block
        last = norm_of(self) if self.norm_position == 'pre' else None
        return nn.Stack(given or make_block(self, depth, cross), depth, last, self.scan_layers, self.remat, **options)

    @linen.nowrap
    def make_norm(self):
        return norm_of(self)()

    @linen.nowrap
    def kernel_init(self, contract=1, variance=1.0):
        if self.init_scale:
            return linen.initializers.normal(self.init_scale * variance ** 0.5)
        return nn.fan_in(contract, variance)


def norm_of(model):
    """A function that makes the norms that the fields of a model describe."""
    return functools.partial(nn.make_norm, model.norm, epsilon=model.epsilon, bias=model.bias, dtype=jnp.dtype(model.dtype))


def make_block(model, depth, cross=False):
    """The block that the fields of a model describe, for a stack of so many."""
    # 2 L projections add to the residual stream, or 3 L; their scale keeps its variance at 1 (GPT-2, section 2.3).
    part = dict(bias=model.bias, dtype=jnp.dtype(model.dtype), kernel_init=model.kernel_init(), parent=None)
    into = functools.partial(model.kernel_init, variance=1 / ((2 + cross) * depth) if model.norm_position == 'pre' else 1.0)
    scale, K = model.attention_scale, model.head_width or model.width // model.heads
    heads = dict(width=model.width, heads=model.heads, kv_heads=model.kv_heads, head_width=model.head_width, scale=scale,
                 dropout=model.attention_dropout, out_init=into(2), **{**part, 'bias': model.bias or model.attention_bias})
    if scale:  # what the scores are not divided by is in the queries from the beginning
        heads['query_init'] = model.kernel_init(variance=1 / K / scale ** 2)
    rotary = dict(rotary=model.rotary_base if model.positions == 'rotary' else 0.0, rotary_scaling=model.rotary_scaling,
                  inverse_layer_scale=model.scale_attn_by_inverse_layer_idx)
    network = dict(inner=model.feed_forward, activation=model.activation, gated=model.gated, out_init=into(1), **part)
    return nn.Block(
        (nn.LinearAttention if model.attention == 'linear' else nn.MultiHeadAttention)(**rotary, **heads),
        nn.MixtureOfExperts(model.experts, model.experts_per_token, **network) if model.experts else nn.FeedForward(**network),
        norm_of(model), nn.CrossAttention(**heads) if cross else None, model.norm_position, model.dropout, parent=None)


def check_transformer(model):
    """Refuses fields that make no Transformer, before anything is compiled."""
    nn.check_sizes(model)
    check_at_least(model, 0, 'kv_heads', 'head_width', 'feed_forward', 'experts', 'sliding_window', 'init_scale')
    for field, known in (('activation', nn.ACTIVATIONS), ('attention', ATTENTION), ('norm', nn.NORMS), ('norm_position', nn.NORM_POSITIONS),
                         ('positions', nn.POSITIONS)):
        if getattr(model, field) not in known:
            raise FieldError(field, getattr(model, field), suggestion(getattr(model, field), known))
    if model.kv_heads and model.heads % model.kv_heads:
        raise FieldError('kv_heads', model.kv_heads, f'must divide heads={model.heads}')
    check_rates(model, 'embedding_dropout', 'attention_dropout')
    if model.positions == 'rotary' and model.head_width % 2:
        raise FieldError('head_width', model.head_width, 'must be even: rotary positions turn pairs')
    if model.positions == 'rotary' and not model.head_width and model.width // model.heads % 2:
        raise FieldError('heads', model.heads, f'rotary positions turn pairs, and width={model.width} gives every head an odd '
                         'width')
    if model.positions == 'sinusoidal' and model.width % 2:
        raise FieldError('width', model.width, 'must be even: sinusoidal positions are pairs of a sine and a cosine')
    if not model.rotary_base > 0:
        raise FieldError('rotary_base', model.rotary_base, 'must be more than 0; 10000 is usual')
    refuse_unused(model, 'rotary_base', model.positions != 'rotary', f"is for positions='rotary', and they are {model.positions!r}")
    for field in ('relative_buckets', 'relative_max_distance'):
        refuse_unused(model, field, model.positions != 'relative', f"is for positions='relative', and they are {model.positions!r}")
    if model.relative_buckets < 4 or model.relative_buckets % 2:
        raise FieldError('relative_buckets', model.relative_buckets, 'must be even, and at least 4')
    if model.relative_max_distance <= model.relative_buckets // 2:
        raise FieldError('relative_max_distance', model.relative_max_distance,
                         f'must be more than half of relative_buckets={model.relative_buckets}')
    refuse_unused(model, 'experts', not model.balances, 'is for language models: nothing would keep the experts of this one in '
                  'balance')
    refuse_unused(model, 'experts_per_token', not model.experts, 'is for a mixture of experts, and experts=0')
    if model.experts and not 1 <= model.experts_per_token <= model.experts:
        raise FieldError('experts_per_token', model.experts_per_token, f'must be at least 1 and at most experts={model.experts}')
    linear = model.attention == 'linear'
    for field in ('sliding_window', 'attention_dropout'):
        refuse_unused(model, field, linear, "is for weights of single steps, which attention='linear' does not have")
    if linear and model.positions in ('alibi', 'relative', 'rotary'):  # a turn before the features is none after them
        raise FieldError('positions', model.positions, "is of scores, which attention='linear' does not have; take 'sinusoidal', "
                         "'learned' or 'none'")


# ------------------------------------------------------------------------------------------------ of a Reader

_USED_BY = {**dict.fromkeys(('variational', *nn.REGULARISERS), 'recurrent'), 'kernel_size': 'conv',
            'dilated': 'conv', 'heads': 'attention'}


def encoder(model, **options):
    """The encoder of a reader: the module that was passed in, or the one that its fields describe."""
    same = dict(dropout=model.dropout, dtype=jnp.dtype(model.dtype))
    name, made = options or dict(name='encoder'), model.encoder
    if made == 'conv':
        return nn.ConvolutionalEncoder(model.width, model.depth, model.kernel_size, model.dilated,
                                       causal=not model.bidirectional, **same, **name)
    if made == 'attention':
        return nn.AttentionEncoder(model.width, model.depth, model.heads, causal=not model.bidirectional, **same, **name)
    if not isinstance(made, linen.Module):
        made = nn.Recurrent(model.width, model.depth, made, bidirectional=model.bidirectional, variational=model.variational,
                            **same, **model.regularisers(), **(options or dict(name='recurrent')))
    return nn.RecurrentEncoder(made, **options) if isinstance(made, nn.Recurrent) else made


def pooling(model, **options):
    """The pooling of a reader."""
    if isinstance(model.pooling, linen.Module):
        return model.pooling
    return nn.Pooling(model.pooling, model.queries, jnp.dtype(model.dtype), **(options or dict(name='pooling')))


def word_embedding(model, **options):
    """The embedding of tokens or words that the fields of a reader describe."""
    dtype = jnp.dtype(model.dtype)
    if model.one_hot:
        return nn.OneHot(model.vocabulary, dtype, **options)
    width = model.embedding or (model.width if model.table is None else model.table.shape[1])
    # Attention adds positions to the table, sines of size 1: it starts with rows of the same size (the sqrt(D) of Vaswani
    # et al. 2017, section 3.4).
    start = linen.initializers.normal(1.0 if model.encoder == 'attention' else width ** -0.5)
    return nn.WordEmbedding(model.vocabulary, width, model.table, model.word_dropout,
                            model.characters if model.character_encoder else None, model.character_encoder,
                            model.character_width, start, dtype, **options)


def check_reader(model):
    """Refuses fields that make no reader, before anything is compiled."""
    encoders = (*ops.CELLS, 'conv', 'attention')
    given = isinstance(model.encoder, linen.Module)
    if not given and model.encoder not in encoders:
        raise FieldError('encoder', model.encoder, f'no such encoder; {suggestion(model.encoder, encoders)}')
    check_at_least(model, 1, 'width', 'depth', 'outputs')
    own = isinstance(model.embedding, linen.Module)
    if not own:
        check_at_least(model, 0, 'embedding')
    kind = 'module' if given else 'recurrent' if model.encoder in ops.CELLS else model.encoder
    for field, user in _USED_BY.items():
        refuse_unused(model, field, kind != user, f'is for {user} encoders, and encoder={model.encoder!r}')
    refuse_unused(model, 'pooling', model.per_step, 'makes one answer of a row, and the data has a label for every step')
    refuse_unused(model, 'queries', model.per_step or model.pooling != 'attention', "is for pooling='attention' over a row")
    refuse_unused(model, 'crf', not model.per_step, 'is for labels of every step, and the data has one answer a row')
    refuse_unused(model, 'one_hot', model.vocabulary is None, 'is for tokens, and the inputs are frames')
    refuse_unused(model, 'one_hot', model.table is not None, 'leaves no place for the word vectors of the data')
    refuse_unused(model, 'embedding', model.one_hot, 'is the width of an embedding, and one_hot=True has none')
    refuse_unused(model, 'word_dropout', model.vocabulary is None or model.one_hot, 'is for an embedding of tokens')
    refuse_unused(model, 'character_encoder', model.one_hot, 'goes with an embedding of words, and one_hot=True has none')
    refuse_unused(model, 'character_encoder', model.characters is None, 'reads characters of words, and the data has none')
    refuse_unused(model, 'character_width', not model.character_encoder, "is for a character_encoder, and it is ''")
    if model.table is not None and not own and model.embedding not in (0, model.table.shape[1]):
        raise FieldError('embedding', model.embedding, f'the word vectors have width {model.table.shape[1]}; leave it at 0')
    pooling(model, parent=None)
    encoder(model, parent=None)
    if model.vocabulary is not None and not own:
        word_embedding(model, parent=None)


# ------------------------------------------------------------------------------------------------ of a Seq2Seq

FEEDS = ('state', 'output', 'input')


def recurrent_stacks(model, **options):
    """(encoder, decoder): the stacks that were passed in, or those that the fields describe."""
    same = dict(num_layers=model.depth, cell=model.cell, dropout=model.dropout, dtype=jnp.dtype(model.dtype))
    encoder = model.encoder or nn.Recurrent(model.encoder_width or model.width, bidirectional=model.bidirectional, **same,
                                            **(options or dict(name='encoder')))
    return encoder, model.decoder or nn.Recurrent(model.width, **same, **(options or dict(name='decoder')))


def attention(model, **options):
    """The attention of a decoder to the encoder's outputs."""
    if isinstance(model.attention, linen.Module):
        return model.attention
    return nn.Attention(model.attention, model.width, model.value_width, model.hard_attention, jnp.dtype(model.dtype), **options)


def check_seq2seq(model):
    """Refuses fields that make no encoder-decoder, before anything is compiled."""
    check_at_least(model, 1, 'width', 'depth')
    check_at_least(model, 0, 'embedding', 'encoder_width', 'value_width')
    if model.context not in model.contexts:
        raise FieldError('context', model.context, f'no such context; {suggestion(model.context, model.contexts)}')
    if model.feed not in FEEDS:
        raise FieldError('feed', model.feed, f'choose one of: {", ".join(FEEDS)}')
    attends = model.context == 'attention'
    for field in ('attention', 'value_width', 'hard_attention', 'copy'):
        refuse_unused(model, field, not attends, f"is for context='attention', and it is {model.context!r}")
    refuse_unused(model, 'feed', not model._has_context, f'says where a context of every step goes, and context={model.context!r} '
                  'has none')
    _check_widths(model)
    attention(model, parent=None)
    if model.copy and not model.shared and model.target_vocabulary:
        raise FieldError('copy', True, 'needs one vocabulary for source and target; set config.data.shared_vocabulary=True')


def check_bridged(model, stack, mapped=True):
    """Refuses a recurrent decoder with a state to which no map of the source leads. mapped: whether there is one."""
    first = jax.eval_shape(lambda: stack.zero_state(1))
    if any(jnp.issubdtype(part.dtype, jnp.complexfloating) for part in jax.tree.leaves(first)):
        raise FieldError('cell', model.cell, 'has a complex state, which no map of the source leads to; choose another cell')
    if mapped and any(part.ndim > 2 for part in jax.tree.leaves(first)):
        raise FieldError('cell', model.cell, 'has a matrix in its state, to which no map of the source leads; '
                         + ("write context='last', or choose another cell" if 'last' in model.contexts else 'choose another cell'))


def _check_widths(model):
    reads, writes = recurrent_stacks(model, parent=None)
    final, first = (jax.eval_shape(lambda: part.zero_state(1)) for part in (reads, writes))
    check_bridged(model, writes, mapped=model.context != 'last')
    if model.context == 'last' and jax.tree.map(jnp.shape, final) != jax.tree.map(jnp.shape, first):
        raise FieldError('context', 'last', 'the last state of the encoder is not of the size of the first one of the decoder '
                         "(bidirectional, or another encoder_width); write 'mapped'")
    N, E = writes.output_width, reads.output_width * (1 + reads.bidirectional)
    if model.context == 'attention' and model.attention == 'dot' and N != E:
        raise FieldError('attention', 'dot', f'the states of the decoder have {N} numbers and those of the encoder {E}; '
                         "write 'bilinear', which needs no equal widths")
    if model.context == 'attention' and model.attention == 'bilinear' and N != model.width:
        raise FieldError('attention', 'bilinear', f'cell {model.cell!r} puts out {N} numbers and width={model.width}; choose another')
    answer, embedding = model._answer_width, model.embedding or model.width
    if model.tie_embeddings and answer != embedding:
        raise FieldError('tie_embeddings', True, f'the output sees {answer} numbers and the embedding has {embedding}')
