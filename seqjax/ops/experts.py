"""A mixture of experts: every step is read by the few networks it has chosen, of many.

    y = sum over the chosen e of w_e FFN_e(x),     FFN_e(x) = f(x A_e + a_e) [* (x G_e + g_e)] B_e + b_e

(Shazeer et al. 2017, equation 1.) The same sum, computed in three ways:

    all       every expert reads every step, and what was not chosen is weighed with 0: E / k times the work
    blocks    pairs of a step and an expert are sorted by expert, and every group goes through its expert in blocks of steps
    ragged    the same groups through jax.lax.ragged_dot, for TPUs

No step is ever dropped, whatever the groups' sizes, and all shapes are static: there are n k pairs however they are distributed.

Shapes: B rows, T steps, n = B T, D width, F inner width, E experts, k chosen by a step, M = n k pairs.
"""

import functools

import jax
from jax import lax
import jax.numpy as jnp

from seqjax.ops.logical_axes import on_every_device

METHODS = ('all', 'blocks', 'ragged')
SMALLEST, LARGEST = 4, 128  # steps in a block
_OF_ROWS = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])  # [M, D], [M, F] -> [E, D, F]


def mix_experts(x, kernels, which, weights, *, activation, method=None):
    """[B, T, D]: for every step the sum of what its experts say.

    x: [B, T, D]. kernels: a dict with in_kernel [E, D, F] and out_kernel [E, F, D]; gate_kernel [E, D, F] where experts are
    gated; in_bias, gate_bias [E, F] and out_bias [E, D] where they have biases. which: [B, T, k], the experts that each step has
    chosen, each once. weights: [B, T, k]. activation: f.

    method: one of METHODS. None takes 'all' where every expert is chosen, and elsewhere what is right for the platform that the
    program is compiled for: 'ragged' for TPUs and 'blocks' for CPUs and GPUs. On a CPU ragged_dot multiplies every row with every
    kernel, and is slower than 'all'; docs/transformers.md has the times. On accelerators nothing was measured.

    On a mesh every device sorts its own rows: to sort those of all devices, each would need them all. Along 'mlp' it has a
    part of F of every expert and not some experts whole. The sum over devices is as large, and no device waits for the
    one whose experts were chosen by most, or has room for as many pairs as it might have to read.
    """
    if method not in (None, *METHODS):
        raise ValueError(f'method={method!r}; choose one of {", ".join(METHODS)}')
    E, weights = kernels['in_kernel'].shape[0], weights.astype(x.dtype)
    gates = _spread(which, weights, E)
    if method == 'all' or method is None and which.shape[-1] == E:
        y = _all(x, kernels, gates, activation)
    else:
        inside = {name: kernel for name, kernel in kernels.items() if name != 'out_bias'}
        rows = 'batch', None, None
        names = rows, {name: _cut_along_F(name) for name in inside}, rows, rows
        y = on_every_device(functools.partial(_grouped, activation, method),
                            (x, inside, which, weights), names, rows, summed='mlp')
    return y + gates @ kernels['out_bias'] if 'out_bias' in kernels else y


def _cut_along_F(name):
    """Names of the axes of a kernel, or of a bias inside of the experts."""
    if name == 'out_kernel':
        return None, 'mlp', None
    return (None, 'mlp') if name.endswith('bias') else (None, None, 'mlp')


def _spread(which, weights, E):
    """[B, T, E]: the weights of all experts, 0 of those that were not chosen."""
    return sum(jax.nn.one_hot(which[..., n], E, dtype=weights.dtype) * weights[..., n, None] for n in range(which.shape[-1]))


def _all(x, kernels, gates, activation):
    def widen(name):
        y = jnp.einsum('btd,edf->btef', x, kernels[f'{name}_kernel'])
        return y + kernels[f'{name}_bias'] if f'{name}_bias' in kernels else y

    y = activation(widen('in'))  # [B, T, E, F]
    if 'gate_kernel' in kernels:
        y = y * widen('gate')
    return jnp.einsum('btef,efd->btd', y * gates[..., None], kernels['out_kernel'])


# ------------------------------------------------------------------------------------------------ groups

def _grouped(activation, method, x, kernels, which, weights):
    (B, T, D), (E, k) = x.shape, (kernels['in_kernel'].shape[0], which.shape[-1])
    experts = which.reshape(-1)  # [M], of every pair
    order = jnp.argsort(experts)
    back = jnp.argsort(order)
    sizes = (experts[:, None] == jnp.arange(E)).sum(axis=0, dtype=jnp.int32)  # [E], pairs of each
    product = lambda rows, kernels: _product(method, rows, kernels, sizes)

    def widen(name, rows):
        y = product(rows, kernels[f'{name}_kernel'])
        if f'{name}_bias' in kernels:  # as a product with ones, so that its gradient is a sum over groups too
            y += product(jnp.ones_like(rows[:, :1]), kernels[f'{name}_bias'][:, None])
        return y

    rows = _permute(jnp.repeat(x.reshape(-1, D), k, axis=0), order, back)  # [M, D], one group after another
    y = activation(widen('in', rows))
    if 'gate_kernel' in kernels:
        y = y * widen('gate', rows)
    y = _permute(product(y, kernels['out_kernel']), back, order)
    return jnp.einsum('btkd,btk->btd', y.reshape(B, T, k, D), weights)


