"""Gradient flow: how far back through a recurrent layer a gradient reaches, and what stops or blows it up.

    J_t = ds_t / ds_{t-1}                           the Jacobian of one step, of the whole state s = (h, c)
    M_k = ds_T / ds_{T-k} = J_T J_{T-1} ... J_{T-k+1}      what a gradient at the end is multiplied by, k steps back

(Bengio et al. 1994; Pascanu et al. 2013.) All norms are natural logarithms: every product is kept as exp(scale) times a
matrix of size 1 and rescaled after each step, so a norm of 1e-200 is a number here although float32 ends at 1e-45.
A complex state counts as pairs of reals. Shapes: R rows, K lags counted from 0, P the width of the state as reals.
"""

import functools
import math

from flax import struct
import jax
import jax.numpy as jnp
import numpy as np

from seqjax import ops

ROUNDING = 1e-6  # of float32 numbers of size 1
CLOSED, OPEN = 0.05, 0.95  # a sigmoid outside of these, or a tanh beyond OPEN on either side, is saturated
SLOPES = {  # the derivative of an activation, from its value
    'tanh': lambda h: 1 - h * h, 'sigmoid': lambda h: h * (1 - h), 'identity': jnp.ones_like,
    'relu': lambda h: jnp.where(h > 0, 1.0, 0.0), 'modrelu': lambda h: jnp.where(h != 0, 1.0, 0.0)}


@struct.dataclass
class GradientFlow:
    """What is known of the gradient in one layer. Lags that reach before the start of a row are NaN.

    norm [R, K]: log of |M_k|_F / sqrt(P), by how much M_k shrinks a gradient of random direction.
    singular [R, K, top]: logs of the largest singular values of M_k; the first is the spectral norm. Values more than
        seven decades below the first are rounding: for those see `exponents`.
    step_norms [R, K]: log of the product of the spectral norms |J_T| ... |J_{T-k+1}|, which bounds singular[:, :, 0].
    bound [R, K]: log of (gamma_max sigma_1)^k, for Elman networks; None for others.
    cell_path, hidden_path [R, K]: for cells that declare a `memory`, such as c with its forget gate f. dc_T / dc_{T-k} is
        the product of the forget gates along the way, and the rest that goes through h; logs of |.|_F / sqrt(N) of either.
        Else None.
    exponents [R, E]: the largest Lyapunov exponents, largest first.
    saturation: {gate: fraction of its values that are saturated}, over all rows and steps.
    states [R, T + 1, P]: s_0 ... s_T in the order in which the layer reads.
    """

    norm: jax.Array
    singular: jax.Array
    step_norms: jax.Array
    bound: jax.Array | None
    cell_path: jax.Array | None
    hidden_path: jax.Array | None
    exponents: jax.Array
    saturation: dict
    states: jax.Array


def gradient_flow(call, *, rows=2, steps=None, top=8, exponents=8):
    """The GradientFlow of a `RecurrentCall`, for its first `rows` rows.

    steps: how many steps back from the end are followed; None: all, up to the number that `affordable_steps` allows.
    """
    states, (inputs, valid) = trajectory(call), call.in_order()
    T, P = inputs.shape[1], states.shape[-1]
    steps = min(T, steps or affordable_steps(P))
    gates = gate_values(call, states, inputs)  # [B, T, G, N]
    memory, forget = _memory(call, gates)

    def one_row(row):
        states, inputs, valid, forget = row
        step = functools.partial(_real_step, call)
        flow = _products(step, states[:-1], inputs, valid, jnp.log(forget), memory, top)
        return {**flow, 'exponents': lyapunov_exponents(step, states[:-1], inputs, valid, min(exponents, P))}

    last = lambda x: x[:rows, -steps:]
    flow = jax.lax.map(one_row, (states[:rows, -steps - 1:], last(inputs), last(valid), last(forget)))
    flow = dict(flow, **{name: _from_lag_zero(flow[name], call.steps[:rows]) for name in flow if name != 'exponents'})
    flow['hidden_path'] = flow['hidden_path'].at[:, 0].set(-jnp.inf)
    if not call.cell.memory:
        flow.update(cell_path=None, hidden_path=None)
    return GradientFlow(**flow, bound=elman_bound(call, states[:rows], steps), states=states[:rows],
                        saturation=saturation(call, gates, valid))


