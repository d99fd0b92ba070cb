"""Exact search against looking at every sequence there is."""

import itertools

import jax
import numpy as np
import pytest

from seqjax.decode import Exact, NoRepeat, Prefix, Problem
from seqjax.errors import FieldError
from tests.reference import tabular

T, END, V = 4, tabular.END, tabular.V
step = jax.jit(tabular.step)


def everything(seed):
    """(tokens, log P) of all that end within T tokens, and of all of T tokens that do not."""
    for length in range(1, T + 1):
        for tokens in itertools.product(range(V), repeat=length):
            if END not in tokens[:-1] and (tokens[-1] == END or length == T):
                yield tokens, sum(tabular.log_probs(seed, tokens[:t])[token] for t, token in enumerate(tokens))


def find(seed, constraints=(), **options):
    found = Exact(**options).solve(Problem(step, *tabular.begin([seed]), T, END, constraints=constraints))
    return [(tuple(tokens[:n].tolist()), *values) for tokens, n, *values in zip(*(leaf[0] for leaf in found))]


def assert_same(found, expected):
    assert [tokens for tokens, *_ in found] == [tokens for tokens, *_ in expected]
    np.testing.assert_allclose([values for _, *values in found], [values for _, *values in expected], rtol=1e-5)


@pytest.mark.parametrize('length_penalty', [0.0, 0.7, 5.0, -1.0])
def test_the_n_best_are_those_of_all_sequences(length_penalty):
    for seed in (11, 1234, 77):
        ranked = [(tokens, value / ((5 + len(tokens)) / 6) ** length_penalty, value) for tokens, value in everything(seed)]
        ranked.sort(key=lambda one: -one[1])
        assert_same(find(seed, length_penalty=length_penalty, n_best=7), ranked[:7])


def test_constraints_leave_the_best_of_what_keeps_to_them():
    kept = [(tokens, value, value) for tokens, value in everything(5)
            if tokens[0] == 1 and len(set(tokens)) == len(tokens)]
    kept.sort(key=lambda one: -one[1])
    constraints = NoRepeat(1), Prefix(np.int32([[1]]), np.int32([1]))
    assert_same(find(5, constraints=constraints, n_best=4), kept[:4])


def test_all_of_them_and_no_more():
    found = find(9, n_best=400)
    number = sum(4 ** n for n in range(T)) + 4 ** T
    assert len({tokens for tokens, *_ in found[:number]}) == number
    assert all(tokens == () and score == log_prob == -np.inf for tokens, score, log_prob in found[number:])
    assert sum(np.exp(log_prob) for *_, log_prob in found) == pytest.approx(1, abs=1e-5)


def test_too_few_expansions_no_tokens_and_several_rows_are_refused():
    with pytest.raises(FieldError, match='^max_length=0: must be at least 1$'):
        Exact().solve(Problem(step, *tabular.begin([1]), 0, END))
    with pytest.raises(FieldError, match='^expansions=2: are not enough to be sure of the 5 best; allow more, or write a'):
        find(11, n_best=5, expansions=2)
    with pytest.raises(ValueError, match='exact search takes one row, and here are 2; call it once for each'):
        Exact().solve(Problem(step, *tabular.begin([1, 2]), T, END))
