"""The mean of the parameters of the last checkpoints of a run, as a run directory of its own that every mode can use.

Vaswani et al. 2017, section 6.1: "we used a single model obtained by averaging the last 5 checkpoints".
"""

import json
import shutil
import sys

import numpy as np

from seqjax import config as configs
from seqjax.data.text.codecs import FILES
from seqjax.errors import UserError
from seqjax.runs.restore import open_run
from seqjax.modes.command.mode import Flag, Mode, one_process
from seqjax.runs import files
from seqjax.runs.checkpoints import Checkpoints
from seqjax.runs.directory import RunDirectory

COPIED = ('config.json', 'model.json', 'data.json', *FILES)  # what the other modes read, where it is there
AVERAGED = ('params/', 'ema/', 'task_state/teacher/', 'batch_stats/', 'ema_batch_stats/')  # see `runs.checkpoints.used_parts`


def average_checkpoints(config, workdir, last):
    """Writes workdir/average_of_{last}, whose one checkpoint is the newest of the run with the mean of the parameters of
    the newest `last`. Returns (its path, their steps).

    mean = (x_1 + ... + x_N) / N in float64, rounded once to the type of the parameters; moments, counts and carried state
    are those of the newest. average.json says which checkpoints these were: the same ones are not averaged again.
    """
    one_process('average')
    if last < 2:
        raise UserError(f'--last={last}: a mean is that of at least 2 checkpoints')
    configs.refuse_quantised(config, '--mode=average is about')
    config, run = open_run(config, workdir)
    checkpoints = Checkpoints(run.checkpoints)
    latest = checkpoints.steps()[-config.train.keep_latest:]  # what is older was kept for its score
    intact = checkpoints.latest_intact(last, report=lambda text: print(text, file=sys.stderr))
    steps = [step for step in intact if step in latest]
    if len(steps) < last:
        raise UserError(f'--last={last}: {run.checkpoints} has {len(steps)} such checkpoint(s), and training keeps the latest '
                        f'config.train.keep_latest={config.train.keep_latest}; ask for fewer, or train with more to keep')
    final = run.path / f'average_of_{last}'
    sources = {str(step): files.sha256(checkpoints.path(step) / 'manifest.json') for step in steps}
    if not _is_there(final, sources):
        writing = final.with_name(f'.{final.name}.writing')
        shutil.rmtree(writing, ignore_errors=True)
        _write(RunDirectory(writing), run, checkpoints, steps, sources)
        files.commit_directory(writing, final)
    return final, steps


def mean_of(checkpoints, steps):
    """{path: array} on the host: those of the newest of `steps`, with the means over all of them as its parameters."""
    target = {path: np.empty(x['shape'], x['dtype']) for path, x in checkpoints.manifest(steps[-1])['arrays'].items()}
    averaged = {path: x for path, x in target.items() if path.startswith(AVERAGED)}
    sums = {path: np.zeros(x.shape, np.float64) for path, x in averaged.items()}
    for step in steps:
        for path, x in checkpoints.restore(step, averaged, part=True).items():
            sums[path] += x.astype(np.float64)
    means = {path: np.asarray(total / len(steps), target[path].dtype) for path, total in sums.items()}
    return {**checkpoints.restore(steps[-1], target), **means}


def _write(average, run, checkpoints, steps, sources):
    average.path.mkdir()
    for name in COPIED:
        if (text := run.read(name)) is not None:
            average.write(name, text)
    average.write('average.json', json.dumps(sources, indent=2) + '\n')
    newest = checkpoints.manifest(steps[-1])
    Checkpoints(average.checkpoints).save(mean_of(checkpoints, steps), step=steps[-1], config=newest['config'],
                                          seconds=newest['seconds'])


def _is_there(path, sources):
    """Whether the mean of these very checkpoints is at `path`; what else is there is refused."""
    if not path.exists():
        return False
    before = json.loads(RunDirectory(path).read('average.json') or '{}')
    if before != sources:
        there = f'the mean of checkpoints {", ".join(before)}' if before else 'something else'
        raise UserError(f'{path}: holds {there} and not that of {", ".join(sources)}; remove it or move it away')
    return True


def _run(request):
    if request.flags.last is None:
        raise UserError('--mode=average: give --last=N, the number of checkpoints to take the mean of')
    path, steps = average_checkpoints(request.config, request.workdir, request.flags.last)
    print(f'the mean of checkpoints {", ".join(map(str, steps))}: {path} (a --workdir for the other modes)')


MODE = Mode(_run, 'Average the parameters of the last checkpoints, as a run directory of its own.',
            (Flag('last', None, 'How many checkpoints.', int),))