def affordable_steps(P):
    """How many Jacobians [P, P] and their singular values are a matter of seconds: 256 for P = 512, never under 64."""
    return max(64, 2 ** 26 // P ** 2)


def trajectory(call):
    """s_0 ... s_T as reals [B, T + 1, P], in the order in which the layer reads; before a short row's start, its s_0."""
    inputs, valid = call.in_order()

    def step(state, now):
        x, keep = now
        new = ops.select_rows(keep, call.advance(state, x), state)
        return new, as_reals(new)

    _, states = jax.lax.scan(step, call.state, (jnp.swapaxes(inputs, 0, 1), valid.T))
    return jnp.concatenate([as_reals(call.state)[:, None], jnp.swapaxes(states, 0, 1)], axis=1)


def as_reals(state):
    """A state, tuple of [B, ...], as one real array [B, P]; complex parts as their real and then imaginary halves."""
    flat = [x.reshape(len(x), -1) for x in state]
    return jnp.concatenate([jnp.concatenate([x.real, x.imag], -1) if jnp.iscomplexobj(x) else x for x in flat], axis=-1)


def as_state(reals, like):
    """The state whose reals [B, P] these are; like: a state with its shapes and dtypes."""
    state, start = [], 0
    for part in like:
        width = math.prod(part.shape[1:])
        x, start = reals[..., start:start + width], start + width
        if jnp.iscomplexobj(part):
            x, start = jax.lax.complex(x, reals[..., start:start + width]), start + width
        state.append(x.reshape(-1, *part.shape[1:]))
    return tuple(state)


def _memory(call, gates):
    """(where the memory of the cell lies among the P reals, its forget gates [B, T, size]); all of them, and ones, without."""
    sizes = [math.prod(part.shape[1:]) * (1 + jnp.iscomplexobj(part)) for part in call.state]
    if not call.cell.memory:
        return slice(0, sum(sizes)), jnp.ones((*gates.shape[:2], sum(sizes)))
    name, gate = call.cell.memory
    part = call.cell.parts.index(name)
    forget = gates[:, :, call.cell.gate_names.index(gate)]  # [B, T, N]
    start = sum(sizes[:part])
    return slice(start, start + sizes[part]), jnp.repeat(forget, sizes[part] // forget.shape[-1], axis=-1)


def step_jacobians(call):
    """J_t = ds_t / ds_{t-1} of every row and step, [B, T, P, P], in the order in which the layer reads."""
    states, (inputs, valid) = trajectory(call), call.in_order()
    jacobian = jax.vmap(jax.vmap(jax.jacfwd(functools.partial(_real_step, call))))
    return jnp.where(valid[:, :, None, None], jacobian(states[:, :-1], inputs), jnp.eye(states.shape[-1]))


def _real_step(call, reals, x):
    """s_t [P] from s_{t-1} [P] and the inputs [D] of one row."""
    state = as_state(reals[None], call.state)
    return as_reals(call.advance(state, x[None]))[0]


def _products(step, states, inputs, valid, log_forget, memory, top):
    """Follows one row from its end to its start: logs of norms, singular values and paths, by lag from 1 on."""
    P, N = states.shape[-1], log_forget.shape[-1]
    eye = jnp.eye(P)

    def back(carry, now):
        product, scale, steps, path = carry
        before, x, keep, log_f = now
        jacobian = jnp.where(keep, jax.jacfwd(step)(before, x), eye)
        product, scale = _rescaled(product @ jacobian, scale)
        steps, path = steps + jnp.log(_singular(jacobian)[0]), path + log_f
        rest = product[memory, memory] - jnp.diag(jnp.exp(path - scale))
        rest = jnp.where(jnp.abs(rest) > ROUNDING, rest, 0)  # the difference of two products of size 1
        found = dict(norm=scale, step_norms=steps, singular=scale + jnp.log(_singular(product)[:top]),
                     cell_path=_log_size(jnp.exp(path - path.max())) + path.max(),
                     hidden_path=_log_size(rest) + 0.5 * jnp.log(N) + scale)
        return (product, scale, steps, path), found

    zero = jnp.zeros(())
    _, flow = jax.lax.scan(back, (eye, zero, zero, jnp.zeros(N)), (states, inputs, valid, log_forget), reverse=True)
    return {name: jnp.flip(values, axis=0) for name, values in flow.items()}


def _from_lag_zero(values, steps):
    """Puts lag 0, where M is the identity and every log is 0, in front of [R, K, ...]; NaN past a row's own steps."""
    values = jnp.concatenate([jnp.zeros_like(values[:, :1]), values], axis=1)
    reached = jnp.arange(values.shape[1]) <= steps[:, None]
    return jnp.where(reached.reshape(reached.shape + (1,) * (values.ndim - 2)), values, jnp.nan)


def _rescaled(matrix, scale):
    """The same exp(scale) * matrix, with |matrix|_F / sqrt(P) = 1; all zeros stay zeros, with scale = -inf."""
    log = _log_size(matrix) + 0.5 * jnp.log(matrix.shape[0])
    return jnp.where(jnp.isfinite(log), matrix * jnp.exp(-log), 0), scale + log


def _log_size(x):
    """log of the root mean square."""
    return 0.5 * jnp.log((x * x).mean())


def _singular(matrix):
    return jnp.linalg.svd(matrix, compute_uv=False)


def lyapunov_exponents(step, states, inputs, valid, count):
    """Lyapunov exponents of one row, largest first, by the QR method (Benettin et al. 1980).

        J_t Q_{t-1} = Q_t R_t,        lambda_i = 1/T sum_t log |R_t[i, i]|

    A positive largest exponent: nearby states part and gradients explode; a negative one: they vanish at that rate a step.
    step: (s [P], x [D]) -> s. states: s_0 ... s_{T-1} [T, P]. inputs: [T, D]. valid: [T]. count: how many exponents.
    """
    start, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (states.shape[-1], count)))

    def forward(carry, now):
        basis, total = carry
        before, x, keep = now
        push = lambda v: jax.jvp(lambda s: step(s, x), (before,), (v,))[1]
        moved, R = jnp.linalg.qr(jax.vmap(push, in_axes=1, out_axes=1)(basis))
        logs = jnp.log(jnp.abs(jnp.diagonal(R)))
        return (jnp.where(keep, moved, basis), total + jnp.where(keep, logs, 0)), None

    (_, total), _ = jax.lax.scan(forward, (start, jnp.zeros(count)), (states, inputs, valid))
    return -jnp.sort(-total / jnp.maximum(valid.sum(dtype=total.dtype), 1))


