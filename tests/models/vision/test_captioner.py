"""Captioners: every context and cell against a plain loop over images and words, step by step, and behind every search."""

import functools
import itertools
from types import SimpleNamespace

from flax.core import meta
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import decode, models
from seqjax.errors import FieldError
from seqjax.special_tokens import END, START
from tests.reference import seq2seq as reference
from tests.reference import transformer
from tests.reference.parameters import random_parameters

B, T, V, K = 2, 4, 6, 2  # K hypotheses of an image
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (B, 8, 8, 1)).astype(np.uint8) // np.uint8([1, 6])[:, None, None, None]
TARGETS = RNG.integers(1, V, (B * K, T)).astype(np.int32)
RESNET = dict(encoder_width=2)
VIT = dict(encoder='vit', encoder_depth=1, encoder_heads=2, encoder_width=4, patch_size=4)
VARIANTS = {
    'first': ('captioner', dict(context='first', width=4, **RESNET)),
    'every': ('captioner', dict(context='every', cell='gru', width=4, embedding=3, **RESNET)),
    'attention': ('captioner', dict(width=4, depth=2, embedding=3, **RESNET)),
    'attention, vit': ('captioner', dict(cell='gru', width=4, attention='scaled_dot', tie_embeddings=True, **VIT)),
    'transformer': ('transformer_captioner', dict(width=4, depth=2, heads=2, **RESNET)),
    'transformer, vit': ('transformer_captioner', dict(width=4, depth=1, heads=2, scan_layers=True, tie_embeddings=False, **VIT)),
}
every_variant = pytest.mark.parametrize('variant', VARIANTS)


@functools.cache
def make(variant):
    name, fields = VARIANTS[variant]
    model = models.build(name, vocabulary=V, **fields)
    arrays = IMAGES, None, TARGETS[:B]
    params = jax.tree.map(jnp.asarray, random_parameters(model, *arrays, scale=0.5))
    shapes = meta.unbox(jax.eval_shape(model.init, jax.random.key(0), *arrays))
    if 'batch_stats' not in shapes:
        return model, params
    rng = np.random.default_rng(1)
    return models.WithStatistics(model, jax.tree.map(lambda leaf: jnp.float32(rng.uniform(0.5, 1.5, leaf.shape)),
                                                     shapes['batch_stats'])), params


@functools.cache
def written(variant):
    """What a model says of K captions for every image: all at once, and one word after the other."""
    model, params = make(variant)

    @jax.jit
    def run(params):
        apply = functools.partial(model.apply, {'params': params})
        images = np.repeat(IMAGES, K, axis=0)
        memory, state = apply(IMAGES, None, T, method='begin')

        def step(state, tokens):
            state, logits = apply(memory, state, tokens, method='step')
            return state, (logits, model.attended(state))

        state = jax.tree.map(lambda leaf: jnp.repeat(leaf, K, axis=0), state)
        _, (logits, weights) = jax.lax.scan(step, state, previous().T)
        found = dict(logits=apply(images, None, TARGETS), places=apply(IMAGES, method=places))
        found['step logits'] = logits.swapaxes(0, 1)
        if weights is not None:
            found |= {'weights': apply(images, None, TARGETS, method='align'), 'step weights': weights.swapaxes(0, 1)}
        return found

    return jax.device_get(run(params))


def places(module, images):
    return module.places(images)


def previous():
    return np.concatenate([np.full((B * K, 1), START, np.int32), TARGETS[:, :-1]], axis=1)


# ------------------------------------------------------------------------------------------------ what it computes

