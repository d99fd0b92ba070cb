"""State, step, loop, optimizers, evaluation: what trains. Called, the room trains: seqjax.train(config, workdir)."""

import sys
import types

from seqjax import lazy

__getattr__, __dir__, __all__ = lazy.names(__name__, {
    'experiment': ('Experiment', 'LOOPS', 'build', 'prepare'),
    'loop': ('Interrupted', 'train'),
    'optimizers': ('make_optimizer',),
    'schedules': ('make_schedule', 'noam'),
    'state': ('TrainState', 'create_state'),
    'step': ('fingerprint', 'make_eval_step', 'make_train_step'),
    'stopping': ('Patience',),
    'sweeps': ('sweep',),
})


class _Room(types.ModuleType):
    """The room is a module as ever, and seqjax.train(config, workdir) is train.train(config, workdir)."""

    def __call__(self, config, workdir):
        return self.train(config, workdir)


sys.modules[__name__].__class__ = _Room