@jax.custom_vjp
def _permute(x, order, back):
    """x[order]. back: the inverse of order, with which the gradient is a lookup again and not a sum into places."""
    return x[order]


_permute.defvjp(lambda x, order, back: (x[order], back), lambda back, dy: (dy[back], None, None))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(method, rows, kernels, sizes):
    """[M, F]: rows [M, D], of which the first sizes[0] meet kernels[0] [D, F], the next sizes[1] kernels[1], and so on."""
    return _choose(method, _blocks, _ragged)(rows, kernels, sizes)


def _product_forward(method, rows, kernels, sizes):
    return _product(method, rows, kernels, sizes), (rows, kernels, sizes)


def _product_backward(method, saved, dy):
    """d rows = dy A_e^T, d A_e = (rows of e)^T (dy of e)."""
    rows, kernels, sizes = saved
    d_rows = _choose(method, *(functools.partial(way, transposed=True) for way in (_blocks, _ragged)))(dy, kernels, sizes)
    return d_rows, _choose(method, _blocks_of_rows, _ragged_of_rows)(rows, dy, sizes), None


_product.defvjp(_product_forward, _product_backward)


def _choose(method, blocks, ragged):
    if method is not None:
        return dict(blocks=blocks, ragged=ragged)[method]
    return functools.partial(lax.platform_dependent, cpu=blocks, cuda=blocks, rocm=blocks, default=ragged)


def _ragged(rows, kernels, sizes, transposed=False):
    return lax.ragged_dot(rows, kernels.swapaxes(1, 2) if transposed else kernels, sizes)


def _ragged_of_rows(rows, dy, sizes):
    return lax.ragged_dot_general(rows, dy, sizes, _OF_ROWS)


# ------------------------------------------------------------------------------------------------ blocks

def _blocks(rows, kernels, sizes, transposed=False):
    """Groups in turn. The last block of a group reaches into the next one, which then writes over what is not its own.

    transposed: by the transpose of each kernel, which is never written down: that of all E would be read whole.
    """
    M, b = rows.shape[0], _block_size(rows, sizes)
    rows, summed = _with_room(rows, b), (((1,), (1 if transposed else 0,)), ((), ()))

    def group(e, first, out):
        kernel = lax.dynamic_index_in_dim(kernels, e, keepdims=False)  # one copy for all blocks of the group

        def block(i, out):
            y = lax.dot_general(lax.dynamic_slice_in_dim(rows, first + i * b, b), kernel, summed)
            return lax.dynamic_update_slice_in_dim(out, y, first + i * b, 0)

        return lax.fori_loop(0, -(-sizes[e] // b), block, out)

    return _over_groups(group, sizes, jnp.zeros((M + b, kernels.shape[1 if transposed else 2]), rows.dtype))[:M]


def _blocks_of_rows(rows, dy, sizes):
    """[E, D, F]: of every group the products of its rows with its dy. Each is summed up in one place and written once."""
    b = _block_size(rows, sizes)
    rows, dy = _with_room(rows, b), _with_room(dy, b)

    def group(e, first, out):
        def block(i, total):
            mine = (jnp.arange(b) < sizes[e] - i * b)[:, None]
            part = jnp.where(mine, lax.dynamic_slice_in_dim(rows, first + i * b, b), 0)
            return total + jnp.einsum('md,mf->df', part, lax.dynamic_slice_in_dim(dy, first + i * b, b),
                                      preferred_element_type=jnp.float32)

        total = lax.fori_loop(0, -(-sizes[e] // b), block, jnp.zeros((rows.shape[1], dy.shape[1]), jnp.float32))
        return lax.dynamic_update_index_in_dim(out, total.astype(out.dtype), e, 0)

    return _over_groups(group, sizes, jnp.zeros((sizes.shape[0], rows.shape[1], dy.shape[1]), rows.dtype))


def _over_groups(function, sizes, out):
    """function(expert, first row, out) over the groups that are not empty, in order: what nobody chose is not even read."""
    starts, used = jnp.cumsum(sizes) - sizes, jnp.flatnonzero(sizes, size=sizes.shape[0])
    return lax.fori_loop(0, jnp.count_nonzero(sizes), lambda i, out: function(used[i], starts[used[i]], out), out)


def _block_size(rows, sizes):
    """A power of two near half of a mean group: larger ones reach further past the end of a group, smaller ones start more
    products."""
    half = rows.shape[0] // sizes.shape[0] // 2
    return min(max(1 << half.bit_length() - 1 if half else 1, SMALLEST), LARGEST)


def _with_room(rows, b):
    return jnp.pad(rows, ((0, b), (0, 0)))
