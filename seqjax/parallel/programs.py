"""A function compiled once for every shape of batch, and counted: few shapes are the speed of a run."""

import collections

import jax


class Programs:
    """function(state, batch) under a strategy; a shape that was not seen before is compiled when it comes.

    declared: how many shapes the data says there are. report: told of each one beyond. calls: how often each was used.
    """

    def __init__(self, strategy, function, *, updates_state, declared=1, report=lambda text: None):
        self._strategy, self._function, self._updates_state = strategy, function, updates_state
        self._declared, self._report = declared, report
        self._programs, self.calls = {}, collections.Counter()

    def __len__(self):
        return len(self._programs)

    def knows(self, batch):
        """Whether this shape of batch is compiled already."""
        return _shape(batch) in self._programs

    def prepare(self, state, batch):
        """Compiles for these placed arguments, unless that is done."""
        if self.knows(batch):
            return
        self._programs[_shape(batch)] = self._strategy.compile(self._function, state, batch,
                                                               updates_state=self._updates_state)
        if len(self) > self._declared:
            shapes = jax.tree.map(lambda x: x.shape, batch)
            self._report(f'warning: compilation {len(self)} of a step that declared {self._declared}, for {shapes}')

    def __call__(self, state, batch):
        self.prepare(state, batch)
        shape = _shape(batch)
        self.calls[shape] += 1
        return self._programs[shape](state, batch)

    def mean_cost(self, count):
        """The mean of count(jaxpr) over all calls; None without any, or where the strategy shows no jaxpr."""
        used = [(self._programs[shape].jaxpr, calls) for shape, calls in self.calls.items()]
        if not used or any(jaxpr is None for jaxpr, _ in used):
            return None
        return sum(count(jaxpr) * calls for jaxpr, calls in used) / self.calls.total()


def _shape(batch):
    return tuple((x.shape, x.dtype) for x in jax.tree.leaves(batch))
