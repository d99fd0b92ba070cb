"""What all Transformers have in common: the fields that say what a block is made of, and the stacks they describe."""

import functools

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError, refuse_unused, suggestion

ATTENTION = ('softmax', 'linear')


class TransformerFields(linen.Module):
    """The fields of a block; a family of models is a subclass with its own defaults.

    width, depth, heads: D, L, H. key_heads: heads of keys and values, which groups of queries share; 0: H. head_width: K; 0: D / H.
    feed_forward: F; 0: 4 D. activation, gated: see `nn.FeedForward`. experts: so many feed-forward networks, of which every step
    chooses `experts_chosen`; 0: one (`nn.MixtureOfExperts`).
    attention: 'softmax' or 'linear'. window: so many steps are in reach of each; 0: all. positions: see `nn.Positions`;
    rotary_base: of rotary ones; relative_buckets, relative_limit: of relative ones. norm: 'layer' or 'rms', with its epsilon.
    order: 'pre' or 'post', see `nn.Block`. bias: of projections and norms. dropout: on what every layer adds; embedding_dropout:
    on its inputs; attention_dropout: on the weights of attention. init_scale: the deviation of initial weights; 0: one that keeps
    the variance, whatever the width. scan, remat: see `nn.Stack`.
    """

    vocabulary: int

    width: int = 128
    depth: int = 4
    heads: int = 4
    key_heads: int = 0
    head_width: int = 0
    feed_forward: int = 0
    activation: str = 'gelu'
    gated: bool = False
    experts: int = 0
    experts_chosen: int = 2
    attention: str = 'softmax'
    window: int = 0
    positions: str = 'learned'
    rotary_base: float = 10000.0
    relative_buckets: int = 32
    relative_limit: int = 128
    norm: str = 'layer'
    epsilon: float = 1e-5
    order: str = 'pre'
    bias: bool = False
    tie: bool = True
    dropout: float = 0.0
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    init_scale: float = 0.02
    scan: bool = False
    remat: bool = False
    dtype: str = 'float32'

    attention_scale = None  # of the scores; None: 1 / sqrt(K)
    attention_bias = False  # of the projections of attention, where `bias` is not for all
    rotary_scaling = ()  # see `ops.rotate`
    balances = False  # whether what a mixture of experts sows is part of the loss
    embedding_scale = None  # the deviation of a new embedding; None: init_scale, and where that is 0 1 / sqrt(D)

    def __post_init__(self):
        super().__post_init__()
        check(self)


# ------------------------------------------------------------------------------------------------ parts, from the fields

def make_stack(model, depth=None, cross=False, **options):
    """The stack of blocks that the fields of a model describe, with attention to another stack or without."""
    norm = functools.partial(nn.make_norm, model.norm, epsilon=model.epsilon, bias=model.bias, dtype=jnp.dtype(model.dtype))
    depth = depth or model.depth
    return nn.Stack(make_block(model, norm, depth, cross), depth, norm if model.order == 'pre' else None, model.scan, model.remat,
                    **options)


def make_embedding(model, vocabulary):
    """A table of tokens."""
    deviation = model.embedding_scale or model.init_scale or model.width ** -0.5
    return nn.Embedding(vocabulary, model.width, linen.initializers.normal(deviation), jnp.dtype(model.dtype))


def make_positions(model, length=None, causal=False, name='positions'):
    """The positions that the fields of a model describe. length: no row is longer."""
    return nn.Positions(model.positions, model.width, model.heads, length, causal, model.relative_buckets, model.relative_limit,
                        jnp.dtype(model.dtype), linen.initializers.normal(model.init_scale or 0.02), name=name)


def placed(x, positions, kind):
    """Embedded tokens [B, T, D] with what positions of a kind add to them, [T, D] or [B, T, D]; None: nothing."""
    if kind == 'sinusoidal':
        x = x * jnp.asarray(x.shape[-1] ** 0.5, x.dtype)  # the sines have size 1 (Vaswani et al. 2017, section 3.4)
    return x if positions is None else x + positions


def cache_slots(model, caches, pages=None):
    """How many steps of a row the caches of a stack have room for. Linear attention has no slots, and no bias for them."""
    if model.attention == 'linear':
        return 0
    slots = jax.tree.leaves(caches)[0].shape[2 if model.scan else 1]
    return slots if pages is None else pages.shape[1] * slots


