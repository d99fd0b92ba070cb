"""`config.train` and `config.optimizer`."""

import dataclasses
from typing import ClassVar

from seqjax.errors import FieldError
from seqjax.fields import OFF_OR_POSITIVE, POSITIVE, at_least, between, field, that


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """Kinds: kinds of data. `Task.options` has more fields."""

    MEANING: ClassVar[dict[str, str]] = {'labelled': 'labelled sequences'}

    steps: int = field(1000, 'Steps: updates.', between(1, 2 ** 31))  # the step is a 32-bit integer
    eval_every: int = field(250, 'Steps between evaluations; 0: only at the end.', at_least(0))
    eval_batches: int = field(0, 'Batches of an evaluation; 0: the whole validation split.', at_least(0))
    save_every: int = field(250, 'Steps between checkpoints; 0: only at the end.', at_least(0))
    xray_every: int = field(0, 'Steps between gradient X-rays of recurrent layers (docs/gradient_xray.md); 0: never.', at_least(0))
    stop_metric: str = field('', "Metric of the best checkpoint and of early stopping, as 'eval/accuracy'; '': eval/loss.")
    patience: int = field(0, 'Patience of early stopping: evaluations in a row without an improvement; 0: off.', at_least(0))
    baselines: bool = field(True, 'Baselines (naive Bayes, ridge) on the same rows, at the end.', of=('labelled',))
    keep_latest: int = field(2, 'Latest checkpoints to keep.', at_least(1))
    keep_best: int = field(1, 'Best checkpoints to keep apart from those, by stop_metric, or by eval/loss.', at_least(0))
    gradient_accumulation_steps: int = field(1, 'Gradient accumulation steps.', at_least(1))
    max_skipped: int = field(10, 'Updates in a row that are not finite after which training stops.', at_least(1))
    peak_flops: float = field(0.0, 'Peak FLOP/s of one device, for the utilisation in result.json; 0: as published for it.',
                              OFF_OR_POSITIVE)
    loop: str = field('default', 'Training loop, a name of train.LOOPS.')


@dataclasses.dataclass(frozen=True)
class OptimizerOptions:
    name: str = field('adamw', 'Optimizer: any of optax.')
    learning_rate: float = field(1e-3, 'Learning rate.', POSITIVE)
    schedule: str = field('cosine', "Learning-rate schedule: 'constant', 'linear', 'cosine' or 'noam'.")
    warmup_steps: int = field(100, 'Warm-up steps.', at_least(0))
    final_rate: float = field(0.1, 'Final learning rate of linear and cosine, as a part of learning_rate.', that(
        lambda value: 0 <= value <= 1, 'must be between 0 and 1'))
    clip_norm: float = field(1.0, 'Gradient clipping by global norm; 0: off.', OFF_OR_POSITIVE)
    clip_value: float = field(0.0, 'Gradient clipping by value; 0: off.', OFF_OR_POSITIVE)
    weight_decay: float = field(0.0, 'Weight decay.', OFF_OR_POSITIVE)
    no_decay: str = field('*bias,*scale', 'Parameters without decay, as patterns over their paths.')
    freeze: str = field('', "Frozen parameters: 'embedding/*,*/block_0/*'; all but some: '*,!output/*'.")
    layerwise_rates: str = field('', "Layer-wise learning rates: factors, 'embedding/*=0.1,output/*=2'.")
    ema_decay: float = field(0.0, 'EMA of the parameters: decay; 0: off.', between(0, 1))
    b1: float = field(None, "Adam's b1; none: optax's default.", between(0, 1), kind=float)
    b2: float = field(None, "Adam's b2; none: optax's default.", between(0, 1), kind=float)
    eps: float = field(None, "Adam's epsilon; none: optax's default.", POSITIVE, kind=float)
    momentum: float = field(None, "Momentum; none: optax's default.", between(0, 1), kind=float)


def check_stopping(options) -> None:
    """What training may end early by, or keep the best checkpoint by, must be measured while it goes on."""
    metric, patience = options.stop_metric, options.patience
    if patience and not metric:
        raise FieldError('config.train.patience', patience, 'is for early stopping by a metric; set '
                         "config.train.stop_metric too, as to 'eval/loss'")
    if metric and not metric.startswith('eval/'):
        raise FieldError('config.train.stop_metric', metric, "must be of the validation split, as 'eval/loss' is: what "
                         'evaluations write to metrics.jsonl')
    if metric and not options.eval_every:
        raise FieldError('config.train.eval_every', 0, f'{metric} is then measured only at the end, and cannot stop '
                         'training or choose a checkpoint; set it to a number of steps')
