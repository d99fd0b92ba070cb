"""What span corruption does, the other way round."""

import numpy as np

from seqjax.data.text.span_corruption import SENTINELS
from seqjax.special_tokens import END


def put_back(inputs, targets, first, count=SENTINELS):
    """The text of a corrupted pair, without END: a sentinel gives way to what stands after it in the targets.

    A sentinel that the targets do not have stands for nothing.
    """
    spans, now = {}, None
    for token in _before_end(targets):
        if first <= token < first + count:
            now = spans.setdefault(token, [])
        elif now is not None:
            now.append(token)
    text = [piece for token in _before_end(inputs)
            for piece in (spans.get(token, ()) if first <= token < first + count else (token,))]
    return np.array(text, np.int32)


def _before_end(tokens):
    tokens = np.asarray(tokens).tolist()
    return tokens[:tokens.index(END)] if END in tokens else tokens
