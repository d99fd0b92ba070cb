"""Evaluate a run on held-out rows, and open it to look into it."""

import dataclasses
import functools
import json
import sys

import jax

from seqjax import config as configs
from seqjax.analysis.recurrent.layers import recurrent_layers
from seqjax.errors import UserError
from seqjax.modes.command.mode import CHECKPOINT, Mode, one_process
from seqjax.runs.directory import jsonable
from seqjax.runs.restore import find_checkpoint, open_run, restore_model
from seqjax.train.decode_eval import on_one_device
from seqjax.train.evaluation import draw, evaluate_state, place_of, summarise
from seqjax.train.experiment import build
from seqjax.train.progress import ProgressBar

_OTHER_ROWS = ('source', 'held_out', 'held_out_rows', 'format', 'input_column', 'target_column', 'split_column', 'label_file',
               'mask_file', 'split_seed', 'on_error')
_EVALUATE_ON_OTHER_DATA = tuple(f'data.{field}' for field in (*_OTHER_ROWS, 'directory', 'batch_size', 'stateful', 'batching',
                                                              'num_buckets'))


def evaluate(config, workdir, checkpoint='latest'):
    """Metrics of a checkpoint of the run on its held-out text, or on that of another source that `config` names.

    All pairs of a translation are decoded, whatever config.train.decode_rows says. Pictures, texts and scores of the run's own
    rows are written, see `place_of`; of other rows nothing is.
    """
    config, run = open_run(config, workdir, may_differ=_EVALUATE_ON_OTHER_DATA)
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
            written = every_pair.measure(*on_one_device(parts, state), name, bar.add)
        found |= written.numbers
        files += written.keep(place, step) if place else []
    if files:
        print(f'written to {place.path}: {", ".join(files)}', file=sys.stderr)
    return {'step': step, **jsonable(found)}


def _same_rows(config, saved):
    return all(config.data.get(field) == saved.data.get(field) for field in _OTHER_ROWS)


def open_recurrent(mode, config, workdir, checkpoint='latest'):
    """(run, parts, step, parameters) of a checkpoint of a recurrent model, the parameters on the host: to look into it.

    mode: what the user asked for, for the sentences that refuse it.
    """
    one_process(mode)
    configs.refuse_quantised(config, f'--mode={mode} looks into')
    config, run = open_run(config, workdir)
    parts = build(config, run)
    if not jax.eval_shape(functools.partial(recurrent_layers, parts.task), parts.parameters.plain, parts.dataset.sample()):
        raise UserError(f'--mode={mode}: {config.model.name!r} has no recurrent layer to look into; choose the --workdir of '
                        'a recurrent model')
    step, checkpoints = find_checkpoint(run, checkpoint)
    return run, parts, step, jax.device_get(restore_model(run, config, step, checkpoints)[1])


def _run(request):
    print(json.dumps(evaluate(request.config, request.workdir, request.flags.checkpoint), indent=2))


MODE = Mode(_run, 'Evaluate a checkpoint on the held-out split, or on another source.', (CHECKPOINT,),
            reads=('data', 'train.eval_batches', 'train.gradient_accumulation_steps', 'decode', 'quantise', 'parallel'))
