"""One device, eight devices, jit and pmap: the same numbers, and parameters that really lie where the mesh says."""

import jax
import numpy as np
import pytest

from seqjax import parallel
from seqjax.runs import RunDirectory
from seqjax.train import build, make_eval_step, make_train_step
from seqjax.train.evaluation import evaluate_state
from tests.labelled_files import labelled_config, write_labelled
from tests.pair_files import pair_config, write_pairs
from tests.tiny import tiny_config, write_text

STEPS = 20
MESHES = {
    'jit data=8': dict(data=8),
    'jit fsdp=8': dict(data=1, fsdp=8),
    'jit data=2 fsdp=2 tensor=2': dict(data=2, fsdp=2, tensor=2),
    'pmap data=8': dict(strategy='pmap', data=8),
}


def config_on(tmp_path, model, **mesh):
    return tiny_config(model, data=dict(source=f'file:{write_text(tmp_path / "text.txt")}', batch_size=16),
                       train=dict(steps=STEPS, gradient_accumulation_steps=2),
                       optimizer=dict(learning_rate=1e-2, ema_decay=0.9), parallel=mesh)


def run_steps(tmp_path, model, **mesh):
    """Losses and batch fingerprints of the first steps, the evaluation sums after them, and the final canonical state."""
    config = config_on(tmp_path, model, **mesh)
    parts = build(config, RunDirectory(tmp_path))
    strategy, state = parts.strategy, parts.initial_state(config)
    state = strategy.enter(state)
    step = strategy.compile(make_train_step(parts.task, parts.optimizer, parts.schedule, seed=0, accumulate=2, ema=0.9,
                                            axis_name=strategy.axis_name),
                            state, strategy.place(parts.training[0]), updates_state=True)
    losses, batches = [], []
    for number in range(STEPS):
        state, facts = step(state, strategy.place(parts.training[number]))
        facts = strategy.read(facts)
        losses.append(float(facts['sums'].means()['loss']))
        batches.append(facts['batch'].tolist())
    evaluate = strategy.compile(make_eval_step(parts.task, axis_name=strategy.axis_name),
                                state, strategy.place(parts.evaluation[0]), updates_state=False)
    sums = strategy.read(evaluate(state, strategy.place(parts.evaluation[0]))[1])
    return losses, batches, float(sums.loss / sums.weight), strategy.leave(state)


@pytest.fixture(scope='module', params=['gpt', 'recurrent'])
def one_device(request, tmp_path_factory):
    return request.param, run_steps(tmp_path_factory.mktemp('one'), request.param, data=1)


@pytest.mark.parametrize('mesh', MESHES)
def test_losses_are_those_of_one_device(one_device, mesh, tmp_path):
    model, (losses, batches, evaluation, state) = one_device
    their_losses, their_batches, their_evaluation, their_state = run_steps(tmp_path, model, **MESHES[mesh])
    assert losses[-1] < losses[0] - 0.1
    np.testing.assert_allclose(their_losses, losses, rtol=0, atol=1e-5)
    np.testing.assert_allclose(their_evaluation, evaluation, rtol=0, atol=1e-5)
    assert their_batches == batches
    assert jax.tree.structure(their_state) == jax.tree.structure(state)


