"""Evaluation on a held-out split: sums over all batches, divided once."""

import json

import jax
import numpy as np

from seqjax.analysis.confusion import plot_confusion
from seqjax.analysis.scatter import plot_predictions

STEPS_IN_FLIGHT = 16


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


def evaluate_splits(parts, eval_step, state, names, run=None, **options):
    """{'eval/loss': ..., 'test/loss': ..., ...} for `names`, or None when it was stopped on the way.

    names: 'eval', the validation split, and 'test'. run: the directory for the pictures, or None. options: see
    `evaluate_state`.
    """
    found = {}
    for name in names:
        batches = parts.test if name == 'test' else parts.evaluation
        sums = evaluate_state(parts.strategy, eval_step, state, batches, **options)
        if sums is None:
            return None
        found.update(summarise(parts.task, sums, name))
        if run:
            draw(parts.task, sums, run, name)
    return found


def summarise(task, sums, prefix):
    """{'eval/loss': ..., ...}: what metrics.jsonl says of an evaluation."""
    return {f'{prefix}/{name}': float(value) for name, value in task.summary(sums).items()}


def short_line(summary):
    """A summary in one line; what is said of single classes is left out."""
    return '  '.join(f'{name} {value:.4f}' for name, value in summary.items() if name.count('/') == 1)


def draw(task, sums, run, name):
    """The picture of an evaluation, with its numbers beside it: what was taken for what, or predictions against targets.

    name: 'eval' or 'test', as in metrics.jsonl.
    """
    split = dict(eval='validation').get(name, name)
    if 'confusion' in sums.metrics:
        counts = sums.metrics['confusion']
        plot_confusion(counts, task.classes, run.path / f'{split}_confusion.png', title=split)
        run.write(f'{split}_confusion.json', json.dumps(dict(classes=task.classes, counts=counts.tolist())) + '\n')
    elif 'predictions' in sums.rows:
        counted = sums.rows['weights'] > 0
        plot_predictions(sums.rows['predictions'][counted], sums.rows['targets'][counted],
                         run.path / f'{split}_predictions.png')
