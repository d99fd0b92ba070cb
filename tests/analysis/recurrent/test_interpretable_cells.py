"""Features of a text, and finding the units that follow them."""

import pathlib

import numpy as np
import pytest

from seqjax.analysis.recurrent import interpretable_cells as cells


def digits(values):
    return ''.join(str(int(value)) for value in values)


@pytest.mark.parametrize('feature, text, expected', [
    ('line position', 'ab\n  c\nd', '12012301'),
    ('indentation', '  a b\n c', '12222011'),
    ('quotes', 'a="b"+c', '0011000'),
    ('quotes', "f('it\\'s')", '0011111100'),
    ('quotes', "don't say 'no'", '00000000001110'),
    ('quotes', "x = r'a'", '00000110'),
    ('quotes', '"""a"b"""c', '1111110000'),
    ('quotes', "'a\nb", '1100'),
    ('quotes', '# don"t\n"', '000000001'),
    ('quotes', "'\\", '11'),
    ('comment', 'a # b\nc', '0011100'),
    ('comment', "'#' #", '00001'),
    ('depth', 'f(a[1], {})', '01122111210'),
    ('depth', ')("(")', '011110'),
    ('depth', '# (\n(', '00001'),
])
def test_features_after_each_character(feature, text, expected):
    assert digits(cells.text_features(text)[feature]) == expected


@pytest.mark.parametrize('quotes', ['"""', "'''"])
def test_a_text_that_begins_inside_a_string_is_read_so(quotes):
    features = cells.text_features(f'end of it.{quotes}\ndef f(a):\n    return "b"\n')
    assert digits(features['quotes']) == '1' * 10 + '0' * 25 + '1100'


def test_the_end_of_a_line_is_seen_coming():
    np.testing.assert_allclose(cells.text_features('abc\nd')['line end'][:3], [1 / 3, 1 / 2, 1])


def test_all_features_have_a_value_for_every_character():
    text = pathlib.Path(cells.__file__).read_text('utf-8')
    features = cells.text_features(text)
    assert {len(values) for values in features.values()} == {len(text)}
    assert features['depth'][-1] == 0 and features['quotes'][-1] == 0


def test_correlations_are_pearsons():
    rng = np.random.default_rng(0)
    activations, marks = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    expected = np.corrcoef(activations.T, marks.T)[:3, 3:]
    np.testing.assert_allclose(cells.correlations(activations, dict(a=marks[:, 0], b=marks[:, 1])), expected, atol=1e-12)


def test_the_liveliest_part_is_where_features_change():
    quiet = np.zeros(100)
    lively = np.where((np.arange(100) >= 60) & (np.arange(100) < 80), np.arange(100) % 2, 0)
    assert 56 <= cells.liveliest(dict(a=quiet, b=lively), 20) <= 64
    assert cells.liveliest(dict(a=quiet), 200) == 0


def test_what_never_changes_follows_nothing():
    assert cells.correlations(np.ones((9, 1)), dict(a=np.arange(9))).tolist() == [[0]]
    assert cells.correlations(np.arange(9)[:, None], dict(a=np.full(9, 0.1))).tolist() == [[0]]


def test_a_planted_unit_is_found_and_the_table_names_it():
    features = cells.text_features('def f(a):\n    return [a, "b"]\n' * 20)
    activations = np.random.default_rng(0).normal(size=(len(features['depth']), 9))
    activations[:, 4] += -5 * features['depth']
    ranked = cells.rank(cells.correlations(activations, features), list(features))
    assert ranked[0][:2] == (4, 'depth') and ranked[0].correlation < -0.9
    assert abs(cells.typical(ranked).correlation) < 0.3
    assert cells.best_of_each_feature(cells.correlations(activations, features), list(features))[0] == ranked[0]
    assert cells.table(ranked[:1], label='h{}'.format).splitlines() == [
        'unit  feature            r', 'h4    depth          -0.92']
