"""What a function costs: the floating-point operations of its matrix products and convolutions."""

import math

import jax
from jax.extend import core
import numpy as np

from seqjax.errors import UserError

_CALLS = ('jit', 'pjit', 'closed_call', 'remat2', 'checkpoint', 'custom_jvp_call', 'custom_vjp_call')  # run theirs once
_OPAQUE = ('call_hi_primitive',)  # may hold products that cannot be seen from outside


def matmul_flops(function, *arguments):
    """Operations of all products in function(*arguments), counted from its jaxpr: nothing is run and nothing compiled.

        flops = matmul_flops(jax.grad(loss), params, jax.ShapeDtypeStruct((32, 128), jnp.int32))

    XLA's own `cost_analysis` counts the body of a loop once, however often it runs; here a scan counts as often as it runs,
    and of a cond the dearest branch; of `lax.platform_dependent` the default one, whatever kernels the others are. A `while` loop
    with products in it is refused: nobody knows how often it runs.

    A multiplication and an addition are two operations: [M, K] x [K, N] has 2 M N K of them, and four times as many where
    the numbers are complex. A convolution counts its taps in the padding, as papers do, but not those in the holes of a
    dilated input. Of a `ragged_dot` every row counts with the one kernel that it meets: a mixture of experts costs what was
    chosen, and what some platforms compute past the ends of groups does not count. Under `shard_map` the count is that of all
    devices together. What is computed and not used counts too.

    arguments: arrays or jax.ShapeDtypeStruct.
    """
    return jaxpr_flops(jax.make_jaxpr(function)(*arguments))


def jaxpr_flops(jaxpr):
    """The same of a function that is traced already."""
    return sum(_count(equation) for equation in jaxpr.eqns)


def _count(equation):
    name, params = equation.primitive.name, equation.params
    if name in _PRODUCTS:
        return _PRODUCTS[name](equation)
    if name == 'custom_linear_solve':  # it also holds the matrix as a function, for the gradient
        return jaxpr_flops(params['jaxprs'].solve)
    if name == 'cond' and params.get('branches_platforms'):
        return jaxpr_flops(params['branches'][-1])
    inside = [jaxpr_flops(jaxpr) for value in params.values() for jaxpr in _jaxprs(value)]
    if name == 'scan':
        return params['length'] * sum(inside)
    if name == 'cond':
        return max(inside)
    if name == 'shard_map':
        return math.prod(params['mesh'].shape[axis] for axis in params['newly_manual_axes']) * sum(inside)
    if name == 'while' and any(inside):
        raise UserError(f'a while loop with products inside, {sum(inside):,} operations a turn: how many turns is not known '
                        'before it runs; write it as jax.lax.scan, or count its body and multiply')
    if name in _OPAQUE or (any(inside) and name not in _CALLS):
        raise UserError(f"the products inside of '{name}' cannot be counted; count the function without it and add them")
    return sum(inside)


def _jaxprs(value):
    if isinstance(value, (core.Jaxpr, core.ClosedJaxpr)):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _jaxprs(part)


def _dot(equation):
    """2 * M * N * K * batch: every number of the result sums over the contracted axes."""
    lhs, out = equation.invars[0].aval, equation.outvars[0].aval
    (contracted, _), _ = equation.params['dimension_numbers']
    return _multiply_add(out) * out.size * math.prod(lhs.shape[axis] for axis in contracted)


def _ragged_dot(equation):
    """2 * M * N * K: a row belongs to one group. Where rows are summed over, every group sums over its own."""
    lhs, sizes, out = equation.invars[0].aval, equation.invars[2].aval, equation.outvars[0].aval
    numbers = equation.params['ragged_dot_dimension_numbers']
    (contracted, _), _ = numbers.dot_dimension_numbers
    count = _multiply_add(out) * out.size * math.prod(lhs.shape[axis] for axis in contracted)
    return count // sizes.shape[-1] if numbers.lhs_ragged_dimensions[0] in contracted else count


def _convolution(equation):
    """2 * batch * features out * features in (of a group) * taps."""
    kernel, out, params = equation.invars[1].aval, equation.outvars[0].aval, equation.params
    _, rhs, to = params['dimension_numbers']
    taps = math.prod(
        _taps(out.shape[o], kernel.shape[k], stride, low, holes, spread) for o, k, stride, (low, _), holes, spread in
        zip(to[2:], rhs[2:], params['window_strides'], params['padding'], params['lhs_dilation'], params['rhs_dilation']))
    return _multiply_add(out) * out.shape[to[0]] * out.shape[to[1]] * kernel.shape[rhs[1]] * taps


def _taps(out, kernel, stride, low, holes, spread):
    """Along one axis: the pairs of an output and a place of the kernel that do not meet in a hole of the input.

    The gradient of a convolution with strides puts them between its inputs; with them it would seem stride^2 as dear.
    """
    places = stride * np.arange(out)[:, None] + spread * np.arange(kernel) - low
    return int((places % holes == 0).sum())


def _multiply_add(out):
    return 8 if np.issubdtype(out.dtype, np.complexfloating) else 2


def _cudnn(turns, inputs, weights):
    """cuDNN's recurrent layers: each number of a matrix meets each step of each row. Of the weights 2 x 4 N are biases."""
    def count(equation):
        params = equation.params
        layers = params['num_layers'] * (2 if params['bidirectional'] else 1)
        B, T, _ = equation.invars[inputs].aval.shape
        return turns * 2 * B * T * (equation.invars[weights].aval.size - 8 * params['hidden_size'] * layers)

    return count


_PRODUCTS = {'dot_general': _dot, 'ragged_dot_general': _ragged_dot, 'conv_general_dilated': _convolution,
             'rnn_fwd': _cudnn(1, inputs=0, weights=3), 'rnn_bwd': _cudnn(2, inputs=3, weights=6)}
