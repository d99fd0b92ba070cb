"""Evaluation on a held-out split: sums over all batches, divided once."""

import json

import jax
import numpy as np

from seqjax import config as configs
from seqjax.analysis.confusion import plot_confusion
from seqjax.analysis.scatter import plot_predictions
from seqjax.runs.directory import RunDirectory, read_metrics
from seqjax.train.decode_eval import on_one_device

STEPS_IN_FLIGHT = 16
UNREAD = ('prompt', 'samples', 'n_best', 'batch_size')  # of config.decode: on which the answers of an evaluation do not depend,
OF_DRAWS = ('seed', 'temperature', 'top_k', 'top_p', 'min_p')  # and those on which they do only where they are drawn


def evaluate_state(strategy, eval_step, state, batches, *, stop=lambda: False, seen=lambda batch: None):
    """Sums over all of `batches`, as numbers of the host, or None when `stop()` says so on the way.

    A carried state goes from batch to batch here too. What it holds before the first does not matter: there every row
    starts anew.
    """
    total, rows, carry = None, [], state.carry
    for number in range(len(batches)):
        if stop():
            return None
        carry, sums = eval_step(state.replace(carry=carry), strategy.place(batches[number]))
        rows.append(sums.rows)
        sums = sums._replace(rows={})
        total = sums if total is None else jax.tree.map(lambda a, b: a + b, total, sums)
        if number % STEPS_IN_FLIGHT == 0:
            jax.block_until_ready(total)
        seen(number + 1)
    total, rows = strategy.read(total), strategy.read(rows)
    return total._replace(rows={name: np.concatenate([row[name] for row in rows]) for name in rows[0]})


def evaluate_splits(parts, eval_step, state, step, is_last, run=None, ending=lambda: None, **options):
    """{'eval/loss': ..., ...} of the validation split after `step`, or None when it was stopped on the way.

    is_last(step, found): whether, after what was found, this is the last evaluation of the run. Then {'test/loss': ..., ...}
    of the test split are there too, where it exists, and the pictures in the directory `run`, where that is not None. Translations
    are written and scored at the end, of `decode_rows` of the validation split every time.
    ending: called where this is the last evaluation, before the test split is measured. options: see `evaluate_state`.
    """
    found = {}
    for name, batches in (('eval', parts.evaluation), ('test', parts.test)):
        if batches is None:
            continue
        sums = evaluate_state(parts.strategy, eval_step, state, batches, **options)
        if sums is None:
            return None
        found.update(summarise(parts.task, sums, name))
        written, early = None, parts.decoded and name == 'eval' and parts.decoded.rows
        try:
            if early:
                written = _decoded(parts, state, name, **options)
                found.update(written.numbers)
            if not is_last(step, found):
                break
            ending()
            if parts.decoded and not early:
                written = _decoded(parts, state, name, **options)
                found.update(written.numbers)
        except _Stopped:
            return None
        if run:
            draw(parts.task, sums, run, name, step)
        if run and written:
            written.keep(run, step)
    return found


class _Stopped(Exception):
    """`stop()` said so while translations were written."""


def _decoded(parts, state, name, *, stop=lambda: False, seen=lambda count: None):
    def watch(count):
        seen(count)
        if stop():
            raise _Stopped

    return parts.decoded.measure(*on_one_device(parts, state), name, watch)


def metric_names(parts):
    """The names that `evaluate_splits` will find for the validation split, without a program: the summary of any numbers."""
    def evaluated(params, batch_stats, state, batch):
        return parts.task.holding(batch_stats, state)(params, parts.task.prepare(batch))

    shapes = jax.eval_shape(evaluated, parts.parameters.plain, parts.parameters.batch_stats, parts.target.task_state,
                            parts.evaluation[0])
    found = summarise(parts.task, jax.tree.map(lambda x: np.ones(x.shape, x.dtype), shapes), 'eval')
    return [*found, *(f'eval/{name}' for name in (parts.decoded.measured if parts.decoded and parts.decoded.rows else ()))]


def summarise(task, sums, prefix):
    """{'eval/loss': ..., ...}: what metrics.jsonl says of an evaluation."""
    return {f'{prefix}/{name}': float(value) for name, value in task.summary(sums).items()}


def remarks(task, found):
    """{name: sentence} of `Task.remarks` on the validation split; '' where there is nothing to say."""
    return task.remarks({name.removeprefix('eval/'): value for name, value in found.items() if name.startswith('eval/')})


def short_line(summary):
    """A summary in one line; what is said of single classes is left out."""
    return '  '.join(f'{name} {value:.4f}' for name, value in summary.items() if name.count('/') == 1)


def draw(task, sums, run, name, step):
    """The picture of an evaluation, with its numbers beside it: what was taken for what, or predictions against targets.

    name: 'eval' or 'test', as in metrics.jsonl. Returns the names of what was written.
    """
    split = dict(eval='validation').get(name, name)
    if 'confusion' in sums.metrics:
        counts = sums.metrics['confusion']
        plot_confusion(counts, task.classes, run.path / f'{split}_confusion.png', title=split)
        run.write(f'{split}_confusion.json', json.dumps(dict(step=step, classes=task.classes, counts=counts.tolist())) + '\n')
        return [f'{split}_confusion.png', f'{split}_confusion.json']
    if 'predictions' in sums.rows:
        counted = sums.rows['weights'] > 0
        plot_predictions(sums.rows['predictions'][counted], sums.rows['targets'][counted],
                         run.path / f'{split}_predictions.png')
        return [f'{split}_predictions.png']
    return []


def place_of(config, run, step):
    """The directory for the files of an evaluation of a checkpoint, as a RunDirectory: that of the run where it measures what
    the run itself measures last, and else a folder in it that says what is different, as 'eval_00000020_num_beams=2'."""
    changed = _changed(config, run.saved_config())
    newest = max((line['step'] for line in read_metrics(run.metrics) if 'eval/loss' in line), default=0)
    if not changed and step >= newest:
        return run
    return RunDirectory(run.path / '_'.join([f'eval_{step:08d}', *(f'{field}={value}' for field, value in changed.items())]))


def _changed(config, saved):
    """{field: value} of what an evaluation depends on and the run has other values of."""
    changed, options = {}, config.decode
    if configs.task_of(config).data == 'pairs':
        unread = UNREAD if options.sample else (*UNREAD, *OF_DRAWS)
        changed = {field: value for field, value in options.items() if field not in unread and value != saved.decode[field]}
    if config.quantise.weights:
        changed |= dict(config.quantise)
    if config.data.split == 'validation' and config.train.eval_batches != saved.train.eval_batches:
        changed['eval_batches'] = config.train.eval_batches
    return changed
