"""Recurrent layers and stacks: what they own, what they regularise, what they refuse. The equations: tests/ops."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from seqjax.errors import FieldError
from tests.reference import recurrence as reference
from tests.reference.parameters import random_parameters

B, T, D, N = 3, 5, 4, 6
RAGGED = np.array([5, 0, 3])
SEGMENTS = np.array([[1, 1, 2, 2, 2], [1, 1, 1, 1, 1], [3, 4, 4, 0, 0]])
INPUTS = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)


@functools.partial(jax.jit, static_argnums=0, static_argnames='train')
def run(model, params, *inputs, key=None, **options):
    return model.apply({'params': params}, *inputs, rngs=None if key is None else {'dropout': key}, **options)


def make(model=nn.LSTM, *arguments, **fields):
    """A module and random parameters for it."""
    module = model(*(arguments or (N,)), **fields)
    return module, random_parameters(module, INPUTS)


def random_state(module, seed=1):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda part: rng.standard_normal(part.shape).astype(part.dtype), module.zero_state(B))


def assert_close(actual, expected, tolerance=1e-5):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance), actual, expected)


def assert_same(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


# -------------------------------------------------------------------------------------------------------------- Parameters

@pytest.mark.parametrize('name', ops.CELLS)
def test_a_layer_owns_the_weights_of_its_cell_and_every_axis_has_a_name(name):
    cell = ops.CELLS[name]
    module = nn.Recurrent(N, 2, cell=name)
    params = jax.eval_shape(module.init, jax.random.key(0), INPUTS)['params']
    widths = D, cell.output_width(N)
    assert list(params) == ['layer_0', 'layer_1']
    for layer, width in zip(params.values(), widths):
        assert {key: boxed.value.shape for key, boxed in layer.items()} == cell.weight_shapes(width, N)
        assert {boxed.value.dtype.name for boxed in layer.values()} == {'float32'}
        assert all(len(boxed.names) == boxed.value.ndim for boxed in layer.values())
        assert layer['input_kernel'].names == ('embed', None, 'hidden')


def test_names_and_shapes_of_a_stack_of_different_widths_in_both_directions():
    module = nn.GRU((6, 2), bidirectional=True, merge='project', learned_state=True, bias=False)
    params = linen.unbox(jax.eval_shape(module.init, jax.random.key(0), INPUTS)['params'])
    layer = lambda D, N: dict(input_kernel=(D, 3, N), recurrent_kernel=(N, 3, N), initial_h=(N,))
    assert jax.tree.map(lambda leaf: leaf.shape, params, is_leaf=lambda leaf: hasattr(leaf, 'shape')) == {
        'layer_0': layer(4, 6), 'layer_0_reverse': layer(4, 6), 'merge_0': dict(kernel=(12, 6), bias=(6,)),
        'layer_1': layer(6, 2), 'layer_1_reverse': layer(6, 2), 'merge_1': dict(kernel=(4, 2), bias=(2,))}


def started(module):
    """The parameters that a module's first layer starts with."""
    return jax.device_get(linen.unbox(jax.jit(module.init)(jax.random.key(0), INPUTS))['params']['layer_0'])


def test_parameters_start_as_documented():
    params = started(nn.LSTM(N, cell=ops.LSTM(forget_bias=2.5)))
    np.testing.assert_array_equal(params['bias'], np.repeat([[0], [2.5], [0], [0]], N, axis=1))
    gates = np.moveaxis(params['recurrent_kernel'], 1, 0)
    for i, gate in enumerate(gates):
        np.testing.assert_allclose(gate @ gate.T, np.eye(N), atol=1e-5)
        assert all(np.abs(gate - other).max() > 0.1 for other in gates[:i])
    limit = (6 / (D + N)) ** 0.5
    assert 0.8 * limit < np.abs(params['input_kernel']).max() <= limit


def test_the_forget_gate_starts_open_wherever_there_is_one():
    for name, gate in (('lstm', 1), ('coupled_lstm', 0), ('min_lstm', 0)):
        bias = started(nn.Recurrent(N, cell=name))['bias']
        np.testing.assert_array_equal(bias, np.eye(len(bias))[gate][:, None] * np.ones(N))


