"""Which examples are held out, where a source does not say: a function of their order, their labels and a seed."""

import collections
import random

from seqjax.errors import UserError
from seqjax.tasks import TASKS


def hold_out(examples, task, *, part, seed):
    """(training examples, held-out examples), each in the order they came in; of all of them `part` is held out.

    Classification holds out the same part of every class, as nearly as whole examples allow; the others are shuffled. Every
    label keeps at least one training example.
    """
    draw = random.Random(seed).random  # its numbers are the same in every version of Python, unlike those of shuffle
    order = sorted(range(len(examples)), key=[draw() for _ in examples].__getitem__)
    size = max(1, round(len(examples) * part))
    targets = [example.target for example in examples]
    if TASKS[task].target == 'class':
        chosen = _stratified(order, targets, size)
    elif TASKS[task].per_step:
        chosen = _keeping_labels(order, targets, size)
    else:
        chosen = set(order[:min(size, len(order) - 1)])
    if not chosen:
        raise UserError(f'nothing can be held out of a training part of {len(examples):,}: one of every label must stay '
                        'in it; give a validation part')
    return ([example for i, example in enumerate(examples) if i not in chosen],
            [example for i, example in enumerate(examples) if i in chosen])


def drawn(examples, count, *, seed):
    """So many of the examples, in the order they came in; of fewer, each is also among more with the same seed."""
    draw = random.Random(seed).random
    order = sorted(range(len(examples)), key=[draw() for _ in examples].__getitem__)
    return [examples[i] for i in sorted(order[:count])]


def _stratified(order, targets, size):
    """`size` places, shared out to the classes by their largest remainders."""
    members = collections.defaultdict(list)
    for i in order:
        members[targets[i]].append(i)
    shares = {label: min(len(of_label) * size / len(order), len(of_label) - 1) for label, of_label in members.items()}
    counts = {label: int(share) for label, share in shares.items()}
    for label in sorted(shares, key=lambda label: (counts[label] - shares[label], label)):
        if sum(counts.values()) < size and counts[label] < len(members[label]) - 1:
            counts[label] += 1
    return {i for label, of_label in members.items() for i in of_label[:counts[label]]}


def _keeping_labels(order, targets, size):
    """The first `size` places of the order, without those that have the last training example of a label."""
    left = collections.Counter(label for target in targets for label in set(target) - {None})
    chosen = set()
    for i in order:
        labels = set(targets[i]) - {None}
        if len(chosen) < min(size, len(order) - 1) and all(left[label] > 1 for label in labels):
            chosen.add(i)
            left.subtract(labels)
    return chosen
