"""Peptides: the published scale, the moment as a plain loop, and a target that the order of the residues decides."""

import math

import numpy as np
import pytest

from seqjax.data.embedded.peptides import HYDROPHOBICITY, largest_moment, peptide_examples, random_peptide

# AAindex EISD840101: the same consensus in kcal/mol (Eisenberg 1984, Annual Review of Biochemistry 53, 595).
NOT_NORMALISED = dict(
    A=0.25, R=-1.76, N=-0.64, D=-0.72, C=0.04, Q=-0.69, E=-0.62, G=0.16, H=-0.40, I=0.73, L=0.53, K=-1.10, M=0.26, F=0.61,
    P=-0.07, S=-0.26, T=-0.18, W=0.37, Y=0.02, V=0.54)


@pytest.fixture(scope='module')
def peptides():
    return peptide_examples('regression', held_out=0.1, seed=0)


def parts(examples):
    return examples.train, examples.validation, examples.test


def ranks(values):
    return np.argsort(np.argsort(values))


def test_the_scale_is_the_published_consensus_normalised():
    values = np.array([HYDROPHOBICITY[residue] for residue in NOT_NORMALISED])
    assert values.mean() == pytest.approx(0, abs=0.01) and values.std() == pytest.approx(1, abs=0.03)
    other = np.array(list(NOT_NORMALISED.values()))
    normalised = (other - other.mean()) / other.std(ddof=1)
    np.testing.assert_allclose(values, normalised, atol=0.03)
    assert list(ranks(values)) == list(ranks(other))
    assert (HYDROPHOBICITY['I'], HYDROPHOBICITY['A'], HYDROPHOBICITY['R']) == (1.38, 0.62, -2.53)


def test_the_moment_is_that_of_a_plain_loop(peptides):
    for example in peptides.validation[:200]:
        moments = []
        for start in range(max(1, len(example.inputs) - 10)):
            window = example.inputs[start:start + 11]
            sines = sum(HYDROPHOBICITY[residue] * math.sin(math.radians(100 * n)) for n, residue in enumerate(window))
            cosines = sum(HYDROPHOBICITY[residue] * math.cos(math.radians(100 * n)) for n, residue in enumerate(window))
            moments.append(math.hypot(sines, cosines) / len(window))
        assert example.target == pytest.approx(max(moments), abs=1e-12)


@pytest.mark.parametrize('residue', HYDROPHOBICITY)
@pytest.mark.parametrize('T', [8, 11, 30])
def test_a_peptide_of_one_residue_has_the_moment_of_a_geometric_sum(residue, T):
    N = min(T, 11)
    expected = abs(HYDROPHOBICITY[residue] * math.sin(math.radians(50 * N)) / math.sin(math.radians(50))) / N
    assert largest_moment(residue * T) == pytest.approx(expected, abs=1e-12)


def test_a_helix_with_two_sides_has_a_large_moment_in_whichever_direction_it_is_read(peptides):
    sides = ''.join('L' if math.cos(math.radians(100 * n)) > 0 else 'K' for n in range(22))
    assert largest_moment(sides) > 0.7 > 0.4 > largest_moment(''.join(sorted(sides)))
    for example in peptides.test[:100]:
        assert largest_moment(example.inputs[::-1]) == pytest.approx(example.target, abs=1e-12)


def test_peptide_i_depends_on_seed_and_i_alone(peptides, monkeypatch):
    examples = [example for part in parts(peptides) for example in part]
    assert [random_peptide(np.random.default_rng((0, i))) for i in (0, 7, 11_999)] == [
        examples[i].inputs for i in (0, 7, 11_999)]
    monkeypatch.setattr('seqjax.data.embedded.peptides.PEPTIDES', 500)  # fewer, and cut elsewhere, are the same
    other = peptide_examples('regression', held_out=0.3, seed=0)
    assert [example for part in parts(other) for example in part] == examples[:500]
    assert peptide_examples('regression', held_out=0.1, seed=1).train[0] != examples[0]


def test_peptides_are_ragged_and_different(peptides):
    assert list(map(len, parts(peptides))) == [9720, 1080, 1200]
    examples = [example for part in parts(peptides) for example in part]
    assert len({example.inputs for example in examples}) == len(examples)
    assert {len(example.inputs) for example in examples} == set(range(8, 41))
    assert {residue for example in examples for residue in example.inputs} == set('ACDEFGHIKLMNPQRSTVWY')
    targets = np.array([example.target for example in examples])
    assert all(type(example.target) is float for example in examples)
    assert targets.min() >= 0 and 0.15 < targets.std() and 0.5 < targets.mean() < 0.65


def test_which_residues_there_are_does_not_tell_the_moment(peptides):
    """Least squares on the composition: the correlation of ranks with the truth stays far from 1."""
    def composition(part):
        return np.array([[1, len(example.inputs), *(example.inputs.count(residue) / len(example.inputs)
                                                    for residue in HYDROPHOBICITY)] for example in part])

    weights = np.linalg.lstsq(composition(peptides.train), [example.target for example in peptides.train], rcond=None)[0]
    guesses, truth = composition(peptides.test) @ weights, [example.target for example in peptides.test]
    assert 0.4 < np.corrcoef(ranks(guesses), ranks(truth))[0, 1] < 0.75