def test_an_lru_starts_in_its_ring_and_an_orthogonal_cell_as_rotations():
    magnitudes = np.abs(ops.LRU().eigenvalues(started(nn.Recurrent(50, cell=ops.LRU(smallest=0.5, largest=0.8)))))
    assert 0.5 < magnitudes.min() < 0.55 and 0.75 < magnitudes.max() < 0.8
    U = np.asarray(ops.Orthogonal().kernel(started(nn.Recurrent(50, cell='orthogonal'))))[:, 0]
    np.testing.assert_allclose(U @ U.T, np.eye(50), atol=1e-5)
    assert len(np.unique(np.angle(np.linalg.eigvals(U)).round(4))) == 50


# ----------------------------------------------------------------------------------------------------------------- Stacks

def test_a_stack_of_different_widths_equals_numpy_loops_one_after_the_other():
    module, params = make(nn.LSTM, (6, 3))
    state = random_state(module)
    outputs, final = run(module, params, INPUTS, RAGGED, state)
    x = INPUTS
    for layer in range(2):
        x, expected = reference.recur('lstm', params[f'layer_{layer}'], x, state[layer], RAGGED)
        assert_close(final[layer], expected)
    assert_close(outputs, x)


@pytest.mark.parametrize('merge', ['concat', 'mean', 'sum', 'project'])
def test_both_directions_equal_numpy_loops_merged(merge):
    module, params = make(nn.GRU, N, bidirectional=True, merge=merge)
    state = random_state(module)
    outputs, final = run(module, params, INPUTS, RAGGED, state)
    (x, forward), (y, backward) = (
        reference.recur('gru', params[name], INPUTS, part, RAGGED, reverse=name.endswith('reverse'))
        for name, part in zip(('layer_0', 'layer_0_reverse'), state[0]))
    both = np.concatenate((x, y), axis=-1)
    project = lambda: both @ params['merge_0']['kernel'] + params['merge_0']['bias']
    expected = dict(concat=lambda: both, mean=lambda: (x + y) / 2, sum=lambda: x + y, project=project)[merge]()
    assert_close(outputs, expected)
    assert_close(final, ((forward, backward),))


def test_padding_and_packing_hold_through_a_whole_stack():
    module, params = make(nn.LSTM, N, num_layers=2, bidirectional=True, learned_state=True)
    soiled = np.where(np.arange(T)[:, None] < RAGGED[:, None, None], INPUTS, np.nan).astype(np.float32)
    clean = run(module, params, INPUTS, RAGGED, segments=SEGMENTS)
    assert_same(run(module, params, soiled, RAGGED, segments=SEGMENTS), clean)
    # The second sequence of row 0, in a row of its own.
    alone = np.zeros_like(INPUTS)
    alone[0, :3] = INPUTS[0, 2:]
    assert_close(run(module, params, alone, np.array([3, 0, 0]))[0][0, :3], clean[0][0, 2:])


def test_pieces_with_the_state_carried_over_equal_the_whole():
    module, params = make(nn.LSTM, N, num_layers=2)
    state = random_state(module)
    whole, final = run(module, params, INPUTS, RAGGED, state)
    outputs = np.zeros((B, T, N), np.float32)
    for t in range(T):
        step, state = run(module, params, INPUTS[:, t:t + 1], (t < RAGGED).astype(np.int32), state)
        outputs[:, t:t + 1] = step
    assert_close((outputs, state), (whole, final), 1e-6)


@pytest.mark.parametrize('fields', [dict(unroll=2), dict(checkpoint_every=2)], ids=str)
def test_how_a_stack_is_run_changes_nothing(fields):
    module, params = make(nn.GRU, N, bidirectional=True)
    assert_close(run(module.copy(**fields), params, INPUTS, RAGGED), run(module, params, INPUTS, RAGGED), 1e-6)


def test_no_initial_state_means_zeros():
    shapes = lambda state: jax.tree.map(lambda part: (part.shape, part.dtype.name), state)
    for module, params in (make(nn.LSTM, (6, 3)), make(nn.Recurrent, N, cell='lru')):
        outputs, final = run(module, params, INPUTS, RAGGED)
        assert_same(run(module, params, INPUTS, RAGGED, module.zero_state(B)), (outputs, final))
        assert shapes(final) == shapes(module.zero_state(B))


