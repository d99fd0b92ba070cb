"""What a run leaves behind:

    config.json      the resolved config            metrics.jsonl    one object a step, one an evaluation
    model.json       what rebuilds its model        events.out...    the same for TensorBoard
    data.json        what the data was              loss.png         the loss curves
    codec.json       how text becomes numbers and   *_confusion.png  what was taken for what, or *_predictions.png
                     back                           result.json      final metrics, when the run is done
    checkpoints/     see runs.checkpoints           average_of_N/    a run directory too: see modes.average
    eval_STEP.../    files of --mode=eval that are not those of the run's own last evaluation: see train.evaluation.place_of
"""

import dataclasses
import json
import math
import os
import pathlib

from seqjax import config as configs
from seqjax.data import Codec, TextCodec, saved_codec
from seqjax.errors import UserError
from seqjax.runs import files


_LEARNED = {'': 'read text', 'text': 'continue a text', 'labelled': 'label sequences', 'pairs': 'translate', 'captions': 'read images and captions', 'series': 'forecast'}
_MODES = dict(text=lambda codec: '--mode=generate', captions=lambda codec: '--mode=eval', series=lambda codec: '--mode=eval', pairs=lambda codec: '--mode=generate --input=FILE',
              labelled=lambda codec: '--mode=eval' if codec.tokenizer is None else '--mode=predict --input=FILE')


class RunDirectory:
    """The files of one run, by name."""

    def __init__(self, workdir):
        self.path = pathlib.Path(workdir)
        self.checkpoints = self.path / 'checkpoints'
        self.metrics = self.path / 'metrics.jsonl'
        self.loss_plot = self.path / 'loss.png'

    loaded = None  # (model, parameters) where somebody keeps the run open

    def has_no_codec(self):
        """Whether its data was generated, and is no text."""
        return saved_codec(self.read) is None and self.read('data.json') is not None

    def read(self, name):
        """The text of a file of the run, or None."""
        path = self.path / name
        return path.read_text('utf-8') if path.is_file() else None

    def write(self, name, text):
        files.write_atomically(self.path / name, text)

    def saved_config(self):
        """The config that the run was started with."""
        text = self.read('config.json')
        if runs := runs_below(self.path):
            raise UserError(f'--workdir={self.path}: holds several runs; name one of them, as in '
                            f'--workdir={self.path / runs[0]}, or give --config=FILE to train them all')
        if text is None:
            raise UserError(f'--workdir={self.path}: no run is here (no config.json); train one first with --config=FILE')
        try:
            return configs.loads(text)
        except UserError:
            raise
        except (ValueError, KeyError) as error:
            raise UserError(f'{self.path / "config.json"} cannot be read ({error}); restore it or choose another '
                            '--workdir') from error

    def codec(self, kind: str = '') -> Codec:
        """How text becomes numbers and back. kind: the only one that is of use; a run with another is refused."""
        found = saved_codec(self.read)
        if found is not None and kind in ('', found.kind):
            older = isinstance(found, TextCodec) and not found.steps
            return dataclasses.replace(found, steps=self.saved_config().data.sequence_length) if older else found
        if found is None and self.read('data.json') is None:
            raise UserError(f'--workdir={self.path}: the run has no codec.json yet; train first')
        if found is None and kind == 'text':
            raise UserError(f'--workdir={self.path}: the run was not trained on text, so there is no text to continue')
        raise UserError(f'--workdir={self.path}: the run has not learned to {_LEARNED[kind]}; use {self.mode()}')

    def mode(self) -> str:
        """The mode that asks the run for what it has learned, for the sentences that refuse another."""
        found = saved_codec(self.read)
        return '--mode=eval' if found is None else _MODES[found.kind](found)

    def check(self, config):
        """Refuses a directory that cannot become this experiment's; changes nothing."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f'--workdir={self.path}: is a file; name a directory')
        if self.read('config.json') is not None:
            check_same_experiment(self.path, self.saved_config(), config)
        elif self.checkpoints.exists():
            raise UserError(f'--workdir={self.path}: has checkpoints and no config.json; choose another --workdir')

    def claim(self, config, dataset, model=None):
        """Makes the directory this experiment's: writes down its config and, once, its `SavedModel` and what its data was."""
        self.check(config)
        self.begin(texts_of(config, dataset, model))

    def begin(self, texts):
        """The same, of {name: text} that `texts_of` has made."""
        has = lambda name: self.read(name) is not None
        kept = {name: has('data.json') for name in texts} | {
            'config.json': False, 'model.json': has('model.json') and has('config.json')}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                if not kept[name]:
                    self.write(name, text)
        except OSError as error:
            raise UserError(f'--workdir={self.path}: cannot be made ({error}); name a directory you can write to') from error


