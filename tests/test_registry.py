"""A registry finds by name, suggests near names, and refuses to replace one thing by another."""

import pytest

from seqjax.errors import FieldError
from seqjax.registry import Registry


def make(name):
    return type(name, (), {})


def test_things_are_found_by_name_in_the_order_of_registration():
    cells = Registry('cell', {'lstm': 1, 'gru': 2})
    assert cells.register('mine', 3) == 3 and cells['mine'] == 3
    assert list(cells) == ['lstm', 'gru', 'mine'] and len(cells) == 3
    assert 'mine' in cells and 'other' not in cells and cells.get('other') is None


def test_it_decorates_and_an_experiment_file_may_be_run_twice():
    cells = Registry('cell')
    first, again = make('Cell'), make('Cell')
    assert cells.register('mine')(first) is first
    assert cells.register('mine')(again) is again and cells['mine'] is again


def test_an_unknown_name_is_answered_with_a_near_one():
    with pytest.raises(FieldError, match="cell='lsmt': no such cell; did you mean 'lstm'?"):
        Registry('cell', {'lstm': 1})['lsmt']


def test_a_name_that_is_taken_is_refused():
    cells = Registry('cell', {'lstm': make('LSTM')})
    with pytest.raises(FieldError, match="cell='lstm': is registered already, for .*LSTM; choose another"):
        cells.register('lstm')(make('Other'))
