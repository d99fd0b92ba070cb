r"""What a layer costs: self-attention, recurrence, convolution and restricted attention, measured.

What it shows: table 1 of Vaswani et al. 2017, from compiled programs instead of from thought. Operations, seconds, bytes and
operations in sequence against the number of steps n, the width d, the size k of a kernel and r of a neighbourhood, with the
exponents of a power law through them (docs/complexity.md).

    python launch.py --config=experiments/scaling/complexity.py --workdir=runs/complexity --mode=cost

It writes cost.json and complexity.png and prints the table. There is nothing to train. Measured on 2 CPU cores that did other work
too (Python 3.11, jax 0.10.2), in 0.8 minutes; the exponents of the operations are exact:

| layer | operations | seconds |
|---|---|---|
| self-attention | 4 n^2.00 d^1.00 | n^2.32 d^0.38 |
| recurrent | 4 n^1.00 d^2.00 | n^1.04 d^1.52 |
| convolutional | 2 k^1.00 n^1.00 d^2.00 | k^0.88 n^0.93 d^1.86 |
| restricted | 8 r^1.00 n^1.00 d^1.00 | r^0.58 n^1.04 d^0.78 |
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='recurrent')
    config.cost.layers = 'all'
    return config
