"""Recurrence: one engine runs any cell over time; what it must know of one, the cell declares (`cell`).

    x_t = W i_t + b                          all steps in one matmul, before the loop
    r_t = U h_{t-1}                          the loop's matmul
    s_t = cell(x_t, r_t, s_{t-1})            the cell's equation; the state s is a tuple that starts with h

The backward pass is written by hand: the reverse loop carries the gradient of the state and little else, and the
gradient of U is one matmul after it instead of an accumulator inside it. Cells that are linear in their state have no
loop with a matmul at all: `ops.linear_recurrence`.

Shapes: B rows, T steps, D inputs, N hidden units, M the width of h, G gates. Outside rows come first, [B, T, D]; inside
the loop they come last, [G, N, T, B], because U [N, G N] times h [N, B] is the orientation in which a small matmul is
fastest on a CPU, and because then only whole rows of memory are read and written at a step.
"""

import functools

import jax
import jax.numpy as jnp

from seqjax.ops.pooling import valid_steps
from seqjax.ops.recurrence import cudnn
from seqjax.ops.recurrence.checkpointed_scan import run_in_pieces
from seqjax.ops.recurrence.linear_scan import linear_recurrence
from seqjax.ops.recurrence.token_shift import segment_starts


def recur(cell, weights, inputs, state, lengths=None, *, reverse=False, segments=None, fresh=None, hold=None,
          state_mask=None, unroll=1, checkpoint_every=0):
    """Runs `cell` over the steps of `inputs` and returns (outputs [B, T, M], final state).

    weights: {name: array} with the shapes of `cell.weights(D, N)`; 'bias' may be left out. The dtype of the
        kernels is that of the matmuls, while the state keeps its own (float32).
    inputs: [B, T, D]. state: tuple with a part [B, ...] for each of `cell.state(N)`, h [B, M] first.
    lengths: [B] or None. Past a row's length its state is frozen and its outputs are zero, so that the final state is
        the one at the row's own end; what the inputs hold there changes nothing.
    reverse: reads each row from its own end to its start.
    segments: [B, T] integers or None: where the number changes along a row, a new sequence starts from the state `fresh`
        (default: zeros), as if it had a row of its own.
    hold: for every part of the state a number or an array [B, T, ...], or None: the share of the old state that stays,
        s_t = hold * s_{t-1} + (1 - hold) * cell(...), which is zoneout (Krueger et al. 2017).
    state_mask: [B, M] or None, multiplies h before U at every step (Gal & Ghahramani 2016). No gradient reaches it or hold.
    unroll: steps of the loop that are compiled as one. checkpoint_every: S > 0 stores the state only every S steps and
        computes the rest again in the backward pass; S near sqrt(T) needs the least memory.
    """
    lengths = jnp.asarray(lengths) if isinstance(lengths, list | tuple) else lengths
    _check(cell, weights, inputs, state, lengths, segments, fresh, hold, state_mask)
    B, T, _ = inputs.shape
    valid = None if lengths is None else valid_steps(lengths, T)  # [B, T]
    new_segment = None if segments is None else segment_starts(segments, lengths, reverse)  # [B, T]
    if fresh is None:
        fresh = jax.tree.map(jnp.zeros_like, state)
    if hold is not None:
        dtype = state[-1].real.dtype
        hold = tuple(share.astype(dtype) if jnp.ndim(share) else jnp.full((B, T, *(1,) * (part.ndim - 1)), share, dtype)
                     for share, part in zip(hold, state))
        hold = jax.lax.stop_gradient(hold)
    masks = valid, new_segment, hold
    constants = weights, fresh, state_mask
    run = functools.partial(_run, cell, reverse, unroll)
    if not checkpoint_every or checkpoint_every >= T:
        return run(constants, inputs, state, masks)
    return run_in_pieces(run, checkpoint_every, reverse, constants, inputs, state, masks)


