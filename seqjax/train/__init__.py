"""State, step, loop, optimizers, checkpoints: everything that makes parameters better and keeps them safe."""

from seqjax.train.averaging import average
from seqjax.train.cells import find_cells
from seqjax.train.checkpoints import Checkpoints, verify
from seqjax.train.cost_mode import measure_cost
from seqjax.train.describe import describe
from seqjax.train.experiment import Experiment, build
from seqjax.train.export import export_run
from seqjax.train.hugging_face import write_hugging_face
from seqjax.train.loop import Interrupted, train
from seqjax.train.lora import merge as merge_lora
from seqjax.train.modes import evaluate, load_model
from seqjax.train.optimizers import make_optimizer
from seqjax.train.predict import predict
from seqjax.train.quantisation import quantise, size_in_bytes
from seqjax.train.run_directory import RunDirectory, read_metrics, runs_below
from seqjax.train.schedules import make_schedule, noam
from seqjax.train.state import TrainState, create_state
from seqjax.train.step import fingerprint, make_eval_step, make_train_step
from seqjax.train.stopping import Patience
from seqjax.train.sweeps import sweep
from seqjax.train.translate import score_lines, translate
from seqjax.train.writing import continue_lines, generate
from seqjax.train.xray import describe_xray, xray_run, xray_sweep

__all__ = ['Checkpoints', 'Experiment', 'Interrupted', 'Patience', 'RunDirectory', 'TrainState', 'average', 'build',
           'continue_lines', 'create_state', 'describe', 'describe_xray', 'evaluate', 'export_run', 'find_cells',
           'fingerprint', 'generate', 'load_model', 'make_eval_step', 'make_optimizer', 'make_schedule', 'make_train_step',
           'measure_cost', 'merge_lora', 'noam', 'predict', 'quantise', 'read_metrics', 'runs_below', 'score_lines',
           'size_in_bytes', 'sweep', 'train', 'translate', 'verify', 'write_hugging_face', 'xray_run', 'xray_sweep']
