"""The heads of SimCLR and DINO against their equations."""

import jax
import numpy as np
import scipy.special

from seqjax import nn, params


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def made(head, h):
    variables = params.unbox(head.init(jax.random.key(0), h))
    return head.apply(variables, h), jax.tree.map(np.float64, variables['params'])


def test_the_head_of_simclr_is_two_layers():
    h = draw(3, 2, 5)
    z, p = made(nn.ProjectionHead(hidden=7, features=4), h)
    expected = np.maximum(h @ p['in']['kernel'] + p['in']['bias'], 0) @ p['out']['kernel']
    np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-6)


def test_the_head_of_dino_is_a_cosine_with_prototypes():
    h = draw(3, 2, 5)
    y, p = made(nn.PrototypeHead(hidden=7, bottleneck=4, outputs=6), h)
    gelu = lambda x: x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2
    z = h
    for name in ('in', 'middle'):
        z = gelu(z @ p[name]['kernel'] + p[name]['bias'])
    z = z @ p['out']['kernel'] + p['out']['bias']
    for place in np.ndindex(3, 2):
        for k in range(6):
            v = p['prototypes'][:, k]
            expected = z[place] @ v / np.linalg.norm(z[place]) / np.linalg.norm(v)
            np.testing.assert_allclose(y[(*place, k)], expected, rtol=1e-4, atol=1e-5)
    assert np.abs(y).max() <= 1 + 1e-6


def test_the_size_of_a_prototype_does_not_matter_and_has_no_gradient():
    head, h = nn.PrototypeHead(hidden=7, bottleneck=4, outputs=6), draw(3, 5)
    variables = params.unbox(head.init(jax.random.key(0), h))['params']
    larger = {**variables, 'prototypes': 3 * variables['prototypes']}
    np.testing.assert_allclose(head.apply({'params': variables}, h), head.apply({'params': larger}, h), rtol=1e-5)
    gradient = jax.grad(lambda p: (head.apply({'params': p}, h) ** 2).sum())(variables)['prototypes']
    np.testing.assert_allclose((gradient * variables['prototypes']).sum(axis=0), 0, atol=1e-5)
