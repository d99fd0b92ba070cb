"""The X-ray of a run by depth, of networks whose layers come one after another: part of --mode=xray."""

import json

import jax
import numpy as np

from seqjax import models
from seqjax.analysis.vision.depth_gradients import DepthGradients, depth_gradients, plot_depth_gradients, stacked
from seqjax.modes.command.mode import one_process
from seqjax.runs.restore import find_checkpoint, open_run, restore_model
from seqjax.train.experiment import build
from seqjax.train.step import row_keys


def layers_of(config):
    """The classes of the layers that are looked at, of a model whose layers come one after another; ()."""
    return getattr(models.MODELS[config.model.name], 'xray_layers', ())


def depth_xray_run(config, workdir, checkpoint='latest'):
    """Examines a checkpoint on the first training batch, as training does: writes workdir/xray/ and returns what xray.json holds."""
    one_process('xray')
    config, run = open_run(config, workdir)
    parts = build(config, run)
    step, checkpoints = find_checkpoint(run, checkpoint)
    model, params = restore_model(run, config, step, checkpoints)
    statistics = model.batch_stats if isinstance(model, models.WithStatistics) else None
    found = _examine(parts.task, layers_of(config), params, statistics, parts.training[0], jax.random.key(config.seed))
    paths, whole = list(found), stacked(found)
    plot_depth_gradients({config.model.name: whole}, run.path / 'xray' / 'depth.png')
    np.savez_compressed(run.path / 'xray' / 'depth.npz', **whole._asdict())
    summary = dict(step=step, layers={path: {name: float(x) for name, x in found[path]._asdict().items()} for path in paths},
                   log10_gradient=float(np.log10(whole.gradient[0] / whole.gradient[-1])))
    run.write('xray/xray.json', json.dumps(summary, indent=2) + '\n')
    return summary


def saved_curve(run):
    """What `depth_xray_run` has written of a run."""
    with np.load(run.path / 'xray' / 'depth.npz') as arrays:
        return DepthGradients(**arrays)


def describe_depth(summary):
    """The summary as lines for a reader."""
    layers = summary['layers']
    first, last = list(layers)[0], list(layers)[-1]
    return (f'step {summary["step"]}: from {last} back to {first}, {len(layers)} layers, the gradient becomes 10^{summary["log10_gradient"]:+.1f} '
            f'times as large ({layers[last]["gradient"]:.3g} to {layers[first]["gradient"]:.3g})')


def _examine(task, classes, params, statistics, batch, key):
    keys = row_keys(jax.random.fold_in(key, 0), 0, jax.tree.leaves(batch)[0].shape[0])
    batch = task.prepare(batch, keys)

    def loss(params):
        sums = task.holding(statistics, updates=True)(params, batch, key)
        return sums.loss / sums.weight

    return depth_gradients(loss, params, classes)
