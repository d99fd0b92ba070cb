r"""Fashion-MNIST with a residual network of eight layers.

What it shows: a ResNet of small images on a set of 28 x 28 pixels, its first stage with stride 2, trained for four passes: minutes, not hours.

    python launch.py --config=experiments/vision/fashion_resnet.py --workdir=runs/fashion_resnet \
        --config.data.source=file:../shared/data/fashion_mnist

Data: without the second line the embedded digits; the real set is 60,000 images in idx files, of which a fiftieth is held out, and the
10,000 of t10k are the test part. Measured with seed 0 on 2 CPU cores that did much other work too (Python 3.11, jax 0.10.2), on the
test part:

| steps | accuracy | parameters | minutes |
|---|---|---|---|
| 2,000 | 0.9185 | 297,450 | 6.7 |

That is far from the 94.9 % that are published for a ResNet-18. Accuracy on the augmented training images, 0.915 over the last steps, is
below that of the test part: the network is short of steps and not of data. Longer runs were not measured, and there is one seed.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='resnet', task='classification', source='digits')
    config.data.update(batch_size=128, augment='crop(padding=2), flip', normalise=True, held_out=0.02)
    config.model.update(depth=8, width=32, downsample_first_stage=True)
    config.train.update(steps=2000, eval_every=500, save_every=1000, label_smoothing=0.1)
    config.optimizer.update(name='sgd', momentum=0.9, learning_rate=0.1, schedule='cosine', warmup_steps=200, final_rate=0.0,
                            weight_decay=5e-4, ema_decay=0.99)
    return config
