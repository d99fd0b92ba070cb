"""Sums of two numbers, digit by digit: what a model can learn of arithmetic from examples (Zaremba & Sutskever 2014).

    123+45 -> 168

Numbers have one to three digits, each as often as the others but for this: a sum is there once, in one order of its two
numbers, so that no held-out sum was seen in training the other way round. There are few of small numbers.
"""

import random

from seqjax.data.examples import Example, Examples

TRAIN, HELD_OUT, DIGITS = 200_000, 1_000, 3


def addition_examples(task, *, held_out, seed):
    """Different sums, drawn and dealt out by `seed`; of validation and test sums HELD_OUT each."""
    del task, held_out  # one task, and parts of these sizes
    rng, sums = random.Random(seed), {}
    number = lambda: rng.randrange(10 ** rng.randint(1, DIGITS))
    while len(sums) < TRAIN + 2 * HELD_OUT:
        a, b = number(), number()
        sums.setdefault((min(a, b), max(a, b)), Example(f'{a}+{b}', str(a + b)))
    examples = list(sums.values())
    rng.shuffle(examples)  # small numbers come early: there are few
    return Examples(examples[2 * HELD_OUT:], examples[:HELD_OUT], examples[HELD_OUT:2 * HELD_OUT],
                    f'sums of numbers of up to {DIGITS} digits, each there once')
