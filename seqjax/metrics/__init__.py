"""Scores of predictions: classification, correlation, translation, and the baselines to beat."""

from seqjax.metrics.baselines import baseline_scores
from seqjax.metrics.translation import has_four_words, scores_by_length, translation_scores

__all__ = ['baseline_scores', 'has_four_words', 'scores_by_length', 'translation_scores']
