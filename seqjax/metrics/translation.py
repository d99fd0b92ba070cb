"""How close translations come to their references: over a whole corpus, and by the length of the source."""

import re

import numpy as np

from seqjax.errors import FieldError

WORD = re.compile(r'\w+|[^\w\s]')  # a word or one punctuation mark
MOST_BINS = 20
FEWEST_ROWS = 20  # of a bin: BLEU of fewer is mostly noise


def translation_scores(hypotheses, references, only=None):
    """Scores of a corpus of texts, one reference each, as a dict:

        bleu              clipped n-gram precision with a brevity penalty, 0..100 (Papineni et al. 2002), of plain text
        tokenised_bleu    the same of words and punctuation that are already apart, as figures on tokenised text are
        chrf              F2 of character n-grams, 0..100 (Popović 2015)
        exact_match       the part of the texts that equal their reference, 0..1
        length_ratio      words of the hypotheses over words of the references; below 1, BLEU is lowered for brevity
        signature/...     of bleu, tokenised_bleu and chrf: how sacrebleu computed it (Post 2018), to be reported beside it

    Texts may be empty. Without any text, the scores are NaN. only: a score that is wanted alone; what it does not need of
    sacrebleu, which takes its time, is left out.
    """
    from sacrebleu.metrics import BLEU, CHRF  # here, because it takes a while to import

    hypotheses, references = list(hypotheses), list(references)
    if len(hypotheses) != len(references):
        raise FieldError('hypotheses', f'{len(hypotheses)} texts', f'must be as many as references: {len(references)}')
    # `force` only turns off a remark about texts that look tokenised.
    metrics = dict(bleu=(BLEU(force=True), str), tokenised_bleu=(BLEU(tokenize='none', force=True), _apart),
                   chrf=(CHRF(), str))
    if only is not None:
        metrics = {name: metric for name, metric in metrics.items() if name == dict(length_ratio='bleu').get(only, only)}
    scores, signatures = {}, {}
    for name, (metric, prepared) in metrics.items():
        # The signature exists only after something was scored, be it nothing.
        score = metric.corpus_score([prepared(text) for text in hypotheses or ['']],
                                    [[prepared(text) for text in references or ['']]])
        scores[name], signatures[f'signature/{name}'] = score.score, str(metric.get_signature())
        if name == 'bleu':
            scores['length_ratio'] = score.sys_len / score.ref_len if score.ref_len else float('nan')
    same = [hypothesis.strip() == reference.strip() for hypothesis, reference in zip(hypotheses, references)]
    scores['exact_match'] = sum(same) / max(1, len(same))
    if not hypotheses:
        scores = dict.fromkeys(scores, float('nan'))
    return scores | signatures


def has_four_words(references):
    """Whether some text has four words, as BLEU counts them. Where none has, BLEU of the references themselves is 0: it
    multiplies the precisions of one to four words in a row, and there are no four."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    words = Tokenizer13a()
    return any(len(words(text).split()) >= 4 for text in references)


def scores_by_length(source_lengths, hypotheses, references, edges=None, metric='bleu', fewest=FEWEST_ROWS):
    """Quality against the length of the source (Cho et al. 2014, figure 4; Bahdanau et al. 2015, figure 2), shortest first:
    [(first length, last length, number of rows, score)].

    source_lengths: [N] of integers. edges: where bins begin, and where the last one ends; without, at most 20 of equal
    width. A bin with fewer than `fewest` rows is joined with the next one, the last with the one before. Rows outside of
    the edges and bins without rows are left out. metric: a score of translation_scores.
    """
    lengths = np.asarray(source_lengths)
    if not len(lengths) == len(hypotheses) == len(references):
        raise FieldError('source_lengths', f'{len(lengths)} numbers', f'must be as many as hypotheses and references: '
                         f'{len(hypotheses)} and {len(references)}')
    rows = []
    for start, end in _joined(lengths, _equal_edges(lengths) if edges is None else edges, fewest):
        inside = np.flatnonzero((lengths >= start) & (lengths < end))
        scores = translation_scores([hypotheses[i] for i in inside], [references[i] for i in inside], only=metric)
        rows.append((start, end - 1, len(inside), scores[metric]))
    return rows


def _apart(text):
    return ' '.join(WORD.findall(text))


def _equal_edges(lengths):
    """The multiples of 1, 2, 5, 10, 20, ... that hold all lengths in at most so many bins."""
    if not len(lengths):
        return []
    low, high = int(lengths.min()), int(lengths.max())
    widths = (digit * 10 ** power for power in range(10) for digit in (1, 2, 5))
    width = next(width for width in widths if high // width - low // width < MOST_BINS)
    return [width * n for n in range(low // width, high // width + 2)]


def _joined(lengths, edges, fewest):
    """[(start, end)] of bins from edge to edge that have at least `fewest` rows, where there are so many."""
    held = lambda start, end: np.count_nonzero((lengths >= start) & (lengths < end))
    edges, bins = [int(edge) for edge in edges], []
    for start, end in zip(edges, edges[1:]):
        if bins and held(*bins[-1]) < fewest:
            bins[-1] = bins[-1][0], end
        elif held(start, end):
            bins.append((start, end))
    if len(bins) > 1 and held(*bins[-1]) < fewest:
        bins[-2:] = [(bins[-2][0], bins[-1][1])]
    return bins