@pytest.mark.parametrize('model', ['mamba', 'rwkv'])
def test_layers_that_carry_a_state_have_the_losses_of_one_device_on_all_axes(model, tmp_path):
    alone = run_steps(tmp_path, model, data=1)
    spread = run_steps(tmp_path, model, data=2, fsdp=2, tensor=2)
    assert alone[0][-1] < alone[0][0] - 0.1 and spread[1] == alone[1]
    np.testing.assert_allclose(spread[0], alone[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(spread[2], alone[2], rtol=0, atol=1e-5)


# ------------------------------------------------------------------------------------------------ labelled sequences

LABELLED = {'classification': dict(encoder='gru'), 'tagging': dict(encoder='conv', model=dict(crf=True)),
            'regression': dict(encoder='conv')}
LABELLED_MESHES = {'jit data=4 fsdp=2': dict(data=4, fsdp=2), 'pmap data=8': dict(strategy='pmap', data=8)}
DESCENT = dict(name='sgd', learning_rate=1.0, schedule='constant', clip_norm=0.0)


def run_labelled(tmp_path, task, accumulate, **mesh):
    """See `one_step`. The test split is a batch and a third."""
    config = labelled_config(write_labelled(tmp_path / 'rows.jsonl', task), task, **LABELLED[task], parallel=mesh,
                             train=dict(gradient_accumulation_steps=accumulate, eval_batches=0), optimizer=DESCENT)
    return one_step(config, tmp_path)


def one_step(config, tmp_path):
    """(parts, facts of a step, parameters after it, sums of the test split, if there is one, with these).

    The step is plain gradient descent with rate 1, from parameters drawn at random.
    """
    config.data.batch_size = 16
    parts = build(config, RunDirectory(tmp_path))
    strategy, rng = parts.strategy, np.random.default_rng(0)
    start = jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype), x.sharding), parts.target)
    draw = lambda x: jax.device_put(rng.normal(0, 0.5, x.shape).astype(x.dtype), x.sharding)
    state = strategy.enter(start.replace(params=jax.tree.map(draw, parts.target.params)))
    step = strategy.compile(make_train_step(parts.task, parts.optimizer, parts.schedule, seed=0,
                                            accumulate=config.train.gradient_accumulation_steps, axis_name=strategy.axis_name),
                            state, strategy.place(parts.training[0]), updates_state=True)
    state, facts = step(state, strategy.place(parts.training[0]))
    sums = parts.test and evaluate_state(strategy, parts.eval_step(), state, parts.test)
    return parts, jax.device_get(strategy.read(facts)), jax.device_get(strategy.leave(state).params), sums


@pytest.fixture(scope='module', params=LABELLED)
def whole_batch(request, tmp_path_factory):
    return request.param, run_labelled(tmp_path_factory.mktemp('whole'), request.param, accumulate=1, data=1)


@pytest.mark.parametrize('mesh', LABELLED_MESHES)
def test_micro_batches_on_eight_devices_have_the_gradient_the_sums_and_the_rows_of_one(whole_batch, mesh, tmp_path):
    task, (parts, facts, params, sums) = whole_batch
    _, their_facts, their_params, theirs = run_labelled(tmp_path, task, accumulate=2, **LABELLED_MESHES[mesh])
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    jax.tree.map(close, their_params, params)
    jax.tree.map(close, (their_facts['sums'], their_facts['gradient_norm']), (facts['sums'], facts['gradient_norm']))
    np.testing.assert_array_equal(their_facts['batch'], facts['batch'])
    jax.tree.map(close, theirs, sums)
    if task != 'regression':
        np.testing.assert_array_equal(theirs.metrics['confusion'], sums.metrics['confusion'])
        assert sums.metrics['confusion'].sum() == sums.weight and not sums.rows
        return
    in_order = [np.concatenate([parts.test[n][name] for n in range(len(parts.test))]) for name in ('targets', 'weights')]
    np.testing.assert_array_equal([theirs.rows['targets'], theirs.rows['weights']], in_order)
    assert parts.task.summary(theirs)['spearman'] == pytest.approx(parts.task.summary(sums)['spearman'], abs=1e-9)
    assert len(set(sums.rows['predictions'].round(3))) > 5  # rows in another order would be seen


# ------------------------------------------------------------------------------------------------ translation

HALF = dict(teacher_forcing='inverse_sigmoid', teacher_forcing_steps=1)  # of what the decoder reads it draws itself, in the first step


def run_pairs(tmp_path, **mesh):
    """See `one_step`. Pairs are ragged, and the test split is a batch and a half."""
    config = pair_config(write_pairs(tmp_path / 'pairs.tsv'), parallel=mesh, optimizer=DESCENT,
                         train=dict(eval_batches=0, **HALF))
    return one_step(config, tmp_path)


@pytest.fixture(scope='module')
def translator(tmp_path_factory):
    return run_pairs(tmp_path_factory.mktemp('translator'), data=1)


@pytest.mark.parametrize('mesh', ['jit data=8', 'jit fsdp=8'])
def test_a_translator_on_eight_devices_draws_the_tokens_of_one_and_has_its_gradient_and_sums(translator, mesh, tmp_path):
    parts, facts, params, sums = translator
    _, their_facts, their_params, theirs = run_pairs(tmp_path, **MESHES[mesh])
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    jax.tree.map(close, their_params, params)
    jax.tree.map(close, (their_facts['sums'], their_facts['gradient_norm']), (facts['sums'], facts['gradient_norm']))
    np.testing.assert_array_equal(their_facts['batch'], facts['batch'])
    jax.tree.map(close, theirs, sums)
    assert parts.task.teacher(0) == 0.5


