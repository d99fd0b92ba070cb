r"""DINO on Fashion-MNIST: a small ViT learns clothes from its own running average, without a label.

What it shows: self-distillation with an EMA teacher, centring, sharpening and smaller local views (Caron et al. 2021), watched for collapse;
`--mode=probe` scores the teacher's features beside pixels and the untrained network.

    python launch.py --config=experiments/vision/dino_fashion.py --workdir=runs/dino_fashion \
        --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/dino_fashion.py --workdir=runs/dino_fashion --mode=probe \
        --config.data.source=file:../shared/data/fashion_mnist

Data: without the second line the embedded digits; the real set is 60,000 images in idx files, of which a fiftieth is held out, and the 10,000 of
t10k are the test part. Labels are only used by evaluations and probes.

Not measured yet: no score is claimed, and the steps and rates below are a first guess. tests/experiments/test_features_without_labels.py runs
two steps of it.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='vit', task='dino', source='digits')
    config.data.update(batch_size=128, augment='resized_crop(area=(0.4, 1.0)), flip, colour_jitter(saturation=0.0, hue=0.0, p=0.8)',
                       normalise=True, held_out=0.02)
    config.model.update(width=96, depth=4, heads=3, patch_size=4)
    config.train.update(steps=8000, eval_every=1000, save_every=1000, prototypes=1024, teacher_momentum=0.99, local_views=4,
                        local_augment='resized_crop(size=12, area=(0.1, 0.4)), flip, colour_jitter(saturation=0.0, hue=0.0, p=0.8)')
    config.optimizer.update(name='adamw', learning_rate=5e-4, schedule='cosine', warmup_steps=500, final_rate=0.01, weight_decay=0.04)
    return config
