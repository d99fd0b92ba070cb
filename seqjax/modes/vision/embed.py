"""Features of a run's images as arrays in a file: --mode=embed."""

import io
import os
import pathlib
import sys
from typing import Any

import numpy as np

from seqjax.analysis.vision.frozen import FrozenFeatures
from seqjax.errors import UserError
from seqjax.modes.command.mode import CHECKPOINT, Flag, Mode, one_process
from seqjax.modes.vision.probe import SPLITS, frozen_task
from seqjax.runs.restore import find_checkpoint, open_run, restore_model
from seqjax.train.experiment import build
from seqjax.train.progress import ProgressBar


def embed(config: Any, workdir: Any, checkpoint: str = 'latest') -> dict[str, np.ndarray]:
    """Features of every row of the run's set, in the order of its splits.

        train, validation, test      [N, D] float32, of the splits that there are
        train_targets, ...           [N], numbers of `classes`
        classes                      [C], their names
    """
    one_process('embed')
    config, run = open_run(config, workdir)
    parts = build(config, run)
    if not getattr(parts.dataset, 'of_images', False):
        raise UserError(f'--workdir={run.path}: the run reads no images of classes, and only they have features to write')
    model, params = restore_model(run, config, *find_checkpoint(run, checkpoint))
    rows, found = {split: parts.dataset.rows[split] for split in SPLITS if len(parts.dataset.rows[split])}, {}
    with ProgressBar('embed', sum(map(len, rows.values()))) as bar:
        frozen = FrozenFeatures(frozen_task(parts.task, model), params, config.data.batch_size, bar.add)
        for split, part in rows.items():
            found[split], found[f'{split}_targets'] = frozen(part)
    return {**found, 'classes': np.array(parts.dataset.codec.classes)}


def write_npz(path: str | os.PathLike, arrays: dict[str, np.ndarray]) -> None:
    """The arrays in a .npz that is whole or not there; nothing of it is pickled."""
    path, made = pathlib.Path(path), io.BytesIO()
    np.savez(made, **arrays)
    beside = path.with_name(f'.{path.name}.writing')
    try:
        beside.write_bytes(made.getvalue())
        os.replace(beside, path)
    except OSError as error:
        raise UserError(f'--output={path}: cannot be written ({error}); name a file in a directory that you can write to') from None


def _run(request):
    output = request.flags.output or f'{request.workdir}/features.npz'
    found = embed(request.config, request.workdir, request.flags.checkpoint)
    write_npz(output, found)
    print(f'written to {output}: ' + ', '.join(f'{name} {list(array.shape)}' for name, array in found.items()), file=sys.stderr)


MODE = Mode(_run, 'Write the features of all images as arrays, an .npz.', (
    CHECKPOINT, Flag('output', '', 'The file; empty: features.npz in the run directory.')), reads=('data.batch_size', 'parallel'))