def test_a_learned_state_gets_a_gradient_and_starts_every_row_and_every_segment():
    module, params = make(nn.GRU, N, learned_state=True)
    initial = np.tile(params['layer_0']['initial_h'], (B, 1))
    expected = reference.recur('gru', params['layer_0'], INPUTS, (initial,), RAGGED, segments=SEGMENTS, fresh=(initial,))
    assert_close(run(module, params, INPUTS, RAGGED, segments=SEGMENTS), (expected[0], (expected[1],)))
    given = random_state(module)
    expected = reference.recur('gru', params['layer_0'], INPUTS, given[0], RAGGED, segments=SEGMENTS, fresh=(initial,))
    assert_close(run(module, params, INPUTS, RAGGED, given, segments=SEGMENTS), (expected[0], (expected[1],)))
    gradient = jax.jit(jax.grad(lambda params: module.apply({'params': params}, INPUTS)[0].sum()))(params)
    assert np.all(gradient['layer_0']['initial_h'])


def test_rnn_chooses_its_non_linearity():
    for nonlinearity, cell in (('tanh', 'elman'), ('relu', 'relu')):
        module, params = make(nn.RNN, N, nonlinearity=nonlinearity)
        expected, _ = reference.recur(cell, params['layer_0'], INPUTS, (np.zeros((B, N)),))
        assert_close(run(module, params, INPUTS)[0], expected)


def test_bfloat16_comes_close_with_float32_parameters_and_state():
    low, params = make(nn.LSTM, N, num_layers=2, dtype=jnp.bfloat16)
    outputs, final = run(low, params, INPUTS, RAGGED)
    expected, expected_final = run(low.copy(dtype=jnp.float32), params, INPUTS, RAGGED)
    assert outputs.dtype == jnp.bfloat16
    assert {leaf.dtype.name for leaf in jax.tree.leaves((params, final))} == {'float32'}
    np.testing.assert_allclose(np.float32(outputs), expected, atol=2e-2)
    assert_close(final, expected_final, 3e-2)


# ----------------------------------------------------------------------------------------------------------- Regularisers

@pytest.mark.parametrize('fields', [dict(dropout=0.5, num_layers=2), dict(dropout=0.5, num_layers=2, variational=True),
                                    dict(recurrent_dropout=0.5), dict(weight_drop=0.5), dict(zoneout=0.5)], ids=str)
def test_a_regulariser_acts_in_training_by_its_key(fields):
    module, params = make(nn.LSTM, N, **fields)
    first, again, other = (run(module, params, INPUTS, train=True, key=jax.random.key(seed))[0] for seed in (0, 0, 1))
    assert_same(first, again)
    assert np.abs(first - other).max() > 1e-3
    plain = run(make(nn.LSTM, N, num_layers=fields.get('num_layers', 1))[0], params, INPUTS)[0]
    assert np.abs(first - plain).max() > 1e-3
    evaluated = run(module, params, INPUTS)[0]
    assert (np.abs(evaluated - plain).max() > 1e-3) == ('zoneout' in fields)


def test_dropout_falls_between_layers_only():
    module, params = make(nn.LSTM, N, dropout=0.5)
    assert_same(run(module, params, INPUTS, train=True, key=jax.random.key(0)), run(module, params, INPUTS))


@pytest.mark.parametrize('variational', [False, True])
def test_a_variational_mask_is_the_same_at_every_step_of_a_row(variational):
    module = nn.RNN((N, N), cell=ops.Elman('identity'), dropout=0.5, variational=variational)
    layer = dict(input_kernel=np.eye(N)[:, None], recurrent_kernel=np.zeros((N, 1, N)), bias=np.zeros((1, N)))
    params = jax.tree.map(np.float32, {'layer_0': layer, 'layer_1': layer})  # every layer passes on what it is given
    dropped = run(module, params, np.ones((B, 8, N), np.float32), train=True, key=jax.random.key(0))[0]
    assert set(np.unique(dropped)) == {0, 2}
    assert np.all(dropped == dropped[:, :1]) == variational
    assert np.any(dropped[0] != dropped[1])


def test_recurrent_dropout_is_one_mask_of_h_for_all_steps_of_a_row():
    module, params = make(nn.RNN, N, cell=ops.Elman('identity'), recurrent_dropout=0.5)
    layer = {**params['layer_0'], 'recurrent_kernel': np.eye(N, dtype=np.float32)[:, None]}
    outputs = np.float64(run(module, {'layer_0': layer}, INPUTS, train=True, key=jax.random.key(0))[0])
    x = INPUTS @ layer['input_kernel'][:, 0] + layer['bias'][0]
    factors = (outputs[:, 1:] - x[:, 1:]) / outputs[:, :-1]  # h' = x + factor * h
    np.testing.assert_allclose(factors, np.broadcast_to(factors[:, :1].round(), factors.shape), atol=1e-3)
    assert set(np.unique(factors[:, 0].round())) == {0, 2}


