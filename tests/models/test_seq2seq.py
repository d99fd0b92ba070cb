"""Encoder-decoders: a table of variants against a plain loop, step by step, under padding; what is refused."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models
from seqjax.errors import FieldError
from seqjax.special_tokens import START
from seqjax.tasks import Translation
from tests.reference import seq2seq as reference
from tests.reference.parameters import random_parameters

B, S, T, V, W, N, D, K = 3, 5, 4, 9, 8, 4, 3, 2  # V source tokens, W target tokens, K hypotheses of a row
LENGTHS = np.array([5, 2, 0], np.int32)
RNG = np.random.default_rng(0)
SOURCE = RNG.integers(1, V, (B, S)).astype(np.int32)  # no padding here is 0: whatever reads it is seen
TARGETS = RNG.integers(1, W, (B * K, T)).astype(np.int32)
ONE = dict(shared=True, target_vocabulary=V)  # vocabulary for both sides
VARIANTS = {
    'last': dict(context='last', cell='lstm', depth=2, embedding=D),
    'mapped': dict(context='mapped', cell='lstm', bidirectional=True, encoder_width=3),
    'mapped, projected': dict(context='mapped', cell='projected_lstm', encoder_width=8),
    'mean': dict(context='mean', bidirectional=True, tie_embeddings=True, **ONE),
    'mean_each state': dict(context='mean_each', embedding=D),
    'mean_each output': dict(context='mean_each', feed='output', cell='lstm', bidirectional=True),
    'mean_each input': dict(context='mean_each', feed='input', embedding=D, tie_embeddings=True),
    'additive state': dict(bidirectional=True, depth=2, encoder_width=3, embedding=D),
    'dot output': dict(attention='dot', feed='output', depth=2),
    'scaled_dot input': dict(attention='scaled_dot', feed='input', embedding=D, value_width=2, bidirectional=True),
    'bilinear state': dict(attention='bilinear', cell='lstm', encoder_width=6, tie_embeddings=True),
    'hard additive input': dict(feed='input', hard_attention=True, depth=2),
    'copy state': dict(copy=True, attention='dot', embedding=D, hard_attention=True, **ONE),
    'copy output': dict(copy=True, attention='bilinear', feed='output', tie_embeddings=True, bidirectional=True, **ONE),
}
ATTENDING = [name for name, fields in VARIANTS.items() if fields.get('context', 'attention') == 'attention']


@functools.cache
def make(variant):
    model = models.build('seq2seq', **{**dict(vocabulary=V, target_vocabulary=W, width=N), **VARIANTS[variant]})
    return model, random_parameters(model, SOURCE, LENGTHS, TARGETS[:B])


@functools.cache
def written(variant):
    """What a model says of K targets for every source: all at once, and one token after the other."""
    model, params = make(variant)

    @jax.jit
    def run(params):
        apply = functools.partial(model.apply, {'params': params})
        sources = np.repeat(SOURCE, K, axis=0), np.repeat(LENGTHS, K)
        found = dict(logits=apply(*sources, TARGETS))
        if variant in ATTENDING:
            found['weights'] = apply(*sources, TARGETS, method='align')
        memory, state = apply(SOURCE, LENGTHS, method='begin')

        def step(state, tokens):
            state, logits = apply(memory, state, tokens, method='step')
            return state, (logits, model.attended(state))

        state = jax.tree.map(lambda leaf: jnp.repeat(leaf, K, axis=0), state)
        _, (logits, weights) = jax.lax.scan(step, state, previous().T)
        found['step logits'] = logits.swapaxes(0, 1)
        found['step weights'] = None if weights is None else weights.swapaxes(0, 1)
        return found

    return jax.device_get(run(params))


def previous():
    return np.concatenate([np.full((B * K, 1), START, np.int32), TARGETS[:, :-1]], axis=1)


# ------------------------------------------------------------------------------------------------ what it computes

@pytest.mark.parametrize('variant', VARIANTS)
def test_it_is_a_loop_over_rows_and_tokens(variant):
    (model, params), found = make(variant), written(variant)
    for row, tokens in enumerate(previous()):
        length = LENGTHS[row // K]
        logits, weights = reference.write(model, params, SOURCE[row // K, :length], tokens)
        np.testing.assert_allclose(found['logits'][row], logits, rtol=1e-5, atol=1e-5)
        if variant in ATTENDING:
            np.testing.assert_allclose(found['weights'][row, :, :length], weights, rtol=1e-5, atol=1e-6)
    if model.copy:  # of a row with a source
        np.testing.assert_allclose(np.exp(found['logits'][:2 * K]).sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize('variant', VARIANTS)
def test_hypotheses_that_share_a_source_are_written_token_by_token(variant):
    found = written(variant)
    np.testing.assert_allclose(found['step logits'], found['logits'], rtol=1e-5, atol=1e-5)
    assert not np.allclose(found['logits'][0], found['logits'][1], atol=1e-2)  # they are not the same


@pytest.mark.parametrize('variant', VARIANTS)
def test_weights_are_those_of_the_steps_and_padding_has_none(variant):
    found = written(variant)
    if variant not in ATTENDING:
        assert found['step weights'] is None
        return
    np.testing.assert_allclose(found['step weights'], found['weights'], rtol=1e-5, atol=1e-6)
    padding = np.arange(S) >= np.repeat(LENGTHS, K)[:, None, None]  # [B K, 1, S]
    assert found['weights'].shape == (B * K, T, S) and not (found['weights'] * padding).any()
    np.testing.assert_allclose(found['weights'].sum(axis=-1)[:2 * K], 1, rtol=1e-6)
    if make(variant)[0].hard_attention:
        assert set(found['weights'].ravel()) == {0, 1}


# ------------------------------------------------------------------------------------------------ losses and gradients

SMOOTH = ['mapped', 'mean_each input', 'additive state', 'copy output']  # hard attention has another gradient: tests/ops


def draw(seed=1):
    """Ragged pairs; the last has no source, and its target counts."""
    rng, steps = np.random.default_rng(seed), np.array([T, 3, 2])
    return dict(inputs=SOURCE, lengths=LENGTHS, targets=rng.integers(1, W, (B, T)).astype(np.int32),
                weights=(np.arange(T) < steps[:, None]).astype(np.float32))


def padded(batch, seed=2):
    """The same pairs in longer rows with something in their padding, and two rows that hold nothing."""
    rng, (more_S, more_T) = np.random.default_rng(seed), (3, 2)
    noise = lambda steps, size: rng.integers(1, size, (B, steps)).astype(np.int32)
    fill = lambda rows, real, more, size: np.concatenate(
        [np.where(real, rows, noise(rows.shape[1], size)), noise(more, size)], axis=1)
    longer = dict(inputs=fill(SOURCE, np.arange(S) < LENGTHS[:, None], more_S, V), lengths=LENGTHS,
                  targets=fill(batch['targets'], batch['weights'] > 0, more_T, W),
                  weights=np.pad(batch['weights'], ((0, 0), (0, more_T))))
    return {name: np.pad(rows, ((0, 2), *((0, 0),) * (rows.ndim - 1))) for name, rows in longer.items()}


@functools.partial(jax.jit, static_argnums=0)
def sums_and_gradient(model, params, batch):
    def loss(params):
        sums = Translation(model)(params, batch)
        return sums.loss, sums

    gradient, sums = jax.grad(loss, has_aux=True)(params)
    return sums, gradient


@functools.cache
def measured(variant):
    return jax.device_get(sums_and_gradient(*make(variant), padded(draw())))


@pytest.mark.parametrize('variant', SMOOTH)
def test_what_stands_in_padding_changes_nothing_at_all(variant):
    other = jax.device_get(sums_and_gradient(*make(variant), padded(draw(), seed=4)))
    jax.tree.map(np.testing.assert_array_equal, measured(variant), other)


@pytest.mark.parametrize('variant', ['mean_each input', 'copy output'])
def test_longer_and_empty_rows_change_no_loss_and_no_gradient(variant):
    (sums, gradient), (sums2, gradient2) = measured(variant), jax.device_get(sums_and_gradient(*make(variant), draw()))
    np.testing.assert_allclose(sums.loss, sums2.loss, rtol=1e-6)
    assert sums.weight == sums2.weight == 9 and sums.metrics == sums2.metrics
    size = np.sqrt(sum((leaf ** 2).sum() for leaf in jax.tree.leaves(gradient)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * size), gradient, gradient2)


@pytest.mark.parametrize('variant', SMOOTH)
def test_the_gradient_is_the_slope_of_the_loop_in_float64(variant):
    """Which knows nothing of padding, and leaves no leaf without a gradient or with one that is not a number."""
    (model, params), (sums, gradient) = make(variant), measured(variant)
    np.testing.assert_allclose(sums.loss, reference.loss(model, params, draw()), rtol=1e-5)
    leaves, tree = jax.tree.flatten(params)
    rng, step = np.random.default_rng(3), 1e-5
    for number, (leaf, slope) in enumerate(zip(leaves, jax.tree.leaves(gradient))):
        direction = rng.standard_normal(leaf.shape)
        at = lambda way: reference.loss(model, tree.unflatten(
            [*leaves[:number], leaf + way * step * direction, *leaves[number + 1:]]), draw())
        expected = (at(1) - at(-1)) / (2 * step)
        assert (slope * direction).sum() == pytest.approx(expected, rel=1e-4, abs=1e-5) and slope.any()


def test_bfloat16_comes_close():
    model, params = make('additive state')
    given = {'params': params}, np.repeat(SOURCE, K, axis=0), np.repeat(LENGTHS, K), TARGETS
    logits, exact = np.float32(jax.jit(model.clone(dtype='bfloat16').apply)(*given)), written('additive state')['logits']
    assert 0 < np.linalg.norm(logits - exact) < 3e-2 * np.linalg.norm(exact)


# ------------------------------------------------------------------------------------------------ its parts

@pytest.mark.parametrize('feed', ['state', 'output'])
def test_dropout_acts_on_embeddings_between_layers_and_on_what_the_output_sees(feed):
    model = models.build('seq2seq', vocabulary=V, target_vocabulary=W, width=N, depth=2, embedding=D, feed=feed, dropout=0.5)
    params, masks, trains = random_parameters(model, SOURCE), [], []

    def record(run, args, kwargs, context):
        result = run(*args, **kwargs)
        if isinstance(context.module, linen.Dropout) and not kwargs.get('deterministic', context.module.deterministic):
            trains.append(True)
            masks.extend([] if isinstance(result, jax.core.Tracer) else [np.asarray(result != 0)])
        return result

    def run(params, train):
        with linen.intercept_methods(record):
            return model.apply({'params': params}, SOURCE, LENGTHS, TARGETS[:B], train=train,
                               rngs={'dropout': jax.random.key(0)})

    jax.eval_shape(functools.partial(run, train=False), params)
    assert not trains
    with jax.disable_jit():  # a loop over time that runs step by step
        run(params, train=True)
    steps = [mask for mask in masks if mask.shape == (B, 1, N)]  # a step at a time, where a step needs the one before
    shapes = [(B, S, D), (B, S, N), (B, T, D), (B, T, D)] + ([] if steps else [(B, T, N)])
    assert sorted(mask.shape for mask in masks if mask.shape[1] > 1) == sorted(shapes)
    assert len(steps) == (T if feed == 'state' else 0) and (not steps or len({mask.tobytes() for mask in steps}) > 1)


def test_what_there_is_to_learn():
    names = lambda **fields: sorted(jax.eval_shape(lambda: models.build('seq2seq', vocabulary=V, width=N, **fields).init(
        jax.random.key(0), SOURCE))['params'])
    least = ['decoder', 'encoder', 'output', 'source_embedding', 'target_embedding']
    assert names(context='last') == least
    assert names(context='mean') == sorted([*least, 'bridge_0_0'])
    assert names() == sorted([*least, 'bridge_0_0', 'lookup', 'readout'])
    assert names(shared=True, tie_embeddings=True, copy=True, attention='dot') == [
        'bridge_0_0', 'decoder', 'encoder', 'gate', 'readout', 'target_embedding']


# ------------------------------------------------------------------------------------------------ what is refused

REFUSED = [
    (dict(width=0), 'width=0: must be at least 1'),
    (dict(depth=0), 'depth=0: must be at least 1'),
    *((dict([(field, -1)]), f'{field}=-1: must be at least 0') for field in ('embedding', 'encoder_width', 'value_width')),
    (dict(cell='grru'), "cell='grru': no such cell; did you mean 'gru'?"),
    (dict(cell='lru'), "cell='lru': has a complex state, which no map of the source leads to; choose another cell"),
    (dict(context='maped'), "context='maped': no such context; did you mean 'mapped'?"),
    (dict(feed='outputs'), "feed='outputs': choose one of: state, output, input"),
    (dict(attention='luong'), "attention='luong': choose one of: additive, dot, scaled_dot, bilinear"),
    *((dict([('context', context), (field, value)]),
       f"{field}={value!r}: is for context='attention', and it is {context!r}; leave it at {default!r}")
      for context, field, value, default in (('last', 'attention', 'dot', 'additive'), ('mapped', 'value_width', 3, 0),
                                             ('mean', 'hard_attention', True, False), ('mean_each', 'copy', True, False))),
    *((dict(context=context, feed='input'), "feed='input': says where a context of every step goes, and "
       f"context={context!r} has none; leave it at 'state'") for context in ('last', 'mapped', 'mean')),
    *((dict(context='last', **fields), "context='last': the last state of the encoder is not of the size of the first one "
       "of the decoder (bidirectional, or another encoder_width); write 'mapped'")
      for fields in (dict(bidirectional=True), dict(encoder_width=3))),
    (dict(attention='dot', bidirectional=True), "attention='dot': the states of the decoder have 4 numbers and those of the "
     "encoder 8; write 'bilinear', which needs no equal widths"),
    (dict(attention='dot', encoder_width=3), "attention='dot': the states of the decoder have 4 numbers and those of the "
     "encoder 3; write 'bilinear', which needs no equal widths"),
    (dict(attention='bilinear', cell='projected_lstm'), "attention='bilinear': cell 'projected_lstm' puts out 64 numbers "
     'and width=4; choose another'),
    (dict(context='last', tie_embeddings=True, embedding=3), 'tie_embeddings=True: the output sees 4 numbers and the embedding has 3'),
    (dict(copy=True, target_vocabulary=W),
     'copy=True: needs one vocabulary for source and target; set config.data.shared_vocabulary=True'),
]


@pytest.mark.parametrize('fields, sentence', REFUSED, ids=[f'{fields}' for fields, _ in REFUSED])
def test_what_cannot_be_or_would_do_nothing_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        models.build('seq2seq', **{'vocabulary': V, 'width': N, **fields})
    assert str(caught.value) == sentence


@pytest.mark.parametrize('fields', [
    dict(context='last', encoder_width=N), dict(attention='dot', encoder_width=2, bidirectional=True), dict(copy=True),
    dict(copy=True, target_vocabulary=V, shared=True), dict(tie_embeddings=True, embedding=3),
    dict(context='mean_each', feed='input')], ids=str)
def test_what_looks_like_it_and_is_possible(fields):
    models.build('seq2seq', **{'vocabulary': V, 'width': N, **fields})
