"""What is unusual about lines is counted, and the first of them are named."""

import numpy as np

from seqjax.modes.command.input_warnings import Noticed
from seqjax.special_tokens import UNKNOWN


def test_lines_are_counted_by_what_is_unusual_and_the_first_are_named():
    noticed = Noticed()
    for number in range(1, 1235):
        noticed.look(number, 'ab', np.array([5, UNKNOWN]))
    noticed.note(7, 'empty')
    assert list(noticed.sentences()) == ['1,234 lines with symbols that are not known: 1, 2, 3, 4, 5, ...', '1 line empty: 7']


def test_any_of_the_rows_of_a_line_may_have_what_is_not_known_and_bytes_that_are_no_text_are_named():
    noticed, known = Noticed(), np.array([5, 6])
    noticed.look(1, 'ab', known, known)
    noticed.look(2, 'ab', known, np.array([UNKNOWN]))
    noticed.look(3, 'a\0')
    noticed.look(4, 'a\N{REPLACEMENT CHARACTER}', known)
    assert noticed.lines == {'with symbols that are not known': [2], 'with NUL bytes': [3],
                             'with U+FFFD, which stands for bytes that are not UTF-8': [4]}
