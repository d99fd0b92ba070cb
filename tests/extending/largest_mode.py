"""A mode of one's own, --mode=largest: the largest parameters of a checkpoint, and their norms.

    python launch.py --config=tests/extending/largest_mode.py --workdir=runs/largest
    python launch.py --config=tests/extending/largest_mode.py --workdir=runs/largest --mode=largest --top=3
"""

import jax
import numpy as np

from seqjax import config as configs
from seqjax import modes, runs


def run(request):
    _, params = runs.load_model(request.workdir, request.flags.checkpoint)
    leaves = sorted(jax.tree_util.tree_leaves_with_path(params), key=lambda pair: -pair[1].size)
    for path, leaf in leaves[:request.flags.top]:
        name = '/'.join(key.key for key in path)
        print(f'{name}\t{leaf.size}\t{np.linalg.norm(leaf):.4f}')


modes.MODES.register('largest')(modes.Mode(
    run, 'List the largest parameters of a checkpoint.', flags=(modes.CHECKPOINT, modes.Flag('top', 5, 'How many.')),
    reads=('model',)))


def get_config():
    config = configs.defaults('recurrent')
    config.data.update(batch_size=4, sequence_length=16)
    config.model.update(width=8)
    config.train.update(steps=2, eval_batches=1)
    config.optimizer.update(warmup_steps=0)
    return config
