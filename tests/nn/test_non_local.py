"""Non-local blocks against the equation, place by place."""

import functools

import jax
import numpy as np
import pytest

from seqjax import nn
from seqjax.errors import FieldError
from tests.reference.parameters import random_parameters

B, T, H, W, C = 2, 3, 4, 2, 6
CLIPS = np.random.default_rng(0).standard_normal((B, T, H, W, C)).astype(np.float32)
LENGTHS = np.array([3, 2])
PAIRS = {
    'embedded_gaussian': lambda params, a, b: np.exp(a @ b),
    'dot_product': lambda params, a, b: a @ b,
    'concatenation': lambda params, a, b: max(0.0, np.concatenate([a, b]) @ np.float64(params['weight'][:, 0])),
}


def largest_of_four(x):
    return x.reshape(T, H // 2, 2, W // 2, 2, -1).max(axis=(2, 4))


def expected(params, kind, subsample):
    out, project = np.float64(CLIPS), lambda name, x: x @ np.float64(params[name]['kernel']) + params[name]['bias']
    for b in range(B):
        theta, phi, g = (project(name, np.float64(CLIPS[b])) for name in ('theta', 'phi', 'g'))
        phi, g = (largest_of_four(part) if subsample else part for part in (phi, g))
        phi, g = (part[:LENGTHS[b]].reshape(-1, C // 2) for part in (phi, g))
        for place in np.ndindex(T, H, W):
            f = np.array([PAIRS[kind](params, theta[place], key) for key in phi])
            c = f.sum() if kind == 'embedded_gaussian' else len(f)
            out[(b, *place)] += project('out', f @ g / c)
    return out


@pytest.mark.parametrize('subsample', [False, True])
@pytest.mark.parametrize('kind', nn.NON_LOCAL)
def test_every_place_sees_all_places_of_the_clip_and_no_padding(kind, subsample):
    block = nn.NonLocalBlock(kind, subsample)
    params = random_parameters(block, CLIPS)
    run = jax.jit(functools.partial(block.apply, {'params': params}))
    np.testing.assert_allclose(run(CLIPS, LENGTHS), expected(params, kind, subsample), atol=1e-4)
    padded = CLIPS.copy()
    padded[1, 2] = 7.0
    np.testing.assert_allclose(run(padded, LENGTHS)[1, :2], run(CLIPS, LENGTHS)[1, :2], atol=1e-5)


@pytest.mark.parametrize('kind', nn.NON_LOCAL)
def test_a_block_begins_as_the_identity(kind):
    block = nn.NonLocalBlock(kind)
    np.testing.assert_array_equal(block.init_with_output(jax.random.key(0), CLIPS)[0], CLIPS)


def test_an_unknown_kind_is_named():
    with pytest.raises(FieldError, match="non_local_kind='dot': no such kind of non-local block"):
        nn.NonLocalBlock('dot')
