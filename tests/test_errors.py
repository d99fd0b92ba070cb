"""Errors read as one sentence that names the thing, its value and the way out."""

import pytest

from seqjax.errors import FieldError, UserError, suggestion


@pytest.mark.parametrize('word, known, hint', [
    ('stesp', ['steps', 'seed'], "did you mean 'steps'?"),
    ('zzz', ['steps', 'seed'], 'choose one of: seed, steps'),
    ('gtp', {'gpt': 1, 'lstm': 2}, "did you mean 'gpt'?"),
    ('', ['b', 'a'], 'choose one of: a, b'),
])
def test_a_suggestion_is_the_nearest_name_or_all_of_them_in_order(word, known, hint):
    assert suggestion(word, known) == hint


@pytest.mark.parametrize('field, value, reason, sentence', [
    ('heads', 5, 'must divide width=128', 'heads=5: must divide width=128'),
    ('name', 'gtp', 'no such model', "name='gtp': no such model"),
    ('b1', None, 'is missing', 'b1=None: is missing'),
])
def test_a_field_error_is_a_user_error_that_names_field_value_and_reason(field, value, reason, sentence):
    error = FieldError(field, value, reason)
    assert str(error) == sentence
    assert (error.field, error.value, error.reason) == (field, value, reason)
    assert isinstance(error, UserError)
