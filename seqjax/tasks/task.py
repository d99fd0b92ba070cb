"""What all tasks share: a model, and how its variables are made."""

import dataclasses

from flax import linen
from flax.core import meta


@dataclasses.dataclass(frozen=True)
class Task:
    """A model with something to learn: `task(params, batch, key=None)` returns Sums. unit: of the loss, for plots."""

    model: linen.Module

    def init(self, key, batch):
        """Variables of the model, their axes named."""
        return self.model.init(key, batch['inputs'])

    def plain_init(self, key, batch):
        """Parameters of the model, as plain arrays."""
        return meta.unbox(self.init(key, batch)['params'])