def advance(cell, weights, inputs, state):
    """One step, inputs [B, D] -> the new state: plain code that forward- and reverse-mode autodiff both go through."""
    return _rows_first(cell.step(*_one_step(cell, weights, inputs, state)))


def gates(cell, weights, inputs, state):
    """The activated gates of one step, [B, G, N], in the order of `cell.gate_names`."""
    return jnp.moveaxis(jnp.stack(cell.activations(*_one_step(cell, weights, inputs, state))), -1, 0)


def _one_step(cell, weights, inputs, state):
    """The arguments of `cell.step` for a single step."""
    x = cell.prepare(weights, _project(weights, inputs[:, None], state[0].real.dtype))[:, :, 0]  # [G, N, B]
    if 'bias' in weights:
        x += weights['bias'][:, :, None].astype(x.dtype)
    state, kernel = _rows_last(state), cell.kernel(weights)
    r = 0.0 if kernel is None else _product(kernel, state[0])
    return weights, x, r, state, _second_product(cell, weights)


def _run(cell, reverse, unroll, constants, inputs, state, masks):
    """All steps of `inputs` as one stretch."""
    (weights, fresh, state_mask), (valid, new_segment, hold) = constants, masks
    if valid is not None:  # whatever lies past the end must not reach a product, not even as 0 * inf
        inputs = jnp.where(valid[:, :, None], inputs, 0)
    if cudnn.serves(cell, weights, inputs, reverse, new_segment, hold, state_mask):
        outputs, state = cudnn.lstm(weights, inputs, state, valid)
    elif cell.linear:
        outputs, state = _run_linear(cell, weights, inputs, state, fresh, valid, new_segment, hold, reverse)
    else:
        kernel = cell.kernel(weights)
        x = cell.prepare(weights, _project(weights, inputs, state[0].real.dtype))  # [G, N, T, B]
        bias = weights['bias'].astype(x.dtype) if 'bias' in weights else jnp.zeros(x.shape[:2], x.dtype)
        D, _, N = weights['input_kernel'].shape
        small = {name: weights[name] for name, weight in cell.weights(D, N).items() if weight.in_loop}
        second = small.pop(cell.second) if cell.second else None
        outputs, state = _loop(cell, reverse, unroll, (kernel, second, bias, small), x, _rows_last(state), _rows_last(fresh),
                               _rows_last((state_mask, *masks)))
        outputs, state = jnp.moveaxis(outputs, -1, 0), _rows_first(state)
    return (outputs if valid is None else jnp.where(valid[:, :, None], outputs, 0)), state


def _run_linear(cell, weights, inputs, state, fresh, valid, new_segment, hold, reverse):
    """h_t = a_t * h_{t-1} + b_t: padding is a = 1 and b = 0, a new segment is a = 0 and b + a * fresh."""
    x = _project(weights, inputs, state[0].real.dtype)
    if 'bias' in weights:
        x += weights['bias'].astype(x.dtype)[:, :, None, None]
    a, b = (jnp.moveaxis(part, 1, 0) for part in cell.coefficients(weights, x))  # [T, N, B]
    if hold is not None:
        kept = jnp.moveaxis(hold[0], 0, -1).astype(a.dtype)  # [T, N, B]
        a, b = kept + (1 - kept) * a, (1 - kept) * b
    if new_segment is not None:
        start = new_segment.T[:, None]
        b += jnp.where(start, a * fresh[0].T, 0)
        a = jnp.where(start, 0, a)
    if valid is not None:
        runs = valid.T[:, None]
        a, b = jnp.where(runs, a, 1), jnp.where(runs, b, 0)
    h = linear_recurrence(a, b, state[0].T.astype(b.dtype), reverse=reverse)
    return cell.outputs(weights, jnp.moveaxis(h, -1, 0), inputs), (h[0 if reverse else -1].T,)


# -------------------------------------------------------------------------------------------------------- The products

def _contract(a, b, axes_a, axes_b, dtype):
    """Sums over axes_a of a and axes_b of b; the other axes of a come first."""
    return jax.lax.dot_general(a, b, ((axes_a, axes_b), ((), ())), preferred_element_type=dtype)


