"""The X-ray by depth: how large values are at every layer of a network, and the gradient of its loss that reaches it.

    s_l = sqrt(mean over all numbers of y_l^2)                   the signal on the way up
    g_l = sqrt(mean over rows b of |B dL / dy_l(b)|^2)           the gradient on the way back; L: the mean loss of B rows
    r_l = |dL / dW_l| / |W_l|                                    what a step of rate 1 would change of the layer's kernel

y_l: the output of layer l, before norm and activation. Where g falls to nothing towards the first layers they do not learn; where it
grows they are thrown about.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np

from seqjax.analysis.figures import new_figure, save, tidy, whole_numbers


class DepthGradients(NamedTuple):
    """Of every layer, the first first, [L]: s, g, r."""

    signal: Any
    gradient: Any
    relative: Any


def depth_gradients(loss: Callable, params: Any, layers: tuple[type, ...]) -> dict[str, DepthGradients]:
    """{path: numbers} of every call of a module of the classes `layers`, in their order.

    Args:
        loss: params -> the mean loss over a batch. It applies a linen module to them.
        params: of the module. A layer has its parameter 'kernel' at its path.
    """
    def run(params, shifts):
        outputs = {}

        def listen(call, arguments, options, context):
            y = call(*arguments, **options)
            if not isinstance(context.module, layers) or context.method_name != '__call__':
                return y
            path = '/'.join(context.module.path)
            outputs[path] = y
            return y + shifts[path] if shifts else y

        with linen.intercept_methods(listen):
            value = loss(params)
        order[:] = outputs  # jax sorts a dict that leaves it by its keys
        return value, outputs

    order = []
    shapes = jax.eval_shape(run, params, {})[1]
    zeros = {path: jnp.zeros(x.shape, x.dtype) for path, x in shapes.items()}
    norm = lambda x: jnp.sqrt(jnp.square(x.astype(jnp.float32)).sum())

    @jax.jit
    def of_layers(params, zeros):
        (of_params, of_outputs), outputs = jax.grad(run, argnums=(0, 1), has_aux=True)(params, zeros)
        pairs = ((outputs[path], of_outputs[path], *(_at(tree, path)['kernel'] for tree in (params, of_params))) for path in order)
        return [DepthGradients(norm(y) / y.size ** 0.5, len(y) ** 0.5 * norm(slope), norm(kernel_slope) / norm(kernel))
                for y, slope, kernel, kernel_slope in pairs]

    return dict(zip(order, of_layers(params, zeros)))


def _at(tree, path):
    for name in path.split('/'):
        tree = tree[name]
    return tree


def stacked(found: Mapping[str, DepthGradients]) -> DepthGradients:
    """That of all layers, [L] each, of what `depth_gradients` has found. A projection of a shortcut lies beside the others and is
    left out."""
    kept = [numbers for path, numbers in found.items() if not path.endswith('shortcut')]
    return DepthGradients(*(np.array([float(x) for x in values]) for values in zip(*kept)))


def plot_depth_gradients(curves: Mapping[str, DepthGradients], path: Any) -> None:
    """Signal, gradient and relative gradient against the layer, a line a network, to a PNG. curves: {name: of `stacked`}."""
    titles = dict(signal='signal $s_l$', gradient='gradient $g_l$', relative='gradient of the kernel $|dL/dW_l|\\ /\\ |W_l|$')
    figure = new_figure(9, 3 * len(titles))
    for axes, (field, title) in zip(figure.subplots(len(titles)), titles.items()):
        tidy(axes).set(yscale='log', ylabel=title, xlabel='layer')
        whole_numbers(axes.xaxis)
        for number, (name, found) in enumerate(curves.items()):
            values = np.maximum(getattr(found, field), np.finfo(np.float32).tiny)
            axes.plot(np.arange(1, len(values) + 1), values, color=f'C{number % 10}', linewidth=1.5, label=name)
        axes.set_xlim(1, max(len(found.signal) for found in curves.values()))
    figure.axes[0].legend(frameon=False, fontsize=8, ncols=2)
    save(figure, path)