def only(mask, seen, T):
    """A mask over T queries that lets them look only at keys that are `seen`, [B, S] of booleans; None: at all of them."""
    if seen is None:
        return mask
    dense, seen = mask.dense(T, seen.shape[1]), seen[:, None, None]  # [B, 1, T, S], [B, 1, 1, S]
    return seen if dense is None else dense & seen


def kernel_init(model, contract=1, variance=1.0):
    """Of a kernel that sums over `contract` axes."""
    if model.init_scale:
        return linen.initializers.normal(model.init_scale * variance ** 0.5)
    return nn.fan_in(contract, variance)


def make_block(model, norm, depth, cross=False):
    """The block that the fields of a model describe, for a stack of so many."""
    # 2 L projections add to the residual stream, or 3 L; their scale keeps its variance at 1 (GPT-2, section 2.3).
    part = dict(bias=model.bias, dtype=jnp.dtype(model.dtype), kernel_init=kernel_init(model), parent=None)
    into = functools.partial(kernel_init, model, variance=1 / ((2 + cross) * depth) if model.order == 'pre' else 1.0)
    scale, K = model.attention_scale, model.head_width or model.width // model.heads
    heads = dict(width=model.width, heads=model.heads, key_heads=model.key_heads, head_width=model.head_width, scale=scale,
                 dropout=model.attention_dropout, out_init=into(2), **{**part, 'bias': model.bias or model.attention_bias})
    if scale:  # what the scores are not divided by is in the queries from the beginning
        heads['query_init'] = kernel_init(model, variance=1 / K / scale ** 2)
    rotary = dict(rotary=model.rotary_base if model.positions == 'rotary' else 0.0, rotary_scaling=model.rotary_scaling)
    network = dict(inner=model.feed_forward, activation=model.activation, gated=model.gated, out_init=into(1), **part)
    return nn.Block(
        (nn.LinearAttention if model.attention == 'linear' else nn.MultiHeadAttention)(**rotary, **heads),
        nn.MixtureOfExperts(model.experts, model.experts_chosen, **network) if model.experts else nn.FeedForward(**network),
        norm, nn.CrossAttention(**heads) if cross else None, model.order, model.dropout, parent=None)


# ------------------------------------------------------------------------------------------------ what cannot be

def check(model):
    """Refuses fields that make no Transformer, before anything is compiled."""
    nn.check_sizes(model)
    for field in ('key_heads', 'head_width', 'feed_forward', 'experts', 'window', 'init_scale'):
        if getattr(model, field) < 0:
            raise FieldError(field, getattr(model, field), 'must be at least 0')
    for field, known in (('activation', nn.ACTIVATIONS), ('attention', ATTENTION), ('norm', nn.NORMS), ('order', nn.ORDERS),
                         ('positions', nn.POSITIONS)):
        if getattr(model, field) not in known:
            raise FieldError(field, getattr(model, field), suggestion(getattr(model, field), known))
    if model.key_heads and model.heads % model.key_heads:
        raise FieldError('key_heads', model.key_heads, f'must divide heads={model.heads}')
    for field in ('embedding_dropout', 'attention_dropout'):
        if not 0 <= getattr(model, field) < 1:
            raise FieldError(field, getattr(model, field), 'must be at least 0 and less than 1')
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
    for field in ('relative_buckets', 'relative_limit'):
        refuse_unused(model, field, model.positions != 'relative', f"is for positions='relative', and they are {model.positions!r}")
    if model.relative_buckets < 4 or model.relative_buckets % 2:
        raise FieldError('relative_buckets', model.relative_buckets, 'must be even, and at least 4')
    if model.relative_limit <= model.relative_buckets // 2:
        raise FieldError('relative_limit', model.relative_limit, f'must be more than half of relative_buckets={model.relative_buckets}')
    refuse_unused(model, 'experts', not model.balances, 'is for language models: nothing would keep the experts of this one in '
                  'balance')
    refuse_unused(model, 'experts_chosen', not model.experts, 'is for a mixture of experts, and experts=0')
    if model.experts and not 1 <= model.experts_chosen <= model.experts:
        raise FieldError('experts_chosen', model.experts_chosen, f'must be at least 1 and at most experts={model.experts}')
    linear = model.attention == 'linear'
    for field in ('window', 'attention_dropout'):
        refuse_unused(model, field, linear, "is for weights of single steps, which attention='linear' does not have")
    if linear and model.positions in ('alibi', 'relative', 'rotary'):  # a turn before the features is none after them
        raise FieldError('positions', model.positions, "is of scores, which attention='linear' does not have; take 'sinusoidal', "
                         "'learned' or 'none'")
