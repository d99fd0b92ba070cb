"""A run is opened again: its checkpoints found, its model rebuilt, its parameters read for use."""

import sys
from typing import Any

from flax import traverse_util
from flax.core import meta
import jax
import numpy as np

from seqjax import config as configs
from seqjax import parallel
from seqjax.errors import UserError
from seqjax.params import low_rank, quantisation
from seqjax.runs.checkpoints import Checkpoints, verify
from seqjax.runs.directory import RunDirectory, check_same_experiment
from seqjax.runs.saved_model import SavedModel, saved_model


def load_model(workdir: Any, checkpoint: str = 'latest', *, weights: str = '', activations: bool = False) -> tuple[Any, dict]:
    """(linen module, parameters) of a run, for code of your own: model.apply({'params': params}, ...).

    The EMA where there is one, adapters merged. No task, no optimizer and no data take part. weights, activations: in 8 bits,
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
    """The same of a checkpoint that `find_checkpoint` has found; config: on which devices, and in how many bits."""
    saved = saved_model(run)
    model = saved.build()
    return model, restore_parameters(config, saved, model, checkpoints, step)


def restore_parameters(config: Any, saved: SavedModel, model: Any, checkpoints: Checkpoints, step: int) -> dict:
    """Those of a checkpoint that the model computes with: the EMA where there is one, adapters merged, in 8 bits where
    config.quantise says so. The optimizer's share of the checkpoint is not read."""
    arrays = checkpoints.manifest(step)['arrays']
    which = 'ema' if any(path.startswith('ema/') for path in arrays) else 'params'
    boxed = jax.eval_shape(lambda: saved.init(model))['params']
    strategy = make_strategy(config)
    target = traverse_util.flatten_dict(placed({which: meta.unbox(boxed)}, boxed, strategy)[which], sep='/')
    for path in list(target):
        for side in low_rank.sides(path):
            if (there := arrays.get(f'{which}/{side}')) is not None:
                target[side] = jax.ShapeDtypeStruct(there['shape'], there['dtype'],
                                                    sharding=parallel.replicated(strategy.mesh))
    found = checkpoints.restore(step, {which: traverse_util.unflatten_dict(target, sep='/')}, part=True)[which]
    params = low_rank.merge(found, saved.alpha) if any(map(low_rank.is_adapter, target)) else found
    if not config.quantise.weights:
        return params
    summed = quantisation.find_summed_axes(lambda: saved.init(model))
    return jax.jit(lambda params: quantisation.with_eight_bits(params, summed, **config.quantise))(params)


def placed(abstract: Any, boxed: Any, strategy: Any) -> Any:
    """The same ShapeDtypeStructs, each with the sharding that a strategy gives it."""
    layout = strategy.state_layout(abstract, boxed)
    return jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), abstract, layout)


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


def open_run(config: Any, workdir: Any, may_differ: tuple = ()) -> RunDirectory:
    """The directory of a run, which must be one of the experiment that `config` describes."""
    configs.validate(config)
    run = workdir if isinstance(workdir, RunDirectory) else RunDirectory(workdir)
    check_same_experiment(run.path, run.saved_config(), config, may_differ)
    return run


def for_these_devices(config: Any) -> Any:
    """The same config, on one device where the mesh that the run was trained on needs more devices than there are."""
    sizes = [abs(config.parallel[axis]) for axis in parallel.AXES]
    if np.prod(sizes) > jax.device_count():
        config = config.copy_and_resolve_references()
        config.parallel.update(data=1, fsdp=1, tensor=1, strategy='jit')
    return config


def make_strategy(config: Any) -> Any:
    return configs.with_prefix('config', lambda: parallel.make_strategy(
        **{name: config.parallel[name] for name in ('strategy', *parallel.AXES)}))
