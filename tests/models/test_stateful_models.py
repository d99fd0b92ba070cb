"""Mamba and RWKV as language models: a state of one size, rows that begin anew, runs that carry it; what they are made of."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, ops
from seqjax.tasks import LanguageModel
from tests.reference.parameters import random_parameters

B, T, V, D, L = 3, 6, 11, 8, 2
FIELDS = {'mamba': dict(state_size=3), 'rwkv': dict(scan_layers=True)}
TOKENS = np.random.default_rng(0).integers(0, V, (B, 2 * T)).astype(np.int32)
both = pytest.mark.parametrize('name', FIELDS)


@functools.cache
def make(name, **fields):
    model = models.build(name, vocabulary=V, width=D, depth=L, **FIELDS[name] | fields)
    return model, random_parameters(model, TOKENS)


@both
def test_the_state_has_one_size_and_rows_come_first(name):
    model, _ = make(name)
    state = model.initial_state(B, 10 ** 9)
    assert jax.tree.map(jnp.shape, state) == jax.tree.map(jnp.shape, model.initial_state(B, 1))
    assert all(leaf.shape[0] == B for leaf in jax.tree.leaves(state)) and model.context_length is None
    assert not hasattr(model, 'rewind') and name in models.able('carries') and name in models.able('packs')


@both
def test_carried_batches_have_the_loss_of_long_rows_and_rows_that_start_forget(name):
    model, params = make(name)
    task, targets = LanguageModel(model), np.roll(TOKENS, -1, axis=1)
    weights = np.ones((B, T), np.float32)
    batch = lambda tokens, targets, starts: dict(inputs=tokens, targets=targets, weights=weights, starts=starts)
    carried = jax.jit(lambda carry, batch: task.carried(params, batch, carry))
    zeros, starts = np.zeros(B, np.int32), np.array([0, 1, 0])
    first, carry = carried(task.initial_carry(B), batch(TOKENS[:, :T], targets[:, :T], zeros))
    second, _ = carried(carry, batch(TOKENS[:, T:], targets[:, T:], zeros))
    anew, _ = carried(carry, batch(TOKENS[:, T:], targets[:, T:], starts))

    def losses(tokens, targets):
        logits = jax.jit(lambda tokens: model.apply({'params': params}, tokens))(tokens)
        return np.asarray(jax.jit(ops.cross_entropy)(logits, targets))  # [B, T]

    whole, late = losses(TOKENS, targets), losses(TOKENS[:, T:], targets[:, T:])
    np.testing.assert_allclose(first.loss + second.loss, whole.sum(), rtol=1e-5)
    np.testing.assert_allclose(anew.loss, whole[0, T:].sum() + late[1].sum() + whole[2, T:].sum(), rtol=1e-5)


@pytest.mark.parametrize('tie', [False, True])
def test_the_sizes_are_the_closed_forms(tie):
    same = dict(vocabulary=V, width=D, depth=L, tie_embeddings=tie)
    count = lambda name, **fields: models.parameter_count(models.build(name, **same, **fields), TOKENS)
    E, N, K, R, F = 3 * D, 5, 3, 2, 20
    tables = V * D * (1 if tie else 2)
    mixer = 2 * D * E + (K + 1) * E + E * (R + 2 * N) + (R + 1) * E + (N + 1) * E + E * D
    assert count('mamba', expand=3, state_size=N, kernel_size=K, rank=R) == tables + L * (mixer + D) + D
    block = 4 * D * D + 5 * D + 2 * D * F + D * D + 2 * D + 4 * D
    assert count('rwkv', feed_forward=F) == tables + 2 * D + L * block + 2 * D


@both
def test_new_models_predict_about_nothing_and_learn_from_every_parameter(name):
    model = models.build(name, vocabulary=V, width=D, depth=L, **FIELDS[name])
    params = linen.unbox(jax.jit(model.init)(jax.random.key(0), TOKENS))['params']
    task = LanguageModel(model)
    batch = dict(inputs=TOKENS, targets=np.roll(TOKENS, -1, axis=1), weights=np.ones(TOKENS.shape, np.float32))
    step = jax.jit(jax.value_and_grad(lambda params: task(params, batch).loss))
    loss, gradient = jax.device_get(step(params))
    np.testing.assert_allclose(loss / TOKENS.size, np.log(V), rtol=0.15)
    for _ in range(2):  # what a matrix of zeros hides from the first step is seen by a later one
        params = jax.tree.map(lambda p, g: np.asarray(p) - np.float32(0.01) * g, params, gradient)
        loss, gradient = jax.device_get(step(params))
    assert not [path for path, leaf in jax.tree_util.tree_leaves_with_path(gradient) if not np.any(leaf)]
