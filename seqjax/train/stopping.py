"""When training ends: after its last step, or early, after some evaluations in a row that were no better than one before."""

from seqjax.errors import FieldError
from seqjax.metrics.direction import lower_is_better
from seqjax.runs.directory import jsonable, read_metrics


class Patience:
    """Whether a run ends at a step: a function of its config and of what metrics.jsonl says of the evaluations so far.

    An evaluation that is not finite, or only as good as the best one, is no improvement. options: config.train; lines:
    of metrics.jsonl; goes_on: a step that does not end the run, whatever the evaluations say.
    """

    def __init__(self, options, lines=(), goes_on=None):
        self.metric = options.stop_metric or 'eval/loss'
        self._steps, self._patience, self._goes_on = options.steps, options.patience, goes_on
        self._sign = -1 if lower_is_better(self.metric) else 1
        self._values = {line['step']: line[self.metric] for line in lines if self.metric in line}

    def is_last(self, step, found=None):
        """Whether the run ends at `step`. found: what an evaluation has just measured there, if one has.

        Only an evaluation ends a run: one that is interrupted later and goes on ends where it would have ended.
        """
        if found:
            check_name(self.metric, found)
            self._values[step] = jsonable(found)[self.metric]
        if step >= self._steps or step == self._goes_on:
            return step >= self._steps
        values, (_, best) = list(self._values.values()), self.best()
        since = len(values) - 1 - values.index(best) if best is not None else len(values)
        return step == max(self._values, default=None) and since >= self._patience > 0

    def value(self, step):
        """What the evaluation at `step` measured; None where there was none, or it was not finite."""
        return self._values.get(step)

    def best(self):
        """(step, value) of the best evaluation, the newest of equals; (None, None) before the first."""
        finite = [(step, value) for step, value in self._values.items() if value is not None]
        return max(finite, key=lambda pair: (self._sign * pair[1], pair[0]), default=(None, None))

    def describe(self):
        step, value = self.best()
        return f'{self.metric} was never finite' if step is None else f'{self.metric} was best at step {step}, {value:.4f}'


def restored(config, run, checkpoints, step):
    """The Patience of a run that goes on from its checkpoint of `step`, or from the beginning where that is 0.

    A run that was to end there and is given more steps goes on, until the next evaluation that is no better.
    """
    lines = [line for line in read_metrics(run.metrics) if line['step'] <= step]
    more_steps = step and checkpoints.manifest(step)['config']['train']['steps'] < config.train.steps
    return Patience(config.train, lines, goes_on=step if more_steps else None)


def check_name(metric, names):
    """Refuses a metric to stop by that evaluations do not measure."""
    if metric not in names:
        raise FieldError('config.train.stop_metric', metric, f'is not measured in this run; there are: {", ".join(names)}')
