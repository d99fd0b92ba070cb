"""The X-ray while training: how far the gradient of the loss reaches back, every `config.train.xray_every` steps."""

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.analysis.recurrent import gradients as flows
from seqjax.analysis.recurrent.loss_gradients import end_gradients


def make_look(parts, state):
    """A function: state -> what metrics.jsonl says of it, measured on the first held-out batch. Compiled here."""
    strategy, batch = parts.strategy, parts.strategy.place(parts.evaluation[0])
    step = make_xray_step(parts.task, axis_name=strategy.axis_name, merge=parts.parameters.merge)
    step = strategy.compile(step, state, batch, updates_state=False)
    return lambda state: readings(strategy.read(step(state, batch)[1]))


def make_xray_step(task, *, axis_name=None, merge=lambda params: params):
    """(state, batch) -> (carry, sums over rows), from one backward pass and a vector-Jacobian product a step and layer."""
    def xray_step(state, batch):
        batch, asked = task.prepare(batch), task.holding(state.best_batch_stats, state.task_state)
        calls, ends = end_gradients(lambda params: asked(params, batch).loss, merge(state.best_params))
        sums = {path: _sums(call, ends[path]) for path, call in calls.items()}
        return state.carry, jax.lax.psum(sums, axis_name) if axis_name else sums

    return xray_step


def _sums(call, end):
    """Of one layer: logs of the gradient by lag, as parts of lag 0; how many rows reach it; saturated parts of the gates."""
    logs = flows.followed_gradient(call, end)  # [B, K]
    logs, reached = logs - logs[:, :1], ~jnp.isnan(logs - logs[:, :1])
    inputs, valid = call.in_order()
    saturated = flows.saturation(call, flows.gate_values(call, flows.trajectory(call), inputs), valid)
    return dict(logs=jnp.where(reached, logs, 0).sum(axis=0), reached=reached.sum(axis=0), rows=jnp.int32(len(logs)),
                saturated={gate: part * len(logs) for gate, part in saturated.items()})


def readings(sums):
    """{'xray/LAYER/horizon': ..., ...}

    horizon: the first lag at which the gradient of the loss is under 1 % of lag 0; where it never is, the largest lag.
    gradient_ratio: log10 of the gradient at the first step of a row over that at its last. saturated: mean over the gates.
    """
    found = {}
    for path, layer in sums.items():
        logs = np.asarray(layer['logs'], np.float64)[layer['reached'] > 0] / layer['reached'][layer['reached'] > 0]
        if not len(logs):  # no gradient enters at the end
            continue
        reach = flows.horizon(logs)
        found[f'xray/{path}/horizon'] = len(logs) - 1 if reach is None else reach
        found[f'xray/{path}/gradient_ratio'] = float(logs[-1] / np.log(10))
        if layer['saturated']:
            found[f'xray/{path}/saturated'] = float(np.mean(list(layer['saturated'].values())) / layer['rows'])
    return found
