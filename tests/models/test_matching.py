"""The width with the closest number of parameters, against counting them all."""

import numpy as np
import pytest

from seqjax import models, nn
from seqjax.errors import FieldError

SAMPLE = np.zeros((1, 2, 3), np.float32)


def lstm_size(N):
    return 4 * N * (3 + N) + 4 * N


@pytest.mark.parametrize('parameters', [20, 30, 5_000, 5_100, 1_000_000])
def test_no_other_width_comes_closer(parameters):
    width = models.match_width(nn.LSTM, SAMPLE, parameters)
    error = lambda n: abs(lstm_size(n) - parameters)
    assert models.parameter_count(nn.LSTM(width), SAMPLE) == lstm_size(width)
    assert error(width) == min(error(n) for n in range(1, 600))


@pytest.mark.parametrize('name, fields', [
    ('conv', dict(depth=2)), ('attention', dict(heads=3)), ('gru', dict(bidirectional=True))])
def test_readers_of_all_kinds_come_close_with_few_looks(name, fields):
    made = []

    def make(width):
        made.append(width)
        return models.build('reader', vocabulary=50, encoder=name, width=width, **fields)

    width = models.match_width(make, np.zeros((1, 2), np.int32), 40_000, multiple=6)
    assert width % 6 == 0 and len(made) == len(set(made)) <= 12
    count = lambda width: models.parameter_count(make(width), np.zeros((1, 2), np.int32))
    best = abs(count(width) - 40_000)
    assert best < 0.15 * 40_000 and best <= min(abs(count(other) - 40_000) for other in (width - 6, width + 6))


def test_a_model_of_nothing_is_refused():
    with pytest.raises(FieldError, match='parameters=0: must be at least 1'):
        models.match_width(nn.LSTM, SAMPLE, 0)


def test_fewer_parameters_than_the_narrowest_model_has_are_refused():
    with pytest.raises(FieldError, match='^parameters=19: the narrowest model has 20; ask for more'):
        models.match_width(nn.LSTM, SAMPLE, 19)


@pytest.mark.parametrize('name, chosen, multiple', [
    ('gpt', dict(heads=3), 6), ('llama', dict(heads=4), 8), ('llama', dict(heads=4, head_width=6), 2), ('recurrent', {}, 1)])
def test_a_width_suits_heads_and_pairs(name, chosen, multiple):
    assert models.width_multiple(name, chosen) == multiple
    models.build(name, vocabulary=9, context_length=5, width=multiple, **chosen)
