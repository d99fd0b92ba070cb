"""All language models against numpy, one against torch, and `extend` in any pieces against the whole row."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, nn, ops
from tests.reference import recurrence as reference_recurrence
from tests.reference import state_space
from tests.reference import transformer as reference_transformer
from tests.reference.parameters import random_parameters

B, T, V, D, L, H = 3, 7, 11, 8, 2, 2
VARIANTS = {
    'gpt': ('gpt', dict(width=D, depth=L, heads=H)),
    'gpt_with_biases': ('gpt', dict(width=D, depth=L, heads=H, bias=True)),
    'lstm': ('recurrent', dict(width=D, depth=L)),
    'lstm_tied': ('recurrent', dict(width=D, depth=L, tie_embeddings=True)),
    'mamba': ('mamba', dict(width=D, depth=L, state_size=3)),
    'rwkv': ('rwkv', dict(width=D, depth=L)),
}
ALL = ['gpt_with_biases', 'lstm', 'mamba', 'rwkv']


@functools.cache
def make(variant, **fields):
    """A model with random parameters, and tokens."""
    name, chosen = VARIANTS[variant]
    model = models.build(name, vocabulary=V, context_length=T, **chosen, **fields)
    tokens = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
    return model, random_parameters(model, tokens), tokens


@functools.cache
def whole_rows(variant):
    model, params, tokens = make(variant)
    return np.asarray(jax.jit(model.apply)({'params': params}, tokens))


def numpy_gpt(params, tokens):
    x = np.float64(params['embedding']['table'])[tokens] + params['positions']['table'][:tokens.shape[1]]
    for layer in range(L):
        x = reference_transformer.block(params['decoder'][f'block_{layer}'], x, reference_transformer.causal(*tokens.shape))
    return reference_transformer.layer_norm(params['decoder']['norm'], x) @ params['embedding']['table'].T


def numpy_lstm(params, tokens):
    x = np.float64(params['embedding']['table'])[tokens]
    for layer in range(L):
        x, _ = reference_recurrence.recur(reference_recurrence.lstm, params['recurrent'][f'layer_{layer}'], x)
    if 'output' in params:
        return x @ params['output']['kernel'] + params['output']['bias']
    return x @ params['embedding']['table'].T


def torch_gpt(torch, params, tokens):
    F = torch.nn.functional
    norm = lambda params, x: F.layer_norm(x, (D,), params['scale'], params['bias'], 1e-5)
    linear = lambda params, x, ins, outs: x @ params['kernel'].reshape(ins, outs) + params['bias'].reshape(outs)
    x = params['embedding']['table'][tokens] + params['positions']['table']
    for layer in range(L):
        block = params['decoder'][f'block_{layer}']
        seen = norm(block['attention_norm'], x)
        query, key, value = (linear(block['attention'][part], seen, D, D).unflatten(-1, (H, -1)).transpose(1, 2)
                             for part in ('query', 'key', 'value'))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(block['attention']['out'], y, D, D)
        y = F.gelu(linear(block['feed_forward']['in'], norm(block['feed_forward_norm'], x), D, 4 * D))
        x = x + linear(block['feed_forward']['out'], y, 4 * D, D)
    return norm(params['decoder']['norm'], x) @ params['embedding']['table'].T


@pytest.mark.parametrize('variant', VARIANTS)
def test_logits_equal_numpy(variant):
    _, params, tokens = make(variant)
    loops = dict(gpt=numpy_gpt, lstm=numpy_lstm, mamba=state_space.mamba_logits, rwkv=state_space.rwkv_logits)
    expected = loops[variant.partition('_')[0]](params, tokens)
    np.testing.assert_allclose(whole_rows(variant), expected, rtol=1e-5, atol=1e-5)


def test_logits_and_gradients_of_gpt_equal_torch():
    torch = pytest.importorskip('torch')
    model, params, tokens = make('gpt_with_biases')
    targets = np.random.default_rng(1).integers(0, V, (B, T))
    theirs = jax.tree.map(lambda array: torch.tensor(array, requires_grad=True), params)
    logits = torch_gpt(torch, theirs, torch.tensor(tokens).long())
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(targets).flatten()).backward()

    def loss(params):
        return ops.cross_entropy(model.apply({'params': params}, tokens), targets).mean()

    np.testing.assert_allclose(whole_rows('gpt_with_biases'), logits.detach(), rtol=1e-5, atol=1e-5)
    jax.tree.map(lambda actual, tensor: np.testing.assert_allclose(actual, tensor.grad, atol=1e-5),
                 jax.jit(jax.grad(loss))(params), theirs)


@pytest.mark.parametrize('variant', ALL)
def test_no_prediction_looks_at_a_later_token_and_all_look_at_every_earlier_one(variant):
    model, params, tokens = make(variant)
    mix = np.random.default_rng(2).standard_normal(V).astype(np.float32)

    def scores(embedded):
        def given(run, args, kwargs, context):
            looks_up = isinstance(context.module, nn.Embedding) and context.method_name == '__call__'
            return embedded[None] if looks_up else run(*args, **kwargs)
        with linen.intercept_methods(given):
            return model.apply({'params': params}, tokens[:1])[0] @ mix  # [T]

    embedded = params['embedding']['table'][tokens[0]]
    jacobian = np.asarray(jax.jit(jax.jacrev(scores))(embedded))  # [T, S, D]
    np.testing.assert_array_equal(np.any(jacobian != 0, axis=2), np.tril(np.ones((T, T), bool)))


@pytest.mark.parametrize('variant', ALL)
@pytest.mark.parametrize('pieces', [(1,) * T, (T,), (4, 1, 1, 1), (1, 4, 1, 1)], ids=str)
def test_reading_in_pieces_equals_reading_at_once(variant, pieces):
    model, params, tokens = make(variant)
    extend = jitted_extend(variant)
    state, logits = model.initial_state(B, T), []
    for start, piece in zip(np.cumsum((0, *pieces)), pieces):
        state, some = extend(params, state, tokens[:, start:start + piece])
        logits.append(some)
    np.testing.assert_allclose(np.concatenate(logits, axis=1), whole_rows(variant), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('variant', ALL)
def test_rows_that_read_at_their_own_pace_equal_reading_at_once(variant, seed):
    model, params, tokens = make(variant)
    extend, rng, width = jitted_extend(variant), np.random.default_rng(seed), 4
    state, position = model.initial_state(B, T), np.zeros(B, np.int32)
    logits = np.full((B, T, V), np.nan, np.float32)
    while position.min() < T:
        lengths = np.minimum(rng.integers(0, width + 1, B), T - position).astype(np.int32)
        piece = rng.integers(0, V, (B, width)).astype(np.int32)
        for b, n in enumerate(lengths):
            piece[b, :n] = tokens[b, position[b]:position[b] + n]
        state, some = extend(params, state, piece, lengths)
        for b, n in enumerate(lengths):
            logits[b, position[b]:position[b] + n] = np.asarray(some)[b, :n]
        position = position + lengths
    np.testing.assert_allclose(logits, whole_rows(variant), rtol=1e-5, atol=1e-5)


@functools.cache
def jitted_extend(variant):
    model, *_ = make(variant)
    return jax.jit(lambda params, state, *args: model.apply({'params': params}, state, *args, method='extend'))


@pytest.mark.parametrize('variant', [*ALL, 'lstm_tied'])
def test_bfloat16_logits_come_close_and_parameters_stay_float32(variant):
    model, _, tokens = make(variant, dtype='bfloat16')
    made = linen.unbox(jax.eval_shape(model.init, jax.random.key(0), tokens)['params'])
    assert {leaf.dtype for leaf in jax.tree.leaves(made)} == {np.dtype('float32')}
    logits = jax.jit(model.apply)({'params': make(variant)[1]}, tokens)
    assert logits.dtype == jnp.bfloat16
    error, size = np.linalg.norm(np.float32(logits) - whole_rows(variant)), np.linalg.norm(whole_rows(variant))
    assert 0 < error < 2e-2 * size


@pytest.mark.parametrize('variant', ALL)
def test_dropout_acts_in_training_only(variant):
    model, params, tokens = make(variant, dropout=0.5)
    train = jax.jit(lambda key: model.apply({'params': params}, tokens, train=True, rngs={'dropout': key}))
    first, again, other = (np.asarray(train(jax.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    np.testing.assert_array_equal(jax.jit(model.apply)({'params': params}, tokens), whole_rows(variant))


def test_a_row_longer_than_the_context_is_refused():
    model, params, _ = make('gpt')
    with pytest.raises(ValueError, match='8 tokens in a row, and context_length=7'):
        model.apply({'params': params}, np.zeros((1, T + 1), np.int32))
    with pytest.raises(ValueError, match='a cache of 8 steps, and context_length=7'):
        model.initial_state(1, T + 1)


def test_the_lstm_state_has_one_size_however_long_the_text():
    model, *_ = make('lstm')
    layers, new = model.initial_state(B, 10 ** 9)
    assert [[part.shape for part in layer] for layer in layers] == [[(B, D)] * 2] * L and new.all()


# ------------------------------------------------------------------------------------------------ packed rows

# Two rows: texts of 3, 1 and 2 steps with one step of padding, and of 5 and 2 steps.
SEGMENTS = np.array([[1, 1, 1, 2, 3, 3, 0], [1, 1, 1, 1, 1, 2, 2]], np.int32)
TEXTS = [(0, 0, 3), (0, 3, 4), (0, 4, 6), (1, 0, 5), (1, 5, 7)]  # (row, first step, end)
PACKED = {'gpt': ('gpt_with_biases', {}), 'lstm': ('lstm', dict(learned_state=True, zoneout=0.3)),
          'lru': ('lstm', dict(cell='lru')), 'mamba': ('mamba', {}), 'rwkv': ('rwkv', {})}


@pytest.mark.parametrize('name', PACKED)
def test_a_packed_text_equals_the_text_in_a_row_of_its_own(name):
    variant, fields = PACKED[name]
    model, params, tokens = make(variant, **fields)
    tokens, rng = tokens[:2], np.random.default_rng(5)
    pull = rng.standard_normal((2, T, V)).astype(np.float32) * (SEGMENTS > 0)[..., None]
    alone, pulls = np.zeros((len(TEXTS), T), np.int32), np.zeros((len(TEXTS), T, V), np.float32)
    for i, (row, start, end) in enumerate(TEXTS):
        alone[i, :end - start], pulls[i, :end - start] = tokens[row, start:end], pull[row, start:end]

    @jax.jit
    def run(params, tokens, pull, segments=None):
        def loss(params):
            logits = model.apply({'params': params}, tokens, segments=segments)
            return (logits * pull).sum(), logits
        return jax.grad(loss, has_aux=True)(params)

    gradient, logits = run(params, tokens, pull, SEGMENTS)
    expected_gradient, separate = run(params, alone, pulls)
    for i, (row, start, end) in enumerate(TEXTS):
        np.testing.assert_allclose(logits[row, start:end], separate[i, :end - start], rtol=1e-5, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), gradient, expected_gradient)

    noisy = np.where(SEGMENTS == 0, (tokens + 1) % V, tokens)  # what stands in the padding changes nothing
    again, others = run(params, noisy, pull, SEGMENTS)
    np.testing.assert_array_equal(np.where(pull != 0, logits, 0), np.where(pull != 0, others, 0))
    jax.tree.map(np.testing.assert_array_equal, gradient, again)


def test_positions_begin_anew_with_every_segment():
    steps = ops.steps_of_segments(SEGMENTS)
    assert steps.tolist() == [[0, 1, 2, 0, 0, 1, 0], [0, 1, 2, 3, 4, 0, 1]]


def test_penalties_count_no_padding_and_no_step_into_another_text():
    alpha, beta = 2.0, 3.0
    model, params, tokens = make('lstm', activation_penalty=alpha, slowness_penalty=beta)
    x = np.float64(params['embedding']['table'])
    expected = 0.0
    for row, start, end in TEXTS:
        h = x[tokens[row, start:end]][None]
        for layer in range(L):
            h, _ = reference_recurrence.recur(reference_recurrence.lstm, params['recurrent'][f'layer_{layer}'], h)
        expected += alpha * (h ** 2).mean(-1).sum() + beta * (np.diff(h, axis=1) ** 2).mean(-1).sum()
    run = jax.jit(lambda params: model.apply({'params': params}, tokens[:2], segments=SEGMENTS, train=True,
                                             mutable=['penalties'])[1]['penalties'])
    np.testing.assert_allclose(sum(run(params).values()), expected, rtol=1e-5)


def test_all_language_models_take_packed_rows():
    assert set(models.able('packs')) >= {'gpt', 'recurrent', 'mamba', 'rwkv'}
