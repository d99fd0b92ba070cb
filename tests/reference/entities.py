"""Entities of IOB tags by a loop over the tokens."""


def spans(tags):
    """{(type, first, last)}, as conlleval.pl finds them: it looks at a tag and the one before it, and closes and opens."""
    split = lambda tag: ('O', '') if tag == 'O' else tuple(tag.split('-', 1))
    found, begin, before = set(), 0, ('O', '')
    for place, tag in enumerate([*map(split, tags), ('O', '')]):
        (p, kind_before), (t, kind) = before, tag
        closes = (p in 'ES' or p in 'BI' and t in 'BSO' or kind_before != kind) and p != 'O'
        opens = (t in 'BS' or p in 'ESO' and t in 'EI' or kind_before != kind) and t != 'O'
        if closes:
            found.add((kind_before, begin, place - 1))
        if opens:
            begin = place
        before = tag
    return found
