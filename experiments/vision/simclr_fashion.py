r"""SimCLR on Fashion-MNIST: features of clothes without a label, scored by probes of a network that nobody trains any more.

What it shows: two augmented views of an image find each other among those of a batch (Chen et al. 2020); `--mode=probe` then compares the features
with pixels and with the same network untrained, in one table.

    python launch.py --config=experiments/vision/simclr_fashion.py --workdir=runs/simclr_fashion \
        --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/simclr_fashion.py --workdir=runs/simclr_fashion --mode=probe \
        --config.data.source=file:../shared/data/fashion_mnist

Data: without the second line the embedded digits; the real set is 60,000 images in idx files, of which a fiftieth is held out, and the 10,000 of
t10k are the test part. Labels are only used by evaluations and probes.

Not measured yet: no score is claimed, and the steps and rates below are a first guess. tests/experiments/test_features_without_labels.py runs
two steps of it.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='resnet', task='simclr', source='digits')
    config.data.update(batch_size=256, augment='resized_crop(area=(0.3, 1.0)), flip, colour_jitter(saturation=0.0, hue=0.0, p=0.8)',
                       normalise=True, held_out=0.02)
    config.model.update(depth=8, width=32, channels=(32, 64, 256), downsample_first_stage=True)
    config.train.update(steps=4500, eval_every=1500, save_every=500, temperature=0.2)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=200, final_rate=0.0, weight_decay=1e-4)
    return config
