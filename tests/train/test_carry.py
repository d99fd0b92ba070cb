"""Truncated backpropagation through time: the state goes on from batch to batch, the gradient does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.runs import Checkpoints, RunDirectory
from seqjax.train import build, make_eval_step, make_train_step
from seqjax.train.evaluation import evaluate_state
from tests.tiny import tiny_config, write_text

B, T, WINDOWS = 16, 4, 3  # an epoch is three batches
STEPS = 5


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp('carry') / 'text.txt', characters=360)  # 216 for training: 16 streams of 13


def config_of(text, accumulate=1, stateful=True, **mesh):
    return tiny_config('recurrent', data=dict(source=f'file:{text}', held_out=0.4, batch_size=B, sequence_length=T,
                                              stateful=stateful),
                       model=dict(width=8), train=dict(steps=STEPS, gradient_accumulation_steps=accumulate, eval_batches=0),
                       optimizer=dict(learning_rate=1e-2, schedule='constant', clip_norm=0.0), parallel=mesh or dict(data=1))


class Run:
    """The parts of a run with its two steps compiled."""

    def __init__(self, text, **options):
        self.config = config_of(text, **options)
        self.parts = build(self.config, RunDirectory(text.parent))
        self.strategy = self.parts.strategy
        self.start = self.strategy.enter(self.parts.initial_state(self.config))
        axis = self.strategy.axis_name
        self.step = self.strategy.compile(
            make_train_step(self.parts.task, self.parts.optimizer, self.parts.schedule, seed=0, axis_name=axis,
                            accumulate=self.config.train.gradient_accumulation_steps),
            self.start, self.batch(0), updates_state=True)
        self.evaluation = self.strategy.compile(make_eval_step(self.parts.task, axis_name=axis), self.start,
                                                self.strategy.place(self.parts.evaluation[0]), updates_state=False)

    def batch(self, step):
        return self.strategy.place(self.parts.training[step])

    def train(self, state, steps):
        """(state, losses) after these steps."""
        losses = []
        for number in steps:
            state, facts = self.step(state, self.batch(number))
            losses.append(float(self.strategy.read(facts)['sums'].means()['loss']))
        return state, losses

    def held_out(self, state):
        """The loss on the held-out text."""
        return evaluate_state(self.strategy, self.evaluation, state, self.parts.evaluation).means()['loss']

    def fresh(self):
        return self.strategy.enter(self.parts.initial_state(self.config))


@pytest.fixture(scope='module')
def run(text):
    """On one device."""
    return Run(text)


@pytest.fixture(scope='module')
def result(run):
    """(losses, the canonical state, the held-out loss) after the first steps, an epoch's end among them."""
    state, losses = run.train(run.fresh(), range(STEPS))
    held_out = run.held_out(state)
    return losses, jax.device_get(run.strategy.leave(state)), held_out


def long_rows(run):
    """The tokens of the first epoch's streams, [B, 3 T] inputs and targets."""
    batches = [run.parts.training[step] for step in range(WINDOWS)]
    return (np.concatenate([batch[name] for batch in batches], axis=1) for name in ('inputs', 'targets'))


def test_windows_with_a_carried_state_have_the_loss_of_one_long_row(run):
    task, params, carry = run.parts.task, run.fresh().params, run.parts.initial_carry()
    inputs, targets = long_rows(run)
    logits = jax.jit(lambda params: task.model.apply({'params': params}, inputs))(params)
    losses = np.asarray(ops.cross_entropy(logits, targets))
    carried = jax.jit(task.carried)
    for step in range(WINDOWS + 1):
        sums, carry = carried(params, run.parts.training[step], carry)
        if step < WINDOWS:
            np.testing.assert_allclose(sums.loss, losses[:, step * T:(step + 1) * T].sum(), rtol=1e-5)
    np.testing.assert_allclose(sums.loss, losses[:, :T].sum(), rtol=1e-5)  # the next epoch has forgotten the first


