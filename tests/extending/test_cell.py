"""A cell from outside (`matrix_memory_cell`): with public names alone it is trained, sharded, X-rayed and refused as ours are."""

import importlib
import json
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import analysis, nn, ops
from seqjax.errors import FieldError
from seqjax.models import build

ROOT = pathlib.Path(__file__).parents[2]
FILE = pathlib.Path(__file__).with_name('matrix_memory_cell.py')
B, T, D, N, K = 4, 7, 2, 5, 3
LENGTHS = np.array([7, 4, 0, 1])


@pytest.fixture(scope='module')
def cell():
    """The cell, which is registered while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops.CELLS, '_things', dict(ops.CELLS))
        yield importlib.import_module('tests.extending.matrix_memory_cell').MatrixMemory()


@pytest.fixture(scope='module')
def case(cell):
    """Random (weights, inputs, state, fresh) and hold in float64."""
    rng = np.random.default_rng(0)
    state = lambda: (rng.standard_normal((B, N)), rng.standard_normal((B, N, K)))
    weights = {name: 0.7 * rng.standard_normal(shape) for name, shape in cell.weight_shapes(D, N).items()}
    return (weights, rng.standard_normal((B, T, D)), state(), state()), (rng.random((B, T, N)), rng.random((B, T, N, K)))


def plain_scan(weights, inputs, state, fresh, segments, hold, lengths):
    """The equations of the cell as a lax.scan with rows first, left to autodiff."""
    def step(state, now):
        t, x, new, (hold_h, hold_C) = now
        h, C = (jnp.where(new.reshape(B, *(1,) * (s.ndim - 1)), f, s) for f, s in zip(fresh, state))
        q, k, v, i, f, o = jnp.einsum('bd,dgn->gbn', x, weights['input_kernel']) + weights['bias'][:, None]
        q, k = q @ weights['key_kernel'], k @ weights['key_kernel']
        f = jax.nn.sigmoid(f) ** (1 / jnp.exp(weights['log_tau']))
        after_C = f[:, :, None] * C + jnp.einsum('bn,bk->bnk', jax.nn.sigmoid(i) * v, k)
        after_h = jax.nn.sigmoid(o) * jnp.tanh(jnp.einsum('bnk,bk->bn', after_C, q))
        after = hold_h * h + (1 - hold_h) * after_h, hold_C * C + (1 - hold_C) * after_C
        runs = t < lengths
        state = tuple(jnp.where(runs.reshape(B, *(1,) * (s.ndim - 1)), a, s) for a, s in zip(after, state))
        return state, jnp.where(runs[:, None], state[0], 0)

    new = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
    now = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), (inputs, new, hold))
    final, outputs = jax.lax.scan(step, state, (jnp.arange(T), *now))
    return jnp.moveaxis(outputs, 0, 1), final


def gradients(run, arguments):
    """(results, gradients) of a loss that weighs every number of the results differently."""
    def loss(*arguments):
        results = run(*arguments)
        return sum((leaf * jnp.cos(jnp.arange(leaf.size).reshape(leaf.shape))).sum() for leaf in jax.tree.leaves(results)), results

    (_, results), found = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True))(*arguments)
    return results, found


@pytest.mark.parametrize('checkpoint_every', [0, 3])
def test_the_gradient_of_the_engine_is_autodiff_of_a_plain_scan(cell, case, checkpoint_every):
    arguments, hold = case
    segments = np.array([[5, 5, 5, 2, 2, 9, 9], [1, 1, 3, 3, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7], [8, 0, 0, 0, 0, 0, 0]])

    def engine(weights, inputs, state, fresh):
        return ops.recur(cell, weights, inputs, state, LENGTHS, fresh=fresh, segments=segments, hold=hold,
                         checkpoint_every=checkpoint_every)

    with jax.enable_x64(True):
        found = gradients(engine, arguments)
        expected = gradients(lambda *arguments: plain_scan(*arguments, segments, hold, LENGTHS), arguments)
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10), found, expected)
    assert all(np.abs(leaf).max() > 0.01 for leaf in jax.tree.leaves(expected[1]))


def test_a_layer_owns_what_the_cell_declares(cell):
    inputs = np.ones((2, T, D), np.float32)
    module = nn.Recurrent(N, 2, cell='matrix_memory', bidirectional=True, learned_state=True, zoneout=0.2, dropout=0.1)
    variables = jax.jit(module.init)(jax.random.key(0), inputs)
    layer = variables['params']['layer_0']
    assert {name: boxed.names for name, boxed in layer.items()} == dict(
        input_kernel=('embed', None, 'hidden'), bias=(None, 'hidden'), key_kernel=('hidden', None), log_tau=('hidden',),
        initial_h=('hidden',), initial_C=('hidden', None))
    outputs, state = module.apply(variables, inputs, train=True, rngs=dict(dropout=jax.random.key(1)))
    assert outputs.shape == (2, T, 2 * N)
    assert [jax.tree.map(jnp.shape, layer) for layer in state] == [(((2, N), (2, N, K)),) * 2] * 2


@pytest.mark.parametrize('field', ['recurrent_dropout', 'weight_drop'])
def test_what_needs_a_recurrent_matrix_is_refused(cell, field):
    with pytest.raises(FieldError, match=f"{field}=0.5: cell 'matrix_memory' has no recurrent matrix of free weights"):
        nn.Recurrent(N, cell='matrix_memory', **{field: 0.5})


def test_a_state_mask_and_wrong_shapes_are_refused(cell, case):
    (weights, inputs, state, _), _ = case
    with pytest.raises(ValueError, match='state_mask multiplies h before the recurrent matrix; MatrixMemory has none'):
        ops.recur(cell, weights, inputs, state, state_mask=np.ones((B, N)))
    with pytest.raises(ValueError, match=r'state has shapes \(\(4, 5\), \(4, 5\)\); MatrixMemory with N=5 and B=4 rows takes '
                                         r'\(\(4, 5\), \(4, 5, 3\)\)'):
        ops.recur(cell, weights, inputs, (state[0], state[0]))
    with pytest.raises(FieldError, match=r"axes=\('hidden',\): must name every axis of the shape \(5, 3\)"):
        ops.Weight((N, K), jax.nn.initializers.zeros, ('hidden',))
    with pytest.raises(FieldError, match="has a matrix in its state, to which no map of the source leads; write context='last'"):
        build('seq2seq', vocabulary=9, cell='matrix_memory', width=N)


def test_the_memory_path_is_the_product_of_the_forget_gates(cell, case):
    weights, inputs, state, _ = jax.tree.map(jnp.float32, case[0])
    lengths = jnp.full(B, T)
    call = analysis.RecurrentCall(cell, False, weights, inputs, lengths, state, lengths)
    flow = jax.jit(lambda call: analysis.gradient_flow(call, rows=B, top=2, exponents=2))(call)
    x = jnp.einsum('btd,dn->btn', inputs, weights['input_kernel'][:, 4]) + weights['bias'][4]
    forget = jax.nn.sigmoid(x) ** jnp.exp(-weights['log_tau'])                          # [B, T, N]
    product = np.flip(np.cumprod(np.flip(forget, axis=1), axis=1), axis=1)[:, 0]        # over all T positions
    expected = 0.5 * np.log((product ** 2).mean(axis=-1))
    np.testing.assert_allclose(flow.cell_path[:, T], expected, rtol=1e-4)
    assert (flow.hidden_path[:, 1:] < -15).all()     # C depends on the past through itself alone: what is left is rounding
    assert set(flow.saturation) == {'i', 'f', 'o'} and flow.states.shape == (B, T + 1, N + N * K)


def test_launched_as_an_experiment_it_trains_and_is_xrayed(tmp_path):
    launch = lambda *words, **options: subprocess.run(
        [sys.executable, 'launch.py', f'--workdir={tmp_path}', *words], cwd=ROOT, **options)
    launch(f'--config={FILE}', check=True)
    result = json.loads((tmp_path / 'result.json').read_text())
    assert result['steps'] == 4 and np.isfinite(result['eval/loss'])
    launch(f'--config={FILE}', '--mode=xray', check=True)
    assert json.loads((tmp_path / 'xray' / 'xray.json').read_text())['step'] == 4
    without = launch('--mode=eval', capture_output=True, text=True)
    assert without.returncode == 2 and "config.model.cell='matrix_memory': no such cell; " in without.stderr
    assert 'for one of your own give the experiment file that registers it: --config=FILE' in without.stderr
