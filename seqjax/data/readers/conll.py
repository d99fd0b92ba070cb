"""CoNLL: a word a line with its labels in columns, and a blank line after every sentence."""

from seqjax.data.readers.columns import Record, place
from seqjax.data.readers.lines import Malformed, plural, sound, with_end

CONLLU = ('ID', 'FORM', 'LEMMA', 'UPOS', 'XPOS', 'FEATS', 'HEAD', 'DEPREL', 'DEPS', 'MISC')


def read_conll(file, options):
    """Columns between white space, the same number in the whole file; the first is the word and the last its label."""
    places = None

    def word(text, _):
        nonlocal places
        cells = text.split()
        if cells[0] == '-DOCSTART-':  # CoNLL-2003 marks where a document begins
            file.left_out['document mark'] += 1
            return None
        if places is None:
            _check_columns(cells, max(2, len(cells)))
            places = (len(cells), place(file, options, 'input', (), len(cells), 0),
                      place(file, options, 'target', (), len(cells), len(cells) - 1))
        needed, form, label = places
        _check_columns(cells, needed)
        return cells[form], cells[label]

    return _sentences(file, word)


def read_conllu(file, options):
    """Ten columns between tabs; a FORM may have spaces. Of a word such as "don't" the parts are read, which have labels."""
    form = place(file, options, 'input', CONLLU, len(CONLLU), CONLLU.index('FORM'))
    label = place(file, options, 'target', CONLLU, len(CONLLU), CONLLU.index('UPOS'))

    def word(text, before):
        if text.startswith('#'):
            file.left_out['comment'] += 1
            return None
        cells = text.split('\t')
        _check_columns(cells, len(CONLLU))
        for sign, what in ('-', 'multiword range'), ('.', 'empty node'):
            begin, found, end = cells[0].partition(sign)
            if found and begin.isdecimal() and end.isdecimal():
                file.left_out[what] += 1
                return None
        if cells[0] != str(before + 1):
            raise Malformed('the words of a sentence are not numbered 1, 2, 3, ...', f'{cells[0]!r} comes after {before}')
        for what, cell in ('word', cells[form]), ('label', cells[label]):
            if not cell.strip():
                raise Malformed(f'the {what} is empty')
        return cells[form], cells[label]

    return _sentences(file, word)


def _sentences(file, word):
    """(number of its first word's line, Record) of every sentence, or (number, Malformed) of its first malformed line.

    word(text, words before it) -> (word, label), or None for a line that is no word.
    """
    begun, words, problem = None, [], None
    for number, text in with_end(file.lines()):
        if text is None or not isinstance(text, Malformed) and not text.strip():
            if problem:
                yield problem
            elif words:
                yield begun, Record(*map(tuple, zip(*words)))
            begun, words, problem = None, [], None
        elif not problem:
            try:
                made = word(sound(text), len(words))
            except Malformed as error:
                problem = number, error
                continue
            if made:
                begun = begun or number
                words.append(made)


def _check_columns(cells, needed):
    if len(cells) != needed:
        raise Malformed(f'has {plural(len(cells), "column")} and {needed} are needed')