def elman_bound(call, states, steps):
    """log of (gamma_max sigma_1)^k, [R, steps + 1], which |dh_T / dh_{T-k}| cannot exceed; None for cells with gates.

    gamma_max: the largest derivative of the activation met along the row. sigma_1: the largest singular value of U.
    """
    if not isinstance(call.cell, ops.Elman):
        return None
    sigma = _singular(call.cell.kernel(call.weights)[:, 0].astype(jnp.float32))[0]
    gamma = SLOPES[call.cell.gate_kinds['h']](states[:, -steps:]).max(axis=(1, 2))  # [R]
    bound = jnp.arange(steps + 1, dtype=jnp.float32) * jnp.log(gamma * sigma)[:, None]
    reached = jnp.arange(steps + 1) <= call.steps[:states.shape[0], None]
    return jnp.where(reached, bound, jnp.nan)


def gate_values(call, states, inputs):
    """The activated gates of every row and step, [B, T, G, N], from s_0 ... s_T [B, T + 1, P] and inputs [B, T, D]."""
    B, T, D = inputs.shape
    before = as_state(states[:, :-1].reshape(B * T, -1), call.state)
    values = ops.gates(call.cell, call.weights, inputs.reshape(B * T, D), before)
    return values.reshape(B, T, *values.shape[1:])


