"""Strings of letters to be turned round: the smallest task that needs every token of its source.

    gattaca -> acattag

Without attention all of the source has to fit into one vector, and the longest strings suffer first (Sutskever et al. 2014
found their targets easier to learn where the source is turned round). Training strings have any length up to the longest,
test strings are all of the longest. They are drawn independently: of ten letters and more hardly one is drawn twice.
"""

import random
import string

from seqjax.data.examples import Example, Examples

TRAIN, HELD_OUT = 50_000, 1_000


def reversal_examples(task, *, held_out, seed, length):
    """Strings of up to `length` letters, drawn by `seed`; of validation and test strings HELD_OUT each."""
    del task, held_out  # one task, and parts of these sizes
    rng = random.Random(seed)
    draw = lambda letters: ''.join(rng.choices(string.ascii_lowercase, k=letters))
    pairs = lambda texts: [Example(text, text[::-1]) for text in texts]
    train, validation = (pairs(draw(rng.randint(1, length)) for _ in range(count)) for count in (TRAIN, HELD_OUT))
    test = pairs(draw(length) for _ in range(HELD_OUT))
    return Examples(train, validation, test, f'strings of up to {length} letters, those of the test part of {length} each')
