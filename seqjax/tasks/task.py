"""What all tasks share: a model, and how its variables are made."""

import dataclasses

from flax import linen
from flax.core import meta


@dataclasses.dataclass(frozen=True)
class Task:
    """A model with something to learn.

        task(params, batch, key=None)     Sums; with a key the model is in training, and dropout draws from it
        task.at(step)                     the same, as it is at a step of training
        task.summary(sums)                {name: number}: what a reader wants to see of an evaluation
        unit                              of the loss, for plots
    """

    model: linen.Module

    def at(self, step):
        """The task at a step of training: what it asks may change as the model learns."""
        del step
        return self

    def init(self, key, batch):
        """Variables of the model, their axes named."""
        return self.model.init(key, batch['inputs'])

    def plain_init(self, key, batch):
        """Parameters of the model, as plain arrays."""
        return meta.unbox(self.init(key, batch)['params'])

    def outputs(self, params, batch, key=None):
        """What the model says of a batch of sequences, each up to its own length."""
        packed = dict(segments=batch['segments']) if 'segments' in batch else {}
        return self.model.apply({'params': params}, batch['inputs'], batch.get('lengths'), train=key is not None,
                                rngs=None if key is None else {'dropout': key}, **packed)
