"""Classifies images by prompts alone, with a run that has images and texts in one space: --mode=zero_shot."""

from collections.abc import Sequence
import json
import sys
from typing import Any

import jax
import numpy as np

from seqjax.analysis.vision.frozen import FrozenFeatures
from seqjax.errors import FieldError, UserError
from seqjax.metrics.retrieval import class_embeddings, zero_shot as nearest
from seqjax.modes.command.mode import CHECKPOINT, Flag, Mode, one_process
from seqjax.modes.vision.probe import frozen_task, labelled_set
from seqjax.runs.restore import find_checkpoint, open_run, restore_model
from seqjax.special_tokens import UNKNOWN
from seqjax.train.experiment import build
from seqjax.train.progress import ProgressBar


def classify(config: Any, workdir: Any, checkpoint: str = 'latest', *, source: str, templates: Sequence[str] = ('a {}',),
             classes: Sequence[str] = ()) -> dict[str, Any]:
    """Zero-shot accuracy on a labelled set of images, none of whose labels was learned.

        w_c = unit(mean over templates t of unit(text embedding of t with the name of class c)),    class of x = argmax_c w_c . image(x)

    Radford et al. 2021, section 3.1. Written to zero_shot.json: accuracy, of every template alone and of all together, and that of
    the most frequent class.

    Args:
        source: the set, as config.data.source names it; its test split is classified, or what is held out.
        templates: prompts with {} in the place of the class.
        classes: what its classes are called in prompts, in their order; (): by their own names.
    """
    one_process('zero_shot')
    config, run = open_run(config, workdir)
    codec = run.codec('captions')
    model, params = restore_model(run, config, *find_checkpoint(run, checkpoint))
    if not hasattr(model, 'encode_text'):
        raise UserError(f'--mode=zero_shot: {config.model.name!r} has no embeddings of texts; use the run of a model that has, as clip')
    dataset = labelled_set(config, source)
    names = tuple(classes) or dataset.codec.classes
    if len(names) != len(dataset.codec.classes):
        raise FieldError('--classes', ','.join(names), f'names {len(names)} classes, and {source} has {len(dataset.codec.classes)}: '
                         f'{", ".join(dataset.codec.classes)}')
    embed = _TextEmbedding(model, params, codec)
    of_all, *of_each = (class_embeddings(embed, names, chosen) for chosen in (templates, *([template] for template in templates)))
    rows = dataset.rows['test'] if len(dataset.rows['test']) else dataset.rows['validation']
    with ProgressBar('classify', len(rows)) as bar:
        if embed.unknown:
            bar.say(f'warning: no caption had the words {", ".join(sorted(embed.unknown))}')
        images, targets = FrozenFeatures(frozen_task(build(config, run).task, model), params, config.data.batch_size, bar.add,
                                         method='encode_image')(rows)
    score = lambda texts: float(np.mean(nearest(images, texts) == targets))
    found = dict(source=source, rows=len(rows), classes=list(names), accuracy=score(of_all),
                 templates={template: score(texts) for template, texts in zip(templates, of_each)},
                 most_frequent=float(np.bincount(targets).max() / len(targets)))
    run.write('zero_shot.json', json.dumps(found, indent=2) + '\n')
    return found


class _TextEmbedding:
    """n texts -> [n, E]; `unknown`: words that the run's captions never had."""

    def __init__(self, model, params, codec):
        self._codec, self._params, self.unknown = codec, params, set()
        self._encode = jax.jit(lambda params, tokens, mask: model.apply({'params': params}, tokens, mask, method='encode_text'))

    def __call__(self, texts):
        tokens, weights = (np.stack(part) for part in zip(*map(self._codec.caption, texts)))
        for text, of_text in zip(texts, tokens):
            if (of_text == UNKNOWN).any():
                self.unknown |= {word for word in text.split() if (self._codec.target(word) == UNKNOWN).any()}
        return np.asarray(self._encode(self._params, tokens, weights))


def _run(request):
    flags = request.flags
    if not flags.source:
        raise UserError("--source is missing: name a labelled set of images, as --source=digits or --source=file:DIR")
    parts = lambda text, mark: [part.strip() for part in text.split(mark) if part.strip()]
    found = classify(request.config, request.workdir, flags.checkpoint, source=flags.source, templates=parts(flags.templates, '|'),
                     classes=parts(flags.classes, ','))
    for template, accuracy in found['templates'].items():
        print(f'{template!r}: {accuracy:.4f}', file=sys.stderr)
    print(json.dumps({name: found[name] for name in ('source', 'rows', 'accuracy', 'most_frequent')}))


MODE = Mode(_run, 'Classify images by prompts alone, with a run of images and texts.', (
    CHECKPOINT, Flag('source', '', 'A labelled set of images, as config.data.source names it.'),
    Flag('templates', 'a {}', "Prompts with {} in the place of the class, with | between them."),
    Flag('classes', '', 'What its classes are called in prompts, with commas; empty: by their own names.')),
    reads=('data.batch_size', 'parallel'))
