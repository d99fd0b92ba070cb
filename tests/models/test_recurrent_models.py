"""Recurrent models of any cell: fields that change what is computed, against numpy, and states that start and go on."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, ops
from seqjax.tasks import LanguageModel
from tests.reference import recurrence as reference
from tests.reference.parameters import random_parameters

B, T, V, N = 3, 5, 7, 4
TOKENS = np.random.default_rng(0).integers(0, V, (B, T)).astype(np.int32)


@functools.cache
def make(**fields):
    model = models.build('recurrent', vocabulary=V, context_length=T, width=N, **fields)
    return model, random_parameters(model, TOKENS)


@functools.cache
def jitted(**fields):
    """apply(params, ...) of that model, compiled."""
    model, params = make(**fields)
    run = jax.jit(lambda params, *inputs, **options: model.apply({'params': params}, *inputs, **options),
                  static_argnames=('method', 'train'))
    return functools.partial(run, params)


def numpy_states(params, inputs):
    """h [B, T, N] of a single LSTM layer."""
    return reference.recur(reference.lstm, params['recurrent']['layer_0'], inputs)[0]


# ------------------------------------------------------------------------------------------------ against numpy

def test_one_hot_inputs_equal_numpy():
    _, params = make(one_hot=True)
    assert 'embedding' not in params
    expected = numpy_states(params, np.eye(V)[TOKENS]) @ params['output']['kernel'] + params['output']['bias']
    np.testing.assert_allclose(jitted(one_hot=True)(TOKENS), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('cell', ops.CELLS)
def test_every_cell_makes_a_model_and_a_state(cell):
    model = models.build('recurrent', vocabulary=V, context_length=T, width=N, depth=2, cell=cell, dtype='bfloat16')
    variables = jax.eval_shape(model.init, jax.random.key(0), TOKENS)
    state, logits = jax.eval_shape(lambda v: model.apply(v, model.initial_state(B, 0), TOKENS, method='extend'), variables)
    assert (logits.shape, logits.dtype) == ((B, T, V), jnp.bfloat16)
    same = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), state, model.initial_state(B, 0))
    assert all(jax.tree.leaves(same))


# ------------------------------------------------------------------------------------------------ penalties

def test_penalties_are_sums_over_steps_in_training_only():
    alpha, beta = 2.0, 3.0
    model, params = make(activation_penalty=alpha, slowness_penalty=beta)
    h = numpy_states(params, np.asarray(params['embedding']['table'])[TOKENS])
    expected = alpha * (h ** 2).mean(-1).sum() + beta * (np.diff(h, axis=1) ** 2).mean(-1).sum()
    batch = dict(inputs=TOKENS, targets=TOKENS[:, ::-1], weights=np.ones((B, T), np.float32))
    task, plain = LanguageModel(model), LanguageModel(make()[0])
    training, free = (jax.jit(task.__call__)(params, batch, jax.random.key(0)) for task in (task, plain))
    evaluation = jax.jit(task.__call__)(params, batch)
    np.testing.assert_allclose(training.metrics['penalty'], expected, rtol=1e-5)
    np.testing.assert_allclose(training.loss, free.loss + expected, rtol=1e-5)
    np.testing.assert_allclose(evaluation.loss, free.loss, rtol=1e-6)
    assert 'penalty' not in free.metrics and 'penalty' not in evaluation.metrics


# ------------------------------------------------------------------------------------------------ dropout

@pytest.mark.parametrize('variational', [False, True])
def test_variational_dropout_has_one_mask_for_all_steps_of_a_row(variational):
    model, params = make(dropout=0.5, variational=variational)
    masks = []

    def record(run, args, kwargs, context):
        result = run(*args, **kwargs)
        if isinstance(context.module, linen.Dropout):
            masks.append(np.asarray(result != 0))
        return result

    with linen.intercept_methods(record):
        model.apply({'params': params}, TOKENS, train=True, rngs={'dropout': jax.random.key(0)})
    assert len(masks) == 2  # of the embedded tokens and of the outputs
    for mask in masks:
        assert (mask == mask[:, :1]).all() == variational and not (mask == mask[:1]).all()


@pytest.mark.parametrize('field', ['recurrent_dropout', 'zoneout', 'weight_drop'])
def test_the_other_noises_draw_from_the_same_key(field):
    apply = jitted(**{field: 0.5})
    draws = [np.asarray(apply(TOKENS, train=True, rngs={'dropout': jax.random.key(seed)})) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


# ------------------------------------------------------------------------------------------------ where a row starts

@pytest.mark.parametrize('learned_state', [False, True])
def test_a_row_starts_from_its_first_state_and_goes_on_from_its_last(learned_state):
    model, params = make(learned_state=learned_state)
    apply = functools.partial(jitted(learned_state=learned_state), method='extend')
    whole = np.asarray(jitted(learned_state=learned_state)(TOKENS))
    state, first = apply(model.initial_state(B, 0), TOKENS[:, :2], starts=np.zeros(B, np.float32))
    np.testing.assert_allclose(first, whole[:, :2], rtol=1e-5, atol=1e-6)
    # Row 1 starts anew, the others go on.
    again = TOKENS[:, 2:4].copy()
    again[1] = TOKENS[1, :2]
    _, second = apply(state, again, starts=np.array([0, 1, 0], np.float32))
    expected = whole[:, 2:4].copy()
    expected[1] = whole[1, :2]
    np.testing.assert_allclose(second, expected, rtol=1e-5, atol=1e-6)
    if learned_state:
        assert {'initial_h', 'initial_c'} <= params['recurrent']['layer_0'].keys()
        assert (np.abs(np.asarray(jitted()(TOKENS)) - whole) > 1e-3).any()


def test_a_row_that_has_read_nothing_is_still_new():
    model, params = make(learned_state=True)
    apply = functools.partial(jitted(learned_state=True), method='extend')
    (_, new), _ = apply(model.initial_state(B, 0), TOKENS[:, :2], np.array([0, 1, 2], np.int32))
    assert new.tolist() == [True, False, False]


def test_the_learned_state_is_learned():
    model, params = make(learned_state=True)
    carry = jax.tree.map(lambda part: part + 1, model.initial_state(B, 0)[0]), jnp.zeros(B, bool)

    def loss(params, starts):
        _, logits = model.apply({'params': params}, carry, TOKENS, starts=starts, method='extend')
        return (logits ** 2).sum()

    gradient = jax.jit(jax.grad(loss))
    layers = [gradient(params, jnp.full(B, start))['recurrent']['layer_0'] for start in (0., 1.)]
    sizes = [float(jnp.abs(layer['initial_h']).sum()) for layer in layers]
    assert sizes[0] == 0 and sizes[1] > 0