# ------------------------------------------------------------------------------------------------ shardings

@pytest.mark.parametrize('model', ['gpt', 'recurrent'])
@pytest.mark.parametrize('mesh, sharded, parts', [
    (dict(data=8), 'none', 1), (dict(data=1, fsdp=8), 'embed', 8), (dict(data=2, fsdp=2, tensor=2), 'both', 4)])
def test_parameters_and_moments_are_sharded_as_the_mesh_says(model, mesh, sharded, parts, tmp_path):
    config = config_on(tmp_path, model, **mesh)
    built = build(config, RunDirectory(tmp_path))
    state = built.initial_state(config)
    kernel = {'gpt': lambda tree: tree['decoder']['block_0']['feed_forward']['in']['kernel'],
              'recurrent': lambda tree: tree['recurrent']['layer_0']['recurrent_kernel']}[model]
    moments = [leaf for path, leaf in jax.tree_util.tree_flatten_with_path(state.opt_state)[0]
               if leaf.shape == kernel(state.params).shape]
    assert len(moments) >= 2
    for leaf in (kernel(state.params), kernel(state.ema), *moments):
        assert len(leaf.addressable_shards) == 8
        for shard in leaf.addressable_shards:
            assert shard.data.size * parts == leaf.size
    table = state.params['embedding']['table']
    assert {shard.data.shape for shard in table.addressable_shards} == {(table.shape[0], table.shape[1] // mesh.get('fsdp', 1))}


@pytest.mark.parametrize('model', ['gpt', 'recurrent'])
def test_a_tensor_parallel_step_communicates_and_a_single_device_does_not(model, tmp_path):
    def collectives(**mesh):
        config = config_on(tmp_path, model, **mesh)
        parts = build(config, RunDirectory(tmp_path))
        text = parts.strategy.compile(make_eval_step(parts.task), parts.initial_state(config),
                                      parts.strategy.place(parts.evaluation[0]), updates_state=False).run.as_text()
        return sum(text.count(name) for name in ('all-reduce(', 'all-gather(', 'reduce-scatter('))

    assert collectives(data=1) == 0
    assert collectives(data=1, tensor=2) > 0


def test_moments_of_another_shape_than_their_parameter_are_replicated(tmp_path):
    config = config_on(tmp_path, 'gpt', data=1, fsdp=8)
    config.optimizer.name = 'adafactor'  # keeps a (1,) in place of every moment that it does not need
    state = build(config, RunDirectory(tmp_path)).initial_state(config)
    placeholders = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.shape == (1,)]
    assert placeholders and all(leaf.sharding.is_fully_replicated for leaf in placeholders)


def test_an_axis_that_does_not_divide_stays_whole(tmp_path):
    config = config_on(tmp_path, 'gpt', data=1, tensor=8)  # 2 heads cannot be cut in 8, the feed-forward width can
    state = build(config, RunDirectory(tmp_path)).initial_state(config)
    assert state.params['decoder']['block_0']['attention']['key']['kernel'].sharding.is_fully_replicated
    assert not state.params['decoder']['block_0']['feed_forward']['in']['kernel'].sharding.is_fully_replicated


@pytest.mark.parametrize('available, sizes, shape', [
    (8, dict(), (8, 1, 1)), (8, dict(fsdp=2), (4, 2, 1)), (8, dict(data=2, fsdp=-1, tensor=2), (2, 2, 2)),
    (8, dict(data=1), (1, 1, 1)), (1, dict(), (1, 1, 1)), (6, dict(data=-1, tensor=3), (2, 1, 3))])
def test_mesh_shape(available, sizes, shape):
    assert parallel.mesh_shape(available, **sizes) == shape


@pytest.mark.parametrize('sizes, sentence', [
    (dict(data=3, fsdp=3), 'parallel.data=3: data x fsdp x tensor = 3 x 3 x 1 does not fit 8 devices'),
    (dict(tensor=3), 'does not fit 8 devices'),
    (dict(data=-1, fsdp=-1), 'parallel.fsdp=-1: only one axis can be -1'),
    (dict(tensor=0), 'parallel.tensor=0: must be at least 1')])
def test_a_mesh_that_cannot_be_is_refused(sizes, sentence):
    with pytest.raises(parallel.mesh.FieldError, match=sentence):
        parallel.mesh_shape(8, **sizes)
