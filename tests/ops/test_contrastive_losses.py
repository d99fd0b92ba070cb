"""Losses of SimCLR, CLIP and DINO against numpy loops over pairs, value and gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops

B, E, K, V = 5, 4, 6, 5
ABSENT = [np.ones(B, bool), np.array([True, True, False, True, False])]


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def cosine(x, y):
    return x @ y / np.sqrt((x @ x) * (y @ y))


def nt_xent_loop(first, second, tau, there):
    """[B], in float64: for every view, the other view of its row among all views but itself."""
    views = [(b, np.float64(x[b])) for x in (first, second) for b in range(B) if there[b]]
    losses = np.zeros(B)
    for i, (b, z) in enumerate(views):
        others = [(c, np.exp(cosine(z, w) / tau)) for j, (c, w) in enumerate(views) if j != i]
        right, = [value for c, value in others if c == b]
        losses[b] -= np.log(right / sum(value for _, value in others)) / 2
    return losses


def clip_loop(images, texts, scale, there):
    """The pseudo-code of figure 3, a row and a column after another, without the pairs that are not there."""
    losses, kept = np.zeros(B), np.flatnonzero(there)
    for b in kept:
        by_text = [np.exp(scale * np.dot(np.float64(images[b]), texts[c])) for c in kept]
        by_image = [np.exp(scale * np.dot(np.float64(images[c]), texts[b])) for c in kept]
        right = np.exp(scale * np.dot(np.float64(images[b]), texts[b]))
        losses[b] = -(np.log(right / sum(by_text)) + np.log(right / sum(by_image))) / 2
    return losses


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def dino_loop(student, teacher, center, student_temperature, teacher_temperature):
    """Algorithm 1: every view of the student against the other global views of the teacher."""
    losses = np.zeros(B)
    for b in range(B):
        terms = []
        for u in range(teacher.shape[1]):
            target = softmax((np.float64(teacher[b, u]) - center) / teacher_temperature)
            terms += [-sum(target * np.log(softmax(np.float64(student[b, v]) / student_temperature)))
                      for v in range(student.shape[1]) if v != u]
        losses[b] = np.mean(terms)
    return losses


def slopes(loop, x, h=1e-5):
    """The gradient of the sum of a loop's losses, by central differences in float64."""
    x, found = np.float64(x), np.zeros(np.shape(x))
    for place in np.ndindex(found.shape):
        step = np.zeros_like(x)
        step[place] = h
        found[place] = (loop(x + step).sum() - loop(x - step).sum()) / (2 * h)
    return found


def compare(ours, loop, *inputs):
    """Values of both, and gradients with respect to every input."""
    np.testing.assert_allclose(ours(*inputs), loop(*inputs), rtol=2e-5, atol=1e-6)
    gradients = jax.grad(lambda *inputs: ours(*inputs).sum(), argnums=tuple(range(len(inputs))))(*inputs)
    for place, gradient in enumerate(gradients):
        of_one = lambda x: loop(*inputs[:place], x, *inputs[place + 1:])
        np.testing.assert_allclose(gradient, slopes(of_one, inputs[place]), rtol=1e-4, atol=2e-5)
        assert np.abs(gradient).max() > 1e-3


@pytest.mark.parametrize('there', ABSENT)
@pytest.mark.parametrize('tau', [0.5, 0.1])
def test_nt_xent_is_that_of_a_loop(tau, there):
    first, second = 2 * draw(B, E), draw(B, E, seed=1)
    compare(lambda x, y: ops.nt_xent(x, y, tau, jnp.asarray(there)), lambda x, y: nt_xent_loop(x, y, tau, there), first, second)


def test_nt_xent_of_one_row_alone_is_nothing_to_choose():
    one = np.array([True, False, False, False, False])
    np.testing.assert_allclose(ops.nt_xent(draw(B, E), draw(B, E, seed=1), 0.5, one), np.zeros(B), atol=1e-6)


def test_equal_views_of_all_rows_cost_the_level_of_guessing():
    same = np.ones((B, E), np.float32)
    np.testing.assert_allclose(ops.nt_xent(same, same, 0.1), np.full(B, np.log(2 * B - 1)), rtol=1e-5)
    np.testing.assert_allclose(ops.clip_loss(same / 2, same / 2, 100.0), np.full(B, np.log(B)), rtol=1e-5)
    targets = ops.dino_targets(np.zeros((B, 2, K), np.float32), np.zeros(K, np.float32), 0.04)
    np.testing.assert_allclose(ops.dino_loss(np.zeros((B, V, K), np.float32), targets), np.full(B, np.log(K)), rtol=1e-5)


@pytest.mark.parametrize('there', ABSENT)
def test_the_loss_of_clip_is_that_of_a_loop(there):
    images, texts = (np.asarray(ops.unit_length(draw(B, E, seed=seed))) for seed in (2, 3))
    compare(lambda x, y, scale: ops.clip_loss(x, y, scale, jnp.asarray(there)), lambda x, y, scale: clip_loop(x, y, scale, there),
            images, texts, np.float32(5.0))


@pytest.mark.parametrize('views', [2, V])
def test_the_loss_of_dino_is_that_of_a_loop(views):
    student, teacher, center = draw(B, views, K), draw(B, 2, K, seed=1), draw(K, seed=2)
    ours = lambda student: ops.dino_loss(student, ops.dino_targets(teacher, center, 0.3), 0.7)
    compare(ours, lambda student: dino_loop(student, teacher, center, 0.7, 0.3), student)


def test_no_gradient_reaches_the_teacher():
    of_teacher = lambda teacher, center: ops.dino_loss(draw(B, V, K), ops.dino_targets(teacher, center, 0.04)).sum()
    for gradient in jax.grad(of_teacher, argnums=(0, 1))(draw(B, 2, K, seed=1), draw(K, seed=2)):
        np.testing.assert_array_equal(gradient, 0)


def test_a_vector_of_zeros_has_a_finite_gradient():
    gradient = jax.grad(lambda x: ops.nt_xent(x, x, 0.1).sum())(np.zeros((B, E), np.float32))
    assert np.isfinite(gradient).all()


def test_bfloat16_is_summed_in_float32():
    first, second = (jnp.asarray(draw(B, E, seed=seed), jnp.bfloat16) for seed in (0, 1))
    assert ops.nt_xent(first, second, 0.5).dtype == ops.clip_loss(first, second, 1.0).dtype == jnp.float32
    np.testing.assert_array_equal(ops.nt_xent(first, second, 0.5),
                                  ops.nt_xent(first.astype(jnp.float32), second.astype(jnp.float32), 0.5))