def texts_of(config, dataset, model=None):
    """{name: text} of what a run keeps of a config, a dataset and a `SavedModel`; in this order, and data.json is the last."""
    saved = {} if model is None else {'model.json': model.dumps()}
    return {**saved, 'config.json': configs.dumps(config), **dataset.files(),
            'data.json': json.dumps(dataset.facts(), indent=2) + '\n'}


def check_same_experiment(workdir, saved, config, may_differ=()):
    """Refuses to go on with another model, other data or another optimizer than the run was started with."""
    if different := [row for row in configs.differences(saved, config) if row[0] not in may_differ]:
        field, there, here = different[0]
        more = f' (and {len(different) - 1} more)' if len(different) > 1 else ''
        raise UserError(f'--workdir={workdir}: holds another experiment, with config.{field}={there!r} and not {here!r}{more}; '
                        'choose another --workdir')


def runs_below(directory):
    """The names of the runs in the directory of a sweep, which has no config.json itself; [] for any other directory."""
    directory = pathlib.Path(directory)
    if (directory / 'config.json').is_file():
        return []
    return sorted(path.parent.name for path in directory.glob('*/config.json'))


class MetricsLog:
    """metrics.jsonl and TensorBoard's event files, continued after `step`: what a killed run logged past it is removed.

    TensorBoard's library, which imports torch where that is installed, is imported after some lines or at the end: a run does not
    wait for it to begin.
    """

    WAITING = 64  # lines

    def __init__(self, directory, step):
        kept = [line for line in _complete_lines(directory.metrics) if json.loads(line)['step'] <= step]
        files.write_atomically(directory.metrics, ''.join(kept))
        self._file = open(directory.metrics, 'a', encoding='utf-8')
        self._path, self._begin, self._board, self._waiting = directory.path, step, None, []

    def write(self, step, values):
        """One line; numbers also go to TensorBoard. A number that is not finite becomes null."""
        line = dict(step=step, **jsonable(values))
        self._file.write(json.dumps(line) + '\n')
        self._waiting.append(line)
        if len(self._waiting) >= self.WAITING or self._board:
            self._show()

    def sync(self):
        """Makes all lines so far durable; a checkpoint is only saved after its metrics."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self):
        self.sync()
        self._file.close()
        self._show()
        self._board.close()

    def _show(self):
        """Gives TensorBoard the lines that it does not have yet."""
        if self._board is None:
            import tensorboardX

            purge = self._begin + 1 if self._begin else None
            self._board = tensorboardX.SummaryWriter(str(self._path), purge_step=purge, flush_secs=30)
        for line in self._waiting:
            for name, value in line.items():
                if '/' in name and value is not None:
                    self._board.add_scalar(name, value, line['step'])
        self._waiting.clear()


def read_metrics(path):
    """The lines of a metrics.jsonl as dicts."""
    return [json.loads(line) for line in _complete_lines(path)]


def _complete_lines(path):
    """The lines that end in a newline: a killed process may leave half a line at the end."""
    if not path.is_file():
        return []
    return [line for line in path.read_text('utf-8').splitlines(keepends=True) if line.endswith('\n')]


def jsonable(values):
    """The same values by name, None for a number that is not finite: JSON has no word for it."""
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()}
