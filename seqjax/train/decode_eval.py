"""Evaluation by what is written: a split is translated, and the texts are compared with their references."""

import dataclasses
import functools
import json
from typing import Any

import jax

from seqjax import config as configs
from seqjax import decode, metrics
from seqjax.analysis.length_curve import plot_quality_by_length
from seqjax.errors import FieldError
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
        """(split, which of its pairs)"""
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
            step=step, **jsonable({**self.scores, **self.own}), search=dict(method=type(self.method).__name__, **dataclasses.asdict(self.method)),
            by_length=[dict(zip(('from', 'to', 'sentences', metric), row)) for row in curve]), indent=2) + '\n')
        plot_quality_by_length({split: curve}, run.path / f'{split}_by_length.png', SHOWN[metric])
        return [f'{split}_{name}' for name in ('translations.jsonl', 'scores.json', 'by_length.png')]


def _registered(sources, hypotheses, references):
    """{name: score} by `metrics.METRICS`."""
    return metrics.measure(dict(sources=sources, hypotheses=hypotheses, references=references))


def make_decoded(config, dataset):
    """The Decoded of a translation; None for other tasks, and where several processes share the work."""
    task = configs.task_of(config)
    if task.data != 'pairs' or not task.decodes:
        return None
    configs.refuse_unread(config, ('prefix', 'exact'), 'is for --mode=generate --input=FILE, and not for answers that are '
                          'compared with references; write')
    if jax.process_count() > 1:
        if config.train.get('decode_rows'):
            raise FieldError('config.train.decode_rows', config.train.decode_rows, 'decoding is done by one process and not '
                             f'by {jax.process_count()}; set it to 0, and use --mode=eval afterwards')
        return None
    return Decoded(dataset, configs.method(config), configs.limits(config), config.decode.batch_size, config.decode.seed,
                   config.train.get('decode_rows', 0))


def signatures(run):
    """{'signature/bleu': ..., ...}: how the scores in the directory of a run were computed; {} where there are none."""
    scores = json.loads(run.read('test_scores.json') or run.read('validation_scores.json') or '{}')
    return {name: value for name, value in scores.items() if name.startswith('signature/')}


def on_one_device(parts, state):
    """The parameters that are evaluated, as the model takes them, where texts are written."""
    params = jax.device_get(parts.strategy.leave(state).best_params)
    return parts.parameters.merge(jax.device_put(params, jax.local_devices()[0]))