def test_the_gradient_is_that_of_a_window_with_a_constant_first_state(run):
    task, params = run.parts.task, jax.device_get(run.fresh().params)
    first, second = run.parts.training[0], run.parts.training[1]

    def state_after(params):
        return task.model.apply({'params': params}, task.initial_carry(B), first['inputs'], method='extend')[0]

    def loss(params, state):
        _, logits = task.model.apply({'params': params}, state, second['inputs'], method='extend')
        return ops.cross_entropy(logits, second['targets']).sum()

    def carried(params):
        _, carry = task.carried(params, first, task.initial_carry(B))
        return task.carried(params, second, carry)[0].loss

    truncated = jax.jit(jax.grad(loss))(params, jax.jit(state_after)(params))
    whole = jax.jit(jax.grad(lambda params: loss(params, state_after(params))))(params)
    found = jax.jit(jax.grad(carried))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, truncated)
    assert any(np.abs(a - b).max() > 1e-3 for a, b in zip(jax.tree.leaves(truncated), jax.tree.leaves(whole)))


def test_the_step_trains_on_what_the_state_carries(run):
    state, (loss,) = run.train(run.fresh(), [0])
    params, carry = jax.device_get((state.params, state.carry))
    expected, after = jax.jit(run.parts.task.carried)(params, run.parts.training[1], carry)
    state, (loss,) = run.train(state, [1])
    np.testing.assert_allclose(loss, expected.means()['loss'], rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), jax.device_get(state.carry), after)


def test_a_run_that_is_saved_and_started_again_takes_the_same_steps(run, result, tmp_path):
    checkpoints, (losses, expected, _) = Checkpoints(tmp_path), result
    state, first = run.train(run.fresh(), range(2))
    checkpoints.save(run.strategy.leave(state), step=2, config={})
    state, second = run.train(run.strategy.enter(checkpoints.restore(2, run.parts.target)), range(2, STEPS))
    assert first + second == losses
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(run.strategy.leave(state)), expected)


@pytest.mark.parametrize('mesh', [dict(data=1, accumulate=2), dict(data=4, fsdp=2, accumulate=2),
                                  dict(strategy='pmap', data=8, accumulate=2)], ids=['one device', 'jit', 'pmap'])
def test_any_mesh_and_any_micro_batches_give_the_losses_and_the_carry_of_one_device(mesh, text, result):
    losses, expected, held_out = result
    run = Run(text, **mesh)
    state, found = run.train(run.start, range(STEPS))
    np.testing.assert_allclose(found, losses, rtol=0, atol=1e-5)
    assert run.held_out(state) == pytest.approx(held_out, abs=1e-5)
    state = run.strategy.leave(state)
    for leaf in jax.tree.leaves(state.carry):
        assert {shard.data.shape[0] for shard in leaf.addressable_shards} == {B // mesh['data'] // mesh.get('fsdp', 1)}
    jax.tree.map(lambda found, wanted: np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4),
                 jax.device_get(state.carry), expected.carry)


def test_evaluation_reads_streams_from_nothing_and_counts_every_token_once(run):
    state = run.fresh()
    task, params = run.parts.task, state.params
    tokens = run.parts.dataset.validation
    length = -(-(len(tokens) - 1) // B)
    apply = jax.jit(lambda tokens: task.model.apply({'params': params}, tokens))
    total = 0.0
    for b in range(B):
        stream = tokens[b * length:(b + 1) * length + 1]
        padded = np.zeros(length, np.int32)
        padded[:len(stream) - 1] = stream[:-1]
        logits = apply(padded[None])[0, :len(stream) - 1]
        total += float(ops.cross_entropy(logits, stream[1:]).sum())
    disturbed = state.replace(carry=jax.tree.map(lambda x: x + jnp.ones_like(x) if x.dtype != bool else x, state.carry))
    for start in (state, disturbed):  # what training carries is no part of it
        assert run.held_out(start) == pytest.approx(total / (len(tokens) - 1), rel=1e-5)


def test_without_carry_the_state_has_none_and_rows_are_drawn_at_random(text):
    parts = build(config_of(text, stateful=False), RunDirectory(text.parent))
    assert parts.target.carry is None and parts.initial_carry() is None
    assert 'starts' not in parts.training[0]
