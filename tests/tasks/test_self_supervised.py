"""SimCLR and DINO: losses of the global batch on every mesh, with micro-batches and under pmap; views; teacher and center."""

import dataclasses

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import nn, ops, tasks, train
from seqjax.errors import FieldError
from seqjax.tasks.views import keys_of, views
from seqjax.train.step import make_eval_step, make_train_step
from tests.one_step import CUTS, SEED, one_step, row_keys

B, S, D, K = 16, 6, 5, 7
AUGMENT = 'crop(padding=2), flip'


class Tiny(linen.Module):
    """Images [B, H, W, 1] -> [B, D]: a convolution, and the mean over the places; with a batch norm where asked for."""

    batch_norm: bool = False

    @linen.compact
    def features(self, inputs, *, train=False):
        x = ops.unit_range(inputs)
        kernel = self.param('kernel', nn.partitioned(linen.initializers.normal(1.0), (None, None, None, 'embed')), (3, 3, 1, D))
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
        x = nn.BatchNorm(name='norm')(x, train) if self.batch_norm else x
        return jnp.tanh(x).mean(axis=(1, 2))

    def __call__(self, inputs, lengths=None, *, train=False):
        return self.features(inputs, train=train)


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    return dict(inputs=rng.integers(256, size=(B, S, S, 1)).astype(np.uint8), targets=rng.integers(3, size=B).astype(np.int32),
                weights=np.ones(B, np.float32))


def make(name, **fields):
    model = Tiny(fields.pop('batch_norm', False))
    if name == 'dino':
        fields = dict(prototypes=K, local_augment='resized_crop(size=4), flip', local_views=2, steps=10, teacher_momentum=0.9) | fields
    return tasks.build(name, model, augment=AUGMENT, classes=('a', 'b', 'c'), projection_hidden=8, projection_width=4, **fields)


def run(task, **cut):
    return one_step(task, make_batch(), **cut)


@pytest.fixture(scope='module', params=['simclr', 'dino'])
def alone(request):
    return request.param, run(make(request.param))


@pytest.mark.parametrize('cut', CUTS)
def test_one_device_eight_devices_and_micro_batches_agree(alone, cut):
    name, (before, after, facts, evaluated) = alone
    same, found, their_facts, their_evaluated = run(make(name), **CUTS[cut])
    close = lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, before.params, same.params)
    close(their_facts['sums'].means()['loss'], facts['sums'].means()['loss'])
    jax.tree.map(close, found.params, after.params)                # params - gradient
    jax.tree.map(close, found.task_state, after.task_state)
    jax.tree.map(close, their_evaluated.means(), evaluated.means())
    close(their_evaluated.rows['features'], evaluated.rows['features'])
    assert max(np.abs(a - b).max() for a, b in zip(jax.tree.leaves(after.params), jax.tree.leaves(before.params))) > 1e-3


@pytest.mark.parametrize('cut', ['jit data=8', 'pmap data=8'])
@pytest.mark.parametrize('name', ['simclr', 'dino'])
def test_batch_norms_see_both_views_of_the_global_batch(name, cut):
    # Gradients of about 1: at 0.1 and 0.04 those of DINO are larger, and float32 has no 1e-5.
    soft = dict(student_temperature=1.0, teacher_temperature=0.4) if name == 'dino' else {}
    _, after, facts, _ = run(make(name, batch_norm=True, **soft))
    _, found, their_facts, _ = run(make(name, batch_norm=True, **soft), **CUTS[cut])
    close = lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    jax.tree.map(close, (found.params, found.batch_stats), (after.params, after.batch_stats))
    close(their_facts['sums'].means()['loss'], facts['sums'].means()['loss'])


def test_the_loss_of_simclr_is_that_of_its_definition():
    task = make('simclr', temperature=0.3)
    before, _, facts, _ = run(task)
    seen = views(make_batch()['inputs'] / np.float32(255), row_keys(B), ops.Augmentation.parse(AUGMENT))
    z = [task.project(before.params, task.features(before.params, seen[:, v])) for v in range(2)]
    np.testing.assert_allclose(facts['sums'].means()['loss'], ops.nt_xent(*z, 0.3).mean(), rtol=1e-5)
    np.testing.assert_allclose(facts['sums'].means()['guessing'], np.log(2 * B - 1), rtol=1e-6)


def test_teacher_and_center_are_running_averages():
    task = make('dino')
    before, after, facts, _ = run(task)
    tau = 1 - (1 - 0.9) * (1 + np.cos(0)) / 2                                                # at step 0
    expected = jax.tree.map(lambda old, new: tau * old + (1 - tau) * new, before.params, after.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after.task_state['teacher'], expected)
    made = task.prepare(make_batch(), row_keys(B))
    outputs = [task.project(before.params, task.features(before.params, made['views'][:, v])) for v in range(2)]
    np.testing.assert_allclose(after.task_state['center'], 0.1 * np.mean(outputs, axis=(0, 1)), rtol=1e-4, atol=1e-6)
    assert made['views'].shape == (B, 2, S, S, 1) and made['local_views'].shape == (B, 2, 4, 4, 1)
    locals_ = [task.project(before.params, task.features(before.params, made['local_views'][:, v])) for v in range(2)]
    targets = ops.dino_targets(jnp.stack(outputs, axis=1), jnp.zeros(K), task.teacher_temperature)
    loss = ops.dino_loss(jnp.stack([*outputs, *locals_], axis=1), targets, task.student_temperature).mean()
    np.testing.assert_allclose(facts['sums'].means()['loss'], loss, rtol=1e-5)
    np.testing.assert_allclose(facts['sums'].means()['guessing'], np.log(K), rtol=1e-6)


