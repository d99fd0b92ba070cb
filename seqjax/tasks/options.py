"""Fields of `config.train` that tasks own: `Task.options`."""

import dataclasses

from seqjax.fields import at_least, between, field


@dataclasses.dataclass(frozen=True)
class NoOptions:
    pass


@dataclasses.dataclass(frozen=True)
class Smoothing:
    """Of tokens and classes."""

    label_smoothing: float = field(0.0, 'Label smoothing; 0: off.', between(0, 1))


@dataclasses.dataclass(frozen=True)
class TeacherForcing(Smoothing):
    """Of translation."""

    teacher: str = field('always', "Teacher forcing 'always', or scheduled sampling: 'linear', 'exponential', 'inverse_sigmoid'.")
    teacher_steps: int = field(1000, 'Steps of scheduled sampling: how fast teacher forcing falls.')
    teacher_floor: float = field(0.0, 'Probability of teacher forcing that it falls to.')
    decode_rows: int = field(0, 'Pairs that every evaluation translates and scores (eval/bleu, eval/exact_match); 0: none.',
                             at_least(0))
