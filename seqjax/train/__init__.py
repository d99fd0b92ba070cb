"""State, step, loop, optimizers, evaluation: what trains."""

from seqjax import lazy

__getattr__, __dir__, __all__ = lazy.names(__name__, {
    'experiment': ('Experiment', 'build'),
    'loop': ('Interrupted', 'train'),
    'optimizers': ('make_optimizer',),
    'schedules': ('make_schedule', 'noam'),
    'state': ('TrainState', 'create_state'),
    'step': ('fingerprint', 'make_eval_step', 'make_train_step'),
    'stopping': ('Patience',),
    'sweeps': ('sweep',),
})