@pytest.mark.parametrize('variant', [name for name in VARIANTS if 'transformer' not in name])
def test_a_recurrent_decoder_is_a_loop_over_images_and_words(variant):
    (model, params), found = make(variant), written(variant)
    context = dict(first='mean', every='mean_each', attention='attention')[model.context]
    same = SimpleNamespace(context=context, feed='state', cell=model.cell, attention=model.attention, hard_attention=False, value_width=0,
                           copy=False, tie_embeddings=model.tie_embeddings, depth=model.depth)
    for row, tokens in enumerate(previous()):
        a = np.float64(found['places'][row // K])
        first = [[np.tanh(a.mean(axis=0) @ params[f'bridge_{layer}_{part}']['kernel'] + params[f'bridge_{layer}_{part}']['bias'])
                  for part in range(reference.PARTS[model.cell])] for layer in range(model.depth)]
        logits, weights = reference.write(same, params, np.arange(len(a)), tokens, encoded=(a, first), first=first)
        np.testing.assert_allclose(found['logits'][row], logits, rtol=1e-4, atol=1e-5)
        if model.context == 'attention':
            np.testing.assert_allclose(found['weights'][row], weights, rtol=1e-4, atol=1e-6)


def test_a_transformer_decoder_is_its_equations():
    (model, params), found = make('transformer'), written('transformer')
    memory = transformer.layer_norm(params['memory_norm'], transformer.project(params['projection'], np.repeat(found['places'], K, axis=0)))
    steps, halves = np.arange(T)[:, None], np.arange(2)
    angles = steps / 10000 ** (halves / 2)
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(T, 4)
    x = params['target_embedding']['table'][previous()] * 2 + positions
    for layer in range(2):
        x = transformer.block(params['decoder'][f'block_{layer}'], x, transformer.causal(B * K, T), memory=memory,
                              memory_mask=np.ones((B * K, T, memory.shape[1]), bool))
    logits = transformer.layer_norm(params['decoder']['norm'], x) @ params['target_embedding']['table'].T
    np.testing.assert_allclose(found['logits'], logits, rtol=1e-4, atol=1e-4)


@every_variant
def test_hypotheses_that_share_an_image_are_written_word_by_word(variant):
    found = written(variant)
    np.testing.assert_allclose(found['step logits'], found['logits'], rtol=1e-4, atol=1e-5)
    assert not np.allclose(found['logits'][0], found['logits'][K], atol=1e-2)  # another image


@every_variant
def test_weights_over_the_places_of_an_image_are_those_of_the_steps(variant):
    found, (model, _) = written(variant), make(variant)
    if getattr(model, 'context', 'attention') != 'attention':
        assert 'step weights' not in found
        return
    np.testing.assert_allclose(found['step weights'], found['weights'], rtol=1e-4, atol=1e-6)
    assert found['weights'].shape == (B * K, T, found['places'].shape[1])
    np.testing.assert_allclose(found['weights'].sum(axis=-1), 1, rtol=1e-5)


def test_places_are_those_of_the_feature_map_row_by_row():
    for variant, own in (('attention', models.ResNet(depth=8, width=2)),
                         ('attention, vit', models.ViT(depth=1, width=4, heads=2, patch_size=4, pooling='mean'))):
        model, params = make(variant)
        variables = {'params': params['encoder']}
        if hasattr(model, 'batch_stats'):
            variables['batch_stats'] = model.batch_stats['encoder']
        features = own.apply(variables, IMAGES, method='feature_map')
        np.testing.assert_allclose(written(variant)['places'], features.reshape(B, -1, features.shape[-1]), rtol=1e-5, atol=1e-6)


def test_an_encoder_may_be_passed_in():
    model = models.Captioner(vocabulary=V, width=4, encoder=models.ResNet(depth=8, width=2, norm='none'))
    params = random_parameters(model, IMAGES, None, TARGETS[:B])
    assert 'stem_conv' in params['encoder'] and model.apply({'params': params}, IMAGES, None, TARGETS[:B]).shape == (B, T, V)


def test_running_statistics_are_updated_by_a_training_step_alone():
    model, params = make('attention')
    for train in (False, True):
        changing = models.WithStatistics(model.module, model.batch_stats, updates=True)
        changing.apply({'params': params}, IMAGES, None, TARGETS[:B], train=train, rngs={'dropout': jax.random.key(0)})
        same = jax.tree.map(np.array_equal, changing.batch_stats, model.batch_stats)
        assert all(jax.tree.leaves(same)) != train


# ------------------------------------------------------------------------------------------------ searches

def log_p(variant, row, tokens):
    """log P [V] of what follows `tokens` in a caption of an image, all of it read from its beginning."""
    model, params = make(variant)
    padded = np.zeros((1, T + 1), np.int32)
    padded[0, :len(tokens)] = tokens
    return reference.log_softmax(_whole(variant)(params, IMAGES[row:row + 1], padded)[0, len(tokens)])


@functools.cache
def _whole(variant):
    model, _ = make(variant)
    return jax.jit(lambda params, images, tokens: model.apply({'params': params}, images, None, tokens))


def all_captions(variant, row):
    """{tokens: log P} of all that end within T words, and of all of T words that do not."""
    grown, found = {(): 0.0}, {}
    for _ in range(T):
        grown = {(*tokens, token): before + p for tokens, before in grown.items() for token, p in enumerate(log_p(variant, row, tokens))}
        ended = {tokens: p for tokens, p in grown.items() if tokens[-1] == END or len(tokens) == T}
        found |= ended
        grown = {tokens: p for tokens, p in grown.items() if tokens not in ended}
    return found


def captions(variant, method, **options):
    limits = decode.Limits(max_length=T)
    return decode.search(decode.make_decoder(*make(variant)), list(IMAGES), method, limits=limits, **options)


@every_variant
def test_a_beam_of_one_is_greedy_search_and_both_are_a_plain_loop(variant):
    for row, (beam, greedy) in enumerate(zip(captions(variant, decode.Beam(1)), captions(variant, decode.Greedy(), batch_size=1))):
        tokens = []
        while len(tokens) < T and END not in tokens:
            tokens.append(int(np.argmax(log_p(variant, row, tokens))))
        assert beam.texts[0].tolist() == greedy.texts[0].tolist() == tokens


@pytest.mark.parametrize('variant', ['attention', 'transformer'])
def test_exact_search_and_a_wide_beam_find_the_likeliest_captions_of_all(variant):
    exact, wide = captions(variant, decode.Exact(n_best=2)), captions(variant, decode.Beam(V ** T, length_penalty=0.0, n_best=2))
    for row in range(B):
        ranked = sorted(all_captions(variant, row).items(), key=lambda one: -one[1])[:2]
        for found in (exact[row], wide[row]):
            assert [tuple(text.tolist()) for text in found.texts] == [tokens for tokens, _ in ranked]
            np.testing.assert_allclose(found.log_probs, [p for _, p in ranked], rtol=1e-4)


def test_samples_follow_the_distribution_of_captions():
    found = decode.search(decode.make_decoder(*make('first')), [IMAGES[0]] * 3000, decode.Sample(temperature=1.0), key=jax.random.key(0),
                          limits=decode.Limits(max_length=2), batch_size=500)
    counts = np.zeros(V)
    for one in found:
        counts[one.texts[0][0]] += 1
    np.testing.assert_allclose(counts / 3000, np.exp(log_p('first', 0, ())), atol=0.03)


def test_images_are_asked_for_batch_by_batch_and_prepared_in_the_program():
    class Asked(list):
        times = 0

        def __getitem__(self, place):
            Asked.times += 1
            return super().__getitem__(place)

    model, params = make('every')
    images = Asked(np.concatenate([IMAGES] * 3))
    halved = decode.make_decoder(model, params, prepare=lambda images: images / 510)
    found = decode.search(halved, images, limits=decode.Limits(max_length=T), batch_size=4)
    assert Asked.times <= len(images) + 4
    plain = decode.search(decode.make_decoder(model, params), list(np.float32(IMAGES) / 510), limits=decode.Limits(max_length=T))
    assert [one.texts[0].tolist() for one in found] == [one.texts[0].tolist() for one in plain] * 3


def test_prefixes_and_limits_are_those_of_texts():
    prefix = np.array([1, 2], np.int32)
    for one in captions('transformer', decode.Beam(2, n_best=2), prefixes=[prefix] * B):
        assert all(text[:2].tolist() == [1, 2] and len(text) <= T for text in one.texts)


# ------------------------------------------------------------------------------------------------ what is refused

@pytest.mark.parametrize('name, fields, sentence', [
    ('captioner', dict(context='mean'), "context='mean': no such context"),
    ('captioner', dict(context='first', attention='dot'), "attention='dot': is for context='attention'"),
    ('captioner', dict(cell='lru'), "cell='lru': has a complex state"),
    ('captioner', dict(encoder='resnet50'), "encoder='resnet50': did you mean 'resnet'"),
    ('captioner', dict(encoder_depth=9), 'encoder_depth=9: must be 6 n [+] 2'),
    ('captioner', dict(patch_size=8), "patch_size=8: is for encoder='vit'"),
    ('captioner', dict(width=0), 'width=0: must be at least 1'),
    ('transformer_captioner', dict(positions='learned'), "positions='learned': needs a length"),
    ('transformer_captioner', dict(heads=3), 'heads=3: must divide width=128'),
    ('transformer_captioner', dict(encoder='vit', encoder_width=6), 'encoder_heads=4: must divide width=6'),
])
def test_an_impossible_field_is_refused(name, fields, sentence):
    with pytest.raises(FieldError, match=sentence):
        models.build(name, vocabulary=V, **fields)


def test_a_module_without_a_feature_map_is_refused():
    with pytest.raises(FieldError, match='encoder=.GPT.: has no feature_map'):
        models.Captioner(vocabulary=V, encoder=models.GPT(5, context_length=3))
