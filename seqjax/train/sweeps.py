"""Several experiments one after another, each in its own directory, and what sets them apart."""

import json
import pathlib
import sys

import jax

from seqjax import config as configs
from seqjax import tasks
from seqjax.analysis import label_curve
from seqjax.analysis.comparison import plot_comparison
from seqjax.analysis.length_curve import plot_quality_by_length
from seqjax.errors import UserError
from seqjax.runs import files, transfer
from seqjax.runs.checkpoints import Checkpoints, verify
from seqjax.runs.directory import RunDirectory, read_metrics
from seqjax.train import stopping
from seqjax.train.decode_eval import SHOWN
from seqjax.train.loop import train

COUNTS = ('train_examples', 'examples_per_class')  # fields of config.data: how many are trained on


def sweep(variants, workdir):
    """Trains every config of {name: config} in workdir/name and returns {name: its result}.

    What is done stays done: started again, it goes on with the first that is not finished. After each one,
    comparison.png and comparison.json hold all that are; of translations by_length.png does too, and
    where classes are learned from different numbers of examples, by_labels.png and by_labels.json.
    """
    directory = pathlib.Path(workdir)
    check_variants(variants, directory)
    results = {}
    for number, (name, config) in enumerate(variants.items(), 1):
        lead = jax.process_index() == 0
        if lead:
            print(f'{name} ({number} of {len(variants)}): {directory / name}', file=sys.stderr)
        results[name] = finished(config, directory / name) or train(config, directory / name)
        if lead:
            _compare(results, directory, tasks.TASKS[configs.task_name(config)].unit)
            _compare_labels(variants, results, directory)
    return results


def finished(config, workdir):
    """The result of a run that has taken all its steps, or that ended early and would again, or None."""
    run = RunDirectory(workdir)
    result = json.loads(run.read('result.json') or '{}')
    step = result.get('steps')
    return result if step == config.train.steps or result.get('stopped_early') and _ends(config, run, step) else None


def _ends(config, run, step):
    """Whether `step` is the newest of the run, and its last."""
    checkpoints = Checkpoints(run.checkpoints)
    newest = checkpoints.steps()[-1:] == [step] and not verify(checkpoints.path(step))
    return newest and stopping.restored(config, run, checkpoints, step).is_last(step)


def check_variants(variants, directory):
    """Finds every mistake before the first run starts."""
    if (directory / 'config.json').is_file():
        raise UserError(f'--workdir={directory}: holds one run; to go on with it write --config=FILE.py:VARIANT, to compare '
                        'all variants choose another --workdir')
    for name, config in variants.items():
        try:
            configs.validate(config)
            configs.check_model(config)
        except UserError as error:
            raise UserError(f'{name}: {error}') from None
        run = RunDirectory(directory / name)
        run.check(transfer.as_begun(config, run))


def _compare(results, directory, unit):
    plot_comparison({name: read_metrics(RunDirectory(directory / name).metrics) for name in results},
                    directory / 'comparison.png', unit)
    files.write_atomically(directory / 'comparison.json', json.dumps(results, indent=2) + '\n')
    scores = {name: json.loads(RunDirectory(directory / name).read('test_scores.json') or '{}') for name in results}
    if all(scores.values()):  # translations: quality against the length of the source, all variants in one picture
        curves = {name: [tuple(row.values()) for row in score['by_length']] for name, score in scores.items()}
        metrics = {list(row)[-1] for score in scores.values() for row in score['by_length']}
        if len(metrics) == 1:  # of answers to the same test split
            plot_quality_by_length(curves, directory / 'by_length.png', SHOWN[metrics.pop()])


def _compare_labels(variants, results, directory):
    """Accuracy against labels per class, where variants differ in how many they train on: a line for
    those that else differ only in their seeds."""
    if len({tuple(map(config.data.get, COUNTS)) for config in variants.values()}) < 2:
        return
    runs = {}
    for name, result in results.items():
        facts = json.loads(RunDirectory(directory / name).read('data.json') or '{}')
        accuracy, classes = result.get('test/accuracy', result.get('eval/accuracy')), facts.get('classes')
        if accuracy is not None and classes:
            runs[name] = _without_labels(variants[name]), facts['train'] / len(classes), accuracy
    if runs:
        curves = label_curve.label_curves(runs)
        label_curve.plot_accuracy_by_labels(curves, directory / 'by_labels.png')
        found = json.dumps(label_curve.summarise(curves), indent=2) + '\n'
        files.write_atomically(directory / 'by_labels.json', found)


def _without_labels(config):
    """What a config says of all but the number of labels and the seeds."""
    rest = config.to_dict()
    rest.pop('seed')
    return rest | dict(data={field: value for field, value in rest['data'].items()
                             if field not in (*COUNTS, 'split_seed')})
