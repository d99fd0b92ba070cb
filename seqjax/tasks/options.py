"""Fields of `config.train` that tasks own: `Task.options`."""

import dataclasses

from seqjax.fields import POSITIVE, at_least, between, field


@dataclasses.dataclass(frozen=True)
class NoOptions:
    pass


@dataclasses.dataclass(frozen=True)
class Smoothing:
    """Of tokens and classes."""

    label_smoothing: float = field(0.0, 'Label smoothing; 0: off.', between(0, 1))


@dataclasses.dataclass(frozen=True)
class TeacherForcing(Smoothing):
    """Of translation and captioning."""

    teacher_forcing: str = field('always', "Teacher forcing 'always', or scheduled sampling: 'linear', 'exponential', 'inverse_sigmoid'.")
    teacher_forcing_steps: int = field(1000, 'Steps of scheduled sampling: how fast teacher forcing falls.')
    teacher_forcing_floor: float = field(0.0, 'Probability of teacher forcing that it falls to.')
    decode_rows: int = field(0, 'Pairs or images that every evaluation decodes and scores (eval/bleu, eval/exact_match); 0: none.',
                             at_least(0))


@dataclasses.dataclass(frozen=True)
class SimCLROptions:
    temperature: float = field(0.5, 'Temperature of the cosines.', POSITIVE)
    projection_hidden: int = field(512, 'Units of the hidden layer of the projection head.', at_least(1))
    projection_width: int = field(128, 'Width of the embedding that views are compared by.', at_least(1))


@dataclasses.dataclass(frozen=True)
class DINOOptions:
    prototypes: int = field(1024, 'Outputs of the head.', at_least(2))
    projection_hidden: int = field(512, 'Units of the hidden layers of the head.', at_least(1))
    projection_width: int = field(128, 'Width of the bottleneck before the prototypes.', at_least(1))
    teacher_momentum: float = field(0.996, 'EMA of the teacher at the first step; it goes to 1 along a cosine.', between(0, 1))
    teacher_temperature: float = field(0.04, 'Temperature of the teacher: sharpening.', POSITIVE)
    student_temperature: float = field(0.1, 'Temperature of the student.', POSITIVE)
    center_momentum: float = field(0.9, 'EMA of the mean of the teacher outputs: centring.', between(0, 1))
    local_views: int = field(4, 'Smaller views of every image that the student reads beside the two global ones.', at_least(0))
    local_augment: str = field('resized_crop(size=16, area=(0.05, 0.4)), flip', 'Augmentations of the smaller views; their size is here.')
