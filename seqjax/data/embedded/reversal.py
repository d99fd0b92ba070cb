"""Strings of letters to be turned round: the smallest task that needs every token of its source.

    gattaca -> acattag

Without attention all of the source has to fit into one vector, and the longest strings suffer first (Sutskever et al. 2014
found their targets easier to learn where the source is turned round). Training strings have any length up to the longest,
test strings are all of the longest. They are drawn independently: of ten letters and more hardly one is drawn twice. A string
of another part is not trained on, so that few training strings are of one letter: most of the 26 are in the validation part.
"""

import random
import string

from seqjax.data.readers.examples import Example, Examples
from seqjax.errors import FieldError

TRAIN, HELD_OUT = 200_000, 1_000


def reversal_examples(task, *, seed, length):
    """Strings of up to `length` letters, drawn by `seed`; of validation and test strings HELD_OUT each."""
    del task  # one task, and parts of these sizes
    strings = sum(len(string.ascii_lowercase) ** letters for letters in range(1, length + 1))
    if strings < 2 * HELD_OUT:
        raise FieldError('data.sequence_length', length, f'there are {strings} strings of so few letters, and {2 * HELD_OUT:,} are '
                         'held out; set it higher')
    rng = random.Random(seed)
    draw = lambda letters: ''.join(rng.choices(string.ascii_lowercase, k=letters))
    train, validation = ([draw(rng.randint(1, length)) for _ in range(count)] for count in (TRAIN, HELD_OUT))
    test = [draw(length) for _ in range(HELD_OUT)]
    others = {*validation, *test}
    for i in range(TRAIN):
        while train[i] in others:
            train[i] = draw(rng.randint(1, length))
    return Examples(*([Example(text, text[::-1]) for text in part] for part in (train, validation, test)),
                    f'strings of up to {length} letters, those of the test part of {length} each')
