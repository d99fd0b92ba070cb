"""Whether more of a metric is better, or less."""

LOWER_IS_BETTER = {'loss', 'error', 'perplexity', 'bits'}  # words of a metric's name; of all others more is better


def lower_is_better(metric):
    """'eval/bits_per_byte' -> True, 'eval/f1/loss' -> False: F1 of a class of that name."""
    return not LOWER_IS_BETTER.isdisjoint(metric.split('/')[1].split('_'))
