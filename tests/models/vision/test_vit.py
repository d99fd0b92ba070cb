"""Image Transformers against numpy, in every layout; their published sizes; and runs that train them."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import data, models, nn, train
from seqjax.errors import FieldError, UserError
from seqjax.runs import RunDirectory
from tests.reference import transformer as reference
from tests.reference.parameters import random_parameters

B, H, W, C, D, L, K = 3, 8, 12, 2, 8, 2, 4
SIZES = dict(outputs=5, width=D, depth=L, heads=2)
IMAGES = np.random.default_rng(0).random((B, H, W, C), np.float32)
VARIANTS = {
    'cls': dict(patch_size=4),
    'mean': dict(patch_size=4, pooling='mean', feed_forward=12, activation='gelu_tanh'),
    'registers': dict(patch_size=4, pooling='cls_mean', registers=3, layer_scale=0.5),
    'attention': dict(patch_size=2, pooling='attention', registers=2),
    'clip': dict(patch_size=4, patch_bias=False, pre_norm=True, activation='quick_gelu', epsilon=1e-5, outputs=0),
    'giant': dict(patch_size=4, gated=True, activation='silu', feed_forward=6, layer_scale=1.0, representation_size=7),
}


@functools.cache
def make(variant):
    model = models.build('vit', **{**SIZES, **VARIANTS[variant]})
    return model, random_parameters(model, IMAGES)


def numpy_vit(model, params, images):
    P, B = model.patch_size, len(images)
    norm = lambda name, x: reference.layer_norm(name, x, model.epsilon)
    tokens = []
    for i in range(0, images.shape[1], P):
        for j in range(0, images.shape[2], P):
            x = reference.project(params['patches']['projection'], np.float64(images[:, i:i + P, j:j + P]), 3)
            tokens.append(x + params['positions']['table'][i // P, j // P])
    tokens = list(np.broadcast_to(params['registers'][:, None], (model.registers, B, D))) + tokens if model.registers else tokens
    if model.pooling.startswith('cls'):
        tokens = [np.broadcast_to(params['cls'] + params['positions']['prefix'][0], (B, D)), *tokens]
    x = np.stack(tokens, axis=1)
    x = norm(params['embedding_norm'], x) if model.pre_norm else x
    seen = np.ones((B, len(tokens), len(tokens)), bool)
    for layer in range(model.depth):
        block = params['encoder'][f'block_{layer}']
        for name, function in (('attention', lambda x: reference.attention(block['attention'], x, seen)),
                               ('feed_forward', lambda x: reference.feed_forward(block['feed_forward'], x, model.activation))):
            x = x + block.get(f'{name}_scale', 1.0) * function(norm(block[f'{name}_norm'], x))
    x = norm(params['encoder']['norm'], x)
    patches = x[:, len(tokens) - images.shape[1] * images.shape[2] // P ** 2:]
    match model.pooling:
        case 'cls': x = x[:, 0]
        case 'mean': x = patches.mean(axis=1)
        case 'cls_mean': x = np.concatenate([x[:, 0], patches.mean(axis=1)], axis=-1)
        case 'attention': x = np.asarray(nn.TokenPooling('attention', heads=2).apply({'params': params['pool']}, np.float32(x)))
    x = np.tanh(reference.project(params['representation'], x)) if model.representation_size else x
    return x, reference.project(params['output'], x) if model.outputs else x


@pytest.mark.parametrize('variant', VARIANTS)
def test_logits_and_features_are_those_of_numpy(variant):
    model, params = make(variant)
    features, logits = numpy_vit(model, params, IMAGES)
    run = jax.jit(lambda images: (model.apply({'params': params}, images, method='features'), model.apply({'params': params}, images)))
    found = run(IMAGES)
    np.testing.assert_allclose(found[0], features, atol=1e-4)
    np.testing.assert_allclose(found[1], logits, atol=1e-4)
    assert found[1].dtype == np.float32 and found[0].shape == (B, features.shape[1])


def test_bytes_and_numbers_give_the_same():
    model, params = make('cls')
    levels = np.random.default_rng(1).integers(0, 256, IMAGES.shape, np.uint8)
    run = jax.jit(lambda images: model.apply({'params': params}, images))
    np.testing.assert_allclose(run(levels), run(np.float32(levels) / 255), atol=1e-5)


def stacked(params):
    """The same parameters for scanned layers."""
    encoder = dict(params['encoder'])
    blocks = [encoder.pop(f'block_{layer}') for layer in range(L)]
    return dict(params, encoder=dict(encoder, blocks=jax.tree.map(lambda *parts: np.stack(parts), *blocks)))


@pytest.mark.parametrize('changed', [dict(scan_layers=True), dict(remat=True), dict(scan_layers=True, remat=True)], ids=str)
def test_scanned_and_rematerialised_layers_have_the_same_outputs_and_gradients(changed):
    model, params = make('registers')
    other, theirs = model.clone(**changed), stacked(params) if changed.get('scan_layers') else params
    loss = lambda model, params: (model.apply({'params': params}, IMAGES, train=True) ** 2).sum()
    value, gradient = jax.jit(jax.value_and_grad(functools.partial(loss, model)))(params)
    their_value, their_gradient = jax.jit(jax.value_and_grad(functools.partial(loss, other)))(theirs)
    np.testing.assert_allclose(their_value, value, rtol=1e-5)
    gradient = stacked(gradient) if changed.get('scan_layers') else gradient
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), their_gradient, gradient)


def test_matmuls_may_be_in_bfloat16_and_dropout_changes_what_is_trained_alone():
    model, params = make('cls')
    noisy = model.clone(dtype='bfloat16', dropout=0.2, embedding_dropout=0.1, attention_dropout=0.1, stochastic_depth=0.2)
    run = jax.jit(functools.partial(noisy.apply, {'params': params}), static_argnames='train')
    plain = run(IMAGES)
    assert plain.dtype == np.float32
    np.testing.assert_allclose(plain, model.apply({'params': params}, IMAGES), atol=0.3)
    drawn = [np.asarray(run(IMAGES, train=True, rngs={'dropout': jax.random.key(seed)})) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.abs(drawn[0] - drawn[2]).max() > 0.01 < np.abs(drawn[0] - plain).max()


def test_a_model_for_one_resolution_reads_another():
    model = models.build('vit', **SIZES, patch_size=4, image_size=16)
    params = random_parameters(model, IMAGES)
    assert params['positions']['table'].shape == (4, 4, D)
    resized = nn.GridPositions(D).apply({'params': {'table': params['positions']['table']}}, 2, 3)[0]
    here = {**params, 'positions': {**params['positions'], 'table': resized}}
    np.testing.assert_allclose(model.apply({'params': params}, IMAGES), model.apply({'params': here}, IMAGES), atol=1e-6)


def test_a_stem_and_a_block_may_be_passed_in():
    layer = nn.Block(nn.LinearAttention(D, 2, parent=None), nn.FeedForward(parent=None), functools.partial(nn.make_norm, 'rms'))
    model = models.ImageTransformer(stem=nn.ConvolutionalStem(D, 2, hidden=4), block=layer, pooling='mean', **SIZES)
    params = random_parameters(model, IMAGES)
    assert params['stem'].keys() == {'kernel_0', 'kernel_1'} and params['encoder'].keys() == {'block_0', 'block_1', 'norm'}
    assert model.apply({'params': params}, IMAGES).shape == (B, 5)


def test_a_compact_transformer_is_its_stem_and_its_pooling_around_the_blocks():
    model = models.build('cct', **SIZES, stem_layers=2, stem_width=4)
    params = random_parameters(model, IMAGES)
    x = nn.ConvolutionalStem(D, 2, hidden=4).apply({'params': params['patches']}, IMAGES)  # [B, 2, 3, D]
    x = (np.asarray(x) + params['positions']['table']).reshape(B, 6, D)
    seen, norm = np.ones((B, 6, 6), bool), functools.partial(reference.layer_norm, epsilon=1e-6)
    for layer in range(L):
        x = reference.block(params['encoder'][f'block_{layer}'], x, seen, norm=norm)
    pooled = nn.TokenPooling('sequence').apply({'params': params['pool']}, np.float32(norm(params['encoder']['norm'], x)))
    np.testing.assert_allclose(model.apply({'params': params}, IMAGES, method='features'), pooled, atol=1e-4)


# ------------------------------------------------------------------------------------------------ sizes

# Of the models that torchvision and timm have under these names, with heads of 1,000 classes.
COUNTS = {'vit_ti_16': 5_717_416, 'vit_s_16': 22_050_664, 'vit_s_32': 22_878_952, 'vit_b_16': 86_567_656, 'vit_b_32': 88_224_232,
          'vit_l_16': 304_326_632, 'vit_l_32': 306_535_400, 'vit_h_14': 632_045_800}
ABOUT = {'cct_2_3x2': 0.28, 'cct_7_3x1': 3.76, 'cct_14_7x2': 22.36}  # Hassani et al. 2021, in millions


@functools.cache
def count(name, **changes):
    size = models.IMAGE_PRESETS[name].image_size
    return models.parameter_count(models.preset(name, scan_layers=True, **changes), jax.ShapeDtypeStruct((1, size, size, 3), np.uint8))


@pytest.mark.parametrize('name', COUNTS)
def test_a_vit_has_as_many_parameters_as_were_published(name):
    assert count(name) == COUNTS[name]


@pytest.mark.parametrize('name', COUNTS)
def test_counts_are_those_of_transformers(name):
    transformers, torch = pytest.importorskip('transformers'), pytest.importorskip('torch')
    fields = models.IMAGE_PRESETS[name].fields
    config = transformers.ViTConfig(
        hidden_size=fields['width'], num_hidden_layers=fields['depth'], num_attention_heads=fields['heads'],
        intermediate_size=fields['feed_forward'], patch_size=fields['patch_size'], image_size=224, num_labels=1000)
    with torch.device('meta'):
        theirs = transformers.ViTForImageClassification(config)
    assert count(name) == sum(parameter.numel() for parameter in theirs.parameters())


@pytest.mark.parametrize('name', ABOUT)
def test_a_compact_transformer_has_about_as_many(name):
    assert count(name) == pytest.approx(ABOUT[name] * 1e6, rel=0.02)


def test_a_preset_may_have_another_head_and_a_wrong_name_is_met_with_a_suggestion():
    assert count('vit_ti_16', outputs=10) == COUNTS['vit_ti_16'] - 990 * 193
    with pytest.raises(FieldError, match="preset='vit_b16': no such preset; did you mean 'vit_b_16'"):
        models.preset('vit_b16')


# ------------------------------------------------------------------------------------------------ errors

@pytest.mark.parametrize('name, fields, sentence', [
    ('vit', dict(heads=3), 'heads=3: must divide width=128; 1, 2, 4, 8 would'),
    ('vit', dict(patch_size=0), 'patch_size=0: must be at least 1'),
    ('vit', dict(pooling='last'), "pooling='last': no such pooling of tokens; choose one of: attention, cls, cls_mean, mean, sequence"),
    ('vit', dict(activation='gelu_new'), "activation='gelu_new': no such activation; did you mean 'gelu"),
    ('vit', dict(image_size=30), 'patch_size=4: must divide the 30 pixels of a side of the images; 2, 3, 5, 6, 10, 15, 30 would'),
    ('vit', dict(stochastic_depth=1.0), 'stochastic_depth=1.0: must be at least 0 and less than 1'),
    ('vit', dict(registers=-1), 'registers=-1: must be at least 0'),
    ('cct', dict(registers=1), "registers=1: 'cct' has no such field"),
    ('cct', dict(stem_kernel=2), 'stem_kernel=2: must be odd'),
    ('cct', dict(stem_layers=0), 'stem_layers=0: must be at least 1'),
])
def test_an_impossible_field_is_refused_before_anything_is_compiled(name, fields, sentence):
    with pytest.raises(FieldError) as error:
        models.build(name, **fields)
    assert str(error.value).startswith(sentence)


def test_widths_are_multiples_of_the_heads():
    assert models.width_multiple('vit', dict(heads=3)) == 6


# ------------------------------------------------------------------------------------------------ runs

@pytest.fixture(scope='module')
def stripes():
    """The source of a stranger's file, registered while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.SOURCES, '_things', dict(data.SOURCES))
        module = importlib.import_module('tests.extending.augmented_images')  # registers when it is first read
        if 'stripes' not in data.SOURCES:
            importlib.reload(module)
        yield


