"""The run directory, its checkpoints, and the parameters that a run starts from."""

from seqjax.runs.checkpoints import Checkpoints, verify
from seqjax.runs.directory import RunDirectory, read_metrics, runs_below
from seqjax.runs.restore import find_checkpoint, load_model, open_run, restore_model

__all__ = ['Checkpoints', 'RunDirectory', 'find_checkpoint', 'load_model', 'open_run', 'read_metrics', 'restore_model',
           'runs_below', 'verify']