def _project(weights, inputs, dtype):
    """W i for all steps: inputs [B, T, D] -> [G, N, T, B]."""
    kernel = weights['input_kernel']
    return _contract(jnp.moveaxis(kernel, 0, 2), jnp.moveaxis(inputs, 0, 2).astype(kernel.dtype), (2,), (1,), dtype)


def _product(kernel, h):
    """U h: kernel [M, G, N], h [M, B] -> [G, N, B]."""
    return _contract(jnp.moveaxis(kernel, 0, 2), h.astype(kernel.dtype), (2,), (0,), h.dtype)


def _second_product(cell, weights):
    """v -> the product of the cell's second matrix [N, M] and v [N, B]."""
    return (lambda v: _contract(weights[cell.second].T, v.astype(weights[cell.second].dtype), (1,), (0,), v.dtype)) \
        if cell.second else None


# -------------------------------------------------------------------------------------------------------- The loop
#
# In it rows are last: x and dx [G, N, T, B], state and fresh [..., B], mask [M, B], valid and new_segment [T, B],
# hold [T, ..., B].

@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _loop(cell, reverse, unroll, weights, x, state, fresh, masks):
    """(outputs [T, M, B], final state). weights: U, the second matrix, b, the small ones; masks: of h, valid, new, hold."""
    return _forward(cell, reverse, unroll, weights, x, state, fresh, masks)[0]


def _forward(cell, reverse, unroll, weights, x, state, fresh, masks):
    (kernel, second, bias, small), (mask, valid, new_segment, hold) = weights, masks
    by_gate = None if kernel is None else jnp.moveaxis(kernel, 0, 2)  # [G, N, M]: turned once, not at every step
    weights = small if second is None else {**small, cell.second: second}

    def step(state, now):
        t, valid, new_segment, hold = now
        begin = _restart(new_segment, state, fresh)
        h = begin[0] if mask is None else begin[0] * mask
        r = None if kernel is None else _contract(by_gate, h.astype(kernel.dtype), (2,), (0,), h.dtype)
        x_t = jax.lax.dynamic_index_in_dim(x, t, 2, keepdims=False) + bias[:, :, None]
        new, kept = _cell_forward(cell, weights, x_t, r, begin)
        return _mix(_share(hold, valid), begin, new), (state, kept)

    T = x.shape[2]
    final, (before, kept) = jax.lax.scan(step, state, (jnp.arange(T), valid, new_segment, hold), reverse=reverse,
                                         unroll=unroll)
    h = before[0]
    outputs = jnp.concatenate((final[0][None], h[:-1]) if reverse else (h[1:], final[0][None]))
    return (outputs, final), ((kernel, second, bias, small), x, before, kept, fresh, masks)


