"""Images in, outputs by the names that Hugging Face has for them: see `hf_forward`.

Shapes: B images of C channels; T tokens.
"""

import jax.numpy as jnp
import numpy as np

from seqjax import ops
from seqjax.errors import FieldError

INPUTS = {'vit': ('pixel_values',), 'dinov2': ('pixel_values',), 'dinov2_with_registers': ('pixel_values',),
          'resnet': ('pixel_values',), 'clip': ('pixel_values', 'input_ids', 'attention_mask', 'position_ids')}


def forward(model, architecture, images, input_ids=None, attention_mask=None, position_ids=None, ends=None):
    """{name: array}, as this class of transformers returns them; a method for `model.apply`. images: [B, H, W, C]."""
    if architecture == 'CLIPModel':
        steps = {} if position_ids is None else dict(steps=position_ids)
        hidden, _ = model.text_tower.hidden(input_ids, **steps, **attention_mask)
        text = ops.unit_length(model.text_projection(ops.last_step(hidden, ends + 1)))
        image = model.encode_image(images)
        scores = jnp.exp(model.log_scale) * jnp.matmul(text, image.T)
        return dict(logits_per_image=scores.T, logits_per_text=scores, text_embeds=text, image_embeds=image)
    if architecture.endswith('ForImageClassification'):
        return dict(logits=model(images))
    if architecture == 'ResNetModel':
        places = jnp.moveaxis(model.feature_map(images), -1, 1)  # [B, D, h, w]
        return dict(last_hidden_state=places, pooler_output=places.mean(axis=(2, 3), keepdims=True))
    hidden = model.tokens(images)
    if architecture == 'ViTModel':
        pooled = dict(pooler_output=jnp.tanh(model.representation(model.pool(hidden)))) if model.representation_size else {}
        return dict(last_hidden_state=hidden, **pooled)
    return dict(last_hidden_state=hidden, pooler_output=hidden[:, 0])


def prepared_images(value, config):
    """pixel_values [B, C, H, W] as ours has them, [B, H, W, C]."""
    value, config = np.asarray(value), config.get('vision_config') or config
    if value.ndim != 4 or value.dtype.kind != 'f':
        raise FieldError('pixel_values', f'{value.dtype} {list(value.shape)}', 'must be numbers, [images, channels, height, width], '
                         'resized and normalised as the files say: loaded.preprocess(images) gives them')
    if value.shape[1] != config.get('num_channels', 3):
        raise FieldError('pixel_values', list(value.shape), f'must have {config.get("num_channels", 3)} channels, '
                         '[images, channels, height, width]')
    return np.moveaxis(value, 1, -1).astype(np.float32)


def ends_of(tokens, config):
    """[B]: which token of a text its embedding is taken from, as transformers finds it.

    It is the first that is eos_token_id; where the config has the 2 of the first conversions, the one with the largest number.
    """
    end = (config.get('text_config') or {}).get('eos_token_id', 49407)
    ends = np.argmax(tokens if end == 2 else tokens == end, axis=1)
    return ends.astype(np.int32)
