"""Evaluation by what is written: a split is translated or captioned, and the texts are compared with their references."""

import dataclasses
import functools
import json
from typing import Any

import jax

from seqjax import config as configs
from seqjax import decode, metrics
from seqjax.analysis.length_curve import plot_quality_by_length
from seqjax.errors import FieldError
from seqjax.metrics.captions import CAPTION_SCORES, caption_scores
from seqjax.metrics.translation import has_four_words, scores_by_length, translation_scores
from seqjax.runs.directory import jsonable

MEASURED = ('bleu', 'tokenised_bleu', 'chrf', 'exact_match')
OF_FOUR_WORDS = ('bleu', 'tokenised_bleu')  # left out where no held-out reference has so many: they would be 0 of the truth too
SHOWN = dict(bleu='BLEU', exact_match='exact match')  # of these the first that is measured is drawn by length


@dataclasses.dataclass(frozen=True)
class Decoded:
    """How the pairs of a run are translated and scored.

    dataset: a `data.Pairs`. method: see `decode.search`; seed: for one that draws. batch_size: sentences that are decoded
    together. rows: pairs of the validation split that every evaluation decodes, the first ones; 0: all of them, at the end.
    """

    dataset: object
    method: Any
    limits: decode.Limits
    batch_size: int
    seed: int = 0
    rows: int = 0

    @functools.cached_property
    def measured(self):
        """The names of scores: of MEASURED, and of registered metrics that compare texts."""
        four = has_four_words(text for split in ('validation', 'test') for text in self.dataset.texts(split)[1])
        return (*(name for name in MEASURED if four or name not in OF_FOUR_WORDS), *_registered(['a'], ['a'], ['a']))

    def count(self, name):
        """How many pairs `measure` translates."""
        split, first = self._part(name)
        return len(self.dataset.rows[split][first])

    def measure(self, model, params, name, seen=lambda count: None):
        """`Written` of the validation split or, where name is 'test', of the test split. seen: see `decode.search`."""
        split, first = self._part(name)
        sources, references = (texts[first] for texts in self.dataset.texts(split))
        rows = [row['inputs'] for row in self.dataset.rows[split][first]]
        answers = self.texts(model, params, rows, seen)
        scores = translation_scores(answers, references)
        for left_out in set(MEASURED).difference(self.measured):
            del scores[left_out], scores[f'signature/{left_out}']
        return Written(name, self.method, scores, sources, references, answers, [len(row) - 1 for row in rows],
                       _registered(sources, answers, references))

    def _part(self, name):
        """(split, which of its rows)"""
        return dict(eval='validation').get(name, name), slice(self.rows or None if name == 'eval' else None)

    def texts(self, model, params, rows, seen=lambda count: None):
        """The best answer to every row of source tokens, as text."""
        longest = max(map(len, rows))
        shapes = [*(shape for shape in decode.SHAPES if shape < longest), max(longest, decode.SHAPES[0])]
        found = decode.search(decode.make_decoder(model, params), rows, self.method, limits=self.limits, shapes=shapes,
                              batch_size=self.batch_size, key=jax.random.key(self.seed), seen=seen)
        return [self.dataset.codec.text(answer.texts[0]) if answer.texts else '' for answer in found]


@dataclasses.dataclass(frozen=True)
class Written:
    """The answers to a split, what they are compared with, and their scores. lengths: source tokens, the end not counted.

    own: scores by registered metrics.
    """

    name: str
    method: Any
    scores: dict
    sources: list
    references: list
    answers: list
    lengths: list
    own: dict = dataclasses.field(default_factory=dict)

    @property
    def numbers(self):
        """{'eval/bleu': ..., ...}"""
        ours = {metric: self.scores[metric] for metric in MEASURED if metric in self.scores}
        return {f'{self.name}/{metric}': score for metric, score in {**ours, **self.own}.items()}

    def keep(self, run, step):
        """Writes texts, scores and a picture to the directory of a run, and returns their names. step: of the parameters."""
        split = dict(eval='validation').get(self.name, self.name)
        metric = next(name for name in SHOWN if name in self.scores)
        run.path.mkdir(exist_ok=True)
        run.write(f'{split}_translations.jsonl', ''.join(
            json.dumps(dict(source=source, reference=reference, answer=answer), ensure_ascii=False) + '\n'
            for source, reference, answer in zip(self.sources, self.references, self.answers)))
        curve = scores_by_length(self.lengths, self.answers, self.references, metric=metric)
        run.write(f'{split}_scores.json', json.dumps(dict(
            step=step, **jsonable({**self.scores, **self.own}), search=_search(self.method),
            by_length=[dict(zip(('from', 'to', 'sentences', metric), row)) for row in curve]), indent=2) + '\n')
        plot_quality_by_length({split: curve}, run.path / f'{split}_by_length.png', SHOWN[metric])
        return [f'{split}_{name}' for name in ('translations.jsonl', 'scores.json', 'by_length.png')]


