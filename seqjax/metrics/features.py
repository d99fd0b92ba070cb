"""Whether features still tell rows apart: their spread, their effective rank, and a sentence where they have collapsed.

features: [N, D], a vector a row.
"""

from collections.abc import Mapping
import math

import numpy as np
from numpy.typing import ArrayLike

FLAT, FEW, GUESSED = 0.02, 1.5, 0.005  # feature_std, effective rank, and the share of the level of guessing that is no progress


def feature_std(features: ArrayLike) -> float:
    """How far features of length 1 are spread: 0 where all are the same, and 1 where they point everywhere alike.

        sqrt(sum_d var(x_d / |x|)),      which is 1 - |mean of x / |x||^2 under the root

    Chen & He 2021 (SimSiam, section 4.1) watch the same number, divided by sqrt(D).
    """
    x = np.asarray(features, np.float64)
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return float(np.sqrt(unit.var(axis=0).sum()))


def effective_rank(features: ArrayLike) -> float:
    """exp of the entropy of the singular values of the centred features, each as a part of their sum: 1 to min(N - 1, D).

    Roy & Vetterli 2007, "The effective rank". 1 where nothing varies at all.
    """
    x = np.asarray(features, np.float64)
    x = x - x.mean(axis=0)
    gram = x.T @ x if x.shape[1] <= x.shape[0] else x @ x.T
    values = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
    if values.sum() <= 1e-9 * max(1.0, float(np.abs(np.asarray(features)).max(initial=0.0))):
        return 1.0
    p = values / values.sum()
    p = p[p > 0]
    return float(np.exp(-(p * np.log(p)).sum()))


def collapsed(numbers: Mapping[str, float]) -> str:
    """What is wrong with features, as one sentence; '' where nothing is.

    numbers: of an evaluation: 'feature_std' and 'feature_rank'; 'loss' with 'guessing', the loss of a network that knows
    nothing; of self-distillation 'target_entropy' and 'mean_target_entropy', and there a loss like that
    of guessing or above is no fault: the targets are sharp, and other ones. What is not there is not judged.
    """
    std, rank, loss = (numbers.get(name) for name in ('feature_std', 'feature_rank', 'loss'))
    guessing, entropy, of_mean = (numbers.get(name) for name in ('guessing', 'target_entropy', 'mean_target_entropy'))
    if any(value is not None and not math.isfinite(value) for value in (std, rank, loss)):
        return 'collapsed: features or loss are not finite'
    if std is not None and std < FLAT:
        return f'collapsed: all rows have nearly the same features (feature_std {std:.4f}; 1 is spread evenly)'
    if rank is not None and rank < FEW:
        return f'collapsed: features vary in one direction only (effective rank {rank:.2f})'
    if None not in (entropy, guessing) and entropy > (1 - GUESSED) * guessing:
        return f'collapsed: the targets are uniform (entropy {entropy:.4f}, that of all outputs alike is {guessing:.4f})'
    if None not in (of_mean, guessing) and of_mean < FLAT * guessing:
        return f'collapsed: all rows have the same target (entropy of their mean {of_mean:.4f})'
    if None in (loss, guessing) or entropy is not None:
        return ''
    if abs(loss - guessing) < GUESSED * guessing:
        return f'nothing is learned: the loss is that of guessing ({loss:.4f}, guessing {guessing:.4f})'
    if loss > guessing:
        return (f'worse than guessing: the loss is {loss:.4f}, guessing {guessing:.4f}; overfitting, or too '
                'high a learning rate')
    return ''
