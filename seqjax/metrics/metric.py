"""METRICS: what is reported of a finished evaluation, beside the means of its sums.

A metric is a function whose arguments name what it needs of an evaluation. Every evaluation that has it reports the metric:

    @metrics.METRICS.register('kappa')
    def kappa(confusion):                    # 'eval/kappa' of every task that counts a confusion matrix
        ...

It returns a number, or several by name: {'PER': 0.9} of the metric 'entity_f1' is 'eval/entity_f1/PER', and the name '' is the
metric's own. What evaluations have: `tasks.Task.found`. A metric of whose words one is 'loss', 'error', 'perplexity' or 'bits'
is better when it is lower, for early stopping; any other when it is higher.
"""

from collections.abc import Callable, Mapping
import inspect
from typing import Any

from seqjax.metrics import classification, correlation, entities, features, probes, retrieval
from seqjax.registry import Registry


METRICS = Registry('metric', {
    'macro_f1': classification.macro_f1,
    'f1': classification.f1_of_tags,
    'entity_f1': entities.entity_f1,
    'entity_precision': entities.entity_precision,
    'entity_recall': entities.entity_recall,
    'pearson': correlation.pearson,
    'spearman': correlation.spearman,
    'feature_std': features.feature_std,
    'feature_rank': features.effective_rank,
    'knn_accuracy': probes.leave_one_out,
    'retrieval': retrieval.retrieval,
})


def measure(found: Mapping[str, Any]) -> dict[str, float]:
    """{name: number} of all metrics whose arguments are among `found`."""
    numbers = {}
    for name, metric in METRICS.items():
        takes = _arguments(metric)
        if all(argument in found for argument, needed in takes.items() if needed):
            value = metric(**{argument: found[argument] for argument in takes if argument in found})
            numbers |= {f'{name}/{key}' if key else name: number for key, number in
                        (value.items() if isinstance(value, Mapping) else [('', value)])}
    return numbers


def is_wanted(argument: str) -> bool:
    """Whether a metric asks for it: what is large and of no other use is only computed then."""
    return any(argument in _arguments(metric) for metric in METRICS.values())


def _arguments(metric: Callable[..., Any]) -> dict[str, bool]:
    """{argument: whether the metric cannot do without it}"""
    return {name: argument.default is inspect.Parameter.empty for name, argument in inspect.signature(metric).parameters.items()}