@dataclasses.dataclass(frozen=True)
class DecodedCaptions(Decoded):
    """The same of images and their captions, of which an image may have several.

    dataset: `data.captions.Captions`. prepare: images as they are stored -> as the model reads them.
    """

    prepare: Any = None

    @property
    def measured(self):
        return (*CAPTION_SCORES, *_registered_of_captions(['a'], [('a',)]))

    def measure(self, model, params, name, seen=lambda count: None):
        """`WrittenCaptions` of a split. An image that could not be read, and stands there with weight 0, is not counted."""
        split, first = self._part(name)
        references = self.dataset.texts(split)[1][first]
        images = _Images(self.dataset.rows[split], len(references))
        decoder = decode.make_decoder(model, params, prepare=self.prepare)
        found = decode.search(decoder, images, self.method, limits=self.limits, batch_size=self.batch_size,
                              key=jax.random.key(self.seed), seen=seen)
        counted = [n for n in range(len(references)) if n not in images.unread]
        answers = [self.dataset.codec.text(found[n].texts[0]) for n in counted]
        references = [references[n] for n in counted]
        return WrittenCaptions(name, self.method, caption_scores(answers, references), counted, references, answers, [],
                               _registered_of_captions(answers, references))


class WrittenCaptions(Written):
    """The captions of a split; sources: numbers of the images in it, references: all captions of each."""

    @property
    def numbers(self):
        scores = {metric: self.scores[metric] for metric in CAPTION_SCORES} | self.own
        return {f'{self.name}/{metric}': score for metric, score in scores.items()}

    def keep(self, run, step):
        """Writes texts and scores to the directory of a run, and returns their names. step: of the parameters."""
        split = dict(eval='validation').get(self.name, self.name)
        run.path.mkdir(exist_ok=True)
        run.write(f'{split}_captions.jsonl', ''.join(
            json.dumps(dict(image=number, references=list(texts), answer=answer), ensure_ascii=False) + '\n'
            for number, texts, answer in zip(self.sources, self.references, self.answers)))
        run.write(f'{split}_scores.json', json.dumps(dict(step=step, **jsonable({**self.scores, **self.own}), search=_search(self.method)),
                                                     indent=2) + '\n')
        return [f'{split}_captions.jsonl', f'{split}_scores.json']


class _Images:
    """The images of the first rows of a split, read when they are asked for. unread: numbers of those that could not be."""

    def __init__(self, rows, count):
        self.rows, self.count, self.unread = rows, count, set()

    def __len__(self):
        return self.count

    def __getitem__(self, n):
        row = self.rows[n]
        if not row['weights'].any():
            self.unread.add(n)
        return row['inputs']


def _registered(sources, hypotheses, references):
    """{name: score} by `metrics.METRICS`."""
    return metrics.measure(dict(sources=sources, hypotheses=hypotheses, references=references))


def _registered_of_captions(hypotheses, captions):
    """The same where a text has several references."""
    return metrics.measure(dict(hypotheses=hypotheses, captions=captions))


def _search(method):
    """A method as JSON."""
    return dict(method=type(method).__name__, **dataclasses.asdict(method))


def make_decoded(config, dataset, task):
    """The Decoded of a task that decodes; None where it has neither pairs nor captions, and where several processes share the work."""
    if task.data not in ('pairs', 'captions'):
        return None
    configs.refuse_unread(config, ('prefix', 'exact'), 'is for --mode=generate --input=FILE, and not for answers that are '
                          'compared with references; write')
    if jax.process_count() > 1:
        if config.train.get('decode_rows'):
            raise FieldError('config.train.decode_rows', config.train.decode_rows, 'decoding is done by one process and not '
                             f'by {jax.process_count()}; set it to 0, and use --mode=eval afterwards')
        return None
    how = (dataset, configs.method(config), dataset.codec.limits(configs.limits(config)), config.decode.batch_size, config.decode.seed,
           config.train.get('decode_rows', 0))
    return DecodedCaptions(*how, prepare=task.pixels) if task.of_images else Decoded(*how)


def signatures(run):
    """{'signature/bleu': ..., ...}: how the scores in the directory of a run were computed; {} where there are none."""
    scores = json.loads(run.read('test_scores.json') or run.read('validation_scores.json') or '{}')
    return {name: value for name, value in scores.items() if name.startswith('signature/')}


def on_one_device(parts, state):
    """(the model, the parameters that are evaluated as it takes them), where texts are written."""
    state = parts.strategy.leave(state)
    params, statistics = jax.device_put(jax.device_get((state.best_params, state.best_batch_stats)), jax.local_devices()[0])
    return parts.task.holding(statistics).model, parts.parameters.merge(params)
