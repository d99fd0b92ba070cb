"""ViT, DINOv2, CLIP and ResNet of transformers: the same outputs to 1e-4, files that come back bit for bit, images prepared as they say."""

import json
import os
import types

from flax import traverse_util
import jax
import numpy as np
import pytest
import safetensors.numpy

from seqjax import config as configs
from seqjax import interop, models, train
from seqjax.errors import FieldError, UserError
from tests.reference.parameters import random_parameters

os.environ.setdefault('HF_HUB_OFFLINE', '1')

VIT = dict(image_size=12, patch_size=4, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, num_channels=3)
DINOV2 = dict(image_size=12, patch_size=4, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, mlp_ratio=2)
TEXT = dict(vocab_size=37, hidden_size=8, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=9,
            eos_token_id=36, bos_token_id=35, pad_token_id=1)
IMAGE = {key: VIT[key] for key in VIT}
RESNET = dict(embedding_size=6, hidden_sizes=[8, 16, 20], depths=[1, 2, 1], layer_type='basic')
CASES = {
    'vit': ('ViTForImageClassification', dict(VIT, num_labels=5)),
    'vit, grey': ('ViTForImageClassification', dict(VIT, num_channels=1, patch_size=3, hidden_act='gelu_new', layer_norm_eps=1e-3)),
    'vit model': ('ViTModel', dict(VIT, num_hidden_layers=1, pooler_output_size=7)),
    'dinov2': ('Dinov2Model', DINOV2),
    'dinov2 giant': ('Dinov2Model', dict(DINOV2, use_swiglu_ffn=True, mlp_ratio=4)),
    'dinov2 classes': ('Dinov2ForImageClassification', dict(DINOV2, num_labels=5, hidden_act='relu', layerscale_value=0.1)),
    'dinov2 from 0': ('Dinov2Model', dict(DINOV2, layerscale_value=0.0)),
    'dinov2 registers': ('Dinov2WithRegistersModel', dict(DINOV2, num_register_tokens=3)),
    'dinov2 registers classes': ('Dinov2WithRegistersForImageClassification', dict(DINOV2, num_labels=4, num_register_tokens=1)),
    'clip': ('CLIPModel', dict(text_config=TEXT, vision_config=IMAGE, projection_dim=6)),
    'clip gelu': ('CLIPModel', dict(text_config=dict(TEXT, eos_token_id=2, hidden_act='gelu', layer_norm_eps=1e-3),
                                    vision_config=dict(IMAGE, hidden_act='gelu', layer_norm_eps=1e-3, hidden_size=6), projection_dim=5)),
    'resnet': ('ResNetForImageClassification', dict(RESNET, num_labels=5)),
    'resnet same': ('ResNetForImageClassification', dict(RESNET, embedding_size=8, downsample_in_first_stage=True)),
    'resnet bottleneck': ('ResNetForImageClassification', dict(RESNET, layer_type='bottleneck', num_labels=3)),
    'resnet bottleneck first': ('ResNetModel', dict(RESNET, layer_type='bottleneck', hidden_sizes=[10, 22, 21], downsample_in_bottleneck=True)),
    'resnet 18': ('ResNetForImageClassification', dict(layer_type='basic', depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], num_labels=10)),
}
IMAGES = np.random.default_rng(0).standard_normal((3, 3, 12, 12)).astype(np.float32)
IDS = np.random.default_rng(1).integers(3, 35, (3, 7))
IDS[np.arange(3), [6, 3, 4]] = 36
IDS[1, 4:] = IDS[2, 5:] = 1
MASK = np.array([[1] * 7, [1] * 4 + [0] * 3, [1] * 5 + [0] * 2])


@pytest.fixture(scope='module')
def library():
    pytest.importorskip('torch')
    found = pytest.importorskip('transformers')
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


