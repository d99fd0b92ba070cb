"""The X-ray by depth: against numpy's own chain rule, and as a mode of a run and of several."""

import json

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np

from seqjax import config as configs
from seqjax import nn, train
from seqjax.analysis.vision.depth_gradients import depth_gradients
from seqjax.modes.xray import describe_xray, xray_run, xray_sweep

B, D, L = 5, 3, 11


class Chain(linen.Module):
    """x -> W_10 tanh(... W_0 x); names whose order is not that of the alphabet."""

    @linen.compact
    def __call__(self, x):
        for layer in range(L):
            x = nn.Projection((D,), (None, None), bias=False, kernel_init=nn.fan_in(), name=f'layer_{layer}')(jnp.tanh(x))
        return x


def test_numbers_of_every_layer_are_those_of_the_chain_rule():
    x = np.random.default_rng(0).normal(size=(B, D)).astype(np.float32)
    params = Chain().init(jax.random.key(0), x)['params']
    params = jax.tree.map(lambda box: box.unbox(), params, is_leaf=lambda x: hasattr(x, 'unbox'))
    loss = lambda params: (Chain().apply({'params': params}, x) ** 2).sum(axis=1).mean()
    found = depth_gradients(loss, params, (nn.Projection,))
    assert list(found) == [f'layer_{layer}' for layer in range(L)]
    inputs, outputs, y = [], [], np.float64(x)
    for layer in range(L):
        inputs.append(np.tanh(y))
        y = inputs[-1] @ np.float64(params[f'layer_{layer}']['kernel'])
        outputs.append(y)
    slope = 2 * y / B                                       # dL / dy of the last
    for layer in reversed(range(L)):
        kernel, numbers = np.float64(params[f'layer_{layer}']['kernel']), found[f'layer_{layer}']
        np.testing.assert_allclose(numbers.signal, np.sqrt((outputs[layer] ** 2).mean()), rtol=1e-4)
        np.testing.assert_allclose(numbers.gradient, np.sqrt(((B * slope) ** 2).sum(axis=1).mean()), rtol=1e-4)
        np.testing.assert_allclose(numbers.relative, np.linalg.norm(inputs[layer].T @ slope) / np.linalg.norm(kernel), rtol=1e-4)
        slope = (slope @ kernel.T) * (1 - inputs[layer] ** 2)


def test_it_is_the_xray_of_a_resnet_and_of_several(tmp_path):
    config = configs.defaults('resnet', source='digits')
    config.model.update(depth=8, width=4)
    config.data.batch_size, config.parallel.data = 16, 1
    config.train.update(steps=1, eval_batches=1, save_every=0)
    config.optimizer.warmup_steps = 0
    for name in ('batch', 'none'):
        config.model.norm = name
        train.train(config, tmp_path / name)
    summary = xray_run(config, tmp_path / 'none')
    assert json.loads((tmp_path / 'none' / 'xray' / 'xray.json').read_text()) == summary
    layers = list(summary['layers'])
    assert layers[0] == 'stem_conv' and layers[-1] == 'output' and len(layers) == 8
    assert 'from output back to stem_conv, 8 layers' in describe_xray(summary)
    seen = xray_sweep(tmp_path)
    assert list(seen) == ['batch', 'none'] and (tmp_path / 'xray_by_depth.png').is_file()
    assert seen['batch']['layers']['stage_0/unit_0/conv_0']['gradient'] > 0
    with np.load(tmp_path / 'batch' / 'xray' / 'depth.npz') as arrays:
        assert arrays['gradient'].shape == (8,)
