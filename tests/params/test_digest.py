"""The digest of parameters changes with every bit, path and shape, and with nothing else."""

import jax.numpy as jnp
import numpy as np

from seqjax import params


def test_one_bit_a_path_and_a_shape_change_it():
    tree = dict(a=np.zeros((2, 3), np.float32), b=dict(c=np.arange(3)))
    changed = [dict(tree, a=np.full((2, 3), -0.0, np.float32)), dict(tree, a=np.zeros((3, 2), np.float32)),
               dict(tree, a=np.zeros((2, 3), np.float16)), dict(tree, b=dict(d=np.arange(3))), dict(a=tree['a'])]
    digests = [params.digest(one) for one in (tree, *changed)]
    assert len(set(digests)) == len(digests) and all(len(one) == 64 for one in digests)


def test_it_is_of_the_bits_wherever_they_are():
    assert params.digest(dict(b=np.ones(2, np.float32), a=np.eye(2, dtype=np.float32).T)) == params.digest(
        dict(a=jnp.eye(2), b=jnp.ones(2)))


def test_low_precision_has_one_too():
    assert params.digest(dict(a=jnp.ones(2, jnp.bfloat16))) != params.digest(dict(a=jnp.ones(2)))
