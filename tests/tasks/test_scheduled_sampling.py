"""Scheduled sampling: between the truth, bit for bit, and a plain loop in which the model reads what it has written."""

import functools
import math
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import models, ops
from seqjax.errors import FieldError
from seqjax.special_tokens import START
from seqjax.tasks import Teacher, Translation, mixed_inputs, translation
from seqjax.train import make_train_step
from seqjax.train.state import TrainState
from tests.reference.parameters import random_parameters

B, S, T, V, W = 3, 5, 6, 9, 8
MODEL = models.build('seq2seq', vocabulary=V, target_vocabulary=W, width=4, dropout=0.3)
RNG = np.random.default_rng(0)
BATCH = dict(inputs=RNG.integers(1, V, (B, S)).astype(np.int32), lengths=np.array([5, 2, 0], np.int32),
             targets=RNG.integers(1, W, (B, T)).astype(np.int32),
             weights=(np.arange(T) < np.array([[6], [3], [0]])).astype(np.float32))
PARAMS = random_parameters(MODEL, BATCH['inputs'], BATCH['lengths'], BATCH['targets'])
KEY = jax.random.key(7)
SCHEDULE = Teacher('linear', steps=10)
FORCED = np.concatenate([np.full((B, 1), START, np.int32), BATCH['targets'][:, :-1]], axis=1)


def gradient_of(loss):
    """(loss, gradient), compiled with parameters and batch as arguments: as constants they would be folded."""
    compiled = jax.jit(jax.value_and_grad(loss))
    return lambda *arguments: compiled(PARAMS, BATCH, *arguments)


@gradient_of
def run(params, batch, step, key, truth):
    """Of the task at a step of training; where `truth` is set the decoder reads that, whatever it is to read."""
    def read(*arguments):
        return jnp.where(truth, FORCED, mixed_inputs(*arguments))

    with mock.patch.object(translation, 'mixed_inputs', read):
        return Translation(MODEL, teacher=SCHEDULE).at(step)(params, batch, key).loss


def at(step, key):
    return run(step, key, False)


forced = gradient_of(lambda params, batch, key: Translation(MODEL)(params, batch, key).loss)


@gradient_of
def given(params, batch, previous, key):
    """Of a decoder that reads `previous`, and draws its dropout from `key`."""
    logits = MODEL.apply({'params': params}, batch['inputs'], batch['lengths'], batch['targets'], previous=previous,
                         train=True, rngs={'dropout': key})
    return (ops.cross_entropy(logits, batch['targets']) * batch['weights']).sum()


@jax.jit
def read(p, key):
    return mixed_inputs(MODEL, PARAMS, BATCH, p, key, START)


BEGIN = jax.jit(functools.partial(MODEL.apply, {'params': PARAMS}, method='begin'))
STEP = jax.jit(functools.partial(MODEL.apply, {'params': PARAMS}, method='step'))


def loop(p, key):
    """[B, T]: a token at a time; a coin for every row says who writes the next one."""
    memory, state = BEGIN(BATCH['inputs'], BATCH['lengths'])
    tokens = [np.full(B, START, np.int32)]
    for t, key in enumerate(jax.random.split(key, T)):
        state, logits = STEP(memory, state, tokens[-1])
        coin, draw = jax.random.split(key)
        truth = np.asarray(jax.random.uniform(coin, (B,))) < p
        drawn = (np.asarray(logits) + np.asarray(jax.random.gumbel(draw, (B, W)))).argmax(axis=1)  # Gumbel 1954
        tokens.append(np.where(truth, BATCH['targets'][:, t], drawn).astype(np.int32))
    return np.stack(tokens[:-1], axis=1)


def assert_equal(ours, theirs):
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(ours), jax.device_get(theirs))


# ------------------------------------------------------------------------------------------------ what is read

def test_always_the_truth_is_teacher_forcing_bit_for_bit():
    assert_equal(read(1.0, KEY), FORCED)
    loss, gradient = at(0, KEY)
    assert_equal((loss, gradient), run(0, KEY, True))
    their_loss, their_gradient = forced(KEY)  # another program may add up in another order
    np.testing.assert_allclose(loss, their_loss, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), gradient, their_gradient)


@pytest.mark.parametrize('p', [0.0, 0.4])
def test_otherwise_the_model_reads_what_it_has_written(p):
    tokens = np.asarray(read(p, KEY))
    assert_equal(tokens, loop(p, KEY))
    assert (tokens[:, 0] == START).all() and 0 < (tokens != FORCED).mean() < 1
    assert tokens.dtype == np.int32


def test_at_the_end_of_the_schedule_the_decoder_is_on_its_own():
    """And no gradient goes through what was drawn: it is the one of a decoder to which these tokens are given."""
    (loss, gradient), (expected, expected_gradient) = at(10, KEY), given(loop(0.0, jax.random.fold_in(KEY, 1)), KEY)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), gradient, expected_gradient)
    assert_equal((loss, gradient), at(25, KEY))
    assert loss != at(0, KEY)[0]