def test_running_statistics_are_those_of_the_teacher_which_normalises_with_its_own_batch():
    task, batch = make('dino', batch_norm=True), make_batch()
    state = train.create_state(task, optax.sgd(1.0), jax.random.key(1), batch)
    teacher = jax.tree.map(lambda x: 1.5 * x + 0.1, state.params)
    state = state.replace(task_state=dict(teacher=teacher, center=jnp.zeros(K)))
    step = make_train_step(task, optax.sgd(1.0), optax.constant_schedule(1.0), seed=SEED)
    after, facts = jax.jit(step)(state, batch)
    made, outputs = task.prepare(batch, row_keys(B)), {}
    reads = dict(teacher=(teacher, 'views'), student=(state.params, 'views'),
                 local=(state.params, 'local_views'))
    for name, (params, part) in reads.items():
        images = made[part].reshape(-1, *made[part].shape[2:])
        variables = {'params': params, 'batch_stats': state.batch_stats}
        features, changed = task.model.apply(variables, images, method='features', train=True,
                                             mutable=['batch_stats'])
        outputs[name] = task.project(params, features).reshape(B, 2, K)
        if name == 'teacher':
            expected = changed['batch_stats']
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    jax.tree.map(close, after.batch_stats, expected)
    close(after.task_state['center'], 0.1 * outputs['teacher'].mean(axis=(0, 1)))
    targets = ops.dino_targets(outputs['teacher'], jnp.zeros(K), task.teacher_temperature)
    student = jnp.concatenate([outputs['student'], outputs['local']], axis=1)
    loss = ops.dino_loss(student, targets, task.student_temperature).mean()
    np.testing.assert_allclose(facts['sums'].means()['loss'], loss, rtol=1e-5)


def test_the_momentum_of_the_teacher_goes_to_1_along_a_cosine():
    task = make('dino', steps=100, teacher_momentum=0.99)
    found = [float(task.momentum(jnp.int32(step))) for step in (0, 50, 100, 200)]
    np.testing.assert_allclose(found, [0.99, 0.995, 1, 1], rtol=1e-6)


def test_views_differ_and_those_of_an_evaluation_are_the_same_wherever_a_row_stands():
    images = make_batch()['inputs'] / np.float32(255)
    how = ops.Augmentation.parse(AUGMENT)
    made = np.asarray(views(images, keys_of(images), how, 3))
    assert made.shape == (B, 3, S, S, 1) and not np.array_equal(made[:, 0], made[:, 1])
    turned = np.asarray(views(images[::-1], keys_of(images[::-1]), how, 3))
    np.testing.assert_array_equal(turned[::-1], made)
    np.testing.assert_array_equal(views(images, keys_of(images), how, 2, first=1), made[:, 1:])
    assert len(np.unique(jax.random.key_data(keys_of(images)), axis=0)) == B


def test_rows_that_fill_up_a_batch_count_for_nothing():
    for name in ('simclr', 'dino'):
        task = make(name)
        state = train.create_state(task, optax.sgd(1.0), jax.random.key(1), make_batch())
        evaluate = make_eval_step(task)
        part = {field: value[:10] for field, value in make_batch().items()}
        filled = {field: np.concatenate([value[:10], np.zeros_like(value[:6])]) for field, value in make_batch().items()}
        one, other = (evaluate(state, batch)[1] for batch in (part, filled))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one.means(), other.means())
        assert task.found(jax.device_get(other))['features'].shape == (10, D)


def test_a_summary_has_the_features_judged():
    task = make('dino')
    *_, evaluated = run(task)
    found = task.summary(jax.device_get(evaluated))
    assert found.keys() >= {'loss', 'guessing', 'target_entropy', 'mean_target_entropy', 'feature_std', 'feature_rank', 'knn_accuracy'}
    assert task.remarks(found | dict(feature_std=0.0))['collapsed'].startswith('collapsed: all rows have nearly the same features')


def test_the_parameters_of_the_head_stand_beside_those_of_the_model():
    params = make('simclr').plain_init(jax.random.key(0), make_batch())
    assert set(params) == {'kernel', 'projection'} and set(params['projection']) == {'in', 'out'}


def test_a_model_without_features_and_no_augmentation_are_refused():
    class Plain(linen.Module):
        pass

    with pytest.raises(FieldError, match="^model.name='plain': has no features to learn without labels"):
        tasks.build('simclr', Plain())
    with pytest.raises(FieldError, match="^config.data.augment='': two views of an image must differ"):
        dataclasses.replace(make('simclr'), augment='').prepare(make_batch())
