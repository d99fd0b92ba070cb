"""Generated peptides: how amphipathic they are, one number for a sequence of amino acids, or the structure of every residue.

A helix turns by 100 degrees from residue to residue. Where hydrophobic residues come every three or four, one side of it is
oily and the other is not, and it lies down on a membrane. How much so is its mean hydrophobic moment (Eisenberg, Weiss &
Terwilliger 1982):

    mu = |sum_n H_n exp(i 100 deg n)| / N

The target is the largest moment of any eleven residues in a row: their order decides it, more than which they are. H is the
normalised consensus scale of Eisenberg, Schwarz, Komaromy & Wall 1984. For tagging the target is the secondary structure of
every residue, by the rules in `chou_fasman.py`.
"""

import numpy as np

from seqjax.data.embedded.chou_fasman import structure
from seqjax.data.embedded.parts import three_parts
from seqjax.data.readers.examples import Example, Examples
from seqjax.tasks import TASKS

PEPTIDES = 12_000
SHORTEST, LONGEST = 8, 40
WINDOW = 11
TURN = np.deg2rad(100)
HYDROPHOBICITY = dict(
    A=0.62, R=-2.53, N=-0.78, D=-0.90, C=0.29, Q=-0.85, E=-0.74, G=0.48, H=-0.40, I=1.38,
    L=1.06, K=-1.50, M=0.64, F=1.19, P=0.12, S=-0.18, T=-0.05, W=0.81, Y=0.26, V=1.08)
RESIDUES = sorted(HYDROPHOBICITY, key=HYDROPHOBICITY.get)


def peptide_examples(task, *, held_out, seed):
    """Peptides and their largest moments, or their structures. Peptide i is a function of (seed, i)."""
    answer = structure if TASKS[task].per_step else largest_moment

    def examples(part):
        peptides = (random_peptide(np.random.default_rng((seed, i))) for i in part)
        return [Example(peptide, answer(peptide)) for peptide in peptides]

    parts = map(examples, three_parts(range(PEPTIDES), held_out))
    return Examples(*parts, f'{PEPTIDES:,} generated peptides of {SHORTEST} to {LONGEST} residues')


def random_peptide(rng):
    """Residues by chance, put in an order between chance and a helix with two sides.

    Places are sorted by how far they are on one side of the helix, cos(100 deg n + phase), plus noise of a strength drawn
    for the peptide; the least hydrophobic residue goes to the first of them, and so on.
    """
    T = rng.integers(SHORTEST, LONGEST + 1)
    residues = np.sort(rng.integers(len(RESIDUES), size=T))
    side = np.cos(TURN * np.arange(T) + rng.uniform(0, 2 * np.pi))
    places = np.argsort(side + rng.uniform(0, 2) * rng.normal(size=T))
    return ''.join(RESIDUES[residue] for residue in residues[np.argsort(places)])


def largest_moment(peptide):
    """The largest mean hydrophobic moment of any WINDOW residues in a row; of all, where there are fewer."""
    values = np.array([HYDROPHOBICITY[residue] for residue in peptide])
    turns = np.exp(1j * TURN * np.arange(min(WINDOW, len(values))))
    return float(np.abs(np.convolve(values, turns, 'valid')).max() / len(turns))