def test_another_key_draws_other_tokens_and_the_same_key_the_same():
    tokens = {seed: np.asarray(read(0.5, jax.random.key(seed))) for seed in range(8)}
    assert_equal(tokens[3], read(0.5, jax.random.key(3)))
    assert len({each.tobytes() for each in tokens.values()}) == 8


class Fixed:
    """A model that always says the same."""

    logits = np.log(np.array([0.1, 0.2, 0.7], np.float32))

    def apply(self, variables, *arguments, method):
        memory, state = (None, jnp.zeros(())) if method == 'begin' else arguments[:2]
        return (memory, state) if method == 'begin' else (state, jnp.broadcast_to(self.logits, (len(arguments[2]), 3)))


def test_tokens_are_drawn_as_often_as_they_are_likely_and_truth_is_read_as_often_as_p_says():
    rows, p = 4000, 0.6
    batch = dict(inputs=None, lengths=None, targets=np.full((rows, 3), 9, np.int32))
    tokens = np.asarray(jax.jit(lambda key: mixed_inputs(Fixed(), {}, batch, p, key, START))(KEY))[:, 1:]
    found = np.array([(tokens == token).mean() for token in (0, 1, 2, 9)])
    expected = np.array([0.04, 0.08, 0.28, 0.6])
    assert (abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / tokens.size)).all()
    both = (tokens == 9).all(axis=1).mean()  # the coins of two steps know nothing of each other
    assert abs(both - p ** 2) < 4 * math.sqrt(p ** 2 * (1 - p ** 2) / rows)


# ------------------------------------------------------------------------------------------------ in training

def test_a_step_of_training_asks_what_the_task_asks_at_that_step():
    rate, seed, traces = 0.1, 5, []

    class Traced(Translation):
        def __call__(self, *arguments):
            traces.append(self.step)
            return super().__call__(*arguments)

    optimizer = optax.sgd(rate)
    step = jax.jit(make_train_step(Traced(MODEL, teacher=SCHEDULE), optimizer, lambda step: rate, seed=seed))
    losses = []
    for number in (0, 6, 6, 7):
        state = TrainState(jnp.int32(number), PARAMS, optimizer.init(PARAMS), None, jnp.int32(0), jnp.int32(0))
        new, facts = step(state, BATCH)
        loss, gradient = at(number, jax.random.fold_in(jax.random.key(seed), number))
        np.testing.assert_allclose(facts['sums'].loss, loss, rtol=1e-6)
        jax.tree.map(lambda after, before, slope: np.testing.assert_allclose(after, before - rate * slope / 9, atol=1e-6),
                     new.params, PARAMS, gradient)
        losses.append(float(facts['sums'].loss))
    assert len(traces) == 1 and isinstance(traces[0], jax.core.Tracer)  # compiled once, for all steps
    assert losses[1] == losses[2] and len(set(losses)) == 3


# ------------------------------------------------------------------------------------------------ schedules

FORMULAS = {
    'always': lambda i, k: 1.0,
    'linear': lambda i, k: 1 - i / k,
    'exponential': lambda i, k: math.exp(-i / k),
    'inverse_sigmoid': lambda i, k: k / (k + math.exp(i / k)),
}


@pytest.mark.parametrize('floor', [0.0, 0.25])
@pytest.mark.parametrize('schedule', FORMULAS)
def test_a_schedule_is_its_formula_and_falls_to_its_floor(schedule, floor):
    teacher, steps = Teacher(schedule, steps=50, floor=floor), [0, 1, 10, 49, 50, 51, 300, 10 ** 6]
    found = [float(teacher(step)) for step in steps]
    formula = lambda i: 0.0 if i > 1000 and schedule != 'always' else FORMULAS[schedule](i, 50)
    np.testing.assert_allclose(found, [max(formula(i), floor) for i in steps], rtol=1e-5, atol=1e-12)
    assert found == sorted(found, reverse=True)
    assert teacher(jnp.int32(10)) == teacher(10) and teacher(10).dtype == jnp.float32
    assert found[0] == (pytest.approx(50 / 51) if schedule == 'inverse_sigmoid' else 1)
    assert found[-1] == (1 if schedule == 'always' else floor)


@pytest.mark.parametrize('fields, sentence', [
    (dict(schedule='linaer'), "teacher_forcing='linaer': no such schedule; did you mean 'linear'?"),
    (dict(steps=0), 'teacher_forcing_steps=0: must be at least 1'),
    (dict(floor=-0.1), 'teacher_forcing_floor=-0.1: must be at least 0 and at most 1'),
    (dict(floor=1.1), 'teacher_forcing_floor=1.1: must be at least 0 and at most 1'),
    (dict(floor=math.nan), 'teacher_forcing_floor=nan: must be at least 0 and at most 1'),
])
def test_a_schedule_that_cannot_be_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        Teacher(**fields)
    assert str(caught.value) == sentence
