"""The run directory, its checkpoints, and the parameters that a run starts from."""

from seqjax.runs.checkpoints import Checkpoints, verify
from seqjax.runs.directory import RunDirectory, read_metrics, runs_below

__all__ = ['Checkpoints', 'RunDirectory', 'read_metrics', 'runs_below', 'verify']
