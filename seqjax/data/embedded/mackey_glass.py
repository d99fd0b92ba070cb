"""The Mackey-Glass series: a chaotic curve to be forecast, from a differential equation with a delay (Mackey & Glass 1977).

    dx/dt = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x(t)

by the fourth-order Runge-Kutta method in steps of 0.1, a value a unit of time. What was 17 units ago decides what comes next,
so that a forecast needs memory. The last tenth is the test part, `held_out` of the rest the validation part.
"""

import numpy as np

from seqjax.data.readers.examples import Example, Examples

VALUES, DELAY, STEPS = 20_000, 17, 10
SETTLING = 500  # values at the start that are left out
TEST = 0.1


def mackey_glass_examples(task, *, held_out, seed):
    """One series [20000, 1] in three parts; `seed` draws where it begins."""
    del task
    values = mackey_glass(VALUES + SETTLING, 0.5 + np.random.default_rng(seed).random())[SETTLING:, None]
    test = round(VALUES * (1 - TEST))
    validation = round(test * (1 - held_out))
    cut = lambda begin, end: [Example(values[max(0, begin - 1):end], 0.0)]
    return Examples(cut(0, validation), cut(validation, test), cut(test, VALUES), f'Mackey-Glass series of {VALUES:,} values')


def mackey_glass(count, begin):
    """[count] values of float32; begin: the value before the first one, and all before it."""
    late = DELAY * STEPS
    x = np.full(late + count * STEPS + 1, begin, np.float64)
    h = 1 / STEPS
    for i in range(late, len(x) - 1):
        now, then = 0.2 * x[i - late] / (1 + x[i - late] ** 10), 0.2 * x[i - late + 1] / (1 + x[i - late + 1] ** 10)
        between = (now + then) / 2  # the delayed term halfway through the step
        k1 = now - 0.1 * x[i]
        k2 = between - 0.1 * (x[i] + h / 2 * k1)
        k3 = between - 0.1 * (x[i] + h / 2 * k2)
        k4 = then - 0.1 * (x[i] + h * k3)
        x[i + 1] = x[i] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x[late + STEPS::STEPS][:count].astype(np.float32)