def saturation(call, gates, valid):
    """{gate: fraction saturated} over all valid steps. gates: [B, T, G, N]. valid: [B, T].

    A sigmoid is saturated under 0.05 or over 0.95, a tanh beyond 0.95 on either side, a relu at 0: there its derivative is
    under a fifth, a tenth and none of its largest. Gates without a limit (identity, modrelu) are left out.
    """
    outside = {'sigmoid': lambda g: (g < CLOSED) | (g > OPEN), 'tanh': lambda g: jnp.abs(g) > OPEN, 'relu': lambda g: g == 0}
    fractions = {}
    for number, (name, kind) in enumerate(call.cell.gate_kinds.items()):
        if kind in outside:
            per_step = outside[kind](gates[:, :, number]).mean(axis=-1)  # [B, T]
            fractions[name] = jnp.where(valid, per_step, 0).sum() / valid.sum(dtype=per_step.dtype)
    return fractions


def followed_gradient(call, gradient):
    """log |dL/ds_{T-k}| by lag k, [B, T + 1], of the gradient dL/ds_T [B, P] that enters at the end of every row.

    One vector-Jacobian product a step: cheap enough for every row, and for use during training.
    """
    states, (inputs, valid) = trajectory(call), call.in_order()
    step = jax.vmap(functools.partial(_real_step, call))

    def back(carry, now):
        gradient, scale = carry
        before, x, keep = now
        _, pull = jax.vjp(lambda s: step(s, x), before)
        moved = jnp.where(keep[:, None], pull(gradient)[0], gradient)
        gradient, scale = jax.vmap(_unit)(moved, scale)
        return (gradient, scale), scale

    start = jax.vmap(_unit)(gradient, jnp.zeros(gradient.shape[0]))
    time_first = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (states[:, :-1], inputs, valid))
    _, logs = jax.lax.scan(back, start, time_first, reverse=True)
    logs = jnp.concatenate([start[1][:, None], jnp.flip(logs, axis=0).T], axis=1)
    return jnp.where(jnp.arange(logs.shape[1]) <= call.steps[:, None], logs, jnp.nan)


def _unit(vector, scale):
    """The same exp(scale) * vector, with a vector of norm 1."""
    log = jnp.log(jnp.linalg.norm(vector))
    return jnp.where(jnp.isfinite(log), vector * jnp.exp(-log), 0), scale + log


# ------------------------------------------------------------------------------------------- What the arrays say, in numpy
def mean_over_rows(logs):
    """The geometric mean over rows [R, K, ...] -> [K, ...], of the rows that reach so far back."""
    logs = np.asarray(logs, np.float64)
    reached = ~np.isnan(logs)
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.where(reached, logs, 0).sum(axis=0) / reached.sum(axis=0)


def horizon(logs, fraction=0.01):
    """The smallest lag at which the norm is under `fraction` of that at lag 0; None if it never is. logs: [K]."""
    below = np.flatnonzero(np.asarray(logs) < logs[0] + np.log(fraction))
    return int(below[0]) if len(below) else None


def verdict(logs, factor=100.0):
    """'vanishing' if the norm at the last lag is under 1 % of that at lag 0, 'exploding' if over 100 times, or 'stable'."""
    logs = np.asarray(logs)
    change = logs[~np.isnan(logs)][-1] - logs[0]
    return 'vanishing' if change < -np.log(factor) else 'exploding' if change > np.log(factor) else 'stable'


def suggested_clip(norms, percentile=90):
    """A threshold for clipping by norm: the 90th percentile of the norms of recent gradients, or None without any.

    One step in ten is then shortened. Pascanu et al. 2013, section 3.2, take the average norm over many updates and find
    that half to ten times of it works as well.
    """
    norms = np.asarray(norms, np.float64)
    norms = norms[np.isfinite(norms)]
    return float(np.percentile(norms, percentile)) if len(norms) else None
