"""Optimizers by name: every one of them works, and clipping, decay masks and own rates do what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import config as configs
from seqjax.errors import FieldError
from seqjax.runs import RunDirectory
from seqjax.train import build, optimizers

RATE = 0.01


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion('standard'):  # as in the training step: optax mixes integers and floats
        yield


def make(**fields):
    """An optimizer with a constant rate, without clipping unless asked for."""
    return optimizers.make_optimizer(**{'learning_rate': optax.constant_schedule(RATE), **fields})


def parameters(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {'embedding': {'table': (7, 4)}, 'block_0': {'kernel': (4, 6), 'bias': (6,)}, 'norm': {'scale': (4,)}}
    return jax.tree.map(lambda shape: jnp.asarray(rng.normal(size=shape), jnp.float32), shapes,
                        is_leaf=lambda leaf: isinstance(leaf, tuple))


def run(optimizer, steps, first=1):
    """The parameters after so many steps with random gradients."""
    params, update = parameters(), jax.jit(optimizer.update)
    state = optimizer.init(params)
    for step in range(first, first + steps):
        updates, state = update(parameters(seed=step), state, params)
        params = optax.apply_updates(params, updates)
    return params


def torch_run(make_torch, steps, decayed=()):
    """The same with an optimizer of torch; `decayed` are the names of the leaves in its first group."""
    torch = pytest.importorskip('torch')
    leaves = {name: torch.nn.Parameter(torch.tensor(np.asarray(leaf))) for name, leaf in named(parameters()).items()}
    groups = [[leaf for name, leaf in leaves.items() if (name in decayed) == wanted] for wanted in (True, False)]
    optimizer = make_torch(torch, *groups)
    for step in range(1, 1 + steps):
        for name, gradient in named(parameters(seed=step)).items():
            leaves[name].grad = torch.tensor(np.asarray(gradient))
        optimizer.step()
    return {name: leaf.detach().numpy() for name, leaf in leaves.items()}


def named(params):
    return dict(zip(optimizers.parameter_paths(params), jax.tree.leaves(params)))


def assert_close(params, expected):
    assert named(params).keys() == expected.keys()
    for name, leaf in named(params).items():
        np.testing.assert_allclose(leaf, expected[name], rtol=1e-6, atol=1e-7, err_msg=name)


# ------------------------------------------------------------------------------------------------ every optimizer

@pytest.mark.parametrize('name', optimizers.available())
def test_every_offered_optimizer_takes_finite_steps_that_change_the_parameters(name):
    optimizer = make(name=name, clip_norm=1.0)

    @jax.jit
    def two_steps(params, gradients):
        states = [optimizer.init(params)]
        for _ in range(2):
            updates, state = optimizer.update(gradients, states[-1], params)
            params, states = optax.apply_updates(params, updates), [*states, state]
        return params, states

    before = parameters()
    after, (first, second, third) = two_steps(before, parameters(seed=1))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after))
    assert any((old != new).any() for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after)))
    # A state that changed its types could not be donated, restored or scanned over.
    types = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree) for tree in (first, second, third, before, after)]
    assert types[0] == types[1] == types[2] and types[3] == types[4]


def test_the_well_known_optimizers_are_offered_and_the_incomplete_are_not():
    offered = optimizers.available()
    assert {'adam', 'adamw', 'sgd', 'rmsprop', 'adagrad', 'lamb', 'lion', 'adafactor', 'muon', 'radam'} <= offered.keys()
    assert not {'lbfgs', 'schedule_free_adamw', 'rprop', 'sm3', 'scale_by_learning_rate', 'scale_by_rprop'} & offered.keys()
    assert offered['adamw'] is optax.adamw


# ------------------------------------------------------------------------------------------------ against torch

@pytest.mark.parametrize('decay', [0.0, 0.1])
def test_adamw_is_that_of_torch(decay):
    spared = {'block_0/bias', 'norm/scale'}
    expected = torch_run(lambda torch, decayed, others: torch.optim.AdamW(
        [dict(params=decayed, weight_decay=decay), dict(params=others, weight_decay=0.0)],
        lr=RATE, betas=(0.8, 0.95), eps=1e-6), 10, decayed=named(parameters()).keys() - spared)
    assert_close(run(make(name='adamw', b1=0.8, b2=0.95, eps=1e-6, weight_decay=decay), 10), expected)


@pytest.mark.parametrize('momentum', [None, 0.9])
def test_sgd_is_that_of_torch(momentum):
    expected = torch_run(lambda torch, _, leaves: torch.optim.SGD(leaves, lr=RATE, momentum=momentum or 0.0), 10)
    assert_close(run(make(name='sgd', momentum=momentum), 10), expected)


# ------------------------------------------------------------------------------------------------ around the optimizer

@pytest.mark.parametrize('norm', [0.5, 1.0, 1000.0])
def test_the_gradient_is_clipped_to_a_global_norm(norm):
    gradients = parameters(seed=1)
    size = np.sqrt(sum((np.asarray(leaf, np.float64) ** 2).sum() for leaf in jax.tree.leaves(gradients)))
    optimizer = make(name='sgd', clip_norm=norm)
    updates, _ = optimizer.update(gradients, optimizer.init(parameters()), parameters())
    factor = -RATE * min(1, norm / size)
    for update, gradient in zip(jax.tree.leaves(updates), jax.tree.leaves(gradients)):
        np.testing.assert_allclose(update, factor * np.asarray(gradient), rtol=1e-5)


def test_every_value_is_clipped_and_that_before_the_norm():
    gradients = parameters(seed=1)
    optimizer = make(name='sgd', clip_value=0.3, clip_norm=0.5)
    updates, _ = optimizer.update(gradients, optimizer.init(parameters()), parameters())
    clipped = jax.tree.map(lambda gradient: np.clip(np.asarray(gradient), -0.3, 0.3), gradients)
    size = np.sqrt(sum((leaf ** 2).sum() for leaf in jax.tree.leaves(clipped)))
    assert size > 0.5
    jax.tree.map(lambda update, gradient: np.testing.assert_allclose(update, -RATE * gradient * 0.5 / size, rtol=1e-5),
                 updates, clipped)


@pytest.mark.parametrize('no_decay, spared', [
    ('*bias,*scale', {'block_0/bias', 'norm/scale'}), ('', set()), ('embedding/*, *le', {'embedding/table', 'norm/scale'})])
def test_decay_spares_the_patterns_that_say_so(no_decay, spared):
    zeros = jax.tree.map(jnp.zeros_like, parameters())  # without a gradient only the decay is left
    optimizer = make(name='adamw', weight_decay=0.5, no_decay=no_decay)
    updates, _ = optimizer.update(zeros, optimizer.init(parameters()), parameters())
    for name, update in named(updates).items():
        expected = 0 if name in spared else -RATE * 0.5 * np.asarray(named(parameters())[name])
        np.testing.assert_allclose(update, np.broadcast_to(expected, update.shape), rtol=1e-6, err_msg=name)


def test_no_decay_in_the_config_means_none_even_where_optax_has_a_default():
    zeros = jax.tree.map(jnp.zeros_like, parameters())
    optimizer = make(name='adamw', weight_decay=0.0)  # optax.adamw alone would decay by 1e-4
    updates, _ = optimizer.update(zeros, optimizer.init(parameters()), parameters())
    assert all((update == 0).all() for update in jax.tree.leaves(updates))


@pytest.mark.parametrize('name', ['novograd', 'prodigy', 'dadapt_adamw', 'madgrad'])
def test_an_optimizer_that_can_spare_nothing_decays_where_nothing_is_to_be_spared(name):
    make(name=name)
    assert any(np.any(x != y) for x, y in zip(*(jax.tree.leaves(run(make(name=name, no_decay='', weight_decay=decay), 3))
                                                for decay in (0.0, 0.5))))


@pytest.mark.parametrize('name', ['adamw', 'sgd', 'lion'])
def test_own_rates_scale_updates_exactly_and_the_last_pattern_wins(name):
    factors = {'embedding/table': 0.5, 'block_0/kernel': 4.0, 'block_0/bias': 2.0, 'norm/scale': 1.0}
    plain = make(name=name)
    scaled = make(name=name, layerwise_rates='embedding/*=0.5, block_0/*=4, *bias=2')
    expected, _ = plain.update(parameters(seed=1), plain.init(parameters()), parameters())
    updates, _ = scaled.update(parameters(seed=1), scaled.init(parameters()), parameters())
    for path, update in named(updates).items():
        np.testing.assert_array_equal(update, factors[path] * named(expected)[path], err_msg=path)


def test_sgd_decays_weights_and_spares_biases_as_torch_does():
    torch = pytest.importorskip('torch')
    optimizer = optimizers.make_optimizer('sgd', 0.1, weight_decay=0.3, momentum=0.9)
    params = {'kernel': np.float32([[1.0, -2.0]]), 'bias': np.float32([3.0])}
    theirs = {name: torch.tensor(x, requires_grad=True) for name, x in params.items()}
    groups = [dict(params=[theirs['kernel']], weight_decay=0.3), dict(params=[theirs['bias']], weight_decay=0.0)]
    of_torch, state = torch.optim.SGD(groups, lr=0.1, momentum=0.9), optimizer.init(params)
    for step in range(3):
        gradient = jax.tree.map(lambda x: np.sin(x + step).astype(np.float32), params)
        for name, tensor in theirs.items():
            tensor.grad = torch.tensor(gradient[name])
        of_torch.step()
        updates, state = optimizer.update(gradient, state, params)
        params = jax.tree.map(lambda p, u: np.asarray(p + u), params, updates)
    for name, tensor in theirs.items():
        np.testing.assert_allclose(params[name], tensor.detach().numpy(), rtol=1e-5)


# ------------------------------------------------------------------------------------------------ what is refused

@pytest.mark.parametrize('fields, sentence', [
    (dict(name='adamm'), "name='adamm': no such optimizer; did you mean 'adam'?"),
    (dict(name='adam', weight_decay=0.1),
     "weight_decay=0.1: 'adam' has no weight decay; set it to 0, or use 'adamw'"),
    (dict(name='novograd', weight_decay=0.1),
     "no_decay='*bias,*scale': 'novograd' decays all parameters; set it to ''"),
    (dict(name='adamw', momentum=0.9), "momentum=0.9: 'adamw' does not take it; set it to none"),
    (dict(name='sgd', b2=0.9), "b2=0.9: 'sgd' does not take it; set it to none"),
    (dict(layerwise_rates='embedding'), "layerwise_rates='embedding': write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'"),
    (dict(layerwise_rates='embedding=x'), "layerwise_rates='embedding=x': write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'"),
    (dict(layerwise_rates='=2'), "layerwise_rates='=2': write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'"),
    (dict(layerwise_rates='*=nan'), "layerwise_rates='*=nan': nan must be a positive number; to train a part not at all, name it in "
                          'optimizer.freeze'),
    (dict(layerwise_rates='*=0'), "layerwise_rates='*=0': 0 must be a positive number; to train a part not at all, name it in "
                        'optimizer.freeze'),
])
def test_an_optimizer_that_cannot_be_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        make(**fields)
    assert str(caught.value) == sentence


def test_a_rate_of_a_part_that_does_not_exist_is_refused():
    optimizers.check_rates('norm/*=2', parameters())
    with pytest.raises(FieldError) as caught:
        optimizers.check_rates('norm/*=2,blok*=2', parameters())
    assert str(caught.value) == ("layerwise_rates='blok*': matches no parameter; there are: block_0/bias, block_0/kernel, "
                                 'embedding/table, norm/scale')


@pytest.mark.parametrize('field, value, sentence', [
    ('warmup_steps', 1000, 'config.optimizer.warmup_steps=1000: must be less than train.steps=1000'),
    ('schedule', 'cosin', "config.optimizer.schedule='cosin': no such schedule; did you mean 'cosine'?"),
    ('name', 'adamx', "config.optimizer.name='adamx': no such optimizer; did you mean 'adamax'?"),
    ('momentum', 0.9, "config.optimizer.momentum=0.9: 'adamw' does not take it; set it to none"),
    ('layerwise_rates', 'x', "config.optimizer.layerwise_rates='x': write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'"),
])
def test_a_mistake_is_found_before_data_is_read(field, value, sentence, tmp_path):
    config = configs.defaults('gpt')
    config.data.source = f'file:{tmp_path / "is_not_there.txt"}'
    config.optimizer[field] = value
    with pytest.raises(FieldError) as caught:
        build(config, RunDirectory(tmp_path / 'run'))
    assert str(caught.value) == sentence


def test_lars_scales_every_kernel_by_its_trust_ratio_and_spares_biases_and_norms():
    """A numpy loop over You et al. 2017, algorithm 1, with momentum after the rate as in optax and in SimCLR's code."""
    decay, coefficient, momentum = 0.1, 0.001, 0.9
    expected = {name: np.float64(leaf) for name, leaf in named(parameters()).items()}
    speed = dict.fromkeys(expected, 0.0)
    for step in range(1, 4):
        for name, gradient in named(parameters(seed=step)).items():
            w, g = expected[name], np.float64(gradient)
            if not name.endswith(('bias', 'scale')):
                g = g + decay * w
                g = g * coefficient * np.linalg.norm(w) / np.linalg.norm(g)
            speed[name] = momentum * speed[name] - RATE * g
            expected[name] = w + speed[name]
    found = named(run(make(name='lars', weight_decay=decay), 3))
    for name, leaf in expected.items():
        np.testing.assert_allclose(found[name], leaf, rtol=1e-5, atol=1e-6, err_msg=name)
