"""Running statistics of batch norms: those of the global batch on every mesh and under pmap, saved, averaged, frozen and taken over."""

import dataclasses
import json
import shutil

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import seqjax
from seqjax import config as configs
from seqjax import data, models, nn, parallel, tasks, train
from seqjax.modes.average import average_checkpoints
from seqjax.modes.eval import evaluate
from seqjax.params import paths
from seqjax.runs import Checkpoints, load_model
from seqjax.train.step import make_eval_step, make_train_step

B, D, C, CLASSES = 16, 6, 4, 3
CUTS = {'jit data=8': dict(data=8), 'jit fsdp=8': dict(fsdp=8), 'jit data=2 fsdp=2': dict(data=2, fsdp=2),
        'pmap data=8': dict(strategy='pmap', data=8), 'pmap data=4': dict(strategy='pmap', data=4)}


class Small(linen.Module):
    """images [B, H, W, C] -> two layers with a batch norm each -> [B, outputs]"""

    outputs: int = CLASSES
    width: int = C

    output_kinds = ('row',)

    @linen.compact
    def __call__(self, inputs, lengths=None, train=False):
        x = inputs.reshape(inputs.shape[0], -1)
        for layer in ('first', 'second'):
            x = nn.Projection((self.width,), (None, 'mlp'), kernel_init=jax.nn.initializers.lecun_normal(), name=f'{layer}_linear')(x)
            x = jax.nn.relu(nn.BatchNorm(axis='mlp', name=f'{layer}_norm')(x, train))
        return nn.Projection((self.outputs,), ('mlp', None), kernel_init=jax.nn.initializers.lecun_normal(), name='head')(x)


@dataclasses.dataclass(frozen=True)
class Classes(tasks.Classification):
    """Classification of images [B, 1, D, 1]."""


@dataclasses.dataclass(frozen=True)
class Views(tasks.Task):
    """Contrastive: the two halves of a batch's rows, x and y, each through the model; the loss compares all rows."""

    def represent(self, params, batch, key=None):
        return dict(u=self.outputs(params, batch, key), v=self.outputs(params, dict(inputs=batch['others']), key))

    def pair_loss(self, params, outputs, batch):
        log_p = jax.nn.log_softmax(outputs['u'] @ outputs['v'].T)
        return tasks.Sums(-jnp.diagonal(log_p).sum(), jnp.float32(len(log_p)), {})


def make_batch(seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda: rng.normal(1.0, 2.0, size=(B, 1, D, 1)).astype(np.float32)
    return dict(inputs=draw(), others=draw(), targets=rng.integers(CLASSES, size=B).astype(np.int32), weights=np.ones(B, np.float32))


def run(task, *, steps=2, accumulate=1, strategy='jit', data=1, fsdp=1, ema=0.0, frozen=(), batches=make_batch):
    """(the state after so many steps of SGD, the facts of the last, Sums of the evaluation of the first batch), on the host."""
    strategy, optimizer = parallel.make_strategy(strategy, data=data, fsdp=fsdp), optax.sgd(0.5)
    state = jax.jit(lambda key: train.create_state(task, optimizer, key, make_batch(), ema=ema > 0))(jax.random.key(1))
    if frozen:
        state = state.replace(opt_state=optimizer.init(None))
    state = strategy.enter(jax.device_put(state, parallel.replicated(strategy.mesh)))
    step = make_train_step(task, optimizer, optax.constant_schedule(0.5), seed=0, accumulate=accumulate, ema=ema, frozen=frozen,
                           axis_name=strategy.axis_name)
    step = strategy.compile(step, state, strategy.place(batches(0)), updates_state=True)
    for seed in range(steps):
        state, facts = step(state, strategy.place(batches(seed)))
    batch = strategy.place(make_batch())
    evaluate = strategy.compile(make_eval_step(task, axis_name=strategy.axis_name), state, batch, updates_state=False)
    evaluated = strategy.read(evaluate(state, batch)[1])
    return jax.device_get(strategy.leave(state)), strategy.read(facts), evaluated


def near(one, other, **tolerance):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), one, other)


TASKS = {'classes': Classes(Small()), 'pairs': Views(Small())}


# ------------------------------------------------------------------------------------------------ one step

def normalised(x, variance):
    return np.maximum((x - x.mean(axis=0)) / np.sqrt(variance + 1e-5), 0)


