"""Receptive fields: which inputs move which state.

A layer that reads from left to right sees only what came before, one that reads from right to left only what follows, and
the two together everything (Schuster & Paliwal 1997). That is what a network may see; the norms here are what it does see.
"""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np

from seqjax.analysis.figures import new_figure, save
from seqjax.nn.recurrent import Recurrent, RecurrentLayer

FAR_BELOW = -8  # decades under the largest norm, where the color scale ends


def receptive_field(function, inputs, *, at=None, probes=8):
    """|d outputs_t / d inputs_s|_F for all t and s, [T, S]. function: [S, D] -> [T, M].

    at: the steps t to look at; None: all. The norm over M outputs is estimated from `probes` random orthogonal directions
    of them, and exact where M is not larger.
    """
    outputs, pull = jax.vjp(function, inputs)
    T, M = outputs.shape
    count = min(probes, M)
    directions, _ = jnp.linalg.qr(jax.random.normal(jax.random.key(0), (M, count)))

    def field(t):
        cotangents = jnp.zeros((count, T, M), outputs.dtype).at[:, t].set(directions.T.astype(outputs.dtype))
        moved = jax.vmap(pull)(cotangents)[0].astype(jnp.float32)  # [count, S, D]
        return jnp.sqrt((moved * moved).sum(axis=(0, 2)) * (M / count))

    return jax.lax.map(field, jnp.arange(T) if at is None else jnp.asarray(at))


def receptive_fields(function, *args, at=None, probes=8):
    """{name: [T, S]} of every recurrent layer of the stacks that `function(*args)` runs, for the first row of its batch.

    Norms are with respect to the inputs of the stack, such as embedded tokens. Names are paths; a bidirectional stack also
    has its 'path (output)', where the two directions meet.
    """
    def outputs(stack, name, shift):
        return _run(function, args, {stack: shift})[1][stack][name]

    fields, (inputs, layers) = {}, jax.eval_shape(lambda: _run(function, args, {}))
    for stack, shape in inputs.items():
        zeros = jnp.zeros(shape.shape[1:], shape.dtype)
        for name in layers[stack]:
            fields[name] = receptive_field(functools.partial(outputs, stack, name), zeros, at=at, probes=probes)
    return fields


def _run(function, args, shifts):
    """({stack: its inputs}, {stack: {layer: outputs of the first row}}), with `shifts` added to the inputs of stacks."""
    inputs, outputs, inside = {}, {}, []

    def intercept(method, args, kwargs, context):
        module, path = context.module, '/'.join(context.module.path)
        if context.method_name != '__call__' or not isinstance(module, (Recurrent, RecurrentLayer)):
            return method(*args, **kwargs)
        if not inside:
            inputs[path], outputs[path] = args[0], {}
            args = (args[0] + shifts.get(path, jnp.zeros((), args[0].dtype)), *args[1:])
        inside.append(path)
        result = method(*args, **kwargs)
        inside.pop()
        layers = outputs[inside[0] if inside else path]
        if isinstance(module, RecurrentLayer):
            layers[path] = result[0][0]
        elif module.bidirectional:
            layers[f'{path} (output)'] = result[0][0]
        return result

    with linen.intercept_methods(intercept):
        function(*args)
    return inputs, outputs


def plot_receptive_fields(fields, path, at=None):
    """One heat map a layer: row t is a state, column s an input, the color the power of ten of |dh_t / dx_s|; gray: none."""
    import matplotlib

    colors = matplotlib.colormaps['magma'].with_extremes(bad='0.85')
    figure = new_figure(3.4 * len(fields) + 0.8, 3.6)
    panels = figure.subplots(1, len(fields), squeeze=False)[0]
    logs = {name: _decades(field) for name, field in fields.items()}
    top = max(np.nanmax(values) for values in logs.values())
    for axes, (name, values) in zip(panels, logs.items()):
        steps = np.arange(values.shape[0]) if at is None else np.asarray(at)
        image = axes.imshow(values, aspect='auto', cmap=colors, vmin=top + FAR_BELOW, vmax=top, interpolation='nearest',
                            extent=(-0.5, values.shape[1] - 0.5, steps[-1] + 0.5, steps[0] - 0.5))
        axes.set(title=name, xlabel='input s', ylabel='state t')
    figure.colorbar(image, ax=list(panels), label='$|dh_t / dx_s|$, power of ten')
    save(figure, path)


def _decades(field):
    """log10, and NaN where an input moves nothing."""
    field = np.asarray(field, np.float64)
    return np.where(field > 0, np.log10(np.where(field > 0, field, 1)), np.nan)
