"""Every family of Transformers against numpy, whatever its positions, attention and heads; caches against doing without."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import decode, models, ops, tasks
from seqjax.errors import FieldError
from seqjax.special_tokens import END, START
from tests.reference import transformer as reference
from tests.reference.parameters import random_parameters

B, T, S, V, D, L, H = 3, 7, 6, 13, 8, 2, 4
SIZES = dict(width=D, depth=L, heads=H)
LENGTHS = np.array([6, 4, 1], np.int32)

DECODERS = {
    'gpt': ('gpt', dict(bias=True, activation='gelu_tanh')),
    'sinusoidal': ('gpt', dict(positions='sinusoidal')),
    'alibi': ('gpt', dict(positions='alibi', kv_heads=2)),
    'relative': ('gpt', dict(positions='relative')),
    'window': ('gpt', dict(sliding_window=3)),
    'post': ('gpt', dict(norm_position='post', positions='none', tie_embeddings=False)),
    'llama': ('llama', dict(kv_heads=2, feed_forward=12)),
    'scanned': ('llama', dict(scan_layers=True, remat=True)),
    'linear': ('gpt', dict(attention='linear', positions='sinusoidal')),
    'experts': ('gpt', dict(experts=3, experts_per_token=2)),
}


@functools.cache
def make(variant):
    name, fields = DECODERS[variant]
    model = models.build(name, vocabulary=V, context_length=T, **SIZES, **fields)
    tokens = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)
    return model, random_parameters(model, tokens, scale=0.4), tokens


@functools.cache
def whole_rows(variant):
    model, params, tokens = make(variant)
    return np.asarray(jax.jit(model.apply)({'params': params}, tokens))


def rotated(steps):
    """x [B, T, H, K] with the pair (i, i + K/2) turned by step * 10000^(-2i / K), number by number."""
    def turn(x):
        K, out = x.shape[-1], np.zeros(x.shape)
        for t, step in enumerate(steps):
            for i in range(K // 2):
                angle = step * 10000.0 ** (-2 * i / K)
                first, second = x[:, t, :, i], x[:, t, :, i + K // 2]
                out[:, t, :, i] = first * np.cos(angle) - second * np.sin(angle)
                out[:, t, :, i + K // 2] = second * np.cos(angle) + first * np.sin(angle)
        return out

    return turn


def sines(T):
    angles = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, D)


def by_distance(bias_of, T, S):
    """[H, T, S] of bias_of(t - s) -> [H]."""
    return np.stack([[bias_of(t - s) for s in range(S)] for t in range(T)]).transpose(2, 0, 1)


def t5_bias(table, causal, T, S):
    bucket = lambda d: int(ops.relative_buckets(jnp.array(-d), causal=causal))  # against torch in tests/ops
    return by_distance(lambda d: np.float64(table[bucket(d)]), T, S)


def numpy_decoder(variant, params, tokens):
    model, positions = make(variant)[0], make(variant)[0].positions
    x = np.float64(params['embedding']['table'])[tokens]
    if positions == 'learned':
        x = x + params['positions']['table'][:T]
    if positions == 'sinusoidal':
        x = x * D ** 0.5 + sines(T)
    options = dict(norm_position=model.norm_position, activation=model.activation)
    if positions == 'rotary':
        options['rotate'] = rotated(range(T))
    if positions == 'alibi':
        options['bias'] = by_distance(lambda d: np.array([-(2.0 ** (-8 * (h + 1) / H)) * abs(d) for h in range(H)]), T, T)
    if positions == 'relative':
        options['bias'] = t5_bias(params['positions']['table'], True, T, T)
    norm = reference.layer_norm
    if model.norm == 'rms':
        norm = functools.partial(reference.rms_norm, epsilon=1e-6)
    mask = reference.causal(B, T)
    if model.sliding_window:
        mask = mask & ~np.tril(np.ones((T, T), bool), -model.sliding_window)
    for layer in range(L):
        if model.scan_layers:
            block = jax.tree.map(lambda leaf: leaf[layer], params['decoder']['blocks'])
        else:
            block = params['decoder'][f'block_{layer}']
        x = reference.block(block, x, mask, norm=norm, **options)
    if model.norm_position == 'pre':
        x = norm(params['decoder']['norm'], x)
    return x @ (params['embedding']['table'].T if model.tie_embeddings else params['output']['kernel'])


@pytest.mark.parametrize('variant', [name for name in DECODERS if name not in ('linear', 'experts')])
def test_logits_of_a_decoder_equal_numpy(variant):
    _, params, tokens = make(variant)
    np.testing.assert_allclose(whole_rows(variant), numpy_decoder(variant, params, tokens), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('variant', DECODERS)
def test_reading_with_a_cache_equals_reading_at_once(variant):
    model, params, tokens = make(variant)
    extend = jax.jit(lambda state, *args: model.apply({'params': params}, state, *args, method='extend'))
    state, logits = model.initial_state(B, T), np.full((B, T, V), np.nan, np.float32)
    position = np.zeros(B, np.int32)
    for lengths in ([3, 1, 2], [2, 3, 0], [0, 3, 3], [2, 0, 2]):  # of the three tokens given, how many count
        places = np.minimum(position[:, None] + np.arange(3), T - 1)
        state, some = extend(state, np.take_along_axis(tokens, places, axis=1), np.array(lengths, np.int32))
        for b, n in enumerate(lengths):
            logits[b, position[b]:position[b] + n] = np.asarray(some)[b, :n]
        position += np.array(lengths, np.int32)
    np.testing.assert_array_equal(position, [T] * B)
    np.testing.assert_allclose(logits, whole_rows(variant), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('variant', ['gpt', 'llama', 'linear'])
def test_a_prefix_is_seen_by_all_and_packed_texts_by_their_own(variant):
    model, params, tokens = make(variant)
    segments = np.array([[1, 1, 1, 2, 2, 2, 2]] * B, np.int32)
    packed = jax.jit(lambda tokens: model.apply({'params': params}, tokens, segments=segments))(tokens)
    alone = jax.jit(lambda tokens: model.apply({'params': params}, tokens))
    np.testing.assert_allclose(packed[:, :3], alone(np.asarray(tokens))[:, :3], rtol=1e-4, atol=1e-5)
    second = np.concatenate([tokens[:, 3:], tokens[:, :3]], axis=1)
    np.testing.assert_allclose(packed[:, 3:], alone(second)[:, :4], rtol=1e-4, atol=1e-5)
    if variant == 'linear':
        return
    prefix = np.array([0, 3, 7], np.int32)
    run = jax.jit(lambda tokens: model.apply({'params': params}, tokens, prefix=prefix))
    other = tokens.copy()
    other[:, 2] = (other[:, 2] + 1) % V
    changed = np.abs(run(tokens) - run(other)).max(axis=-1) > 1e-6
    np.testing.assert_array_equal(changed, [[False] * 2 + [True] * 5, [True] * 7, [True] * 7])


def test_sines_of_a_state_without_slots_go_on_for_ever():
    """Linear attention keeps one matrix, however long the text; its positions are not those of a table of some length."""
    model = models.build('gpt', vocabulary=V, **SIZES, attention='linear', positions='sinusoidal')
    _, params, tokens = make('linear')
    whole = jax.jit(model.apply)({'params': params}, tokens)
    extend = jax.jit(lambda state, token: model.apply({'params': params}, state, token, method='extend'))
    state = model.initial_state(B, 1)
    for t in range(T):
        state, logits = extend(state, tokens[:, t:t + 1])
        np.testing.assert_allclose(logits[:, 0], whole[:, t], rtol=1e-4, atol=1e-5)


def test_what_ends_a_branch_starts_smaller_the_more_of_them_there_are():
    model = models.build('t5', vocabulary=V, width=64, heads=4, depth=8, decoder_depth=1)
    tokens = jnp.zeros((1, 2), jnp.int32)
    params = jax.device_get(jax.jit(model.init)(jax.random.key(0), tokens, None, tokens))['params']
    kernel = lambda stack: jax.tree.leaves(params[stack]['block_0']['feed_forward']['out']['kernel'])[0]
    assert np.var(kernel('encoder')) * 256 == pytest.approx(1 / (2 * 8), rel=0.1)
    assert np.var(kernel('decoder')) * 256 == pytest.approx(1 / (3 * 1), rel=0.1)


def test_a_mixture_of_experts_adds_its_balance_to_the_loss():
    model, params, tokens = make('experts')
    batch = dict(inputs=tokens, targets=tokens, weights=np.ones((B, T), np.float32))
    sums = jax.jit(tasks.LanguageModel(model))(params, batch, jax.random.key(0))
    plain = jax.jit(lambda params: ops.cross_entropy(model.apply({'params': params}, tokens), tokens).sum())(params)
    assert float(sums.metrics['penalty']) > 0
    np.testing.assert_allclose(sums.loss, plain + sums.metrics['penalty'], rtol=1e-6)


# ------------------------------------------------------------------------------------------------ BERT

@functools.cache
def make_bert(**fields):
    model = models.build('bert', vocabulary=V, context_length=T, **SIZES, **{'outputs': 0, **fields})
    tokens = np.random.default_rng(0).integers(5, V, (B, S)).astype(np.int32)
    tokens[0, 2] = tokens[1, 1] = END
    return model, random_parameters(model, tokens, scale=0.4), tokens


def numpy_bert(params, tokens):
    x = np.float64(params['embedding']['table'])[tokens] + params['positions']['table'][:S]
    types = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0] * 6])  # of the tokens of make_bert
    norm = functools.partial(reference.layer_norm, epsilon=1e-12)
    x = norm(params['embedding_norm'], x + params['types']['table'][types])
    for layer in range(L):
        x = reference.block(params['encoder'][f'block_{layer}'], x, reference.until(LENGTHS, S, S), norm_position='post', norm=norm)
    return x


def test_bert_equals_numpy_and_fills_in_what_is_asked_for():
    model, params, tokens = make_bert()
    hidden = numpy_bert(params, tokens)
    found = jax.jit(lambda **given: model.apply({'params': params}, tokens, LENGTHS, **given))()
    dense = reference.project(params['masked_dense'], hidden)
    logits = reference.layer_norm(params['masked_norm'], reference.ACTIVATIONS['gelu'](dense), 1e-12) @ params['embedding']['table'].T
    logits = logits + params['masked_bias']
    pooled = np.tanh(reference.project(params['pooler'], hidden[:, 0]))
    for b, n in enumerate(LENGTHS):
        np.testing.assert_allclose(found['tokens'][b, :n], logits[b, :n], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found['next'], reference.project(params['next'], pooled), rtol=1e-4, atol=1e-4)
    places = np.array([[5, 0], [1, 1], [0, 0]], np.int32)
    some = jax.jit(lambda: model.apply({'params': params}, tokens, LENGTHS, places=places))()['tokens']
    np.testing.assert_allclose(some, np.take_along_axis(np.asarray(found['tokens']), places[..., None], axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('per_step', [False, True], ids=['a_class', 'labels'])
def test_bert_with_a_head_answers_for_a_row_or_for_every_step(per_step):
    model, params, tokens = make_bert(outputs=3, per_step=per_step)
    hidden = numpy_bert(params, tokens)
    found = jax.jit(lambda: model.apply({'params': params}, tokens, LENGTHS))()
    if per_step:
        for b, n in enumerate(LENGTHS):
            np.testing.assert_allclose(found[b, :n], reference.project(params['classifier'], hidden)[b, :n], rtol=1e-4, atol=1e-4)
    else:
        pooled = np.tanh(reference.project(params['pooler'], hidden[:, 0]))
        np.testing.assert_allclose(found, reference.project(params['classifier'], pooled), rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------ encoder-decoders

PAIRS = {
    'transformer': ('transformer', {}),
    'pre': ('transformer', dict(norm_position='pre', decoder_depth=1, tie_embeddings=False)),
    'shared': ('transformer', dict(shared=True, target_vocabulary=V)),
    't5': ('t5', {}),
    't5_1.1': ('t5', dict(gated=True, activation='gelu_tanh', tie_embeddings=False, head_width=3)),
    'scanned': ('t5', dict(scan_layers=True)),
}
W = 11  # tokens of the target


@functools.cache
def make_pair(variant):
    name, fields = PAIRS[variant]
    model = models.build(name, vocabulary=V, **{'target_vocabulary': W, **SIZES, **fields})
    rng = np.random.default_rng(0)
    inputs, targets = (rng.integers(4, W, (B, steps)).astype(np.int32) for steps in (S, T))
    return model, random_parameters(model, inputs, LENGTHS, targets, scale=0.4), inputs, targets


@functools.cache
def logits_of(variant):
    model, params, inputs, targets = make_pair(variant)
    return np.asarray(jax.jit(model.apply)({'params': params}, inputs, LENGTHS, targets))


def numpy_pair(variant):
    model, params, inputs, targets = make_pair(variant)
    previous = np.concatenate([np.full((B, 1), START), targets[:, :-1]], axis=1)
    t5 = isinstance(model, models.T5)
    norm = functools.partial(reference.rms_norm, epsilon=1e-6) if t5 else reference.layer_norm
    options = dict(norm_position=model.norm_position, activation=model.activation, norm=norm, **(dict(scale=1.0) if t5 else {}))

    def stack(side, x, mask, **more):
        blocks = params[side]
        for layer in range((model.decoder_depth or L) if side == 'decoder' else L):
            block = jax.tree.map(lambda leaf: leaf[layer], blocks['blocks']) if model.scan_layers else blocks[f'block_{layer}']
            x = reference.block(block, x, mask, **options, **more)
        return norm(blocks['norm'], x) if model.norm_position == 'pre' else x

    def embedded(name, tokens):
        x = np.float64(params['target_embedding' if model.shared else name]['table'])[tokens]
        return x if t5 else x * D ** 0.5 + sines(tokens.shape[1])

    bias = lambda side, causal, n: dict(bias=t5_bias(params[f'{side}_positions']['table'], causal, n, n)) if t5 else {}
    memory = stack('encoder', embedded('source_embedding', inputs), reference.until(LENGTHS, S, S), **bias('source', False, S))
    x = stack('decoder', embedded('target_embedding', previous), reference.causal(B, T), memory=memory,
              memory_mask=reference.until(LENGTHS, T, S), **bias('target', True, T))
    if not model.tie_embeddings:
        return x @ params['output']['kernel']
    return (x * D ** -0.5 if t5 else x) @ params['target_embedding']['table'].T


@pytest.mark.parametrize('variant', PAIRS)
def test_logits_of_an_encoder_decoder_equal_numpy(variant):
    np.testing.assert_allclose(logits_of(variant), numpy_pair(variant), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('variant', PAIRS)
def test_writing_step_by_step_equals_writing_at_once_for_every_hypothesis(variant):
    model, params, inputs, targets = make_pair(variant)
    previous = np.concatenate([np.full((B, 1), START), targets[:, :-1]], axis=1).astype(np.int32)
    memory, state = jax.jit(lambda: model.apply({'params': params}, inputs, LENGTHS, T, method='begin'))()
    state = jax.tree.map(lambda leaf: np.repeat(leaf, 2, axis=0), state)  # two hypotheses of every row
    step = jax.jit(lambda state, tokens: model.apply({'params': params}, memory, state, tokens, method='step'))
    aligned = jax.jit(lambda: model.apply({'params': params}, inputs, LENGTHS, targets, method='align'))()
    for t in range(T):
        state, logits = step(state, np.repeat(previous[:, t], 2))
        np.testing.assert_allclose(logits, np.repeat(logits_of(variant)[:, t], 2, axis=0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model.attended(state)[::2], aligned[:, t], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(aligned.sum(axis=-1), 1, rtol=1e-5)


def test_a_beam_finds_the_same_with_any_batch_and_scores_what_it_returns():
    model, params, inputs, _ = make_pair('t5')
    rows = [row[:n] for row, n in zip(inputs, LENGTHS)]
    decoder, options = decode.make_decoder(model, params), dict(limits=decode.Limits(5), shapes=(S,))
    together = decode.search(decoder, rows, decode.Beam(3, n_best=1), batch_size=4, **options)
    for row, found in zip(rows, together):
        alone = decode.search(decoder, [row], decode.Beam(3, n_best=1), batch_size=1, **options)[0]
        np.testing.assert_array_equal(alone.texts[0], found.texts[0])
        assert alone.log_probs[0] == pytest.approx(found.log_probs[0], abs=1e-4)


# ------------------------------------------------------------------------------------------------ what cannot be

@pytest.mark.parametrize('name, fields, message', [
    ('gpt', dict(kv_heads=3), 'kv_heads=3: must divide heads=4'),
    ('gpt', dict(activation='swish'), "activation='swish': choose one of: gelu, gelu_tanh, quick_gelu, relu, silu"),
    ('gpt', dict(attention='linear', sliding_window=4), "sliding_window=4: is for weights of single steps, which attention='linear' does not have"),
    ('gpt', dict(attention='linear', positions='alibi'), "positions='alibi': is of scores"),
    ('llama', dict(attention='linear'), "positions='rotary': is of scores"),
    ('llama', dict(rotary_base=0.0), 'rotary_base=0.0: must be more than 0'),
    ('llama', dict(head_width=33), 'head_width=33: must be even: rotary positions turn pairs'),
    ('gpt', dict(width=9, heads=3, positions='sinusoidal'), 'width=9: must be even: sinusoidal positions are pairs'),
    ('transformer', dict(decoder_depth=-1), 'decoder_depth=-1: must be at least 0'),
    ('gpt', dict(rotary_base=5.0), "rotary_base=5.0: is for positions='rotary'"),
    ('llama', dict(rotary_factor=0.0), 'rotary_factor=0.0: must be more than 0'),
    ('llama', dict(rotary_low=4.0, rotary_length=64), 'rotary_low=4.0: must be less than rotary_high=4.0'),
    ('llama', dict(rotary_high=8.0), 'rotary_high=8.0: is for rates that change by a part, and rotary_length=0'),
    ('llama', dict(rotary_length=64, positions='learned'), "rotary_length=64: is for positions='rotary', and they are 'learned'"),
    ('gpt', dict(relative_buckets=8), "relative_buckets=8: is for positions='relative', and they are 'learned'"),
    ('t5', dict(relative_buckets=7), 'relative_buckets=7: must be even, and at least 4'),
    ('t5', dict(relative_max_distance=16), 'relative_max_distance=16: must be more than half of relative_buckets=32'),
    ('gpt', dict(experts_per_token=1), 'experts_per_token=1: is for a mixture of experts'),
    ('gpt', dict(experts=2, experts_per_token=3), 'experts_per_token=3: must be at least 1 and at most experts=2'),
    ('t5', dict(experts=2), 'experts=2: is for language models'),
    ('gpt', dict(positions='rotari'), "positions='rotari': did you mean 'rotary'"),
    ('llama', dict(width=12, heads=4), 'heads=4: rotary positions turn pairs'),
    ('gpt', dict(attention_dropout=1.0), 'attention_dropout=1.0: must be at least 0 and less than 1'),
    ('transformer', dict(positions='learned'), "positions='learned': needs a length that no row exceeds"),
    ('transformer', dict(norm_position='middle'), "norm_position='middle'"),
])
def test_fields_that_make_no_transformer_are_refused(name, fields, message):
    with pytest.raises(FieldError) as error:
        models.build(name, vocabulary=V, context_length=T, **fields)
    assert message in str(error.value)
