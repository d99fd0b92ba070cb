"""Which examples are held out, where a source does not say: a function of their order, their labels and a seed."""

import collections
from collections.abc import Sequence
import random

from seqjax.data.source import picked, targets_of
from seqjax.errors import UserError
from seqjax.tasks import TASKS


def hold_out(examples, task, *, part, seed):
    """(training examples, held-out examples), each in the order they came in; of all of them `part` is held out.

    Classification holds out the same part of every class, as nearly as whole examples allow; the others are shuffled. Every
    label keeps at least one training example.
    """
    order, targets = _order(len(examples), seed), targets_of(examples)
    size = max(1, round(len(examples) * part))
    if TASKS[task].target == 'class':
        chosen = _stratified(order, targets, size)
    elif TASKS[task].per_step:
        chosen = _keeping_labels(order, targets, size)
    else:
        chosen = set(order[:min(size, len(order) - 1)])
    if not chosen:
        raise UserError(f'nothing can be held out of a training part of {len(examples):,}: one of every label must stay '
                        'in it; give a validation part')
    return (picked(examples, [i for i in range(len(examples)) if i not in chosen]), picked(examples, sorted(chosen)))


def drawn(examples, count, *, seed):
    """So many of the examples, in the order they came in; of fewer, each is also among more with the same seed."""
    return picked(examples, sorted(_order(len(examples), seed)[:count]))


def drawn_per_class(examples: Sequence, count: int, *, seed: int) -> Sequence:
    """`count` examples of every class, in the order they came in; of fewer, each is also among more
    with the same seed."""
    targets, chosen, of_class = targets_of(examples), [], collections.Counter()
    for i in _order(len(examples), seed):
        if of_class[targets[i]] < count:
            of_class[targets[i]] += 1
            chosen.append(i)
    return picked(examples, sorted(chosen))


def _order(count, seed):
    """Numbers below `count` as a seed mixes them."""
    draw = random.Random(seed).random  # its numbers are the same in every version of Python, unlike those of shuffle
    return sorted(range(count), key=[draw() for _ in range(count)].__getitem__)


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
