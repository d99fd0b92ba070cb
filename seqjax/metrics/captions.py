"""How close captions come to their references, of which an image may have several: over a whole corpus."""

from collections.abc import Sequence
import re

from seqjax.errors import FieldError
from seqjax.metrics.cider import CIDER_SIGNATURE, cider_d
from seqjax.metrics.meteor import METEOR_SIGNATURE, meteor
from seqjax.metrics.rouge import ROUGE_SIGNATURE, rouge_l

WORD = re.compile(r"\w+(?:['’]\w+)*")
CAPTION_SCORES = 'bleu1', 'bleu2', 'bleu3', 'bleu4', 'meteor', 'rouge_l', 'cider_d', 'exact_match'
_PREPARED = '|tok:words|case:lc|punctuation:none'


def caption_words(text: str) -> list[str]:
    """The words of a caption in small letters, without punctuation, as COCO's evaluation compares them (Chen et al. 2015)."""
    return WORD.findall(text.lower())


def caption_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float | str]:
    """Scores of a corpus of captions, each with the references of its image. All but exact_match are on the scale in which papers
    print them, 100 times that of COCO's evaluation:

        bleu1 ... bleu4   clipped n-gram precision of up to so many words with a brevity penalty, 0..100 (Papineni et al. 2002)
        meteor            words and stems that are matched, and in how many pieces, 0..100; no synonyms; see `meteor`
        rouge_l           the longest common subsequence, 0..100; see `rouge_l`
        cider_d           n-grams weighted by how rare they are, 0..1000; see `cider_d`
        exact_match       the part of the captions that equal one of their references, 0..1
        signature/...     how each was computed, to be reported beside it

    Words are those of `caption_words`. Without any caption, the scores are NaN.
    """
    hypotheses, references = list(hypotheses), [list(texts) for texts in references]
    if len(hypotheses) != len(references):
        raise FieldError('hypotheses', f'{len(hypotheses)} captions', f'must be as many as references: {len(references)}')
    if not all(references):
        raise FieldError('references', 'an empty list', 'every caption needs at least one reference')
    ours, theirs = [caption_words(text) for text in hypotheses], [[caption_words(text) for text in texts] for texts in references]
    scores, signatures = _bleu(ours, theirs)
    mean = lambda score: 100 * sum(map(score, ours, theirs)) / max(1, len(ours))
    scores |= dict(meteor=mean(meteor), rouge_l=mean(rouge_l), cider_d=100 * cider_d(ours, theirs))
    signatures |= dict(meteor=METEOR_SIGNATURE, rouge_l=ROUGE_SIGNATURE, cider_d=CIDER_SIGNATURE)
    same = [text.strip() in {other.strip() for other in texts} for text, texts in zip(hypotheses, references)]
    scores['exact_match'] = sum(same) / max(1, len(same))
    if not hypotheses:
        scores = dict.fromkeys(scores, float('nan'))
    count = _counts(references)
    return scores | {f'signature/{name}': signature if name.startswith('bleu') else f'nrefs:{count}{_PREPARED}|{signature}'
                     for name, signature in signatures.items()}


def _bleu(hypotheses, references):
    """({bleu1: ...}, {bleu1: signature}) by sacrebleu, without smoothing, as COCO's evaluation has it."""
    from sacrebleu.metrics import BLEU  # here, because it takes a while to import

    texts = [' '.join(words) for words in hypotheses] or ['']
    longest = max(map(len, references), default=1)  # sacrebleu takes one list of all first references, one of all second ones, ...
    streams = [[' '.join(row[n]) if n < len(row) else None for row in references or [[[]]]] for n in range(longest)]
    scores, signatures = {}, {}
    for order in range(1, 5):
        metric = BLEU(max_ngram_order=order, tokenize='none', smooth_method='none', force=True)
        scores[f'bleu{order}'] = metric.corpus_score(texts, streams).score
        signature = str(metric.get_signature()).replace('tok:none', 'tok:words').replace('case:mixed', 'case:lc')
        signatures[f'bleu{order}'] = f'{signature}|punctuation:none|order:{order}'
    return scores, signatures


def _counts(references):
    """How many references a caption has: '5', or '1-5'."""
    fewest, most = min(map(len, references), default=0), max(map(len, references), default=0)
    return str(most) if fewest == most else f'{fewest}-{most}'
