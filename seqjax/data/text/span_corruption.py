"""Span corruption (Raffel et al. 2020, section 3.1.4): what is missing in a text is to be written, span by span.

    text       Thank you for inviting me to your party last week END
    inputs     Thank you <extra_id_0> me to your party <extra_id_1> END
    targets    <extra_id_0> for inviting <extra_id_1> last week END

A pair as translations have them. END closes the targets, where the figure of the paper has a last sentinel.
"""

import dataclasses

import numpy as np

from seqjax.data.batches.packing import filled
from seqjax.special_tokens import END
from seqjax.tasks import span_counts

SENTINELS = 100  # of a vocabulary, as in the paper's


@dataclasses.dataclass(frozen=True)
class SpanCorruption:
    """A text of 2 to `longest` tokens -> a row: inputs [S], their lengths [], targets [T] and weights [T], filled up.

    first: the token of the first sentinel. share: of the tokens that are hidden; mean_length: of the spans they are in.
    """

    longest: int
    first: int
    share: float
    mean_length: float

    @property
    def sizes(self):
        """(S, T)."""
        hidden, spans = span_counts(self.longest, self.share, self.mean_length)
        return self.longest - hidden + spans + 1, hidden + spans + 1

    def __call__(self, text, rng):
        inputs, targets = self.corrupt(text, rng)
        S, T = self.sizes
        return dict(inputs=filled(inputs, S), lengths=np.int32(len(inputs)), targets=filled(targets, T),
                    weights=filled(np.ones(len(targets), np.float32), T))

    def corrupt(self, text, rng):
        """(inputs, targets) of a text [n]: kept and hidden spans in turn, a kept one first, all lengths equally likely."""
        hidden, spans = span_counts(len(text), self.share, self.mean_length)
        kept, lost = (_composition(total, spans, rng) for total in (len(text) - hidden, hidden))
        borders = np.cumsum(np.stack([kept, lost], axis=1))[:-1]
        pieces = np.split(text, borders)
        sentinels = np.arange(self.first, self.first + spans, dtype=np.int32)[:, None]
        end = np.array([END], np.int32)
        return (np.concatenate([part for pair in zip(pieces[::2], sentinels) for part in pair] + [end]),
                np.concatenate([part for pair in zip(sentinels, pieces[1::2]) for part in pair] + [end]))


def _composition(total, parts, rng):
    """`total` as a sum of so many positive numbers, all such sums equally likely."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]).astype(int))
