"""What else can be done with a run: evaluate it, load its model. `writing`, `predict` and `translate` stand on it."""

import dataclasses
import functools
import json
import sys

import jax
import numpy as np

from seqjax import config as configs
from seqjax import parallel
from seqjax.analysis.recurrent.layers import recurrent_layers
from seqjax.errors import UserError
from seqjax.modes.mode import CHECKPOINT, Mode
from seqjax.runs.checkpoints import Checkpoints, verify
from seqjax.runs.directory import RunDirectory, check_same_experiment, jsonable
from seqjax.train.decode_eval import on_one_device
from seqjax.train.evaluation import draw, evaluate_state, place_of, summarise
from seqjax.train.experiment import build, make_strategy, make_task
from seqjax.train.parameters import make_parameters, placed
from seqjax.train.progress import ProgressBar

_OTHER_ROWS = ('source', 'held_out', 'held_out_rows', 'format', 'input_column', 'target_column', 'split_column', 'label_file',
               'mask_file', 'split_seed', 'on_error')
_EVALUATE_ON_OTHER_DATA = tuple(f'data.{field}' for field in (*_OTHER_ROWS, 'directory', 'batch_size', 'carry', 'batching',
                                                              'shapes'))


def evaluate(config, workdir, checkpoint='latest'):
    """Metrics of a checkpoint of the run on its held-out text, or on that of another source that `config` names.

    All pairs of a translation are decoded, whatever config.train.decode_rows says. Pictures, texts and scores of the run's own
    rows are written, see `place_of`; of other rows nothing is.
    """
    config = for_these_devices(config)
    run = open_run(config, workdir, may_differ=_EVALUATE_ON_OTHER_DATA)
    parts = build(config, run)
    step, checkpoints = find_checkpoint(run, checkpoint)
    state = checkpoints.restore(step, parts.target.replace(carry=None), part=True)  # evaluation carries a state of its own
    state = parts.strategy.enter(state.replace(carry=parts.initial_carry()))
    with ProgressBar('evaluate', len(parts.evaluation), quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling')
        sums = evaluate_state(parts.strategy, parts.eval_step(bar.say), state, parts.evaluation, seen=bar.update)
    name = dict(validation='eval').get(config.data.split, config.data.split)
    place = place_of(config, run, step) if jax.process_index() == 0 and _same_rows(config, run.saved_config()) else None
    files = draw(parts.task, sums, place, name, step) if place else []
    found = summarise(parts.task, sums, name)
    if parts.decoded:
        every_pair = dataclasses.replace(parts.decoded, rows=0)
        with ProgressBar('decode', every_pair.count(name)) as bar:
            bar.update(0, 'compiling')
            written = every_pair.measure(parts.task.model, on_one_device(parts, state), name, bar.add)
        found |= written.numbers
        files += written.keep(place, step) if place else []
    if files:
        print(f'written to {place.path}: {", ".join(files)}', file=sys.stderr)
    return {'step': step, **jsonable(found)}


def _same_rows(config, saved):
    return all(config.data[field] == saved.data[field] for field in _OTHER_ROWS)


def load_model(workdir, checkpoint='latest', *, weights='', activations=False):
    """(linen module, parameters) of a run, for code of your own: model.apply({'params': params}, ...).

    The running average where there is one, adapters merged; no data is read. Not for runs that read clips of frames.
    weights, activations: in 8 bits, as config.quantise says.
    """
    run = RunDirectory(workdir)
    config, codec = for_these_devices(run.saved_config()), run.codec()
    config.quantise.update(weights=weights, activations=activations)
    configs.validate(config)
    row = np.zeros((1, 2), np.int32)
    spelling = getattr(codec, 'spelling', None) and dict(words=row, characters=np.zeros((1, 2, codec.spelling_length), np.int32))
    sample = dict(inputs=spelling or row, lengths=np.full(1, 2, np.int32), targets=row)
    task = make_task(config, for_model=codec.for_model(), for_task={}, sample=sample['inputs'])
    step, checkpoints = find_checkpoint(run, checkpoint)
    return task.model, restore_parameters(config, task, checkpoints, step, sample)


def find_checkpoint(run, which):
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


def open_run(config, workdir, may_differ=()):
    configs.validate(config)
    run = RunDirectory(workdir)
    check_same_experiment(run.path, run.saved_config(), config, may_differ)
    return run


def open_recurrent(mode, config, workdir, checkpoint='latest'):
    """(run, parts, step, parameters) of a checkpoint of a recurrent model, the parameters on the host: to look into it.

    mode: what the user asked for, for the sentences that refuse it.
    """
    if jax.process_count() > 1:
        raise UserError(f'--mode={mode}: is done by one process and not by {jax.process_count()}; leave out --coordinator')
    configs.refuse_quantised(config, f'--mode={mode} looks into')
    config = for_these_devices(config)
    run = open_run(config, workdir)
    parts = build(config, run)
    if not jax.eval_shape(functools.partial(recurrent_layers, parts.task), parts.parameters.plain, parts.dataset.sample()):
        raise UserError(f'--mode={mode}: {config.model.name!r} has no recurrent layer to look into; choose the --workdir of '
                        'a recurrent model')
    step, checkpoints = find_checkpoint(run, checkpoint)
    params = restore_parameters(config, parts.task, checkpoints, step, parts.dataset.sample())
    return run, parts, step, jax.device_get(params)


def for_these_devices(config):
    """The same config, on one device where the mesh that the run was trained on needs more devices than there are."""
    sizes = [abs(config.parallel[axis]) for axis in parallel.AXES]
    if sizes[0] * sizes[1] * sizes[2] > jax.device_count():
        config = config.copy_and_resolve_references()
        config.parallel.update(data=1, fsdp=1, tensor=1, strategy='jit')
    return config


def restore_parameters(config, task, checkpoints, step, sample):
    """Those of a checkpoint that the model computes with: the running average where there is one, adapters merged, in 8 bits
    where config.quantise says so.

    The optimizer's share of the checkpoint is not read. sample: a batch of one row, whatever its length.
    """
    parameters, which = make_parameters(config, task, sample), 'ema' if config.optimizer.ema else 'params'
    target = placed({which: parameters.abstract}, parameters.boxed, make_strategy(config))
    return parameters.merge(checkpoints.restore(step, target, part=True)[which])


def _run(request):
    print(json.dumps(evaluate(request.config, request.workdir, request.flags.checkpoint), indent=2))


MODE = Mode(_run, 'Evaluate a checkpoint on the held-out split, or on another source.', (CHECKPOINT,),
            reads=('data', 'train.eval_batches', 'train.accumulate', 'decode', 'quantise', 'parallel'))
