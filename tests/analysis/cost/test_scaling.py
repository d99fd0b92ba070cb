"""Power laws: exact ones are found, noisy ones nearly, and what says nothing is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.analysis.cost import scaling
from seqjax.analysis.cost.complexity_plots import plot_costs
from seqjax.errors import FieldError

RNG = np.random.default_rng(0)
SIZES = scaling.star(dict(n=64, d=8, k=4), dict(n=(16, 32, 64, 128), d=(4, 8, 16), k=(2, 4, 8)))


def law(sizes, c, **exponents):
    return [c * np.prod([float(size[letter]) ** power for letter, power in exponents.items()]) for size in sizes]


@pytest.mark.parametrize('c, n, d, k', [(4.0, 2, 1, 0), (2e-9, 1, 2, 1), (0.3, -1.5, 0.25, 3), (7.0, 0, 0, 0)])
def test_an_exact_power_law_is_found(c, n, d, k):
    found = scaling.fit_power_law(SIZES, law(SIZES, c, n=n, d=d, k=k))
    np.testing.assert_allclose(list(found.exponents.values()), [n, d, k], atol=1e-12)
    np.testing.assert_allclose(found.coefficient, c, rtol=1e-10)
    assert list(found.exponents) == ['n', 'd', 'k'] and found.error < 1e-10


def test_noise_moves_it_a_little_and_shows_in_the_error():
    factors = np.exp(RNG.uniform(-0.1, 0.1, len(SIZES)))
    found = scaling.fit_power_law(SIZES, law(SIZES, 5, n=2, d=1, k=1) * factors)
    np.testing.assert_allclose(list(found.exponents.values()), [2, 1, 1], atol=0.15)
    assert 0.01 < found.error < 0.25


@pytest.mark.parametrize('sizes, values, sentence', [
    ([dict(n=1, d=1), dict(n=2, d=2)], [1, 2], 'do not tell n, d apart; vary each of them while the others stay'),
    ([dict(n=1)], [1], 'do not tell n apart'),
    ([dict(n=1), dict(n=2)], [1, 0], r'values=\[1, 0\]: a power law is of positive numbers'),
    ([dict(n=0), dict(n=2)], [1, 2], 'a power law is of positive numbers'),
    ([dict(n=1), dict(n=2)], [1], "must have the letters \\['n'\\] at each of 1 values"),
    ([dict(n=1), dict(d=2)], [1, 2], "must have the letters \\['n'\\] at each of 2 values"),
])
def test_what_says_nothing_is_refused(sizes, values, sentence):
    with pytest.raises(FieldError, match=sentence):
        scaling.fit_power_law(sizes, values)


def test_a_star_varies_one_letter_at_a_time_and_gives_its_lines_back():
    sizes = scaling.star(dict(n=2, d=16), dict(n=(1, 2, 4), d=(8, 16, 32)))
    assert [(size['n'], size['d']) for size in sizes] == [(1, 16), (2, 16), (4, 16), (2, 8), (2, 32)]
    assert [size['n'] for size in scaling.along(sizes, 'n')] == [1, 2, 4]
    assert [size['d'] for size in scaling.along(sizes, 'd')] == [8, 16, 32]


def test_measured_is_what_the_program_does(tmp_path):
    """x x^T, then a sum: 2 n^2 d operations, two in sequence, and a result of n numbers."""
    function = lambda x: jnp.tanh(x @ x.T).sum(axis=1)
    sizes = scaling.star(dict(n=64, d=8), dict(n=(32, 64), d=(8, 32)))
    cases = [scaling.Case(size, function, (jax.ShapeDtypeStruct((size['n'], size['d']), jnp.float32),)) for size in sizes]
    seen = []
    points = scaling.measure(cases, seconds=0.001, seen=lambda: seen.append(1))
    assert len(seen) == scaling.parts_of_work(cases)
    for size, point in zip(sizes, points):
        assert list(point) == ['n', 'd', *scaling.METRICS] and size.items() <= point.items()
        assert point['operations'] == 2 * size['n'] ** 2 * size['d'] and point['depth'] == 3
        assert 4 * size['n'] <= point['bytes'] <= 4 * (2 * size['n'] ** 2 + 4 * size['n'] * size['d'])
        assert 0 < point['seconds'] < 10
    exponents = scaling.fits(points, ('n', 'd'))['operations'].exponents
    np.testing.assert_allclose([exponents['n'], exponents['d']], [2, 1])
    plot_costs(dict(product=points), tmp_path / 'costs.png')
    assert (tmp_path / 'costs.png').stat().st_size > 10000


def test_what_is_too_large_is_counted_only_and_what_cannot_be_counted_is_none():
    case = lambda n: scaling.Case(dict(n=n), jnp.matmul, (jax.ShapeDtypeStruct((n, n), jnp.float32),) * 2)
    small, large = scaling.measure([case(4), case(2 ** 20)], seconds=0.001, most_operations=1000)
    assert small['seconds'] and small['bytes']
    assert large == dict(n=2 ** 20, operations=2 * 2 ** 60, seconds=None, bytes=None, depth=1)
    assert set(scaling.fits([small, large], ('n',))) == {'operations', 'depth'}
    loop = lambda x: jax.lax.while_loop(lambda x: x.sum() > 1e9, lambda x: x @ x, x)
    point, = scaling.measure([scaling.Case(dict(n=2), loop, (jnp.zeros((2, 2)),))], seconds=0.001)
    assert point['operations'] is None and point['depth'] is None and point['seconds'] > 0
