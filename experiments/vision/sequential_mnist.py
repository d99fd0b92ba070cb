r"""Sequential MNIST: which digit is it, read row by row, pixel by pixel, or with its pixels in one random order.

What it shows: how far back a recurrent layer remembers. Of 784 pixels one by one the first ones matter as much as the last
(Le, Jaitly & Hinton 2015); permuted, even neighbours are hundreds of steps apart.

    python launch.py --config=experiments/vision/sequential_mnist.py --workdir=runs/sequential          # all three on `digits`, 8 rows or 64 pixels
    python launch.py --config=experiments/vision/sequential_mnist.py:rows --workdir=runs/rows --config.data.source=file:../shared/data/mnist

On MNIST, on 2 CPU cores that did much other work (Python 3.11, jax 0.10.2), accuracy on the 10,000 images of the test part:

| variant | cell | seed 0 | seed 1 | seed 2 | minutes |
|---|---|---|---|---|---|
| rows | LSTM, 128 | 0.9894 | 0.9884 | 0.9895 | 3.3 to 4.6 |
| pixels | GRU, 96 | not measured | | | |
| permuted | GRU, 96 | not measured | | | |

Published, of pixels and permuted pixels: LSTM 98.8 and 92.9, GRU 99.1 and 94.1.
"""

from seqjax import config as configs

VARIANTS = ('rows', 'pixels', 'permuted')


def get_config(variant='rows'):
    config = configs.defaults(model='reader', task='classification', source='digits')
    rows = variant == 'rows'
    config.data.update(images_as=variant, batch_size=100 if rows else 64)
    config.model.update(encoder='lstm' if rows else 'gru', width=128 if rows else 96, depth=1)
    config.train.update(steps=6000, eval_every=1000, eval_batches=30, save_every=1000)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=200, final_rate=0.01, clip_norm=1.0)
    return config
