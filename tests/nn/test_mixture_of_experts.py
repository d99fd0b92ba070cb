"""The layer of experts beside that of transformers, on one device and on eight."""

from flax.core import meta
import jax
import numpy as np
import pytest

from seqjax import nn, parallel
from tests.reference.parameters import random_parameters

B, T, D, F, E, K = 8, 5, 8, 12, 4, 2


def draw(layer):
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype(np.float32)
    return random_parameters(layer, x, scale=0.5), x


@pytest.mark.parametrize('chosen', [1, 2])
def test_it_says_what_the_block_of_mixtral_says_with_the_same_weights(chosen):
    torch, transformers = pytest.importorskip('torch'), pytest.importorskip('transformers')
    layer = nn.MixtureOfExperts(E, chosen, inner=F, activation='silu', gated=True)
    params, x = draw(layer)
    config = transformers.MixtralConfig(hidden_size=D, intermediate_size=F, num_local_experts=E, num_experts_per_tok=chosen)
    theirs = transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock(config).eval()
    there = lambda kernel: torch.tensor(np.swapaxes(kernel, -1, -2).copy())
    theirs.load_state_dict({'gate.weight': there(params['router']['kernel']), 'experts.down_proj': there(params['out_kernel']),
                            'experts.gate_up_proj': there(np.concatenate([params['in_kernel'], params['gate_kernel']], axis=-1))})
    with torch.no_grad():
        expected = theirs(torch.tensor(x)).numpy()
    np.testing.assert_allclose(jax.jit(layer.apply)({'params': params}, x), expected, rtol=0, atol=1e-5)


MESHES = {'data=8': dict(data=8), 'data=2 fsdp=2 tensor=2': dict(data=2, fsdp=2, tensor=2), 'tensor=8': dict(data=1, tensor=8)}


@pytest.fixture(scope='module')
def one_device():
    layer = nn.MixtureOfExperts(E, K, inner=16, gated=True, bias=True)
    params, x = draw(layer)
    loss = lambda params, x: (layer.apply({'params': params}, x) ** 2).mean()
    return layer, loss, params, x, jax.jit(jax.value_and_grad(loss, (0, 1)))(params, x)


@pytest.mark.parametrize('mesh', MESHES)
def test_eight_devices_compute_the_same_each_with_its_own_rows_and_its_part_of_every_expert(one_device, mesh):
    layer, loss, params, x, expected = one_device
    mesh = parallel.make_mesh(**MESHES[mesh])
    boxed = jax.eval_shape(layer.init, jax.random.key(0), x)['params']
    placed = parallel.placed(meta.unbox(boxed), parallel.parameter_shardings(boxed, mesh), mesh)
    params, x = jax.device_put(params, jax.tree.map(lambda x: x.sharding, placed)), jax.device_put(x, parallel.over_batch(mesh))
    assert params['in_kernel'].addressable_shards[0].data.shape == (E, D // mesh.shape['fsdp'], 16 // mesh.shape['tensor'])
    with parallel.use_mesh(mesh):
        traced = jax.jit(jax.value_and_grad(loss, (0, 1))).trace(params, x)
    pairs = B // (mesh.shape['data'] * mesh.shape['fsdp']) * T * K
    assert f'f32[{pairs},{16 // mesh.shape["tensor"]}]' in str(traced.jaxpr)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    jax.tree.map(close, traced.lower().compile()(params, x), expected)


def test_a_width_and_rows_that_a_mesh_does_not_divide_stay_whole(one_device):
    layer = one_device[0].clone(inner=15)
    params, x = draw(layer)
    x = x[:3]
    expected = jax.jit(layer.apply)({'params': params}, x)
    with parallel.use_mesh(parallel.make_mesh(data=4, fsdp=1, tensor=2)):
        np.testing.assert_allclose(jax.jit(layer.apply)({'params': params}, x), expected, rtol=0, atol=1e-5)
