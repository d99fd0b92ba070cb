"""Evaluation on the held-out split: sums over all batches, divided once."""

import jax

STEPS_IN_FLIGHT = 16


def evaluate_state(parts, eval_step, state, *, stop=lambda: False, seen=lambda batch: None):
    """Means over the whole held-out split, or None when `stop()` says so on the way.

    A carried state goes from batch to batch here too. What it holds before the first does not matter: there every row
    starts anew.
    """
    total, carry = None, state.carry
    for number in range(len(parts.evaluation)):
        if stop():
            return None
        carry, sums = eval_step(state.replace(carry=carry), parts.strategy.place(parts.evaluation[number]))
        total = sums if total is None else jax.tree.map(lambda a, b: a + b, total, sums)
        if number % STEPS_IN_FLIGHT == 0:
            jax.block_until_ready(total)
        seen(number + 1)
    means = parts.strategy.read(total).means()
    return parts.task.summary({name: float(value) for name, value in means.items()})
