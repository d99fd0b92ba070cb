"""Networks for images in the sizes that were published.

    models.preset('vit_b_16')                     a linen module with 86,567,656 parameters
    models.preset('vit_b_16', outputs=10)         with another head
    models.IMAGE_PRESETS['vit_b_16'].fields       for config.model.update(...)
"""

from typing import Any, NamedTuple


class ImagePreset(NamedTuple):
    """model: a name of `models.MODELS`. fields: those of the model that its defaults do not have. What the data decides otherwise:
    the size of the images, H = W, and the number of outputs.
    """

    model: str
    fields: dict[str, Any]
    image_size: int
    outputs: int


def _vit(width, depth, heads, patch_size, image_size=224):
    return ImagePreset('vit', dict(width=width, depth=depth, heads=heads, feed_forward=4 * width, patch_size=patch_size,
                                   image_size=image_size, position_scale=0.02), image_size, 1000)


def _cct(width, depth, heads, times, layers, kernel, image_size=32, outputs=10):
    return ImagePreset('cct', dict(width=width, depth=depth, heads=heads, feed_forward=times * width, stem_layers=layers,
                                   stem_kernel=kernel, image_size=image_size, stochastic_depth=0.1), image_size, outputs)


def _resnet(depth):
    return ImagePreset('resnet', dict(depth=depth, width=64, stem='imagenet', shortcut='projection'), 224, 1000)


def _resnet_cifar(depth):
    return ImagePreset('resnet', dict(depth=depth), 32, 10)


IMAGE_PRESETS = {
    # He et al. 2016a, table 1, for ImageNet, and section 4.2, for CIFAR-10. depth
    **{f'resnet{depth}': _resnet(depth) for depth in (18, 34, 50, 101, 152)},
    **{f'resnet{depth}_cifar': _resnet_cifar(depth) for depth in (20, 32, 44, 56, 110)},
    # Dosovitskiy et al. 2021, table 1; Ti and S of Touvron et al. 2021, table 1. width, depth, heads, patch size
    'vit_ti_16': _vit(192, 12, 3, 16),
    'vit_s_16': _vit(384, 12, 6, 16),
    'vit_s_32': _vit(384, 12, 6, 32),
    'vit_b_16': _vit(768, 12, 12, 16),
    'vit_b_32': _vit(768, 12, 12, 32),
    'vit_l_16': _vit(1024, 24, 16, 16),
    'vit_l_32': _vit(1024, 24, 16, 32),
    'vit_h_14': _vit(1280, 32, 16, 14),
    # Hassani et al. 2021, for CIFAR-10 and ImageNet. width, depth, heads, F / D, layers and kernel of the stem
    'cct_2_3x2': _cct(128, 2, 2, 1, 2, 3),
    'cct_7_3x1': _cct(256, 7, 4, 2, 1, 3),
    'cct_14_7x2': _cct(384, 14, 6, 3, 2, 7, image_size=224, outputs=1000),
}
