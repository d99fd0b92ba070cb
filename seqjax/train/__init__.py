"""State, step, loop, optimizers, evaluation: what trains."""

from seqjax.train.experiment import Experiment, build
from seqjax.train.loop import Interrupted, train
from seqjax.train.optimizers import make_optimizer
from seqjax.train.schedules import make_schedule, noam
from seqjax.train.state import TrainState, create_state
from seqjax.train.step import fingerprint, make_eval_step, make_train_step
from seqjax.train.stopping import Patience
from seqjax.train.sweeps import sweep

__all__ = ['Experiment', 'Interrupted', 'Patience', 'TrainState', 'build', 'create_state', 'fingerprint', 'make_eval_step',
           'make_optimizer', 'make_schedule', 'make_train_step', 'noam', 'sweep', 'train']
