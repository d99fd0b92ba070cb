"""Next-sentence prediction (Devlin et al. 2019, section 3.1): does the second text of a row follow the first?

A sentence is a line of the text. Consecutive sentences of a document, as many as fill a row, are a passage; a passage is
cut in two, between sentences, at a place that is drawn. Half of the time its second part gives way to sentences from
elsewhere: from another document or, where there is but one, from another place of it. They are as many as come closest to the
length of what they replace, so that lengths do not tell which it is.
"""

import dataclasses
import functools
import re

import numpy as np

from seqjax.data.text.marking import fit

FOLLOWS, ELSEWHERE = 0, 1  # as the classes of the published models


def sentences(text):
    """The lines of a text, each with its line end and the blank lines after it; those before the first are left out."""
    return [line for line in re.split(r'(?m)^(?=.*\S)', text) if line.strip()]


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePairs:
    """Two texts a row, and whether the second follows the first.

    tokens: of all sentences, one after another. ends: where in them every sentence ends. documents: the number of the last
    sentence of every document, plus one. room: tokens of both texts together.
    """

    tokens: np.ndarray
    ends: np.ndarray
    documents: np.ndarray
    room: int

    def __len__(self):
        return len(self.passages)

    @functools.cached_property
    def passages(self):
        """(first sentence, last + 1, first of its document, last of it + 1) of every passage [P, 4].

        A passage has two sentences or more: a single one that is left over goes to the passage before it, and a document
        of one sentence has none.
        """
        sizes, found, begin = np.diff(self.ends, prepend=0), [], 0
        for end in map(int, self.documents):
            of_document, first, filled = [], begin, 0
            for i in range(begin, end):
                filled += sizes[i]
                if filled >= self.room and i > first:
                    of_document.append([first, i + 1])
                    first, filled = i + 1, 0
            if end - first > 1 or end > first and not of_document:
                of_document.append([first, end])
            elif end > first:
                of_document[-1][1] = end
            found += [(*passage, begin, end) for passage in of_document if passage[1] - passage[0] > 1]
            begin = end
        return np.array(found, int).reshape(-1, 4)

    def drawn(self, i, rng):
        """(first text, second text), dict(next=FOLLOWS or ELSEWHERE). The first loses its beginning where both are too long."""
        first, last, begin, end = self.passages[i]
        cut, label = int(rng.integers(first + 1, last)), int(rng.integers(2))
        before, after = self._text(first, cut), self._text(cut, last)
        if label == ELSEWHERE:
            own = (begin, end) if end - begin < len(self.ends) else (first, last)
            after = self._elsewhere(*own, len(after), rng)
        kept = fit(len(before), len(after), self.room)
        return (before[len(before) - kept[0]:], after[:kept[1]]), dict(next=np.int32(label))

    fixed = drawn

    def _elsewhere(self, begin, end, wanted, rng):
        """Sentences of one document from a drawn one on, none of those from `begin` to `end`: of `wanted` tokens, as nearly as
        whole sentences, one at least, and the end of the document allow."""
        sentence = int(rng.integers(len(self.ends) - (end - begin)))
        sentence += (end - begin) * (sentence >= begin)
        stop = int(self.documents[np.searchsorted(self.documents, sentence, side='right')])
        stop = begin if sentence < begin < stop else stop
        wanted += self._begin(sentence)
        last = min(int(np.searchsorted(self.ends, wanted)), stop - 1)
        last -= last > sentence and wanted - self.ends[last - 1] < self.ends[last] - wanted
        return self._text(sentence, last + 1)

    def _begin(self, sentence):
        """Where in the tokens a sentence begins."""
        return int(self.ends[sentence - 1]) if sentence else 0

    def _text(self, first, last):
        """The tokens of sentences `first` to `last` - 1."""
        return self.tokens[self._begin(first):self.ends[last - 1]]