def test_weight_drop_zeroes_entries_of_the_recurrent_matrix():
    module, params = make(nn.RNN, N, cell=ops.Elman('identity'), weight_drop=0.5)
    layer = {**params['layer_0'], 'input_kernel': np.zeros((D, 1, N), np.float32), 'bias': np.zeros((1, N), np.float32)}
    start = ((np.eye(N, dtype=np.float32),),)
    inputs = np.zeros((N, 1, D), np.float32)
    U = np.asarray(run(module, {'layer_0': layer}, inputs, None, start, train=True, key=jax.random.key(0))[0][:, 0])
    factors = U / layer['recurrent_kernel'][:, 0]
    assert set(np.unique(factors.round(4))) == {0, 2}


def test_zoneout_keeps_whole_units_in_training_and_mixes_in_evaluation():
    module, params = make(nn.LSTM, N, zoneout=0.3)
    state = random_state(module)
    outputs, ((h, c),) = jax.device_get(run(module, params, INPUTS, None, state, train=True, key=jax.random.key(0)))
    before = np.concatenate((state[0][0][:, None], outputs[:, :-1]), axis=1)
    assert 0.15 < np.mean(outputs == before) < 0.45
    expected = reference.recur('lstm', params['layer_0'], INPUTS, state[0], hold=(np.full((B, T, N), 0.3),) * 2)
    assert_close(run(module, params, INPUTS, None, state), (expected[0], (expected[1],)))


# ----------------------------------------------------------------------------------------------------------------- Refusals

FIELDS = [
    (dict(cell='gur'), "cell='gur': no such cell; did you mean 'gru'?"),
    (dict(merge='max'), "merge='max': choose one of: concat, mean, sum, project"),
    (dict(features=(3, 4), num_layers=3), 'num_layers=3: features=(3, 4) are 2 layers'),
    (dict(num_layers=0), 'num_layers=0: must be at least 1'),
    (dict(features=(3, 0)), 'features=(3, 0): every layer needs at least one hidden unit'),
    (dict(unroll=0), 'unroll=0: must be at least 1'),
    (dict(checkpoint_every=-1), 'checkpoint_every=-1: must be at least 0'),
    (dict(dropout=1.0), 'dropout=1.0: must be at least 0 and less than 1'),
    (dict(zoneout=-0.1), 'zoneout=-0.1: must be at least 0 and less than 1'),
    (dict(cell='lru', recurrent_dropout=0.5), "recurrent_dropout=0.5: cell 'lru' has no recurrent matrix of free weights"),
    (dict(cell='orthogonal', weight_drop=0.5), "weight_drop=0.5: cell 'orthogonal' has no recurrent matrix of free weights"),
]


@pytest.mark.parametrize('fields, sentence', FIELDS, ids=[' '.join(fields) for fields, _ in FIELDS])
def test_an_impossible_field_is_refused_by_name(fields, sentence):
    with pytest.raises(FieldError) as caught:
        nn.Recurrent(**{'features': N, **fields})
    assert str(caught.value) == sentence


def test_an_unknown_non_linearity_is_refused():
    with pytest.raises(FieldError, match="^nonlinearity='gelu': choose one of: relu, tanh$"):
        nn.RNN(N, nonlinearity='gelu')
    with pytest.raises(FieldError, match="^nonlinearity='relu': cell='gru' has its own; leave one of the two out$"):
        nn.RNN(N, nonlinearity='relu', cell='gru')


