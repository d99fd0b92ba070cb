"""Weights of torch.nn.RNN, LSTM and GRU, both ways. Torch is not needed: named arrays in, named arrays out.

    torch                                     here
    weight_ih_l0 [G N, D]                     layer_0 / input_kernel [D, G, N]          the same order of gates
    weight_hh_l0 [G N, M]                     layer_0 / recurrent_kernel [M, G, N]
    weight_hr_l0 [M, N]                       layer_0 / projection_kernel [N, M]        an LSTM with proj_size
    bias_ih_l0 + bias_hh_l0 [G N]             layer_0 / bias [G, N]
    the last N of a GRU's bias_hh_l0          layer_0 / candidate_bias [N]              the reset gate multiplies it
    ..._l1_reverse                            layer_1_reverse
"""

import os.path

from flax.core import meta
import numpy as np

from seqjax import nn, ops
from seqjax.errors import FieldError, suggestion

KINDS = {'rnn_tanh': ops.Elman(), 'rnn_relu': ops.Elman('relu'), 'lstm': ops.LSTM(), 'gru': ops.GRU()}


def from_torch_rnn(tensors, *, kind):
    """(module, variables) that compute what torch's module with these tensors computes.

        module, variables = from_torch_rnn(torch_lstm.state_dict(), kind='lstm')
        outputs, final_state = module.apply(variables, inputs, lengths)

    tensors: {name: array} of a state dict; a prefix that all names share, such as 'encoder.lstm.', is taken off. Layers,
    directions, widths, bias and projection are read from names and shapes. kind: 'rnn_tanh', 'rnn_relu', 'lstm' or 'gru'.
    """
    if kind not in KINDS:
        raise FieldError('kind', kind, suggestion(str(kind), KINDS))
    tensors = {name: np.asarray(tensor, np.float32) for name, tensor in _without_prefix(tensors).items()}
    module, D = _module_of(tensors, kind)
    zeros = {layer: {name: np.zeros(shape) for name, shape in shapes.items()}
             for layer, shapes in _shapes(module, D).items()}
    _compare(tensors, to_torch_rnn(module, {'params': zeros}), f'the state dict of a torch {kind}')
    return module, {'params': {layer: _from_torch(_of_layer(tensors, layer), kind) for layer in zeros}}


def to_torch_rnn(module, variables):
    """{name: numpy array}, a state dict for the torch module that computes what `module` computes with `variables`.

    Torch has two biases for every sum: the first gets ours, the second is zero.
    """
    kind = _kind_of(module)
    params = {f'{layer}/{name}': np.asarray(array, np.float32)
              for layer, weights in meta.unbox(variables)['params'].items() for name, array in weights.items()}
    D = params.get('layer_0/input_kernel', np.zeros(0)).shape[0]
    expected = _shapes(module, D)
    zeros = {f'{layer}/{name}': np.zeros(shape) for layer, shapes in expected.items() for name, shape in shapes.items()}
    _compare(params, zeros, f'the parameters of {type(module).__name__}')
    return {f'{name}{_end(layer)}': array for layer, shapes in expected.items()
            for name, array in _to_torch({name: params[f'{layer}/{name}'] for name in shapes}, kind).items()}


# ------------------------------------------------------------------------------------------------------------- One layer

def _from_torch(tensors, kind):
    """The weights of one layer in one direction."""
    gates = len(KINDS[kind].gate_kinds)
    by_gate = lambda matrix: matrix.reshape(gates, -1, matrix.shape[1]).transpose(2, 0, 1)
    weights = dict(input_kernel=by_gate(tensors['weight_ih']), recurrent_kernel=by_gate(tensors['weight_hh']))
    if 'bias_ih' in tensors:
        first, second = (tensors[name].reshape(gates, -1) for name in ('bias_ih', 'bias_hh'))
        weights['bias'] = np.where(second == 0, first, first + second)  # where nothing is added every bit stays, -0.0 too
        if kind == 'gru':
            weights['bias'][2], weights['candidate_bias'] = first[2], second[2]
    if 'weight_hr' in tensors:
        weights['projection_kernel'] = tensors['weight_hr'].T
    return {name: np.array(array, order='C') for name, array in weights.items()}


