"""What was unusual about new lines, and in which of them: said once, when all are answered."""

import collections

from seqjax.data.readers.lines import plural
from seqjax.special_tokens import UNKNOWN

SHOWN = 5  # numbers of lines
_BYTES = {'\N{REPLACEMENT CHARACTER}': 'with U+FFFD, which stands for bytes that are not UTF-8', '\0': 'with NUL bytes'}


class Noticed:
    """{what: the numbers of lines} while lines are read. unknown: the token of what is not known. noun: what lines are called."""

    def __init__(self, unknown=UNKNOWN, noun='line'):
        self.lines, self._unknown, self._noun = collections.defaultdict(list), unknown, noun

    def note(self, number, what):
        self.lines[what].append(number)

    def look(self, number, line, *tokens):
        """Notes what is unusual about the tokens of a line, and about its characters."""
        if any((each == self._unknown).any() for each in tokens):
            self.note(number, 'with symbols that are not known')
        for character, what in _BYTES.items():
            if character in line:
                self.note(number, what)

    def sentences(self):
        for what, numbers in self.lines.items():
            shown = ', '.join(map(str, numbers[:SHOWN])) + (', ...' if len(numbers) > SHOWN else '')
            yield f'{plural(len(numbers), self._noun)} {what}: {shown}'
