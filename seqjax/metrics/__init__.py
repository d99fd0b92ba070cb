"""Scores of predictions: classification, correlation, entities, translation, captions, the baselines to beat, and METRICS by name."""

from seqjax.metrics.baselines import baseline_scores
from seqjax.metrics.captions import caption_scores
from seqjax.metrics.metric import METRICS, is_wanted, measure
from seqjax.metrics.translation import has_four_words, scores_by_length, translation_scores

register = METRICS.register

__all__ = ['METRICS', 'baseline_scores', 'caption_scores', 'has_four_words', 'is_wanted', 'measure', 'register', 'scores_by_length',
           'translation_scores']
