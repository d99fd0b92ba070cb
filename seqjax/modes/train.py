"""Train an experiment, or all variants of one and compare them. The same command resumes."""

import json
import pathlib
import sys

import jax

from seqjax import analysis, train
from seqjax.errors import UserError
from seqjax.modes.command.mode import Mode


def _run(request):
    config, workdir = request.config, request.workdir
    if config.cost.layers:
        raise UserError(f'config.cost.layers={config.cost.layers!r}: is about layers and trains nothing; add --mode=cost')
    try:
        result = (train.sweep(request.variants, workdir) if request.variants else
                  train.train(config, workdir, typed=tuple(request.changes)))
    except train.Interrupted as interrupted:
        print(interrupted, file=sys.stderr)
        sys.exit(interrupted.exit_code)
    if jax.process_index() > 0:
        return
    if request.variants:
        print(analysis.comparison_table(result))
        print(f'runs: {workdir} (compared in {pathlib.Path(workdir) / "comparison.png"})')
    else:
        print(json.dumps(result, indent=2))
        print(f'run directory: {workdir} (loss curve: {pathlib.Path(workdir) / "loss.png"})')


MODE = Mode(_run, 'Train, from the newest checkpoint of --workdir on.', reads=(
    'seed', 'task', 'parameters', 'init_from', 'init_map', 'init_fresh', 'data', 'model', 'train', 'optimizer', 'lora',
    'parallel', 'decode'))
