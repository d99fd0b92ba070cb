"""What the embedded sets of labelled sequences share."""

import math


def three_parts(items, held_out):
    """The items for training, validation and testing, in their order.

    `held_out` of all are for testing, and `held_out` of the rest for validation.
    """
    test = len(items) - math.ceil(len(items) * held_out)
    validation = test - math.ceil(test * held_out)
    return items[:validation], items[validation:test], items[test:]