def _to_torch(weights, kind):
    """The tensors of one layer in one direction."""
    rows = lambda kernel: kernel.transpose(1, 2, 0).reshape(-1, kernel.shape[0])
    tensors = dict(weight_ih=rows(weights['input_kernel']), weight_hh=rows(weights['recurrent_kernel']))
    if 'bias' in weights:
        second = np.zeros_like(weights['bias'])
        if kind == 'gru':
            second[2] = weights['candidate_bias']
        tensors.update(bias_ih=weights['bias'].reshape(-1), bias_hh=second.reshape(-1))
    if 'projection_kernel' in weights:
        tensors['weight_hr'] = weights['projection_kernel'].T
    return {name: np.array(array, order='C') for name, array in tensors.items()}


# --------------------------------------------------------------------------------------------------------- Names and shapes

def _end(layer):
    """'layer_1_reverse' is '_l1_reverse' in torch."""
    return layer.replace('layer_', '_l')


def _of_layer(tensors, layer):
    """The tensors of one layer in one direction, their names without its number."""
    return {name.removesuffix(_end(layer)): array for name, array in tensors.items() if name.endswith(_end(layer))}


def _without_prefix(tensors):
    shared = os.path.commonprefix(list(tensors))
    return {name[shared.rfind('.') + 1:]: tensor for name, tensor in tensors.items()}


def _shapes(module, D):
    """{layer: {name: shape}} of the parameters of a module over inputs of width D."""
    cell, N, shapes = ops.make_cell(module.cell), module.widths[0], {}
    for number in range(len(module.widths)):
        for layer in (f'layer_{number}', f'layer_{number}_reverse')[:1 + module.bidirectional]:
            shapes[layer] = {name: weight.shape for name, weight in cell.weights(D, N).items()
                             if module.bias or weight.kind != 'bias'}
        D = cell.output_width(N) * (1 + module.bidirectional)
    return shapes


def _compare(found, expected, what):
    """Every array that is missing, not expected or of another shape, in one error."""
    wrong = [f'missing: {name} {expected[name].shape}' for name in expected if name not in found]
    wrong += [f'not expected: {name} {found[name].shape}' for name in found if name not in expected]
    wrong += [f'{name} {found[name].shape}: expected {array.shape}' for name, array in expected.items()
              if name in found and found[name].shape != array.shape]
    if wrong:
        raise ValueError(f'this is not {what}:' + ''.join(f'\n  {line}' for line in wrong))


# ----------------------------------------------------------------------------------------------------------- The modules

def _module_of(tensors, kind):
    """The module that a state dict describes, and the width of its inputs."""
    for name in ('weight_ih_l0', 'weight_hh_l0', *({'weight_hr_l0'} & {*tensors})):
        if name not in tensors or tensors[name].ndim != 2:
            found = tensors[name].shape if name in tensors else f'missing among {sorted(tensors)}'
            raise ValueError(f'{name}: {found}; the state dict of a torch {kind} has a matrix of this name')
    projection = tensors.get('weight_hr_l0') if kind == 'lstm' else None
    N = tensors['weight_hh_l0' if projection is None else 'weight_hr_l0'].shape[1]
    numbers = [name.removesuffix('_reverse').rpartition('_l')[2] for name in tensors]
    fields = dict(num_layers=1 + max(int(number) for number in numbers if number.isdigit()),
                  bidirectional=any(name.endswith('_reverse') for name in tensors),
                  bias=any(name.startswith('bias_') for name in tensors))
    D = tensors['weight_ih_l0'].shape[1]
    if kind.startswith('rnn'):
        return nn.RNN(N, nonlinearity=kind.removeprefix('rnn_'), **fields), D
    if kind == 'gru':
        return nn.GRU(N, **fields), D
    return nn.LSTM(N, cell='lstm' if projection is None else ops.ProjectedLSTM(width=projection.shape[0]), **fields), D


def _kind_of(module):
    """Which of torch's modules computes the same. What torch cannot do is refused."""
    cell = ops.make_cell(module.cell)
    if len(set(module.widths)) > 1:
        raise FieldError('features', module.features, 'torch has one width for all layers')
    if module.bidirectional and module.merge != 'concat':
        raise FieldError('merge', module.merge, "torch has only 'concat'")
    if module.learned_state:
        raise FieldError('learned_state', True, 'torch is given its first state and does not learn it')
    if type(cell) in (ops.LSTM, ops.ProjectedLSTM) and cell.candidate == 'tanh':
        return 'lstm'
    for kind, known in KINDS.items():
        if cell == known:
            return kind
    raise FieldError('cell', module.cell, f'torch has no such cell; it has {", ".join(KINDS)}')
