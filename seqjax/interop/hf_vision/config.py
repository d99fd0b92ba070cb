"""config.json of Hugging Face's vit, dinov2, dinov2_with_registers, clip and resnet, and the fields of our models: see `hf_config`."""

import math

import jax
import numpy as np

from seqjax import models, nn
from seqjax.interop.hf_options import Options, facts, keys
from seqjax.special_tokens import END, PADDING, START

MODELS = {'vit': models.ViT, 'dinov2': models.ViT, 'dinov2_with_registers': models.ViT, 'clip': models.CLIP,
          'resnet': models.ResNet}

VIT = dict(
    hidden_size=('width', 768), num_hidden_layers=('depth', 12), num_attention_heads=('heads', 12),
    intermediate_size=('feed_forward', 3072), image_size=('image_size', 224), patch_size=('patch_size', 16), hidden_act=('activation', 'gelu'),
    layer_norm_eps=('epsilon', 1e-12), hidden_dropout_prob=('dropout', 0.0), attention_probs_dropout_prob=('attention_dropout', 0.0))
DINOV2 = {key: VIT[key] for key in VIT if key not in ('intermediate_size', 'hidden_act')} | dict(
    patch_size=('patch_size', 14), layer_norm_eps=('epsilon', 1e-6), layerscale_value=('layer_scale', 1.0),
    drop_path_rate=('stochastic_depth', 0.0), use_swiglu_ffn=('gated', False))
REGISTERS = DINOV2 | dict(patch_size=('patch_size', 16), num_register_tokens=('registers', 4))
CLIP_TEXT = dict(
    vocab_size=('vocabulary', 49408), max_position_embeddings=('context_length', 77), hidden_size=('text_width', 512),
    num_hidden_layers=('text_depth', 12), num_attention_heads=('text_heads', 8), intermediate_size=('text_feed_forward', 2048),
    hidden_act=('activation', 'quick_gelu'), layer_norm_eps=('epsilon', 1e-5), attention_dropout=('attention_dropout', 0.0))
CLIP_IMAGE = dict(
    hidden_size=('width', 768), num_hidden_layers=('depth', 12), num_attention_heads=('heads', 12),
    intermediate_size=('feed_forward', 3072), image_size=('image_size', 224), patch_size=('patch_size', 32), hidden_act=('activation', 'quick_gelu'),
    layer_norm_eps=('epsilon', 1e-5), attention_dropout=('attention_dropout', 0.0))


# ------------------------------------------------------------------------------------------------------------- From theirs

def from_vit(options, architecture, names):
    _square(options)
    options.only('qkv_bias', True, 'queries, keys and values have a bias here')
    options.only('pooler_act', 'tanh', 'what is pooled goes through tanh here')
    fields = options.fields(VIT)
    pooler = options.size('pooler_output_size', fields['width']) if architecture == 'ViTModel' and 'pooler.dense.weight' in names else 0
    return dict(fields, embedding_dropout=fields['dropout'], outputs=_labels(options, architecture), representation_size=pooler)


def from_dinov2(options, architecture, names):
    _square(options)
    options.only('qkv_bias', True, 'queries, keys and values have a bias here')
    registers = 'Registers' in architecture
    fields = options.fields(REGISTERS if registers else DINOV2)
    F = int(fields['width'] * options.number('mlp_ratio', 4.0))
    outputs = _labels(options, architecture)
    return dict(
        fields, layer_scale=fields['layer_scale'] or 1.0,  # where they begin; they are there at 0, too
        feed_forward=(int(F * 2 / 3) + 7) // 8 * 8 if fields['gated'] else F, outputs=outputs,
        activation='silu' if fields['gated'] else options.activation('hidden_act', 'gelu'), embedding_dropout=fields['dropout'],
        pooling='cls_mean' if outputs else 'cls', antialias=registers)


def from_clip(options, architecture, names):
    parts = {}
    for part in ('vision_config', 'text_config'):
        value = (options.get(part) or {}) | (options.get(f'{part}_dict') or {})
        parts[part] = Options(value, options.problems, f'{part}.')
    _square(parts['vision_config'])
    image, text = parts['vision_config'].fields(CLIP_IMAGE), parts['text_config'].fields(CLIP_TEXT)
    for key, (field, _) in CLIP_TEXT.items():
        if field in ('activation', 'epsilon') and image[field] != text[field]:
            options.refuse(f'text_config.{key}', parts['text_config'].get(key), f'both towers have the same here, and '
                           f'vision_config.{key}={parts["vision_config"].get(key)!r}')
    options.has_sizes = options.has_sizes and all(part.has_sizes for part in parts.values())
    return text | image | dict(projection_width=options.size('projection_dim', 512))


