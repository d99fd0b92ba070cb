"""Recurrent weights from and to torch: the same outputs, final states and gradients, and nothing lost on the way."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from seqjax.errors import FieldError
from seqjax.interop import from_torch_rnn, to_torch_rnn
from tests.reference.parameters import random_parameters

B, T, D, N = 3, 5, 4, 3
RAGGED = np.array([3, 5, 1])
INPUTS = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------- Against torch

def torch_module(kind, **fields):
    torch = pytest.importorskip('torch')
    torch.manual_seed(0)
    if kind.startswith('rnn'):
        return torch.nn.RNN(D, N, nonlinearity=kind.removeprefix('rnn_'), batch_first=True, **fields)
    return {'lstm': torch.nn.LSTM, 'gru': torch.nn.GRU}[kind](D, N, batch_first=True, **fields)


def run_torch(module, inputs, lengths, state):
    """outputs [B, T, M] and the parts of the final state, each [layers and directions, B, M], as tensors."""
    torch = pytest.importorskip('torch')
    initial = state if isinstance(module, torch.nn.LSTM) else state[0]
    if lengths is None:
        outputs, final = module(inputs, initial)
    else:
        packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        outputs, final = module(packed, initial)
        outputs, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=T)
    return outputs, *(final if isinstance(final, tuple) else (final,))


def nested(module, parts):
    """The parts of a state in torch's order, as the state of our module."""
    flat = list(zip(*parts))
    return tuple(zip(flat[::2], flat[1::2])) if module.bidirectional else tuple(flat)


def stacked(module, state):
    """The other way."""
    flat = [direction for layer in state for direction in layer] if module.bidirectional else state
    return tuple(jnp.stack(part) for part in zip(*flat))


CASES = [  # what torch is given, and whether rows are ragged
    ('rnn_tanh', dict(num_layers=2, bidirectional=True), True),
    ('rnn_relu', dict(num_layers=1, bias=False), False),
    ('lstm', dict(num_layers=1), False),
    ('lstm', dict(num_layers=2, bidirectional=True), True),
    ('lstm', dict(num_layers=2, proj_size=2, bidirectional=True), True),
    ('gru', dict(num_layers=1, bias=False, bidirectional=True), True),
    ('gru', dict(num_layers=3), True),
]


@pytest.mark.parametrize('kind, fields, ragged', CASES, ids=str)
def test_outputs_final_states_and_all_gradients_equal_torch(kind, fields, ragged):
    torch = pytest.importorskip('torch')
    theirs, lengths, rng = torch_module(kind, **fields), RAGGED if ragged else None, np.random.default_rng(1)
    module, variables = from_torch_rnn(theirs.state_dict(), kind=kind)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    state = stacked(module, jax.tree.map(lambda part: normal(*part.shape), module.zero_state(B)))

    tensors = [torch.tensor(np.array(array), requires_grad=True) for array in (INPUTS, *state)]
    expected = run_torch(theirs, tensors[0], lengths, tuple(tensors[1:]))
    cotangents = [normal(*part.shape) for part in expected]
    sum((part * torch.tensor(d)).sum() for part, d in zip(expected, cotangents)).backward()

    @jax.jit
    def ours(variables, inputs, state):
        def apply(variables, inputs, state):
            outputs, final = module.apply(variables, inputs, lengths, nested(module, state))
            return outputs, *stacked(module, final)

        results, pull = jax.vjp(apply, variables, inputs, state)
        return results, pull(tuple(cotangents))

    results, (d_variables, d_inputs, d_state) = ours(variables, INPUTS, state)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    for actual, tensor in zip(results, expected, strict=True):
        close(actual, tensor.detach())
    for actual, tensor in zip((d_inputs, *d_state), tensors, strict=True):
        close(actual, tensor.grad)
    gradients = to_torch_rnn(module, d_variables)
    for name, parameter in theirs.named_parameters():
        shared = 2 * N if kind == 'gru' else None  # both biases of a sum have the gradient of ours
        if name.startswith('bias_hh'):
            gradients[name][:shared] = gradients[name.replace('hh', 'ih')][:shared]
        close(gradients[name], parameter.grad)


@pytest.mark.filterwarnings('ignore:LSTM with projections')
@pytest.mark.parametrize('kind, fields', [
    ('lstm', dict(num_layers=2, proj_size=2, bidirectional=True)), ('gru', dict(num_layers=2)),
    ('rnn_relu', dict(bias=False))], ids=str)
def test_torch_loads_what_is_exported_and_computes_the_same(kind, fields):
    torch = pytest.importorskip('torch')
    theirs = torch_module(kind, **fields)
    module, variables = from_torch_rnn(theirs.state_dict(), kind=kind)

    def outputs_with(variables):
        theirs.load_state_dict({name: torch.tensor(array) for name, array in to_torch_rnn(module, variables).items()})
        return theirs(torch.tensor(INPUTS))[0].detach()

    before = theirs(torch.tensor(INPUTS))[0].detach()
    np.testing.assert_allclose(outputs_with(variables), before, atol=1e-6)
    other = {'params': random_parameters(module, INPUTS, seed=3)}
    np.testing.assert_allclose(jax.jit(module.apply)(other, INPUTS)[0], outputs_with(other), atol=1e-5)


# ------------------------------------------------------------------------------------------------------------- Round trips

