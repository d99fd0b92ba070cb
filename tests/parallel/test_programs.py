"""One program for every shape of batch, compiled once, counted, and reported where there are more than declared."""

import types

import jax.numpy as jnp
import pytest

from seqjax import parallel
from seqjax.parallel.strategies import Program


class Counting:
    """Compiles nothing; remembers what it was asked to."""

    def __init__(self):
        self.compiled = []

    def compile(self, function, state, batch, *, updates_state):
        self.compiled.append(batch['x'].shape)
        return Program(function, types.SimpleNamespace(size=batch['x'].size))


def batch(rows):
    return dict(x=jnp.ones((rows, 2)))


@pytest.fixture
def made():
    strategy, said = Counting(), []
    programs = parallel.Programs(strategy, lambda state, batch: (state, batch['x'].shape), updates_state=False, declared=2,
                                 report=said.append)
    return strategy, said, programs


def test_a_shape_is_compiled_once_and_more_than_declared_are_reported(made):
    strategy, said, programs = made
    for rows in (3, 4, 3, 4, 3):
        assert programs('state', batch(rows)) == ('state', (rows, 2))
    assert strategy.compiled == [(3, 2), (4, 2)] and len(programs) == 2 and said == []
    assert programs.knows(batch(4)) and not programs.knows(batch(5))
    programs('state', batch(5))
    assert said == ["warning: compilation 3 of a step that declared 2, for {'x': (5, 2)}"]


def test_preparing_is_no_call_and_a_cost_is_the_mean_over_calls(made):
    _, _, programs = made
    programs.prepare('state', batch(1))
    assert programs.mean_cost(lambda jaxpr: jaxpr.size) is None
    for rows in (3, 3, 3, 5):
        programs('state', batch(rows))
    assert programs.mean_cost(lambda jaxpr: jaxpr.size) == (3 * 6 + 10) / 4


def test_a_strategy_that_shows_no_jaxpr_has_no_cost(made):
    strategy, _, programs = made
    strategy.compile = lambda function, state, batch, updates_state: Program(function)
    programs('state', batch(1))
    assert programs.mean_cost(len) is None
