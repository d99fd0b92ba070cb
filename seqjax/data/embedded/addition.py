"""Sums of two numbers, digit by digit: what a model can learn of arithmetic from examples (Zaremba & Sutskever 2014).

    123+45 -> 168

Numbers have one to three digits, each as often as the others but for this: a sum is there once, in one order of its two
numbers, so that no held-out sum was seen in training the other way round. There are few of small numbers.
"""

import numpy as np

from seqjax.data.readers.examples import Example, Examples

TRAIN, HELD_OUT, DIGITS = 200_000, 1_000, 3


def addition_examples(task, *, seed):
    """Different sums, drawn and dealt out by `seed`; of validation and test sums HELD_OUT each."""
    del task  # one task, and parts of these sizes
    rng = np.random.default_rng(seed)
    numbers = np.empty((0, 2), int)
    while len(numbers) < TRAIN + 2 * HELD_OUT:
        below = 10 ** rng.integers(1, DIGITS + 1, (8 * TRAIN, 2))
        numbers = _without_repeats(np.concatenate([numbers, rng.integers(below)]))
    numbers = rng.permutation(numbers[:TRAIN + 2 * HELD_OUT])  # small numbers come early: there are few
    examples = [Example(f'{a}+{b}', str(a + b)) for a, b in numbers.tolist()]
    return Examples(examples[2 * HELD_OUT:], examples[:HELD_OUT], examples[HELD_OUT:2 * HELD_OUT],
                    f'sums of numbers of up to {DIGITS} digits, each there once')


def _without_repeats(numbers):
    """The pairs [N, 2] in their order, without those that were there before in either order."""
    smaller, larger = numbers.min(axis=1), numbers.max(axis=1)
    _, first = np.unique(smaller * 10 ** DIGITS + larger, return_index=True)
    return numbers[np.sort(first)]
