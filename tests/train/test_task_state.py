"""What a task keeps beside parameters: a teacher that follows them and a mean over the global batch, on every mesh and in checkpoints."""

import dataclasses
import shutil

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import config as configs
from seqjax import data, models, nn, parallel, tasks, train
from seqjax.modes.eval import evaluate
from seqjax.train.step import make_eval_step, make_train_step
from tests.train.test_batch_stats import arrays_of

B, D, K = 16, 6, 4
CUTS = {'jit data=8': dict(data=8), 'jit fsdp=8': dict(fsdp=8), 'pmap data=8': dict(strategy='pmap', data=8)}


class Embedder(linen.Module):
    outputs: int = K
    width: int = 5

    output_kinds = ('row',)

    @linen.compact
    def __call__(self, inputs, lengths=None, train=False):
        x = inputs.reshape(inputs.shape[0], -1)
        x = nn.Projection((self.width,), (None, 'embed'), kernel_init=jax.nn.initializers.lecun_normal(), name='body')(x)
        x = jax.nn.relu(nn.BatchNorm(name='norm')(x, train))
        return nn.Projection((K,), ('embed', None), kernel_init=jax.nn.initializers.lecun_normal(), name='head')(x)


@dataclasses.dataclass(frozen=True)
class Distilled(tasks.Task):
    """-sum_k softmax(teacher - centre)_k log softmax(student)_k: the teacher is the mean of the students so far, the centre that of
    what it has put out, both with momentum."""

    data = 'labelled'
    target = 'class'
    output_kind = 'row'

    def initial_state(self, params):
        return dict(teacher=dict(params=params, batch_stats=self.model.batch_stats), centre=jnp.zeros(K))

    def next_state(self, state, params, sums, step):
        momentum = 0.5 + 0.1 * step.astype(jnp.float32)
        student = dict(params=params, batch_stats=self.model.batch_stats)
        centre = sums.metrics['teacher'] / sums.weight
        return dict(teacher=optax.incremental_update(student, state['teacher'], 1 - momentum),
                    centre=0.9 * state['centre'] + 0.1 * centre)

    def __call__(self, params, batch, key=None):
        teacher = self.model.apply(self.state['teacher'], batch['inputs'])
        targets = jax.nn.softmax(teacher - self.state['centre'])
        losses = -(targets * jax.nn.log_softmax(self.outputs(params, batch, key))).sum(axis=1)
        metrics = dict(teacher=teacher.sum(axis=0), entropy=-(targets * jnp.log(targets)).sum())
        return tasks.Sums(losses.sum(), jnp.float32(len(losses)), metrics)


def make_batch(seed=0):
    return dict(inputs=np.random.default_rng(seed).normal(1, 1, size=(B, 1, D, 1)).astype(np.float32))


def run(*, steps=3, accumulate=1, strategy='jit', data=1, fsdp=1, batches=make_batch):
    task, strategy, optimizer = Distilled(Embedder()), parallel.make_strategy(strategy, data=data, fsdp=fsdp), optax.sgd(0.5)
    state = jax.jit(lambda key: train.create_state(task, optimizer, key, make_batch()))(jax.random.key(1))
    state = strategy.enter(jax.device_put(state, parallel.replicated(strategy.mesh)))
    step = make_train_step(task, optimizer, optax.constant_schedule(0.5), seed=0, accumulate=accumulate, axis_name=strategy.axis_name)
    step = strategy.compile(step, state, strategy.place(make_batch()), updates_state=True)
    states = [jax.device_get(strategy.leave(state))]
    for seed in range(steps):
        state, facts = step(state, strategy.place(batches(seed)))
        states.append(jax.device_get(strategy.leave(state)))
    batch = strategy.place(make_batch())
    evaluate = strategy.compile(make_eval_step(task, axis_name=strategy.axis_name), state, batch, updates_state=False)
    return states, strategy.read(facts), strategy.read(evaluate(state, batch)[1])


@pytest.fixture(scope='module')
def alone():
    return run()


def near(one, other, tolerance=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), one, other)


def test_the_teacher_and_the_centre_are_those_of_a_plain_loop(alone):
    states, facts, _ = alone
    first, model = states[0], Embedder()
    near(first.task_state, dict(teacher=dict(params=first.params, batch_stats=first.batch_stats), centre=np.zeros(K)), 0)
    teacher, centre = first.task_state['teacher'], np.zeros(K)
    for number, now in enumerate(states[1:]):
        put_out = model.apply(teacher, make_batch(number)['inputs'])
        centre = 0.9 * centre + 0.1 * np.mean(put_out, axis=0)
        momentum, student = 0.5 + 0.1 * number, dict(params=now.params, batch_stats=now.batch_stats)
        teacher = jax.tree.map(lambda t, s: momentum * t + (1 - momentum) * s, teacher, student)
        near(now.task_state, dict(teacher=teacher, centre=centre))
    assert set(facts['sums'].metrics) == {'entropy'}      # a sum for the next state alone is not reported


@pytest.mark.parametrize('cut', CUTS)
def test_every_mesh_and_pmap_keep_what_one_device_keeps(cut, alone):
    states, facts, evaluated = run(**CUTS[cut])
    near(states[-1].task_state, alone[0][-1].task_state)
    near((facts['sums'].loss, evaluated.loss), (alone[1]['sums'].loss, alone[2].loss))


def test_the_centre_of_micro_batches_is_that_of_the_batch(alone):
    states, _, _ = run(steps=1, accumulate=4)
    near(states[1].task_state['centre'], alone[0][1].task_state['centre'])


def test_a_step_that_is_skipped_leaves_it():
    states, _, _ = run(steps=2, batches=lambda seed: dict(inputs=make_batch(seed)['inputs'] * np.float32(np.nan if seed else 1)))
    assert int(states[2].skipped) == 1
    jax.tree.map(np.testing.assert_array_equal, states[1].task_state, states[2].task_state)


def test_it_is_saved_and_a_run_goes_on_bitwise(tmp_path, monkeypatch):
    import tests.extending.augmented_images as module

    monkeypatch.setattr(data.SOURCES, '_things', {**data.SOURCES, 'stripes': module.stripes})
    monkeypatch.setattr(models.MODELS, '_things', {**models.MODELS, 'embedder': Embedder})
    monkeypatch.setattr(tasks.TASKS, '_things', {**tasks.TASKS, 'distilled': Distilled})
    config = configs.defaults('embedder', task='distilled', source='stripes')
    config.task, config.parallel.data, config.data.batch_size, config.optimizer.warmup_steps = 'distilled', 1, 8, 0
    config.train.update(steps=6, eval_every=3, eval_batches=2, save_every=2, keep_latest=9)
    result = train.train(config, tmp_path / 'whole')
    shutil.copytree(tmp_path / 'whole', tmp_path / 'again')
    for step in (4, 6):
        shutil.rmtree(tmp_path / 'again' / 'checkpoints' / f'{step:08d}')
    again = train.train(config, tmp_path / 'again')
    whole, resumed = arrays_of(tmp_path / 'whole'), arrays_of(tmp_path / 'again')
    assert {'task_state/centre', 'task_state/teacher/params/head/kernel'} <= whole.keys() == resumed.keys()
    assert all(whole[path].tobytes() == resumed[path].tobytes() for path in whole)
    assert again['eval/loss'] == result['eval/loss'] == evaluate(config, tmp_path / 'whole')['eval/loss']
