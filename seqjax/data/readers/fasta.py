"""FASTA: '>ID KEY=value ...', then a sequence in one or more lines. Labels of steps stand in a second file of this form."""

import dataclasses

from seqjax.data.readers.columns import Record, customary
from seqjax.data.readers.lines import File, Malformed, sound, with_end
from seqjax.errors import suggestion


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of a FASTA file: the line of its header, its id, the KEY=value pairs, and the sequence."""

    number: int
    id: str
    facts: dict
    sequence: str

    def fact(self, wanted, use):
        """What the header says: of the key `wanted`, which must be there, or of the customary one for a use, or None."""
        if not wanted:
            return self.facts.get(customary(self.facts, use))
        if wanted not in self.facts:
            raise Malformed(f'the header has no {wanted}=...', suggestion(wanted, self.facts) if self.facts else '')
        return self.facts[wanted]


class Companion:
    """A FASTA file that says something of every step of another one: `what` is 'labels' or 'mask'."""

    def __init__(self, file, what):
        self.file, self.what, self.entries, self.used = file, what, {}, set()
        for number, entry in _entries(file):
            try:
                if what == 'mask' and (strange := set(sound(entry).sequence) - {'0', '1'}):
                    raise Malformed('the mask has other characters than 0 and 1', repr(min(strange)))
                _note(self.entries, sound(entry))
            except Malformed as problem:
                file.refuse(number, problem)
        file.check_records(len(self.entries))

    def of(self, entry):
        """What it says of an entry of the other file."""
        if entry.id not in self.entries:
            raise Malformed(f'the id is not in {self.file.name}', repr(entry.id))
        found = self.entries[entry.id]
        if len(found.sequence) != len(entry.sequence):
            raise Malformed(f'a sequence and its {self.what} differ in length', f'{len(entry.sequence):,} and '
                            f'{len(found.sequence):,}, in line {found.number} of {self.file.name}')
        return found

    def summary(self):
        unused = len(self.entries.keys() - self.used)
        return self.file.summary(len(self.entries)) + (f', {unused:,} without a sequence' if unused else '')


def companions(options):
    """The label file and the mask file that the config names."""
    named = ('data.label_file', options.label_file, 'labels'), ('data.mask_file', options.mask_file, 'mask')
    return [Companion(File(path, options.on_error, field, options.encoding), what) for field, path, what in named if path]


def read_fasta(file, options, beside=()):
    """(number, Record or Malformed) of every entry. beside: the `companions`; without them the target is in the header."""
    seen = {}
    for number, entry in _entries(file):
        try:
            sound(entry)
            if beside:
                _note(seen, entry)
                for companion in beside:
                    companion.used.add(entry.id)
                facts, target = _labels(*(companion.of(entry) for companion in beside))
                entry = dataclasses.replace(entry, facts={**entry.facts, **facts})
            else:
                target = entry.fact(options.target_column, 'target')
            if target is None:
                raise Malformed('the header has neither TARGET=... nor LABEL=...')
            yield number, Record(entry.sequence, target, entry.fact(options.split_column, 'split'),
                                 entry.fact('', 'validation'))
        except Malformed as problem:
            yield number, problem


def _labels(labels, mask=None):
    """What the header of the labels says, and a label for every step: None where the mask has 0."""
    if mask is None:
        return labels.facts, tuple(labels.sequence)
    return labels.facts, tuple(label if counts == '1' else None for label, counts in zip(labels.sequence, mask.sequence))


def _note(entries, entry):
    """Puts an entry with the others; an id may be there once."""
    if entry.id in entries:
        raise Malformed('the id is there twice', f'{entry.id!r}, first in line {entries[entry.id].number}')
    entries[entry.id] = entry


def _entries(file):
    """(number of its first line, Entry) of every entry, or (number, Malformed) of its first malformed line."""
    begun, header, sequence, problem = None, None, [], None
    for number, text in with_end(file.lines()):
        if text is not None and file.is_blank(text):
            continue
        if text is None or not isinstance(text, Malformed) and text.startswith('>'):
            if problem:
                yield problem
            elif header is not None:
                yield begun, _entry(begun, header, ''.join(sequence))
            begun, header, sequence, problem = number, text, [], None
        elif isinstance(text, Malformed):
            problem = problem or (number, text)
        elif header is None:
            problem = problem or (number, Malformed("has no header before it, a line that begins with '>'"))
        else:
            sequence.append(''.join(text.split()))


def _entry(number, header, sequence):
    words = header[1:].split()
    if not words or header[1].isspace():
        return Malformed('the header has no id')
    return Entry(number, words[0], dict(word.split('=', 1) for word in words[1:] if '=' in word), sequence)
