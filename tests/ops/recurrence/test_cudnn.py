"""What cuDNN is given, read by jax's own reference for it; the kernel itself needs a GPU."""

import functools

import jax
from jax.experimental import rnn
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.ops.recurrence import cudnn

B, T, D, N = 3, 4, 2, 5


def draw():
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    weights = {name: normal(*shape) for name, shape in ops.LSTM().weight_shapes(D, N).items()}
    return weights, normal(B, T, D), (normal(B, N), normal(B, N))


def reference(inputs, h, c, packed, lengths, D, N, layers, dropout, bidirectional):
    unpacked = rnn.unpack_lstm_weights(packed, D, N, layers, bidirectional)
    return rnn.lstm_ref(inputs, h, c, *unpacked, lengths, D, N, layers, dropout, bidirectional)


def test_a_cpu_is_not_served():
    weights, inputs, _ = draw()
    assert not cudnn.available()
    assert not cudnn.serves(ops.LSTM(), weights, inputs, False, None, None, None)


@pytest.mark.parametrize('change', [
    dict(cell=ops.GRU()), dict(cell=ops.LSTM(candidate='sigmoid')), dict(cell=ops.CoupledLSTM()), dict(reverse=True),
    dict(new_segment=1), dict(hold=1), dict(state_mask=1), dict(inputs=np.zeros((B, T, D), np.float16))], ids='-'.join)
def test_with_a_gpu_only_the_plain_lstm_is_served(change, monkeypatch):
    monkeypatch.setattr(cudnn, 'available', lambda: True)
    weights, inputs, _ = draw()
    case = dict(cell=ops.LSTM(), weights=weights, inputs=inputs, reverse=False, new_segment=None, hold=None, state_mask=None)
    assert cudnn.serves(**case) and not cudnn.serves(**{**case, **change})


def test_all_weights_are_packed_and_unpack_to_torchs_layout():
    weights, _, _ = draw()
    packed = cudnn.pack(weights)
    assert packed.shape == (rnn.get_num_params_in_lstm(D, N, 1, False),)
    W, U, b, zero = (part[0] for part in rnn.unpack_lstm_weights(packed, D, N, 1, False))
    np.testing.assert_array_equal(W, np.concatenate([weights['input_kernel'][:, gate].T for gate in range(4)]))
    np.testing.assert_array_equal(U, np.concatenate([weights['recurrent_kernel'][:, gate].T for gate in range(4)]))
    np.testing.assert_array_equal(b, np.concatenate(weights['bias']))
    np.testing.assert_array_equal(zero, np.zeros(4 * N))


@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('lengths', [None, np.array([4, 0, 2])], ids=['full', 'ragged'])
def test_recur_through_cudnn_equals_the_engine(lengths, bias, monkeypatch):
    weights, inputs, state = draw()
    if not bias:
        del weights['bias']
    run = functools.partial(ops.recur, ops.LSTM(), weights, inputs, state, lengths)
    expected = jax.jit(run)()
    monkeypatch.setattr(cudnn, 'available', lambda: True)
    monkeypatch.setattr(rnn, 'lstm', reference)
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, atol=1e-6), jax.jit(lambda: run())(), expected)
    assert jnp.shape(expected[0]) == (B, T, N)