def from_resnet(options, architecture, names):
    if options.get('hidden_act', 'relu') != 'relu':
        options.refuse('hidden_act', options.get('hidden_act'), "convolutions are followed by 'relu' here")
    kind = options.get('layer_type', 'bottleneck')
    if kind not in nn.UNITS:
        options.refuse('layer_type', kind, f'choose one of: {", ".join(nn.UNITS)}')
        kind = nn.UNITS[-1]
    stages = options.sizes('depths', (3, 4, 6, 3))
    return dict(
        width=options.size('embedding_size', 64), stages=stages, channels=options.sizes('hidden_sizes', (256, 512, 1024, 2048)), block=kind,
        depth=2 + sum(stages) * (3 if kind == 'bottleneck' else 2), stem='imagenet', shortcut='projection',
        downsample_first_stage=options.flag('downsample_in_first_stage', False),
        stride_first=kind == 'bottleneck' and options.flag('downsample_in_bottleneck', False), outputs=_labels(options, architecture))


def _square(options):
    """Sizes that are the same both ways become one number."""
    for key in ('image_size', 'patch_size'):
        value = options.get(key)
        if isinstance(value, (list, tuple)) and len(value) == 2 and value[0] == value[1]:
            options.config = {**options.config, key: value[0]}


def _labels(options, architecture):
    if not architecture.endswith('ForImageClassification'):
        return 0
    labels = options.get('id2label')
    return len(labels) if isinstance(labels, dict) and labels else options.size('num_labels', 2)


# --------------------------------------------------------------------------------------------------------------- To theirs

def kind_of(model):
    """The model_type that has what a model of ours has; None: it is none for images."""
    if isinstance(model, models.CLIP):
        return 'clip'
    if isinstance(model, models.ResNet):
        return 'resnet'
    if not isinstance(model, models.ViT):
        return None
    return 'dinov2_with_registers' if model.registers else 'dinov2' if model.layer_scale else 'vit'


def complete(model, params):
    """The model with the image_size that its positions are for, as parameters say it; another model as it is."""
    table = _find(params, 'positions', 'table')
    if table is None or kind_of(model) is None or model.image_size or table.shape[0] != table.shape[1]:
        return model
    return model.clone(image_size=table.shape[0] * model.patch_size)


def channels_of(params):
    """The channels of the images that parameters are for."""
    kernel = _find(params, 'patches', 'projection', 'kernel')
    kernel = _find(params, 'stem_conv', 'kernel') if kernel is None else kernel
    return 3 if kernel is None else kernel.shape[2]  # what is missing is said later


def _find(params, *path):
    found = params.get('image', params)
    for name in path:
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found if hasattr(found, 'shape') else None


def inputs_for(model, config):
    """What the init of a network for images is given."""
    S = getattr(model, 'image_size', 0) or 32
    images = jax.ShapeDtypeStruct((1, S, S, (config.get('vision_config') or config).get('num_channels', 3)), np.float32)
    return (images, jax.ShapeDtypeStruct((1, 1), np.int32)) if isinstance(model, models.CLIP) else (images,)


def to_vit(model, channels):
    architecture = 'ViTForImageClassification' if model.outputs else 'ViTModel'
    pooler = dict(pooler_output_size=model.representation_size or model.width, pooler_act='tanh')
    return architecture, dict(keys(model, VIT), num_channels=channels, qkv_bias=True, **pooler, **_label_names(model))


def to_dinov2(model, channels):
    kind = 'Dinov2WithRegisters' if model.registers else 'Dinov2'
    F = model.feed_forward or 4 * model.width
    ratio = F * (1.5 if model.gated else 1.0) / model.width
    return f'{kind}ForImageClassification' if model.outputs else f'{kind}Model', dict(
        keys(model, REGISTERS if model.registers else DINOV2), mlp_ratio=math.floor(ratio), num_channels=channels, qkv_bias=True,
        hidden_act=keys(model, dict(hidden_act=('activation', 'gelu')))['hidden_act'], **_label_names(model))


def to_clip(model, channels):
    text = keys(model, CLIP_TEXT) | dict(pad_token_id=PADDING, bos_token_id=START, eos_token_id=END)
    E = model.projection_width
    return 'CLIPModel', dict(
        vision_config=keys(model, CLIP_IMAGE) | dict(num_channels=channels, projection_dim=E, model_type='clip_vision_model'),
        text_config=text | dict(projection_dim=E, model_type='clip_text_model'), projection_dim=E)


def to_resnet(model, channels):
    found = facts(model)
    return 'ResNetForImageClassification' if model.outputs else 'ResNetModel', dict(
        num_channels=channels, embedding_size=model.width, depths=list(found['stages']), hidden_sizes=list(found['channels']),
        layer_type=found['block'], hidden_act='relu', downsample_in_first_stage=model.downsample_first_stage,
        downsample_in_bottleneck=model.stride_first, **_label_names(model))


def _label_names(model):
    names = [f'LABEL_{n}' for n in range(model.outputs)]
    return dict(id2label=dict(enumerate(names)), label2id={name: n for n, name in enumerate(names)}) if names else {}


READ = dict(vit=from_vit, dinov2=from_dinov2, dinov2_with_registers=from_dinov2, clip=from_clip, resnet=from_resnet)
WRITE = dict(vit=to_vit, dinov2=to_dinov2, dinov2_with_registers=to_dinov2, clip=to_clip, resnet=to_resnet)
