"""`config.cost`, for --mode=cost."""

import dataclasses

from seqjax.fields import POSITIVE, field


@dataclasses.dataclass(frozen=True)
class CostOptions:
    layers: str = field('', "Layers of docs/complexity.md, as 'recurrent,convolutional', or 'all'; '': the training step of this "
                        'config.')
    seconds: float = field(0.5, 'Seconds that every program is run for, again and again; the fastest run counts.', POSITIVE)
    largest: float = field(2e11, 'FLOPs of the largest program; one of more is counted, and neither compiled nor run.', POSITIVE)
