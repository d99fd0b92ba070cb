"""A finished run in a notebook or a program: seqjax.open_run('runs/gpt')."""

from collections.abc import Sequence
import functools
import pathlib
from typing import Any

import jax
import numpy as np

from seqjax import decode
from seqjax.errors import FieldError, UserError, suggestion
from seqjax.fields import new_name
from seqjax.modes.caption import caption_images
from seqjax.modes.continue_text import generate_text
from seqjax.modes.eval import evaluate
from seqjax.modes.predict import predict_lines
from seqjax.modes.translate import score_lines, translate_lines
from seqjax.runs.directory import RunDirectory
from seqjax.runs.restore import find_checkpoint, for_these_devices, restore_model


class Run:
    """What `open_run` returns.

        run = seqjax.open_run('runs/gpt')
        run.generate('class ', temperature=0.7)
        run.model.apply({'params': run.params}, tokens)

    Attributes:
        path, step: the directory and the step of the checkpoint.
        config: a copy of the run's.
        model, params: the linen module and plain parameters: the EMA where there is one, adapters merged. Of a network with batch
            norms the module knows its running statistics (`models.WithStatistics`), `model.batch_stats`.
        codec: how text becomes numbers and back; None for sets that are generated.

    Keyword arguments of the methods are fields of `config.decode`, as `num_beams=5`.
    """

    def __init__(self, workdir: Any, checkpoint: str = 'latest', *, weights: str = '', activations: bool = False) -> None:
        run = RunDirectory(workdir)
        self.path, self.config = run.path, for_these_devices(run.saved_config())
        self.config.quantise.update(weights=weights, activations=activations)
        self.step, checkpoints = find_checkpoint(run, checkpoint)
        self.model, self.params = run.loaded = restore_model(run, self.config, self.step, checkpoints)
        self._run = run

    @functools.cached_property
    def codec(self) -> Any:
        return None if self._run.has_no_codec() else self._run.codec()

    def generate(self, prompt: str, **fields: Any) -> str | list[str]:
        """The prompt continued, as `--mode=generate` does; of several `samples` a list of texts."""
        texts = generate_text(self._with(prompt=prompt, **fields), self._run)
        return texts[0] if len(texts) == 1 else texts

    def translate(self, lines: Sequence[str], **fields: Any) -> list:
        """The best translation of every line; with n_best > 1 a list of (score, text) for each."""
        config = self._with(**fields)
        found = list(translate_lines(config, self._run, lines))
        return [answers[0][1] for answers in found] if config.decode.n_best == 1 else found

    def caption(self, paths: Sequence[str], **fields: Any) -> list:
        """The best caption of every image file, None for one that cannot be read; with n_best > 1 a list of (score, text) for each."""
        config = self._with(**fields)
        key = 'caption' if config.decode.n_best == 1 else 'captions'
        return [found.get(key) for found in caption_images(config, self._run, paths)]

    def predict(self, lines: Sequence[str]) -> list[dict]:
        """The label, labels, number or filled-in text of every line, as `--mode=predict` prints them."""
        return list(predict_lines(self.config, self._run, lines))

    def score(self, lines: Sequence[Any]) -> list[dict]:
        """log P, in all and token by token: of the targets of (source, target) pairs, or of texts under a language model."""
        if self.codec is None or self.codec.kind != 'text':
            lines = [line if isinstance(line, str) else '\t'.join(line) for line in lines]
            return list(score_lines(self.config, self._run, lines))
        rows = [self.codec.inputs(line) for line in lines]
        lengths = np.array([len(row) for row in rows])
        context = self.model.context_length
        if context is not None and lengths.max(initial=0) > context:
            raise UserError(f'text {lengths.argmax()} has {lengths.max()} tokens, and the model can look at {context}; score it '
                            'in parts')
        answers = [dict(text=line, log_prob=0.0, tokens=[], log_probs=[]) for line in lines]
        for shape, places in decode.of_like_length(lengths, self.config.decode.batch_size, longest=context or 0):
            batch = np.stack([np.pad(rows[place], (0, shape - lengths[place])) for place in places])
            log_probs = np.asarray(self._log_probs(self.params, batch))
            for place, of_row in zip(places, log_probs):
                of_row = of_row[:lengths[place] - 1]
                answers[place].update(log_prob=float(of_row.sum()), log_probs=of_row.tolist(),
                                      tokens=[self.codec.text([token]) for token in rows[place][1:]])
        return answers

    def evaluate(self, split: str = 'validation') -> dict:
        """The metrics of the checkpoint on a split of the run's data, as `--mode=eval` prints them."""
        config = self.config.copy_and_resolve_references()
        config.data.split = split
        return evaluate(config, self.path, str(self.step))

    def __repr__(self) -> str:
        return f'<run {self.path}: {self.config.model.name}, step {self.step}>'

    @functools.cached_property
    def _log_probs(self):
        return jax.jit(functools.partial(decode.score_texts, self.model))

    def _with(self, **fields):
        config = self.config.copy_and_resolve_references()
        for name, value in fields.items():
            if name not in config.decode:
                new = new_name('decode', name, config.decode)
                raise FieldError(name, value, f'is called {new} now' if new else f'no such field of config.decode; {suggestion(name, config.decode)}')
            config.decode[name] = value
        return config


def open_run(workdir: str | pathlib.Path, checkpoint: str = 'latest', *, weights: str = '', activations: bool = False) -> Run:
    """Open a run for use: neither its data nor its optimizer is read.

    Args:
        checkpoint: 'latest', 'best' or a step.
        weights, activations: 'int8' or 'float8', and whether activations are in 8 bits too, as config.quantise says.
    """
    return Run(workdir, checkpoint, weights=weights, activations=activations)
