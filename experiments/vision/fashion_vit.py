r"""Which garment is on the image? A Vision Transformer of at most 250,000 parameters on Fashion-MNIST.

    python launch.py --config=experiments/vision/fashion_vit.py --workdir=runs/fashion_vit \
        --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/fashion_vit.py --workdir=runs/mnist_vit \
        --config.data.source=file:../shared/data/mnist --config.data.augment='crop(padding=2)'

Data: scikit-learn's digits, in four patches of 4 x 4 pixels, as nothing else is embedded; or files of Fashion-MNIST and MNIST.

Not measured: no run of it was trained to its end. The first 200 steps of one with the same network (213,642 parameters) took 99 seconds on
2 CPU cores that did ten other things (Python 3.11, jax 0.10.2).
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='vit', task='classification', source='digits')
    config.data.update(batch_size=128, held_out=0.02, augment='crop(padding=2), flip', normalise=True)
    config.model.update(patch_size=4, width=64, depth=5, heads=4, feed_forward=192, pooling='mean', stochastic_depth=0.1)
    config.train.update(steps=18_000, eval_every=2000, save_every=2000)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=500, final_rate=0.01,
                            weight_decay=0.05, clip_norm=1.0, ema_decay=0.999)
    return config
