"""Masked language modelling (Devlin et al. 2019, section 3.1): tokens of a row are hidden, and are to be found again.

Of the tokens that are chosen, 80 % become MASK, 10 % another token, and 10 % stay as they are: a model must have something to
say of every token, for it cannot know which of them were changed.
"""

import dataclasses
import functools

import numpy as np

from seqjax.data.batches.packing import filled
from seqjax.data.text.marking import marked
from seqjax.special_tokens import Marks
from seqjax.tasks import masked_count

MASKED, DRAWN = 0.8, 0.1  # of the chosen tokens: become MASK, become another token; what is left stays as it is


def mask(tokens, rng, *, vocabulary, share, marks=Marks()):
    """(inputs [n], places [m], targets [m]): m tokens of `tokens` [n] are chosen, `share` of those that are text.

    Special tokens are never chosen, and never drawn in the place of another: END says where the second text begins.
    """
    text = np.flatnonzero(~np.isin(tokens, marks))
    count = min(len(text), max(1, round(share * len(text))))
    places = np.sort(rng.choice(text, count, replace=False)).astype(np.int32)
    fate, inputs = rng.random(count), tokens.copy()
    inputs[places[fate < MASKED]] = marks.mask
    drawn = places[(MASKED <= fate) & (fate < MASKED + DRAWN)]
    inputs[drawn] = _tokens_of_text(vocabulary, marks)[rng.integers(vocabulary - len(marks), size=len(drawn))]
    return inputs, places, tokens[places]


@functools.cache
def _tokens_of_text(vocabulary, marks):
    """All tokens but the special ones, in their order."""
    return np.setdiff1d(np.arange(vocabulary, dtype=np.int32), marks)


@dataclasses.dataclass(frozen=True)
class Masking:
    """Texts -> a row of `steps` tokens, filled up with zeros, in which `share` of the text is masked.

    A row has inputs [T], their lengths [], places [M], targets [M] and weights [M]; the places that a short text does not
    need have weight 0.
    """

    steps: int
    vocabulary: int
    share: float
    marks: Marks = Marks()

    @property
    def most(self):
        """M: the places of a full row of one text."""
        return masked_count(self.steps, self.share)

    def __call__(self, *texts, rng):
        tokens = marked(*texts, marks=self.marks)
        inputs, places, targets = mask(tokens, rng, vocabulary=self.vocabulary, share=self.share, marks=self.marks)
        return dict(inputs=filled(inputs, self.steps), lengths=np.int32(len(tokens)), places=filled(places, self.most),
                    targets=filled(targets, self.most), weights=filled(np.ones(len(places), np.float32), self.most))
