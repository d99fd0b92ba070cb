r"""The published sizes of networks for images, ResNet, ViT and CCT, with settings of their papers.

What it shows: how large they are, and what a training step needs on any mesh. Without a byte of data or parameters:

    python launch.py --config=experiments/vision/image_presets.py:vit_b_16 --mode=describe
    python launch.py --config=experiments/vision/image_presets.py:vit_h_14 --mode=describe --config.parallel.fsdp=8 --config.parallel.data=8

Training needs accelerators and ImageNet, a folder for every class:

    python launch.py --config=experiments/vision/image_presets.py:vit_b_16 --workdir=runs/vit_b \
        --config.data.source='file:DIR/{train,val}' --config.data.image_size=224 --config.parallel.data=8

Name one: without a name the command would train all of them, one after another. The default data are blank images of the size that the
preset is for, from which nothing can be learned: they have the shapes that --mode=describe reads.

Settings: He et al. 2016a, sections 3.4 and 4.2, with a cosine for the rate where they divide it by 10; Touvron et al. 2021, table 9, also
for ViTs of other papers, with mixup alone where it takes turns with CutMix, and without repeated augmentation and random erasing; Hassani
et al. 2021 for CCT on CIFAR-10, whose rate and decay it is. Matmuls are in bfloat16, and layers of ViTs are scanned.

Not measured: no accelerator was at hand. Parameter counts are tested (tests/models/vision/test_vit.py, test_resnet.py), and the step of
vit_b_16 is compiled for eight TPU v5e chips (tests/train/test_tpu.py).
"""

import numpy as np

from seqjax import config as configs
from seqjax import data, models

VARIANTS = (
    'resnet18', 'resnet34', 'resnet50', 'resnet101', 'resnet152', 'resnet20_cifar', 'resnet32_cifar',
    'resnet44_cifar', 'resnet56_cifar', 'resnet110_cifar', 'vit_ti_16', 'vit_s_16', 'vit_s_32', 'vit_b_16',
    'vit_b_32', 'vit_l_16', 'vit_l_32', 'vit_h_14', 'cct_2_3x2', 'cct_7_3x1', 'cct_14_7x2')
IMAGENET, CIFAR = 1_281_167, 50_000  # training images


class Blank(data.Source):
    """Black images, none of which is stored."""

    def __init__(self, size, classes):
        self.size, self.classes = size, classes

    def __len__(self):
        return self.classes * 2

    def __getitem__(self, i):
        return data.Example(np.zeros((self.size, self.size, 3), np.uint8), self.targets[i])

    @property
    def targets(self):
        return [f'class {i % self.classes}' for i in range(len(self))]

    def manifest(self):
        return dict(blank=self.size, classes=self.classes)


def _blank(size, classes):
    part = Blank(size, classes)
    return data.made_for('class', of_images=True)(lambda task: data.Examples(part, part, [], f'blank images of {size} x {size} pixels'))


for _size, _classes in {(preset.image_size, preset.outputs) for preset in models.IMAGE_PRESETS.values()}:
    data.SOURCES.register(f'blank_{_size}')(_blank(_size, _classes))


def get_config(variant='vit_b_16'):
    preset = models.IMAGE_PRESETS[variant]
    config = configs.defaults(model=preset.model, source=f'blank_{preset.image_size}')
    scanned = {} if preset.model == 'resnet' else dict(scan_layers=True)
    config.model.update(**preset.fields, dtype='bfloat16', **scanned)
    config.train.update(eval_every=5000, eval_batches=100, save_every=5000)
    {'resnet': _resnet, 'vit': _vit, 'cct': _cct}[preset.model](config, preset)
    return config


def _resnet(config, preset):
    large = preset.image_size == 224
    rows, epochs = (256, 90) if large else (128, 164)
    config.data.update(batch_size=rows, normalise=True, augment='resized_crop, flip' if large else 'crop(padding=4), flip')
    config.train.steps = round(epochs * (IMAGENET if large else CIFAR) / rows)
    config.optimizer.update(name='sgd', momentum=0.9, learning_rate=0.1, schedule='cosine', warmup_steps=500, final_rate=0.0,
                            weight_decay=1e-4, clip_norm=0.0)


def _vit(config, preset):
    config.data.update(batch_size=1024, normalise=True, augment='resized_crop, flip, rand_augment(n=2, magnitude=9), mixup(alpha=0.8)')
    config.model.stochastic_depth = 0.1
    config.train.update(steps=round(300 * IMAGENET / 1024), label_smoothing=0.1)
    config.optimizer.update(name='adamw', learning_rate=1e-3, schedule='cosine', warmup_steps=round(5 * IMAGENET / 1024), final_rate=0.01,
                            weight_decay=0.05, clip_norm=0.0)


def _cct(config, preset):
    if preset.image_size == 224:
        return _vit(config, preset)
    config.data.update(batch_size=128, normalise=True, augment='crop(padding=4), flip, rand_augment(n=2, magnitude=9), mixup(alpha=0.8)')
    config.train.update(steps=round(300 * CIFAR / 128), label_smoothing=0.1)
    config.optimizer.update(name='adamw', learning_rate=6e-4, schedule='cosine', warmup_steps=4000, final_rate=0.02, weight_decay=0.06,
                            clip_norm=0.0)