def _backward(cell, reverse, unroll, saved, gradients):
    (kernel, second, _, small), x, before, kept, fresh, (mask, valid, new_segment, hold) = saved
    d_outputs, d_final = gradients
    weights = small if second is None else {**small, cell.second: second}

    def step(carry, now):
        d_state, d_small, d_fresh, d_x = carry
        t, state, kept, d_output, valid, new_segment, hold = now
        begin, share = _restart(new_segment, state, fresh), _share(hold, valid)
        d_state = (d_state[0] + d_output, *d_state[1:])
        d_kept, d_new = _mix_backward(share, d_state)
        dx, dr, d_begin, d_weights, d_second = _cell_backward(cell, weights, kept, begin, d_new)
        if kernel is not None:
            dh = _contract(kernel, dr.astype(kernel.dtype), (1, 2), (0, 1), dr.dtype)
            d_begin = (d_begin[0] + (dh if mask is None else dh * mask), *d_begin[1:])
        d_begin = jax.tree.map(jnp.add, d_begin, d_kept) if share else d_begin
        if new_segment is not None:
            d_fresh = jax.tree.map(lambda total, d: total + jnp.where(new_segment, d, 0), d_fresh, d_begin)
            d_begin = jax.tree.map(lambda d: jnp.where(new_segment, 0, d), d_begin)
        d_x = jax.lax.dynamic_update_index_in_dim(d_x, dx, t, 2)
        return (d_begin, jax.tree.map(jnp.add, d_small, d_weights), d_fresh, d_x), (None if dr is dx else dr, d_second)

    # The gradient of x is written over x, which nobody needs any more: a fresh buffer would first be filled with zeros.
    carry = d_final, jax.tree.map(jnp.zeros_like, small), jax.tree.map(jnp.zeros_like, fresh), x
    now = jnp.arange(x.shape[2]), before, kept, d_outputs, valid, new_segment, hold
    (d_state, d_small, d_fresh, d_x), (d_r, d_second) = jax.lax.scan(step, carry, now, reverse=not reverse, unroll=unroll)
    d_kernel = None
    if kernel is not None:
        h = before[0] if new_segment is None else jnp.where(new_segment[:, None], fresh[0], before[0])
        h = h if mask is None else h * mask
        d_r, at = (d_x, (2, 3)) if d_r is None else (d_r, (0, 3))
        d_kernel = _contract(h.astype(kernel.dtype), d_r.astype(kernel.dtype), (0, 2), at, None)
    if second is not None:
        v, dq = d_second
        d_second = _contract(v.astype(second.dtype), dq.astype(second.dtype), (0, 2), (0, 2), None)
    return (d_kernel, d_second, d_x.sum((2, 3)), d_small), d_x, d_state, d_fresh, None


_loop.defvjp(_forward, _backward)


def _cell_forward(cell, weights, x, r, state):
    """(new state, what `_cell_backward` needs). r: None where the cell has no recurrent matrix."""
    if cell.by_hand:
        return cell.forward(weights, x, r, state)
    x, r = (x, 0.0) if r is None else (x + r, 0.0) if cell.additive else (x, r)
    seen, dot = [], _second_product(cell, weights)

    def remember(v):
        seen.append((v, dot(v)))
        return seen[-1][1]

    return cell.step(weights, x, r, state, remember), (x, None if jnp.ndim(r) == 0 else r, *seen)


def _cell_backward(cell, weights, kept, state, d_new):
    """Gradients of x, r, the state before (without U), the small weights; and (v, gradient of the second product)."""
    if cell.by_hand:
        return *cell.backward(weights, kept, state, d_new), None
    x, r, *seen = kept

    def step(small, x, r, state, products):
        met = []

        def recall(v):
            met.append(v)
            return products[len(met) - 1]

        return cell.step(small, x, 0.0 if r is None else r, state, recall), met

    small = {name: array for name, array in weights.items() if name != cell.second}
    products = [product for _, product in seen]
    (_, met), pull = jax.vjp(step, small, x, r, state, products)
    found = pull((d_new, jax.tree.map(jnp.zeros_like, met)))
    d_second = None
    if seen:  # the product was taken as known; now its own gradient goes through its matrix and back into the step
        (d_product,), kernel = found[-1], weights[cell.second]
        dv = _contract(kernel, d_product.astype(kernel.dtype), (1,), (0,), d_product.dtype)
        found = jax.tree.map(jnp.add, found, pull((jax.tree.map(jnp.zeros_like, d_new), [dv])))
        d_second = met[0], d_product
    d_small, dx, dr, d_state, _ = found
    return dx, dx if dr is None else dr, d_state, d_small, d_second


def _restart(new_segment, state, fresh):
    """`fresh` where a new segment begins."""
    return state if new_segment is None else tuple(jnp.where(new_segment, f, s) for f, s in zip(fresh, state))


def _share(hold, valid):
    """How much of every part of the state stays as it was: all of it past a row's end; None: nothing anywhere."""
    if valid is None:
        return hold
    if hold is None:
        return (~valid,)
    return tuple(jnp.where(valid, part, 1) for part in hold)


