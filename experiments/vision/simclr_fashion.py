r"""SimCLR on Fashion-MNIST: features of clothes without a label, scored by probes of a network that nobody trains any more.

What it shows: two augmented views of an image find each other among those of a batch (Chen et al. 2020); `--mode=probe` then compares the features
with pixels and with the same network untrained, in one table.

    python launch.py --config=experiments/vision/simclr_fashion.py --workdir=runs/simclr_fashion \
        --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/simclr_fashion.py --workdir=runs/simclr_fashion --mode=probe \
        --config.data.source=file:../shared/data/fashion_mnist

Data: without the second line the embedded digits; the real set is 60,000 images in idx files, of which a fiftieth is held out, and the 10,000 of
t10k are the test part. Labels are only used by evaluations and probes.

Measured with seed 0 on one core of an AMD EPYC (Zen 5) whose other core did other work (Python 3.11, jax 0.10.2): 54 minutes of
training; the probe took one more on both cores. Accuracy on the test part; the penalty of the linear probe is chosen on the held-out rows, k is 20, and 10
labels per class are drawn five times:

| features | width | linear probe | k-NN | 10 labels per class |
|---|---|---|---|---|
| pixels | 784 | 85.76 % | 84.88 % | 69.2 +- 0.9 % |
| the same network at its random initialisation | 256 | 83.26 % | 80.26 % | 64.5 +- 1.1 % |
| trained without labels | 256 | 89.37 % | 86.96 % | 75.0 +- 1.2 % |

SHA-256 of the frozen leaves before and after the probe: 412c2cc003f7...302152e, the same (`result.json` has all of it). The same kind of network with
labels has 94.5 % ([fashion_resnet](fashion_resnet.py)). It is the first recipe that was trained to its end; other seeds were not run.

Picture: docs/images/simclr_features.png, the test images by the first two principal components.
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