def test_statistics_are_those_of_a_numpy_loop():
    task = TASKS['classes']
    new, _, _ = run(task, steps=1)
    params = jax.device_get(task.plain_init(jax.random.key(1), make_batch()))
    x = np.float64(make_batch()['inputs']).reshape(B, D)
    for layer in ('first', 'second'):
        x = x @ params[f'{layer}_linear']['kernel'] + params[f'{layer}_linear']['bias']
        found = new.batch_stats[f'{layer}_norm']
        np.testing.assert_allclose(found['mean'], 0.1 * x.mean(axis=0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found['var'], 0.9 + 0.1 * x.var(axis=0, ddof=1), rtol=1e-5)
        x = normalised(x, x.var(axis=0))


def test_evaluation_uses_running_statistics():
    task = TASKS['classes']
    state, _, evaluated = run(task)
    logits = task.model.apply(dict(params=state.params, batch_stats=state.batch_stats), make_batch()['inputs'])
    log_p = jax.nn.log_softmax(logits)[np.arange(B), make_batch()['targets']]
    np.testing.assert_allclose(evaluated.loss, -log_p.sum(), rtol=1e-5)


@pytest.fixture(scope='module')
def alone():
    return {name: run(task) for name, task in TASKS.items()}


@pytest.mark.parametrize('name', TASKS)
@pytest.mark.parametrize('cut', CUTS)
def test_every_mesh_and_pmap_have_the_statistics_and_parameters_of_one_device(cut, name, alone):
    state, facts, evaluated = run(TASKS[name], **CUTS[cut])
    wanted, wanted_facts, wanted_evaluated = alone[name]
    near(state.batch_stats, wanted.batch_stats, rtol=1e-5, atol=1e-6)
    near(state.params, wanted.params, rtol=0, atol=1e-5)
    near((facts['sums'].loss, evaluated.loss), (wanted_facts['sums'].loss, wanted_evaluated.loss), rtol=1e-5)


def test_statistics_of_each_device_by_itself_would_be_seen(alone):
    class Own(Small):
        @linen.compact
        def __call__(self, inputs, lengths=None, train=False):
            x = inputs.reshape(inputs.shape[0], -1)
            x = linen.BatchNorm(use_running_average=not train, momentum=0.9, name='norm')(x)
            return nn.Projection((self.outputs,), (None, None), kernel_init=jax.nn.initializers.lecun_normal(), name='head')(x)

    one, eight = run(Classes(Own())), run(Classes(Own()), strategy='pmap', data=8)
    assert abs(one[1]['sums'].loss - eight[1]['sums'].loss) > 1e-3       # flax's, not told of the axis
    near(eight[0].batch_stats['norm']['mean'], one[0].batch_stats['norm']['mean'], rtol=1e-5, atol=1e-6)    # yet no device is left alone


@pytest.mark.parametrize('name', TASKS)
@pytest.mark.parametrize('cut', [{}, dict(data=2), dict(strategy='pmap', data=2)], ids=['alone', 'jit', 'pmap'])
def test_micro_batches_use_their_own_and_running_ones_move_towards_their_mean(cut, name):
    task = TASKS[name]
    state, _, _ = run(task, steps=1, accumulate=4, **cut)
    params = task.plain_init(jax.random.key(1), make_batch())
    first = task.plain_variables(jax.random.key(1), make_batch())['batch_stats']
    each = []
    for number in range(4):
        micro = {key: x[number::4] for key, x in make_batch().items()}
        model = models.WithStatistics(task.model, first, updates=True)
        dataclasses.replace(task, model=model)(params, micro, jax.random.key(0))
        each.append(model.batch_stats)
    near(state.batch_stats, jax.tree.map(lambda *x: np.mean(x, axis=0), *each), rtol=1e-5, atol=1e-6)


def test_a_model_that_is_applied_twice_updates_them_twice():
    task = TASKS['pairs']
    variables = task.plain_variables(jax.random.key(1), make_batch())
    expected = variables['batch_stats']
    for name in ('inputs', 'others'):
        _, new = task.model.apply({**variables, 'batch_stats': expected}, make_batch()[name], train=True, mutable=['batch_stats'])
        expected = new['batch_stats']
    near(run(task, steps=1)[0].batch_stats, expected, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------ what a step leaves alone

@pytest.mark.parametrize('poison', [np.nan, 1e30])     # a variance overflows, and the loss of the normalised is finite
def test_a_step_that_is_not_finite_leaves_them_untouched(poison):
    def batches(seed):
        batch = make_batch(seed)
        return {**batch, 'inputs': np.where(seed == 1, np.float32(poison) * batch['inputs'], batch['inputs'])}

    one, two = (run(TASKS['classes'], steps=steps, ema=0.9, batches=batches)[0] for steps in (1, 2))
    assert int(two.skipped) == 1 and int(one.skipped) == 0
    jax.tree.map(np.testing.assert_array_equal, (one.params, one.batch_stats, one.ema_batch_stats),
                 (two.params, two.batch_stats, two.ema_batch_stats))


def test_the_average_of_parameters_has_an_average_of_statistics():
    history = [run(TASKS['classes'], steps=steps)[0].batch_stats for steps in (1, 2, 3)]
    state, _, evaluated = run(TASKS['classes'], steps=3, ema=0.6)
    start = TASKS['classes'].plain_variables(jax.random.key(1), make_batch())['batch_stats']
    wanted = start
    for now in history:
        wanted = jax.tree.map(lambda a, x: 0.6 * a + 0.4 * x, wanted, now)
    near(state.ema_batch_stats, wanted, rtol=1e-5, atol=1e-6)
    logits = TASKS['classes'].model.apply(dict(params=state.ema, batch_stats=state.ema_batch_stats), make_batch()['inputs'])
    log_p = jax.nn.log_softmax(logits)[np.arange(B), make_batch()['targets']]
    np.testing.assert_allclose(evaluated.loss, -log_p.sum(), rtol=1e-5)


def test_a_part_that_is_frozen_keeps_its_statistics_and_normalises_with_them():
    schedule, optimizer, task = optax.constant_schedule(0.5), optax.sgd(0.5), TASKS['classes']
    patterns = ('first_*',)
    variables = task.plain_variables(jax.random.key(1), make_batch())
    known = variables['batch_stats'] | {'first_norm': dict(mean=jnp.full(C, 0.3), var=jnp.full(C, 2.0))}
    state = train.create_state(task, optimizer, jax.random.key(1), make_batch()).replace(batch_stats=known)
    state, facts = jax.jit(make_train_step(task, optimizer, schedule, seed=0, frozen=patterns))(state, make_batch())
    near(state.batch_stats['first_norm'], known['first_norm'], rtol=0)
    assert not np.allclose(state.batch_stats['second_norm']['mean'], 0)

    params, x = jax.device_get(variables['params']), np.float64(make_batch()['inputs']).reshape(B, D)
    x = x @ params['first_linear']['kernel'] + params['first_linear']['bias']
    x = np.maximum((x - 0.3) / np.sqrt(2.0 + 1e-5), 0) @ params['second_linear']['kernel'] + params['second_linear']['bias']
    np.testing.assert_allclose(state.batch_stats['second_norm']['mean'], 0.1 * x.mean(axis=0), rtol=1e-4, atol=1e-6)
    logits = normalised(x, x.var(axis=0)) @ params['head']['kernel'] + params['head']['bias']
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(facts['sums'].loss, -log_p[np.arange(B), make_batch()['targets']].sum(), rtol=1e-4)


def test_a_run_without_batch_norms_has_none():
    class Plain(Small):
        @linen.compact
        def __call__(self, inputs, lengths=None, train=False):
            return nn.Projection((self.outputs,), (None, None), name='head')(inputs.reshape(inputs.shape[0], -1))

    state, _, _ = run(Classes(Plain()), ema=0.5)
    assert state.batch_stats is None and state.ema_batch_stats is None and state.task_state is None


# ------------------------------------------------------------------------------------------------ whole runs

@pytest.fixture(scope='module')
def config():
    """Two kinds of stripes for the small network; six steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.SOURCES, '_things', dict(data.SOURCES))
        patch.setattr(models.MODELS, '_things', dict(models.MODELS))
        import tests.extending.augmented_images  # noqa: F401

        data.SOURCES._things.setdefault('stripes', tests.extending.augmented_images.stripes)
        models.register('small')(Small)
        config = configs.defaults('small', source='stripes')
        config.data.batch_size = 8
        config.model.width = 4
        config.parallel.data = 1
        config.optimizer.update(warmup_steps=0, ema_decay=0.9)
        config.train.update(steps=6, eval_every=3, eval_batches=2, save_every=2, keep_latest=9)
        yield config


@pytest.fixture(scope='module')
def trained(config, tmp_path_factory):
    workdir = tmp_path_factory.mktemp('trained') / 'run'
    return workdir, train.train(config, workdir)


def arrays_of(workdir, step=6):
    checkpoints = Checkpoints(workdir / 'checkpoints')
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = {path: jax.ShapeDtypeStruct(tuple(x['shape']), x['dtype'], sharding=place)
              for path, x in checkpoints.manifest(step)['arrays'].items()}
    return {path: np.asarray(x) for path, x in checkpoints.restore(step, target).items()}


def test_a_checkpoint_holds_them_and_a_run_goes_on_from_it_bitwise(config, trained, tmp_path):
    workdir, result = trained
    shutil.copytree(workdir, tmp_path / 'again')
    for step in (4, 6):
        shutil.rmtree(tmp_path / 'again' / 'checkpoints' / f'{step:08d}')
    again = train.train(config, tmp_path / 'again')
    whole, resumed = arrays_of(workdir), arrays_of(tmp_path / 'again')
    assert {'batch_stats/first_norm/mean', 'ema_batch_stats/second_norm/var'} <= whole.keys() == resumed.keys()
    assert all(whole[path].tobytes() == resumed[path].tobytes() for path in whole)
    assert again['eval/loss'] == result['eval/loss'] and again['test/loss'] == result['test/loss']


def test_an_opened_run_and_an_evaluation_use_them(config, trained, tmp_path):
    workdir, result = trained
    assert evaluate(config, workdir)['eval/loss'] == pytest.approx(result['eval/loss'], rel=1e-6)
    opened, arrays = seqjax.open_run(workdir), arrays_of(workdir)
    images = np.random.default_rng(0).normal(size=(2, 12, 12, 1)).astype(np.float32)
    statistics = {layer: {name: arrays[f'ema_batch_stats/{layer}/{name}'] for name in ('mean', 'var')}
                  for layer in ('first_norm', 'second_norm')}
    wanted = Small(2, 4).apply(dict(params=opened.params, batch_stats=statistics), images)
    np.testing.assert_array_equal(opened.model.apply({'params': opened.params}, images), wanted)
    np.testing.assert_array_equal(jax.jit(lambda x: opened.model.apply({'params': opened.params}, x))(images).shape, (2, 2))
    assert opened.model.width == 4


def test_a_run_that_begins_with_another_takes_them(config, trained, tmp_path):
    workdir, _ = trained
    other = config.copy_and_resolve_references()
    other.init_from = str(workdir)
    other.init_fresh = 'second_norm/*'
    parts = train.prepare(other, tmp_path / 'run')
    assert any(line.startswith('begins with') and 'second_norm/*' in line for line in parts.start.describe())
    state, arrays = parts.initial_state(other, parts.start.parameters()), arrays_of(workdir)
    for name in ('mean', 'var'):
        np.testing.assert_array_equal(state.batch_stats['first_norm'][name], arrays[f'ema_batch_stats/first_norm/{name}'])
        np.testing.assert_array_equal(state.ema_batch_stats['first_norm'][name], arrays[f'ema_batch_stats/first_norm/{name}'])
        np.testing.assert_array_equal(state.batch_stats['second_norm'][name], float(name == 'var'))
    np.testing.assert_array_equal(state.params['head']['kernel'], arrays['ema/head/kernel'])


def test_a_frozen_backbone_ends_as_it_began(config, trained, tmp_path):
    workdir, _ = trained
    other = config.copy_and_resolve_references()
    other.init_from, other.optimizer.freeze = str(workdir), '*,!head/*'
    train.train(other, tmp_path / 'run')
    before, after = arrays_of(workdir), arrays_of(tmp_path / 'run')
    for path in before:
        if path.startswith(('ema/', 'ema_batch_stats/')) and 'head' not in path:
            for now in (path, path.replace('ema/', 'params/').replace('ema_batch', 'batch')):
                assert before[path].tobytes() == after[now].tobytes(), now
    assert (before['ema/head/kernel'] != after['params/head/kernel']).any()


def test_the_mean_of_checkpoints_has_the_mean_of_their_statistics(config, trained):
    workdir, _ = trained
    path, steps = average_checkpoints(config, workdir, 2)
    assert steps == [4, 6]
    each, mean = [arrays_of(workdir, step) for step in steps], arrays_of(path)
    for name in ('batch_stats/first_norm/mean', 'ema_batch_stats/second_norm/var', 'ema/head/kernel'):
        np.testing.assert_allclose(mean[name], (each[0][name] + each[1][name]) / 2, rtol=1e-6, atol=1e-7)
    model, params = load_model(path)
    np.testing.assert_array_equal(model.batch_stats['first_norm']['mean'], mean['ema_batch_stats/first_norm/mean'])
    assert paths.by_path(params)['head/kernel'].shape == (4, 2)


def test_result_says_what_was_evaluated(trained):
    workdir, result = trained
    assert json.loads((workdir / 'result.json').read_text())['eval/loss'] == result['eval/loss']