def _mix(share, old, new):
    if share is None:
        return new
    if share[0].dtype == bool:
        return tuple(jnp.where(share[0], o, n) for o, n in zip(old, new))
    return tuple(s * o + (1 - s) * n for s, o, n in zip(share, old, new))


def _mix_backward(share, d_state):
    """(gradient of the old state, gradient of the new state) of `_mix`."""
    if share is None:
        return None, d_state
    if share[0].dtype == bool:
        return tuple(jnp.where(share[0], d, 0) for d in d_state), tuple(jnp.where(share[0], 0, d) for d in d_state)
    return tuple(s * d for s, d in zip(share, d_state)), tuple((1 - s) * d for s, d in zip(share, d_state))


# -------------------------------------------------------------------------------------------------------- Small things

def _rows_last(tree):
    return jax.tree.map(lambda array: jnp.moveaxis(array, 0, -1), tree)


def _rows_first(tree):
    return jax.tree.map(lambda array: jnp.moveaxis(array, -1, 0), tree)


def _check(cell, weights, inputs, state, lengths, segments, fresh, hold, state_mask):
    """Shapes that do not fit get a sentence with the argument, its shape and what it should be."""
    name = type(cell).__name__
    if inputs.ndim != 3 or not inputs.shape[1]:
        raise ValueError(f'inputs have shape {inputs.shape}; expected [B, T, D], three axes and at least one step')
    B, T, D = inputs.shape
    width, _, N = weights['input_kernel'].shape
    if D != width:
        raise ValueError(f'inputs have shape {inputs.shape}, width {D}; the weights were made for width {width}')
    for key, expected in cell.weight_shapes(D, N).items():
        found = jnp.shape(weights[key]) if key in weights else 'missing'
        if found != expected and (key != 'bias' or key in weights):
            raise ValueError(f"weights['{key}']: {found}; {name} with D={D} and N={N} takes the shape {expected}")
    parts = tuple((B, *part.shape) for part in cell.state(N).values())
    if len(parts[0]) != 2:
        raise ValueError(f'the state of {name} begins with {cell.parts[0]!r} of shape {parts[0][1:]}; the first part is h [M], '
                         'which the layer puts out')
    for argument, given in (('state', state), ('fresh', fresh)):
        found = parts if given is None else tuple(jnp.shape(part) for part in given)
        if found != parts:
            raise ValueError(f'{argument} has shapes {found}; {name} with N={N} and B={B} rows takes {parts}')
    if hold is not None:
        found, expected = tuple(jnp.shape(part) for part in hold), tuple((B, T, *part[1:]) for part in parts)
        if len(found) != len(parts) or any(shape not in ((), takes) for shape, takes in zip(found, expected)):
            raise ValueError(f'hold has shapes {found}; {name} takes a number or an array for every part, {expected}')
    if state_mask is not None and cell.kernel(weights) is None:
        raise ValueError(f'state_mask multiplies h before the recurrent matrix; {name} has none')
    if state_mask is not None and jnp.shape(state_mask) != parts[0]:
        raise ValueError(f'state_mask has shape {jnp.shape(state_mask)}; expected [B, M] = {parts[0]}')
    if segments is not None and jnp.shape(segments) != (B, T):
        raise ValueError(f'segments have shape {jnp.shape(segments)}; expected [B, T] = {B, T}')
    if lengths is not None:
        _check_lengths(lengths, B, T)


def _check_lengths(lengths, B, T):
    if lengths.shape != (B,) or not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise ValueError(f'lengths have shape {lengths.shape} and dtype {lengths.dtype}; expected integers, [B] = ({B},)')
    if not isinstance(lengths, jax.core.Tracer) and B:
        known = jax.device_get(lengths)  # on the host: inside a compiled function `lengths.min()` would be traced
        if min(known) < 0 or max(known) > T:
            raise ValueError(f'lengths go from {min(known)} to {max(known)}; each must be at least 0 and at most T={T}')