MODULES = [
    (nn.RNN(N, 2), 'rnn_tanh'),
    (nn.RNN(N, nonlinearity='relu', bias=False), 'rnn_relu'),
    (nn.LSTM(N, 3, bidirectional=True), 'lstm'),
    (nn.LSTM(N, 2, cell=ops.ProjectedLSTM(width=2), bidirectional=True), 'lstm'),
    (nn.GRU(N, 2, bidirectional=True), 'gru'),
    (nn.GRU(N, bias=False), 'gru'),
]


def assert_same_bits(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected)):
        assert a.dtype == e.dtype == np.float32 and a.shape == e.shape and a.tobytes() == e.tobytes()


@pytest.mark.parametrize('module, kind', MODULES, ids=[kind for _, kind in MODULES])
def test_there_and_back_again_is_exact(module, kind):
    params = random_parameters(module, INPUTS)
    if module.bias:
        params['layer_0']['bias'][0, 0] = -0.0
    tensors = to_torch_rnn(module, {'params': params})
    again, variables = from_torch_rnn(tensors, kind=kind)
    assert_same_bits(variables, {'params': params})
    assert again == module
    assert_same_bits(to_torch_rnn(again, variables), tensors)


def test_a_prefix_that_all_names_share_is_taken_off_and_boxed_parameters_are_taken():
    module = nn.GRU(N, 2)
    boxed = jax.jit(module.init)(jax.random.key(0), INPUTS)
    tensors = to_torch_rnn(module, boxed)
    _, variables = from_torch_rnn({f'encoder.rnn.{name}': array.tolist() for name, array in tensors.items()}, kind='gru')
    assert_same_bits(to_torch_rnn(module, variables), tensors)


# --------------------------------------------------------------------------------------------------------------- Refusals

def lstm_tensors(**changes):
    tensors = {**to_torch_rnn(nn.LSTM(N, 2), {'params': random_parameters(nn.LSTM(N, 2), INPUTS)}), **changes}
    return {name: array for name, array in tensors.items() if array is not None}


def test_all_that_is_missing_extra_or_misshapen_is_listed():
    tensors = lstm_tensors(bias_hh_l0=None, weight_ih_l1=np.zeros((9, 3)), weight_hr_l1=np.zeros((2, 3)), scale=np.zeros(()))
    with pytest.raises(ValueError) as caught:
        from_torch_rnn(tensors, kind='lstm')
    assert str(caught.value).splitlines() == [
        'this is not the state dict of a torch lstm:', '  missing: bias_hh_l0 (12,)', '  not expected: weight_hr_l1 (2, 3)',
        '  not expected: scale ()', '  weight_ih_l1 (9, 3): expected (12, 3)']


def test_tensors_of_another_kind_are_refused_with_their_shapes():
    sentence = r'this is not the state dict of a torch gru:\n  weight_ih_l0 \(12, 4\): expected \(9, 4\)'
    with pytest.raises(ValueError, match=sentence):
        from_torch_rnn(lstm_tensors(), kind='gru')


@pytest.mark.parametrize('tensors, sentence', [
    ({}, r'^weight_ih_l0: missing among \[\]; the state dict of a torch lstm has a matrix of this name$'),
    (lstm_tensors(weight_hh_l0=np.zeros(3)), r'^weight_hh_l0: \(3,\); the state dict of a torch lstm has a matrix'),
    ({**lstm_tensors(), 'fc.weight': np.zeros((2, 3))}, r'not expected: fc.weight \(2, 3\)'),
])
def test_what_is_no_state_dict_of_a_layer_is_refused(tensors, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_torch_rnn(tensors, kind='lstm')


def test_an_unknown_kind_is_told_the_known_ones():
    with pytest.raises(FieldError, match="^kind='LSTM': choose one of: gru, lstm, rnn_relu, rnn_tanh$"):
        from_torch_rnn(lstm_tensors(), kind='LSTM')
    with pytest.raises(FieldError, match="^kind='rnn_tahn': did you mean 'rnn_tanh'?"):
        from_torch_rnn(lstm_tensors(), kind='rnn_tahn')


@pytest.mark.parametrize('module, sentence', [
    (nn.LSTM((3, 4)), r'features=\(3, 4\): torch has one width for all layers'),
    (nn.LSTM(N, bidirectional=True, merge='sum'), "merge='sum': torch has only 'concat'"),
    (nn.LSTM(N, learned_state=True), 'learned_state=True: torch is given its first state and does not learn it'),
    (nn.Recurrent(N, cell='lru'), "cell='lru': torch has no such cell; it has rnn_tanh, rnn_relu, lstm, gru"),
    (nn.Recurrent(N, cell='gru_before'), "cell='gru_before': torch has no such cell"),
    (nn.LSTM(N, cell=ops.LSTM(candidate='sigmoid')), 'torch has no such cell'),
], ids=['features', 'merge', 'learned_state', 'lru', 'gru_before', 'candidate'])
def test_what_torch_cannot_do_is_not_exported(module, sentence):
    with pytest.raises(FieldError, match=sentence):
        to_torch_rnn(module, {'params': {}})


def test_parameters_of_another_module_are_not_exported():
    with pytest.raises(ValueError, match=r'this is not the parameters of GRU:\n  missing: layer_0/candidate_bias \(3,\)'):
        to_torch_rnn(nn.GRU(N), {'params': random_parameters(nn.LSTM(N), INPUTS)})
