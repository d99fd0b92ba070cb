"""Learning rates against their formulas, written out in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.errors import FieldError
from seqjax.train.schedules import SCHEDULES, make_schedule, noam

RATE, STEPS, FINAL = 0.03, 50, 0.1


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion('standard'):  # optax's schedules mix integers and floats
        yield


def rates(schedule, count):
    """The rates of updates 0, 1, ... as a traced step count would get them."""
    return np.array([schedule(jnp.int32(n)) for n in range(count)])


def warmup(n, steps):
    """From rate / (steps + 1) in a line to the full rate at update `steps`."""
    return 1 / (steps + 1) + (1 - 1 / (steps + 1)) * n / steps


AFTER = {  # part of the rate that is left after the part p of the way from the warm-up to the last step
    'constant': lambda p: 1.0,
    'linear': lambda p: 1 - (1 - FINAL) * p,
    'cosine': lambda p: FINAL + (1 - FINAL) * 0.5 * (1 + np.cos(np.pi * p)),
}


@pytest.mark.parametrize('warmup_steps', [0, 1, 7])
@pytest.mark.parametrize('name', AFTER)
def test_warm_up_then_the_shape(name, warmup_steps):
    schedule = make_schedule(name, RATE, steps=STEPS, warmup_steps=warmup_steps, final_rate=FINAL)
    expected = [RATE * (warmup(n, warmup_steps) if n < warmup_steps else
                        AFTER[name](min(1, (n - warmup_steps) / (STEPS - warmup_steps)))) for n in range(STEPS + 10)]
    np.testing.assert_allclose(rates(schedule, STEPS + 10), expected, rtol=1e-5)


@pytest.mark.parametrize('final_rate', [0.0, 0.1, 1.0])
@pytest.mark.parametrize('name', ['linear', 'cosine'])
def test_the_fall_ends_at_the_final_rate_and_stays_there(name, final_rate):
    schedule = make_schedule(name, RATE, steps=STEPS, warmup_steps=5, final_rate=final_rate)
    np.testing.assert_allclose([schedule(STEPS), schedule(10 * STEPS)], RATE * final_rate, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize('name', SCHEDULES)
def test_no_update_has_a_rate_of_zero_and_the_highest_is_where_the_warm_up_ends(name):
    schedule = make_schedule(name, RATE, steps=STEPS, warmup_steps=9, final_rate=FINAL, width=16)
    found = rates(schedule, STEPS)
    assert (found > 0).all()
    assert found.argmax() == (8 if name == 'noam' else 9)  # noam counts updates from 1
    assert (np.diff(found[:9]) > 0).all()


@pytest.mark.parametrize('factor', [1.0, 2.5])
@pytest.mark.parametrize('width, warmup_steps', [(512, 4000), (16, 1), (128, 10), (1024, 777)])
def test_noam_is_equation_3(width, warmup_steps, factor):
    steps = np.unique(np.concatenate([np.arange(1, 30), np.geomspace(1, 50000, 50).astype(int),
                                      warmup_steps + np.arange(-1, 3)]))
    steps = steps[steps >= 1]
    expected = factor * width ** -0.5 * np.minimum(steps ** -0.5, steps * warmup_steps ** -1.5)
    for schedule in (noam(width, warmup_steps, factor),
                     make_schedule('noam', factor, steps=10, warmup_steps=warmup_steps, width=width)):
        np.testing.assert_allclose([schedule(int(step) - 1) for step in steps], expected, rtol=1e-6)


@pytest.mark.parametrize('name', SCHEDULES)
def test_a_schedule_works_under_jit(name):
    schedule = make_schedule(name, RATE, steps=STEPS, warmup_steps=3, final_rate=FINAL, width=16)
    np.testing.assert_allclose(jax.jit(jax.vmap(schedule))(jnp.arange(STEPS)), rates(schedule, STEPS), rtol=1e-6)


@pytest.mark.parametrize('name, warmup_steps, sentence', [
    ('cosin', 0, "schedule='cosin': no such schedule; did you mean 'cosine'?"),
    ('linear', 50, 'warmup_steps=50: must be less than train.steps=50'),
    ('cosine', 51, 'warmup_steps=51: must be less than train.steps=50'),
    ('noam', 0, "warmup_steps=0: the 'noam' schedule needs at least 1"),
])
def test_a_schedule_that_cannot_be_is_refused(name, warmup_steps, sentence):
    with pytest.raises(FieldError) as caught:
        make_schedule(name, RATE, steps=STEPS, warmup_steps=warmup_steps, width=16)
    assert str(caught.value) == sentence


def test_a_constant_rate_may_warm_up_for_longer_than_the_run():
    schedule = make_schedule('constant', RATE, steps=5, warmup_steps=9)
    np.testing.assert_allclose(schedule(5), RATE * warmup(5, 9), rtol=1e-6)