STACK = nn.LSTM(3, 2, bidirectional=True)
ZEROS = STACK.zero_state(B)
SHAPES = [
    (dict(inputs=INPUTS[0]), r'inputs have shape (5, 4); expected [B, T, D], three axes and at least one step'),
    (dict(inputs=INPUTS[:, :0]), r'inputs have shape (3, 0, 4); expected [B, T, D], three axes and at least one step'),
    (dict(inputs=INPUTS[..., :2]), 'inputs have shape (3, 5, 2), width 2; the parameters of layer_0 were made for width 4'),
    (dict(lengths=np.array([5, 6, 1])), 'lengths go from 1 to 6; each must be at least 0 and at most T=5'),
    (dict(lengths=jnp.array([5, -1, 1])), 'lengths go from -1 to 5; each must be at least 0 and at most T=5'),
    (dict(lengths=np.array([5, 1])), 'lengths have shape (2,) and dtype int64; expected integers, [B] = (3,)'),
    (dict(lengths=np.ones(3)), 'lengths have shape (3,) and dtype float64; expected integers, [B] = (3,)'),
    (dict(segments=SEGMENTS[:, 1:]), 'segments have shape (3, 4); expected [B, T] = (3, 5)'),
    (dict(initial_state=ZEROS[:1]), 'initial_state has 1 layers; this stack has 2'),
    (dict(initial_state=nn.LSTM(3, 2).zero_state(B)), 'initial_state[0] has shapes ((3, 3), (3, 3)); this layer takes '
     '(((3, 3), (3, 3)), ((3, 3), (3, 3))), (forward state, backward state)'),
    (dict(initial_state=(ZEROS[0], STACK.zero_state(2)[0])),
     'initial_state[1] has shapes (((2, 3), (2, 3)), ((2, 3), (2, 3))); '
     'this layer takes (((3, 3), (3, 3)), ((3, 3), (3, 3))), (forward state, backward state)'),
]


@functools.cache
def parameters_of_the_stack():
    return random_parameters(STACK, INPUTS)


@pytest.mark.parametrize('arguments, sentence', SHAPES, ids=[' '.join(arguments) for arguments, _ in SHAPES])
def test_arrays_that_do_not_fit_are_refused_with_their_shape(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        STACK.apply({'params': parameters_of_the_stack()}, **{'inputs': INPUTS, **arguments})
    assert str(caught.value) == sentence


WEIGHTS = {name: np.zeros(shape, np.float32) for name, shape in ops.GRU().weight_shapes(D, N).items()}
STATE = np.zeros((B, N), np.float32),
CALLS = [
    (dict(inputs=INPUTS[..., :2]), 'inputs have shape (3, 5, 2), width 2; the weights were made for width 4'),
    (dict(weights={**WEIGHTS, 'bias': np.zeros((2, N))}),
     "weights['bias']: (2, 6); GRU with D=4 and N=6 takes the shape (3, 6)"),
    (dict(weights={name: WEIGHTS[name] for name in ('input_kernel', 'bias')}),
     "weights['recurrent_kernel']: missing; GRU with D=4 and N=6 takes the shape (6, 3, 6)"),
    (dict(state=STATE * 2), 'state has shapes ((3, 6), (3, 6)); GRU with N=6 and B=3 rows takes ((3, 6),)'),
    (dict(fresh=(STATE[0][:1],)), 'fresh has shapes ((1, 6),); GRU with N=6 and B=3 rows takes ((3, 6),)'),
    (dict(hold=(0.5, 0.5)), 'hold has shapes ((), ()); GRU takes a number or an array for every part, ((3, 5, 6),)'),
    (dict(hold=STATE), 'hold has shapes ((3, 6),); GRU takes a number or an array for every part, ((3, 5, 6),)'),
    (dict(state_mask=np.ones(N)), 'state_mask has shape (6,); expected [B, M] = (3, 6)'),
]


@pytest.mark.parametrize('arguments, sentence', CALLS, ids=[' '.join(arguments) for arguments, _ in CALLS])
def test_recur_refuses_what_does_not_fit(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        ops.recur(ops.GRU(), **{'weights': WEIGHTS, 'inputs': INPUTS, 'state': STATE, **arguments})
    assert str(caught.value) == sentence


def test_a_linear_cell_has_no_matrix_for_a_state_mask():
    weights = {name: np.zeros(shape, np.float32) for name, shape in ops.MinGRU().weight_shapes(D, N).items()}
    with pytest.raises(ValueError, match='^state_mask multiplies h before the recurrent matrix; MinGRU has none$'):
        ops.recur(ops.MinGRU(), weights, INPUTS, STATE, state_mask=np.ones((B, N), np.float32))


def test_lengths_may_be_a_list_or_an_array_known_while_compiling():
    module, params = make()
    expected = run(module, params, INPUTS, RAGGED)
    for lengths in (jnp.asarray(RAGGED), RAGGED.tolist()):
        assert_close(jax.jit(lambda params: module.apply({'params': params}, INPUTS, lengths))(params), expected, 1e-6)
