"""A run is opened again: its checkpoints found, its model rebuilt, its parameters read for use."""

import sys
from typing import Any

from flax import traverse_util
from flax.core import meta
import jax
import numpy as np

from seqjax import config as configs
from seqjax import models, parallel
from seqjax.errors import UserError
from seqjax.params import low_rank, quantisation
from seqjax.runs.checkpoints import Checkpoints, used_parts, verify
from seqjax.runs.directory import RunDirectory, check_same_experiment
from seqjax.runs.saved_model import saved_model


def load_model(workdir: Any, checkpoint: str = 'latest', *, weights: str = '', activations: bool = False) -> tuple[Any, dict]:
    """(linen module, parameters) of a run, for code of your own: model.apply({'params': params}, ...).

    The teacher or the EMA where there is one, adapters merged. Of a model with batch norms the module knows its running statistics:
    it is a `models.WithStatistics`. No task, no optimizer and no data take part. weights, activations: in 8 bits,
    as config.quantise says.
    """
    run = RunDirectory(workdir)
    config = run.saved_config()
    config.quantise.update(weights=weights, activations=activations)
    return restore_model(run, for_these_devices(config), *find_checkpoint(run, checkpoint))


def restored(run: RunDirectory, config: Any, checkpoint: str = 'latest') -> tuple[Any, dict]:
    """The same where `config` says on which devices and in how many bits, or what is loaded already."""
    return run.loaded or restore_model(run, config, *find_checkpoint(run, checkpoint))


def restore_model(run: RunDirectory, config: Any, step: int, checkpoints: Checkpoints) -> tuple[Any, dict]:
    """The same of a checkpoint that `find_checkpoint` has found; config: on which devices, and in how many bits. The optimizer's
    share of the checkpoint is not read."""
    saved, arrays = saved_model(run), checkpoints.manifest(step)['arrays']
    model = saved.build()
    which, of_statistics = used_parts(arrays)
    variables = jax.eval_shape(lambda: saved.init(model))
    boxed = variables['params']
    sizes = {axis: config.parallel[axis] for axis in parallel.AXES}
    strategy = configs.with_prefix('config', lambda: parallel.make_strategy(config.parallel.strategy, **sizes))
    target = traverse_util.flatten_dict(strategy.placed({which: meta.unbox(boxed)}, boxed)[which], sep='/')
    for path in list(target):
        for side in low_rank.sides(path):
            if (there := arrays.get(f'{which}/{side}')) is not None:
                target[side] = jax.ShapeDtypeStruct(there['shape'], there['dtype'],
                                                    sharding=parallel.replicated(strategy.mesh))
    found = checkpoints.restore(step, {which: traverse_util.unflatten_dict(target, sep='/')}, part=True)[which]
    if 'batch_stats' in variables:
        model = models.WithStatistics(
            model, _statistics(meta.unbox(variables['batch_stats']), of_statistics, step, checkpoints, strategy))
    params = low_rank.merge(found, saved.alpha) if any(map(low_rank.is_adapter, target)) else found
    if not config.quantise.weights:
        return model, params
    summed = quantisation.find_summed_axes(lambda: saved.init(model))
    return model, jax.jit(lambda params: quantisation.with_eight_bits(params, summed, **config.quantise))(params)


def _statistics(shapes, which, step, checkpoints, strategy):
    """The running statistics of a checkpoint that are evaluated with, on every device."""
    place = parallel.replicated(strategy.mesh)
    target = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes)
    return checkpoints.restore(step, {which: target}, part=True)[which]


def find_checkpoint(run: RunDirectory, which: str) -> tuple[int, Checkpoints]:
    """(step, checkpoints) for 'latest', 'best' or a number; only a checkpoint whose every byte is right is used."""
    checkpoints = Checkpoints(run.checkpoints)
    newest = checkpoints.newest_intact(report=lambda text: print(text, file=sys.stderr))  # sets damaged ones aside
    steps = checkpoints.steps()
    if newest is None:
        raise UserError(f'--workdir={run.path}: no checkpoint yet; train first')
    if which not in ('latest', 'best') and not (which.isdigit() and int(which) in steps):
        raise UserError(f"--checkpoint={which}: write 'latest', 'best' or a step; there are: {', '.join(map(str, steps))}")
    step = {'latest': newest, 'best': checkpoints.best_step()}.get(which) or int(which)
    if step != newest and (problems := verify(checkpoints.path(step))):
        raise UserError(f'--checkpoint={which}: step {step} is damaged ({problems[0]}); choose another of: '
                        f'{", ".join(map(str, steps))}')
    return step, checkpoints


def open_run(config: Any, workdir: Any, may_differ: tuple = ()) -> tuple[Any, RunDirectory]:
    """(`config` for these devices, the directory of a run), which must be one of the experiment that `config` describes."""
    config = for_these_devices(config)
    configs.validate(config)
    run = workdir if isinstance(workdir, RunDirectory) else RunDirectory(workdir)
    check_same_experiment(run.path, run.saved_config(), config, may_differ)
    return config, run


def for_these_devices(config: Any) -> Any:
    """The same config, on one device where the mesh that the run was trained on needs more devices than there are."""
    sizes = [abs(config.parallel[axis]) for axis in parallel.AXES]
    if np.prod(sizes) > jax.device_count():
        config = config.copy_and_resolve_references()
        config.parallel.update(data=1, fsdp=1, tensor=1, strategy='jit')
    return config

