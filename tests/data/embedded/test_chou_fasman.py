"""The rules of Chou and Fasman against a plain reading of them, and on peptides whose answer is plain."""

import random

import pytest

from seqjax.data.embedded import chou_fasman


def by_the_rules(propensity, former, length, enough):
    """Every nucleus is looked for, and grown residue by residue."""
    T, inside = len(propensity), [False] * len(propensity)
    for start in range(T - length + 1):
        nucleus = propensity[start:start + length]
        if sum(value >= former for value in nucleus) >= enough and sum(nucleus) / length >= former:
            first, end = start, start + length
            while first >= 4 and sum(propensity[first - 4:first]) / 4 >= 100:
                first -= 1
            while end + 4 <= T and sum(propensity[end:end + 4]) / 4 >= 100:
                end += 1
            inside[first:end] = [True] * (end - first)
    return inside


def test_structures_are_those_of_the_rules():
    rng = random.Random(0)
    for _ in range(300):
        peptide = rng.choices(sorted(chou_fasman.HELIX), k=rng.randint(1, 50))
        helix, strand = ([table[residue] for residue in peptide] for table in (chou_fasman.HELIX, chou_fasman.STRAND))
        in_helix, in_strand = by_the_rules(helix, 103, 6, 4), by_the_rules(strand, 105, 5, 3)
        found = chou_fasman.structure(''.join(peptide))
        for place, label in enumerate(found):
            both = in_helix[place] and in_strand[place]
            assert label in ('HE' if both else 'H' if in_helix[place] else 'E' if in_strand[place] else 'C')
            if both:  # the whole overlap has one label, that of the larger sum
                first = last = place
                while first and in_helix[first - 1] and in_strand[first - 1]:
                    first -= 1
                while last + 1 < len(found) and in_helix[last + 1] and in_strand[last + 1]:
                    last += 1
                assert label == ('H' if sum(helix[first:last + 1]) >= sum(strand[first:last + 1]) else 'E')


@pytest.mark.parametrize('peptide, expected', [
    ('EEEEEEEE', 'HHHHHHHH'), ('VVVVVVVV', 'EEEEEEEE'), ('GGGGGGGG', 'CCCCCCCC'), ('A', 'C'),
    ('GGGGGGEEEEEEGGGGGG', 'CCCCCCHHHHHHCCCCCC'), ('PPPPPVVVVVPPPPP', 'CCCCCEEEEECCCCC')])
def test_plain_cases(peptide, expected):
    found = ''.join(chou_fasman.structure(peptide))
    core = [place for place, residue in enumerate(peptide) if residue in 'EV']
    assert len(found) == len(peptide) and all(found[place] == expected[place] for place in core)
    assert found[0] == expected[0] and found[-1] == expected[-1]


def test_every_residue_has_both_propensities():
    assert sorted(chou_fasman.HELIX) == sorted(chou_fasman.STRAND) == sorted('ACDEFGHIKLMNPQRSTVWY')