@pytest.fixture(scope='module', params=list(CASES))
def case(request, library, tmp_path_factory):
    """name, theirs: a model of transformers, every parameter random; directory: where it was saved; ours: what was read from there."""
    torch = pytest.importorskip('torch')
    name, fields = CASES[request.param]
    made = getattr(library, name)
    torch.manual_seed(len(request.param))
    theirs = made(made.config_class(**fields)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_((0.02 if request.param == 'resnet 18' else 0.2) * torch.randn_like(parameter))
        for name_of, buffer in theirs.named_buffers():
            if name_of.endswith(('running_mean', 'running_var')):
                buffer.add_(torch.rand_like(buffer))
    directory = tmp_path_factory.mktemp('model')
    theirs.save_pretrained(directory)
    return types.SimpleNamespace(name=request.param, theirs=theirs, directory=directory, ours=interop.from_hf(directory))


def inputs_for(case, size=12):
    images = np.random.default_rng(size).standard_normal((3, 3, size, size)).astype(np.float32) if size != 12 else IMAGES
    images = images[:, :1] if case.name == 'vit, grey' else images
    return dict(pixel_values=images, **(dict(input_ids=IDS, attention_mask=MASK) if case.name.startswith('clip') else {}))


def run(model, **inputs):
    """{name: numpy array} of a model of transformers."""
    torch = pytest.importorskip('torch')
    given = {name: torch.tensor(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}
    with torch.no_grad():
        outputs = model(**given)
    return {name: value.numpy() for name, value in outputs.items() if torch.is_tensor(value)}


def assert_close(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape and ours[name].dtype == np.float32
        np.testing.assert_allclose(ours[name], expected, atol=1e-4, rtol=0, err_msg=name)


# -------------------------------------------------------------------------------------------------------------- Outputs

def test_outputs_equal_those_of_transformers(case):
    inputs = inputs_for(case)
    assert_close(case.ours.apply(**inputs), run(case.theirs, **inputs))


@pytest.mark.parametrize('size', [8, 20])
@pytest.mark.parametrize('case', ['vit', 'dinov2', 'dinov2 registers', 'clip'], indirect=True)
def test_images_of_another_size_get_the_positions_that_transformers_interpolates(case, size):
    inputs = inputs_for(case, size)
    asked = {} if case.name.startswith('dinov2') else dict(interpolate_pos_encoding=True)
    assert_close(case.ours.apply(**inputs), run(case.theirs, **inputs, **asked))


@pytest.mark.parametrize('case', ['clip'], indirect=True)
def test_our_own_call_is_what_transformers_computes(case):
    expected = run(case.theirs, **inputs_for(case))
    image, text, scale = case.ours.model.apply(case.ours.variables, np.moveaxis(IMAGES, 1, -1), IDS, MASK)
    np.testing.assert_allclose(image, expected['image_embeds'], atol=1e-5)
    np.testing.assert_allclose(text, expected['text_embeds'], atol=1e-5)
    np.testing.assert_allclose(scale * image @ text.T, expected['logits_per_image'], atol=1e-4)
    np.testing.assert_allclose((np.asarray(image) ** 2).sum(axis=1), 1, atol=1e-5)


def test_there_are_as_many_parameters(case):
    count = sum(leaf.size for leaf in jax.tree.leaves(case.ours.variables['params']))
    unused = 12 if case.name.startswith('dinov2') else 0  # the token of what is masked in pre-training
    assert count == case.theirs.num_parameters() - unused


# ---------------------------------------------------------------------------------------------------------- There and back

def tensors_in(directory):
    found = {}
    for path in directory.glob('*.safetensors'):
        found |= safetensors.numpy.load_file(path)
    return found


def test_files_come_back_bit_for_bit_and_transformers_loads_them(case, tmp_path):
    interop.to_hf(case.ours, tmp_path)
    ours, theirs = tensors_in(tmp_path), tensors_in(case.directory)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert ours[name].dtype == array.dtype and ours[name].shape == array.shape and ours[name].tobytes() == array.tobytes(), name
    assert json.loads((tmp_path / 'config.json').read_text()) == json.loads((case.directory / 'config.json').read_text())
    again, report = type(case.theirs).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert_close(run(again.eval(), **inputs_for(case)), run(case.theirs, **inputs_for(case)))


OURS = {
    'vit': models.ViT(outputs=4, patch_size=4, width=12, depth=2, heads=2),
    'vit, scanned': models.ViT(patch_size=4, width=12, depth=2, heads=2, scan_layers=True, representation_size=5, activation='gelu_tanh'),
    'dinov2': models.ViT(outputs=4, patch_size=4, width=12, depth=1, heads=2, layer_scale=0.5, pooling='cls_mean', image_size=8),
    'registers': models.ViT(patch_size=4, width=12, depth=1, heads=2, layer_scale=0.5, registers=2, antialias=True, gated=True,
                            activation='silu', feed_forward=32),
    'clip': models.CLIP(vocabulary=37, context_length=9, patch_size=4, width=12, depth=1, heads=2, text_width=8, projection_width=6),
}


@pytest.mark.parametrize('name', OURS)
def test_transformers_computes_what_our_models_compute(name, library, tmp_path):
    model, images = OURS[name], np.moveaxis(IMAGES, 1, -1)
    given = (images, IDS, MASK) if name == 'clip' else (images,)
    params = random_parameters(model, *given)
    interop.to_hf(model, tmp_path, {'params': params})
    architecture = json.loads((tmp_path / 'config.json').read_text())['architectures'][0]
    theirs, report = getattr(library, architecture).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    if name == 'clip':
        ids = np.where(IDS == 36, 3, np.where(IDS == 3, 4, IDS))  # END here is 3
        image, text, _ = model.apply({'params': params}, images, ids, MASK)
        found = run(theirs.eval(), pixel_values=IMAGES, input_ids=ids, attention_mask=MASK)
        np.testing.assert_allclose(image, found['image_embeds'], atol=1e-4)
        np.testing.assert_allclose(text, found['text_embeds'], atol=1e-4)
        return
    found = run(theirs.eval(), pixel_values=IMAGES)
    ours = jax.jit(lambda images: model.apply({'params': params}, images))(images)
    np.testing.assert_allclose(ours, found['logits' if model.outputs else 'pooler_output'], atol=1e-4)
    jax.tree.map(np.testing.assert_array_equal, interop.from_hf(tmp_path).variables['params'], unstacked(params))


def unstacked(params):
    """Scanned blocks one by one, as files have them."""
    if 'blocks' not in params.get('encoder', {}):
        return params
    encoder = dict(params['encoder'])
    blocks = encoder.pop('blocks')
    layers = {f'block_{layer}': jax.tree.map(lambda x: x[layer], blocks) for layer in range(2)}
    return dict(params, encoder={**encoder, **layers})


def test_a_run_begins_with_the_files_and_has_the_network_that_they_describe(tmp_path):
    model = models.ViT(patch_size=2, width=12, depth=1, heads=2, activation='gelu_tanh', image_size=8)
    params = random_parameters(model, np.zeros((1, 8, 8, 1), np.float32))
    interop.to_hf(model, tmp_path / 'files', {'params': params})
    config = configs.defaults('vit', source='digits')
    config.init_from = str(tmp_path / 'files')
    parts = train.prepare(config, tmp_path / 'run')
    made = parts.task.model
    assert (made.width, made.depth, made.patch_size, made.activation, made.outputs) == (12, 1, 2, 'gelu_tanh', 10)
    assert parts.start.fresh == ['output/bias', 'output/kernel'] and not parts.start.left_out  # the head is new
    found = traverse_util.unflatten_dict(jax.device_get(parts.start.parameters()), sep='/')
    jax.tree.map(np.testing.assert_array_equal, found, params)


# ------------------------------------------------------------------------------------------------ before a network

PREPROCESSORS = {
    'ViTImageProcessorPil': dict(size=dict(height=10, width=8), resample=2, image_mean=[0.5, 0.4, 0.3], image_std=[0.1, 0.2, 0.3]),
    'CLIPImageProcessorPil': dict(size=dict(shortest_edge=11), crop_size=dict(height=8, width=9), resample=3),
    'ConvNextImageProcessorPil': dict(size=dict(shortest_edge=10), crop_pct=0.875, resample=3),
    'BitImageProcessorPil': dict(size=dict(shortest_edge=7), crop_size=dict(height=9, width=9), resample=3, rescale_factor=0.01),
}
PHOTOS = [np.random.default_rng(size).integers(0, 256, (*size, 3), np.uint8) for size in ((20, 14), (13, 17), (12, 12))]


@pytest.mark.parametrize('case', ['clip'], indirect=True)
@pytest.mark.parametrize('name', PREPROCESSORS)
def test_images_are_prepared_as_transformers_prepares_them(case, name, library, tmp_path):
    made = getattr(library, name, None)
    if made is None:
        pytest.skip(f'this version of transformers has no {name}')
    theirs = made(**PREPROCESSORS[name])
    for path in case.directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    theirs.save_pretrained(tmp_path)
    loaded = interop.from_hf(tmp_path)
    expected = theirs(PHOTOS, return_tensors='np', input_data_format='channels_last')['pixel_values']
    found = loaded.preprocess(PHOTOS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.stack(list(expected)), atol=1e-5)
    assert loaded.preprocessing.mean == tuple(theirs.image_mean)
    interop.to_hf(loaded, tmp_path / 'again')
    assert (tmp_path / 'again' / 'preprocessor_config.json').read_bytes() == (tmp_path / 'preprocessor_config.json').read_bytes()


@pytest.mark.parametrize('found, sentence', [
    ({}, "has no 'size', and do_resize is true"),
    (dict(size=8, resample=2), "has no 'image_mean', and do_normalize is true"),
    (dict(size=dict(width=3), resample=2), "size={'width': 3}: must be a number, or"),
    (dict(size=8), "has no 'resample'"),
    (None, 'preprocessor_config.json: No such file'),
    (dict(size=8, resample=2, do_flip_channel_order=True), 'do_flip_channel_order=True: no such step here'),
    (dict(size=8, resample=2, do_pad=True), 'do_pad=True: no such step here'),
    (dict(size=8, resample=2, rescale_offset=True), 'rescale_offset=True: no such step here'),
    (dict(size=8, resample=2, crop_pct=0.9), "crop_pct=0.9: is read of processors of ConvNext's, and"),
    (dict(size=8, resample=2, image_processor_type='ConvNextImageProcessor'),
     "has no 'crop_pct', and do_resize is true"),
    (dict(size=dict(height=8, width=8), crop_pct=0.9, image_processor_type='ConvNextImageProcessor'),
     "'shortest_edge': ..."),
])
@pytest.mark.parametrize('case', ['vit'], indirect=True)
def test_what_is_not_said_of_images_is_asked_for_and_not_guessed(case, found, sentence, tmp_path):
    for path in case.directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if found is not None:
        (tmp_path / 'preprocessor_config.json').write_text(json.dumps(found))
    loaded = interop.from_hf(tmp_path)  # the weights are right
    with pytest.raises(UserError) as error:
        loaded.preprocess(PHOTOS)
    assert sentence in str(error.value)


def test_an_older_file_has_one_number_for_both_sides_or_for_the_shorter():
    from seqjax.interop.hf_vision.preprocessing import parse
    rest = dict(resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    assert parse(dict(rest, size=9, feature_extractor_type='ViTFeatureExtractor')).size == (9, 9)
    assert parse(dict(rest, size=9, crop_size=8, feature_extractor_type='CLIPFeatureExtractor', do_center_crop=True)).crop == (8, 8)
    assert parse(dict(rest, size=9, feature_extractor_type='CLIPFeatureExtractor')).size == 9
    of_resnet = dict(rest, crop_pct=0.875, feature_extractor_type='ConvNextFeatureExtractor')
    assert (parse(dict(of_resnet, size=224)).size, parse(dict(of_resnet, size=224)).crop) == (256, (224, 224))
    assert (parse(dict(of_resnet, size=384)).size, parse(dict(of_resnet, size=384)).crop) == ((384, 384), None)


# ------------------------------------------------------------------------------------------------ errors

@pytest.mark.parametrize('case', ['clip'], indirect=True)
def test_all_that_is_wrong_is_said_at_once(case, tmp_path):
    tensors, config = tensors_in(case.directory), json.loads((case.directory / 'config.json').read_text())
    del tensors['logit_scale']
    tensors['vision_model.embeddings.position_embedding.weight'] = np.zeros((11, 12), np.float32)
    tensors['vision_model.head'] = np.zeros(3, np.float32)
    config['vision_config']['hidden_act'] = 'gelu'
    (tmp_path / 'config.json').write_text(json.dumps(config))
    safetensors.numpy.save_file(tensors, tmp_path / 'model.safetensors')
    with pytest.raises(UserError) as error:
        interop.from_hf(tmp_path)
    text = str(error.value)
    for part in ("text_config.hidden_act='quick_gelu': both towers have the same here", 'missing: logit_scale []',
                 'vision_model.embeddings.position_embedding.weight [11, 12]: expected [10, 12]', 'not expected: vision_model.head [3]'):
        assert part in text, text


@pytest.mark.parametrize('name, changes, sentence', [
    ('vit', dict(pooling='mean'), "pooling='mean': vit has only 'cls'"),
    ('vit', dict(pre_norm=True), 'pre_norm=True: vit has only False'),
    ('vit', dict(representation_size=3), 'representation_size=3: vit has only 0'),
    ('dinov2', dict(pooling='cls'), "pooling='cls': dinov2 has only 'cls_mean'"),
    ('dinov2', dict(feed_forward=13), 'feed_forward=13: dinov2 has only 12'),
])
def test_what_transformers_has_no_option_for_is_refused(name, changes, sentence, tmp_path):
    model = OURS[name].clone(**changes)
    params = random_parameters(model, np.moveaxis(IMAGES, 1, -1))
    with pytest.raises(UserError, match=sentence):
        interop.to_hf(model, tmp_path, {'params': params})


@pytest.mark.parametrize('case', ['vit'], indirect=True)
@pytest.mark.parametrize('inputs, sentence', [
    ({}, 'ViTForImageClassification needs images'),
    (dict(pixel_values=np.zeros((2, 3, 12, 12), np.uint8)), 'must be numbers'),
    (dict(pixel_values=np.zeros((2, 1, 12, 12), np.float32)), 'must have 3 channels'),
    (dict(input_ids=IDS), 'has no such input'),
])
def test_inputs_that_a_network_cannot_read_are_named(case, inputs, sentence):
    with pytest.raises(FieldError, match=sentence):
        case.ours.apply(**inputs)