def small_run(**sections):
    config = configs.defaults('vit', source='stripes')
    config.data.batch_size = 16
    config.model.update(width=16, depth=2, heads=2, patch_size=4, stochastic_depth=0.1, registers=1)
    config.train.update(steps=100, eval_every=0, save_every=0)
    config.optimizer.update(learning_rate=3e-3, warmup_steps=5)
    for section, fields in sections.items():
        config[section].update(fields)
    return config


def test_a_run_learns_to_tell_images_apart_and_opens_again(stripes, tmp_path):
    import seqjax

    result = train.train(small_run(), tmp_path)
    assert result['test/accuracy'] > 0.9  # of two classes
    run = seqjax.open_run(tmp_path)
    assert isinstance(run.model, models.ViT) and run.params['positions']['table'].shape == (3, 3, 16)


@pytest.mark.parametrize('mesh', [dict(data=2, fsdp=2, tensor=2), dict(strategy='pmap', data=8)], ids=str)
def test_on_eight_devices_the_step_is_that_of_one(stripes, mesh, tmp_path):
    def step(**mesh):
        config = small_run(parallel=mesh, model=dict(stochastic_depth=0.0), optimizer=dict(name='sgd', learning_rate=0.1, clip_norm=0.0))
        parts, rng = train.build(config, RunDirectory(tmp_path)), np.random.default_rng(0)
        strategy = parts.strategy
        draw = lambda x: jax.device_put(rng.normal(0, 0.3, x.shape).astype(x.dtype), x.sharding)
        start = jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype), x.sharding), parts.target)
        state = strategy.enter(start.replace(params=jax.tree.map(draw, parts.target.params)))
        state, facts = parts.train_step(config)(state, strategy.place(parts.training[0]))
        return jax.device_get(strategy.leave(state).params), float(strategy.read(facts)['sums'].means()['loss'])

    (params, loss), (their_params, their_loss) = step(data=1), step(**mesh)
    assert their_loss == pytest.approx(loss, abs=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), their_params, params)


def test_images_that_patches_do_not_tile_and_data_of_texts_are_refused_by_name(stripes, tmp_path):
    with pytest.raises(UserError, match='patch_size=5: must divide the 12 pixels'):
        train.prepare(small_run(model=dict(patch_size=5)), tmp_path)
    config = configs.defaults('vit', source='cldr')
    config.data.batch_size = 8
    with pytest.raises(UserError, match="name='vit': reads images"):
        train.prepare(config, tmp_path)
