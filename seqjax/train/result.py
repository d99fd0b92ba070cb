"""The final numbers of a run, flat, with what is needed to trust and repeat them."""

import importlib.metadata
import json
import platform

import jax

from seqjax import data
from seqjax.analysis.cost.flops import jaxpr_flops
from seqjax.errors import UserError
from seqjax.metrics.baselines import baseline_scores, unbeaten
from seqjax.runs.checkpoints import Checkpoints
from seqjax.runs.directory import jsonable, read_metrics
from seqjax.train.decode_eval import signatures
from seqjax.train.evaluation import remarks
from seqjax.train.utilisation import compute_speed, peak_flops


def final_numbers(config, run, parts, recorder, train_step, patience, step, skipped, report):
    """What result.json holds of a run that ended at `step`. report: told of baselines, before and after they are fitted."""
    lines = read_metrics(run.metrics)
    newest = {name: value for line in lines for name, value in line.items() if '/' in name}
    before = json.loads(run.read('result.json') or '{}')  # a finished run that is started again trains no step
    measured = recorder.tokens_per_second()
    speed = measured or before.get('tokens_per_second', 0.0)
    flops = _flops(train_step) or before.get('flops_per_step')
    rates = _compute_speed(config, parts, measured, flops, before)
    labelled = isinstance(parts.dataset, data.Labelled) and not parts.dataset.of_images and config.train.baselines
    simple = jsonable(baseline_scores(parts.task.baseline, parts.dataset.rows, report)) if labelled else {}
    for sentence in unbeaten({**newest, **simple}):
        report(sentence)
    versions = {f'version/{name}': importlib.metadata.version(name) for name in ('jax', 'flax', 'optax', 'orbax-checkpoint')}
    best_step, best_value = patience.best()
    return {**newest, **(remarks(parts.task, newest) if parts.task.remarks else {}), **signatures(run), **simple, 'steps': min(step, config.train.steps), 'skipped': skipped,
            'stopped_early': step < config.train.steps, 'best_metric': patience.metric, 'best_value': best_value,
            'best_step': best_step, 'best_checkpoint': Checkpoints(run.checkpoints).best_step(), 'seconds': round(recorder.seconds(), 1), 'tokens_per_second': round(speed),
            'flops_per_step': flops, **rates, 'parameters': parts.parameter_count(), 'seed': config.seed,
            'device': jax.devices()[0].device_kind, 'devices': jax.device_count(),
            'version/python': platform.python_version(), **versions}


def finished_result(config, run, patience, step):
    """What result.json holds, where it is that of a run that ends at `step`; None where something is left to do."""
    result = json.loads(run.read('result.json') or '{}')
    whole = (step, step < config.train.steps, patience.metric)
    is_whole = tuple(map(result.get, ('steps', 'stopped_early', 'best_metric'))) == whole
    return result if patience.is_last(step) and is_whole else None


def _compute_speed(config, parts, tokens_per_second, flops, before):
    """Operations a second, and how much of the devices that is, of this process; of the one before where it trained no step."""
    if not tokens_per_second:
        known = {name: before[name] for name in ('flops_per_second', 'utilisation') if name in before}
        return dict(flops_per_second=None) | known
    steps_per_second = tokens_per_second / parts.tokens_per_step(config.data.batch_size)
    devices = parts.strategy.mesh.devices.flatten()
    peak = config.train.peak_flops or peak_flops(devices[0].device_kind, config.model.get('dtype', 'float32'))
    return compute_speed(flops, steps_per_second, peak * len(devices))


def _flops(train_step):
    """Operations of the matrix products of a step, the mean over all; None where they cannot be counted."""
    try:
        return train_step.mean_cost(jaxpr_flops)
    except UserError:
        return None
