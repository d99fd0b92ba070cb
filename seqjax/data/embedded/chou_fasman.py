"""Secondary structure by the rules of Chou & Fasman (1978): a published map from residues to structure.

    helix 'H'     starts where four of six residues in a row are formers, P_a >= 1.03, with a mean P_a >= 1.03
    strand 'E'    starts where three of five residues in a row are formers, P_b >= 1.05, with a mean P_b >= 1.05
    both          grow in both directions while the mean propensity of the next four residues is at least 1.00
    an overlap    belongs to the structure whose mean propensity over it is larger
    coil 'C'      is the rest

Chou, P. Y. & Fasman, G. D., Adv. Enzymol. 47, 45-148; turns are left out. The rules are right for about half of the
residues of real proteins. What makes them useful here is that the label of a residue depends on its neighbours, on both
sides and some way off.
"""

import itertools

# Propensities times 100, P_a (helix) and P_b (strand).
HELIX = dict(A=142, R=98, N=67, D=101, C=70, E=151, Q=111, G=57, H=100, I=108, L=121, K=114, M=145, F=113, P=57, S=77, T=83,
             W=108, Y=69, V=106)
STRAND = dict(A=83, R=93, N=89, D=54, C=119, E=37, Q=110, G=75, H=87, I=160, L=130, K=74, M=105, F=138, P=55, S=75, T=119,
              W=137, Y=147, V=170)
GROWS = 4  # residues whose mean propensity lets a structure grow


def structure(peptide):
    """'MKV...' -> a tuple of 'H', 'E' and 'C', one for every residue."""
    helix, strand = [HELIX[residue] for residue in peptide], [STRAND[residue] for residue in peptide]
    in_helix = _region(helix, former=103, length=6, enough=4)
    in_strand = _region(strand, former=105, length=5, enough=3)
    labels = ['H' if h else 'E' if e else 'C' for h, e in zip(in_helix, in_strand)]
    both = [h and e for h, e in zip(in_helix, in_strand)]
    for overlaps, run in itertools.groupby(range(len(peptide)), key=both.__getitem__):
        if overlaps:
            places = list(run)
            stronger = 'H' if sum(helix[i] for i in places) >= sum(strand[i] for i in places) else 'E'
            for i in places:
                labels[i] = stronger
    return tuple(labels)


def _region(propensity, *, former, length, enough):
    """[T] of booleans: where the structure is."""
    T, inside = len(propensity), [False] * len(propensity)
    totals = [0, *itertools.accumulate(propensity)]
    formers = [0, *itertools.accumulate(value >= former for value in propensity)]
    grows = [totals[t + GROWS] - totals[t] >= 100 * GROWS for t in range(T - GROWS + 1)]  # through the four from t on
    right, left = list(range(T + 1)), list(range(T + 1))  # how far a structure grows that ends, or starts, at a place
    for t in range(T - GROWS, -1, -1):
        right[t] = right[t + 1] if grows[t] else t
    for t in range(GROWS, T + 1):
        left[t] = left[t - 1] if grows[t - GROWS] else t
    for start in range(T - length + 1):
        end = start + length
        if formers[end] - formers[start] >= enough and totals[end] - totals[start] >= former * length:
            inside[left[start]:right[end]] = [True] * (right[end] - left[start])
    return inside
