"""ResNets: published parameter counts, and outputs, gradients, running statistics and a training step of torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import models, nn, parallel, tasks, train
from seqjax.errors import FieldError
from seqjax.params import paths
from seqjax.train.step import make_train_step
from tests.train.test_batch_stats import run

CLASSES = 5


def count(model, size, colors=3):
    return models.parameter_count(model, jax.ShapeDtypeStruct((1, size, size, colors), jnp.float32))


# ------------------------------------------------------------------------------------------------ sizes

@pytest.mark.parametrize('name, parameters', [
    ('resnet18', 11_689_512), ('resnet34', 21_797_672), ('resnet50', 25_557_032), ('resnet101', 44_549_160), ('resnet152', 60_192_808)])
def test_networks_for_imagenet_have_the_published_parameters(name, parameters):
    assert count(models.preset(name), 64) == parameters


@pytest.mark.parametrize('depth, parameters', [(20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018), (110, 1_727_962)])
def test_networks_for_cifar_have_the_published_parameters(depth, parameters):
    """0.27M, 0.46M, 0.66M, 0.85M and 1.7M in table 6 of He et al. 2016a."""
    assert count(models.preset(f'resnet{depth}_cifar'), 32) == count(models.ResNet(depth=depth, outputs=10), 32) == parameters


def test_a_plain_network_has_the_layers_of_the_residual_one():
    assert count(models.ResNet(depth=20, outputs=10, residual=False), 32) == 269_722


def test_every_convolution_is_counted_in_the_depth():
    for depth, options in ((20, {}), (29, dict(block='bottleneck')), (50, dict(stem='imagenet', width=8, shortcut='projection'))):
        shapes = jax.eval_shape(models.ResNet(depth=depth, outputs=2, **options).init, jax.random.key(0), jnp.zeros((1, 32, 32, 1)))
        kernels = [path for path in paths.by_path(unboxed(shapes)['params']) if path.endswith('kernel') and 'shortcut' not in path]
        assert len(kernels) == depth


@pytest.mark.parametrize('options, sentence', [
    (dict(depth=21), "depth=21: must be 6 n + 2 with stem='cifar', as 20, 32, 56"),
    (dict(depth=32, block='bottleneck'), "depth=32: must be 9 n + 2 with stem='cifar', as 29, 47, 83"),
    (dict(depth=20, stem='imagenet'), "depth=20: with stem='imagenet' there are 18, 34, 50, 101, 152, basic units up to 34 and bottlenecks from "
                                      '50 on; name the units of every stage in stages for another'),
    (dict(depth=20, stages=(1, 1)), 'depth=20: basic units in stages of (1, 1) have 6 layers with weights; set it to that'),
    (dict(depth=6, stages=(1, 1), channels=(16,)), 'channels=(16,): must be one number for each of 2 stages'),
    (dict(depth=8, stages=(1, 1), channels=(3, 10), block='bottleneck'), 'channels=(3, 10): of bottlenecks must be at least 4'),
    (dict(depth=6, stages=(1, 1), channels=(32, 16)),
     "shortcut='pad': adds channels and cannot take some away, as (16, 32, 16) would; write 'projection'"),
    (dict(norm='layer'), "norm='layer': choose one of: batch, group, none"),
])
def test_a_network_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(FieldError) as caught:
        models.ResNet(**options)
    assert str(caught.value) == sentence


def test_sequences_are_refused():
    with pytest.raises(FieldError, match=r"^name='resnet': reads images \[B, H, W, C\], and the inputs are \[2, 3\]"):
        models.ResNet().init(jax.random.key(0), jnp.zeros((2, 3)))


# ------------------------------------------------------------------------------------------------ against torch

OPTIONS = {'post': {}, 'pre': dict(norm_position='pre'), 'plain': dict(residual=False), 'plain pre': dict(residual=False, norm_position='pre'),
           'bottleneck': dict(block='bottleneck', depth=11), 'bottleneck pre': dict(block='bottleneck', depth=11, norm_position='pre')}


def pair(options):
    """(our model, torch's) with 8 layers, or 11, and 4 channels at first."""
    from tests.reference.resnet import ResNet
    ours = models.ResNet(**{**dict(depth=8, width=4, outputs=CLASSES), **options})
    theirs = ResNet(1, 4, CLASSES, pre=options.get('norm_position') == 'pre', residual=options.get('residual', True),
                    bottleneck=options.get('block') == 'bottleneck')
    return ours, theirs


def links(theirs):
    """{our path: (their array, whether it is a kernel)}"""
    found = {'stem_conv/kernel': theirs.stem.weight, 'output/kernel': theirs.classifier.weight, 'output/bias': theirs.classifier.bias}
    norms = {'last_norm' if theirs.pre else 'stem_norm': theirs.norm}
    for stage, unit in enumerate(theirs.units):
        for number, (conv, norm) in enumerate(zip(unit.conv, unit.norm)):
            found[f'stage_{stage}/unit_0/conv_{number}/kernel'] = conv.weight
            norms[f'stage_{stage}/unit_0/norm_{number}'] = norm
    for path, norm in norms.items():
        found |= {f'{path}/scale': norm.weight, f'{path}/bias': norm.bias, f'{path}/mean': norm.running_mean, f'{path}/var': norm.running_var}
    return found


def to_ours(tensor):
    array = tensor.detach().numpy().copy()
    return {4: lambda: array.transpose(2, 3, 1, 0), 2: lambda: array.T, 1: lambda: array}[array.ndim]()


def variables_of(model, theirs, of=lambda tensor: tensor):
    """Our variables with torch's numbers."""
    shapes, known = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 8, 8, 1))), links(theirs)
    fill = lambda path, leaf: to_ours(of(known[path]))
    made = {name: paths.map_paths(fill, jax.tree.map(lambda x: x, tree)) for name, tree in unboxed(shapes).items()}
    assert sum(len(jax.tree.leaves(tree)) for tree in made.values()) == len(known)
    return made


def unboxed(tree):
    from flax.core import meta
    return meta.unbox(tree)


@pytest.fixture(scope='module')
def images():
    rng = np.random.default_rng(0)
    return rng.random((6, 9, 9, 1), np.float32), rng.integers(CLASSES, size=6).astype(np.int32)


def near(one, other):
    """Sums of float32 in another order, through eight normalised layers: a relative error of 1e-7 each, some hundred terms."""
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5), one, other)


@pytest.mark.parametrize('options', OPTIONS.values(), ids=OPTIONS)
def test_two_training_steps_are_those_of_torch(options, images):
    torch = pytest.importorskip('torch')
    torch.manual_seed(0)
    (model, theirs), (x, targets) = pair(options), images
    variables, of_torch = variables_of(model, theirs), torch.tensor(x.transpose(0, 3, 1, 2))
    near(jax.jit(model.apply)(variables, x), theirs.eval()(of_torch).detach().numpy())
    task, optimizer = tasks.Classification(model, classes=tuple('abcde')), optax.sgd(0.1)
    batch = dict(inputs=x, targets=targets, weights=np.ones(len(x), np.float32))
    state = train.create_state(task, optimizer, jax.random.key(0), batch).replace(**variables)
    step = jax.jit(make_train_step(task, optimizer, optax.constant_schedule(0.1), seed=0))
    theirs.train()
    of_theirs = torch.optim.SGD(theirs.parameters(), 0.1)
    for _ in range(2):
        state, facts = step(state, batch)
        of_theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(theirs(of_torch), torch.tensor(targets).long())
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in theirs.parameters()))
        of_theirs.step()
        near((facts['sums'].means()['loss'], facts['gradient_norm']), (loss.item(), norm.item()))
    wanted = variables_of(model, theirs)
    near(state.params, wanted['params'])
    near(state.batch_stats, wanted['batch_stats'])
    near(jax.jit(model.apply)(dict(params=state.params, batch_stats=state.batch_stats), x), theirs.eval()(of_torch).detach().numpy())


# ------------------------------------------------------------------------------------------------ options

def test_pixels_of_uint8_are_numbers_from_0_to_1():
    model, images = models.ResNet(depth=8, width=4, outputs=3), np.random.default_rng(0).integers(256, size=(2, 8, 8, 3)).astype(np.uint8)
    variables = model.init(jax.random.key(0), images)
    np.testing.assert_allclose(model.apply(variables, images), model.apply(variables, images.astype(np.float32) / 255), rtol=1e-6)


def test_features_are_what_the_classifier_is_given():
    model, images = models.ResNet(depth=8, width=4, outputs=3), jnp.ones((2, 8, 8, 1))
    variables = unboxed(model.init(jax.random.key(0), images))
    features = model.apply(variables, images, method='features')
    assert features.shape == (2, 16) and model.apply(variables, images, method='feature_map').shape == (2, 2, 2, 16)
    head = variables['params']['output']
    np.testing.assert_allclose(model.apply(variables, images), features @ head['kernel'] + head['bias'], rtol=1e-5, atol=1e-6)
    headless = models.ResNet(depth=8, width=4)
    assert 'output' not in headless.init(jax.random.key(0), images)['params']
    np.testing.assert_array_equal(headless.apply(variables, images), features)


@pytest.mark.parametrize('norm', nn.IMAGE_NORMS)
def test_a_unit_whose_last_scale_or_kernel_is_zero_begins_as_its_shortcut(norm):
    model, images = models.ResNet(depth=14, width=4, zero_init=True, norm=norm), np.random.default_rng(0).random((2, 8, 8, 1), np.float32)
    variables = unboxed(model.init(jax.random.key(0), images))
    stem = models.ResNet(depth=8, width=4, zero_init=True, norm=norm)
    shallow = {name: {part: tree for part, tree in variables[name].items()} for name in variables}
    for tree in shallow.values():
        for stage in range(3):
            tree[f'stage_{stage}'] = {'unit_0': tree[f'stage_{stage}']['unit_0']}
    np.testing.assert_allclose(model.apply(variables, images), stem.apply(shallow, images), rtol=1e-6)


@pytest.mark.parametrize('norm', ['group', 'none'])
def test_without_batch_norm_there_are_no_statistics_and_a_row_does_not_depend_on_others(norm):
    model, images = models.ResNet(depth=8, width=8, outputs=3, norm=norm), np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    variables = model.init(jax.random.key(0), images)
    assert variables.keys() == {'params'}
    whole = model.apply(variables, images, train=True)
    np.testing.assert_allclose(model.apply(variables, images[:1], train=True), whole[:1], rtol=1e-4, atol=1e-5)


def test_group_norm_is_torch_s():
    torch = pytest.importorskip('torch')
    x = np.float32(np.random.default_rng(0).normal(size=(2, 3, 3, 24)))
    norm = torch.nn.GroupNorm(2, 24)        # the most that divide 24 channels, with 4 or more each: a power of two
    wanted = norm(torch.tensor(x.transpose(0, 3, 1, 2))).permute(0, 2, 3, 1).detach().numpy()
    module = nn.image_norm('group')
    np.testing.assert_allclose(module.apply(module.init(jax.random.key(0), x), x), wanted, rtol=1e-4, atol=1e-5)


def test_it_computes_in_bfloat16_with_float32_statistics():
    model, images = models.ResNet(depth=8, width=4, outputs=3, dtype='bfloat16'), np.random.default_rng(0).random((2, 8, 8, 1), np.float32)
    variables = unboxed(model.init(jax.random.key(0), images))
    assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {np.dtype(np.float32)}
    logits = model.apply(variables, images)
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, models.ResNet(depth=8, width=4, outputs=3).apply(variables, images), rtol=0.1, atol=0.1)


# ------------------------------------------------------------------------------------------------ on many devices

def image_batch(seed=0):
    rng = np.random.default_rng(seed)
    return dict(inputs=rng.integers(256, size=(16, 8, 8, 1)).astype(np.uint8), targets=rng.integers(3, size=16).astype(np.int32),
                weights=np.ones(16, np.float32))


@pytest.mark.parametrize('norm', ['batch', 'group'])
@pytest.mark.parametrize('cut', [dict(data=8), dict(fsdp=8), dict(data=2, fsdp=2), dict(strategy='pmap', data=8)], ids=str)
def test_a_step_on_many_devices_is_that_of_one(cut, norm):
    task = tasks.Classification(models.ResNet(depth=8, width=8, outputs=3, norm=norm), classes=tuple('abc'))
    wanted, wanted_facts, wanted_sums = run(task, steps=1, batches=image_batch)
    state, facts, sums = run(task, steps=1, batches=image_batch, **cut)
    for one, other in ((state.params, wanted.params), (state.batch_stats, wanted.batch_stats),
                       ((facts['sums'].loss, sums.loss), (wanted_facts['sums'].loss, wanted_sums.loss))):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5), one, other)


def test_every_axis_that_a_mesh_may_cut_has_a_name():
    model = models.ResNet(depth=11, block='bottleneck', width=8, outputs=3)
    boxed = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 8, 8, 1)))['params']
    mesh = parallel.make_strategy('jit', data=1, fsdp=4, tensor=2).mesh
    shardings = parallel.rules.parameter_shardings(boxed, mesh)
    cut = {'/'.join(path): sharding.spec for path, (_, sharding) in shardings.items()}
    assert cut['stage_1/unit_0/conv_0/kernel'] == jax.sharding.PartitionSpec(None, None, 'fsdp', 'tensor')
    assert cut['stage_1/unit_0/conv_2/kernel'] == jax.sharding.PartitionSpec(None, None, None, 'fsdp')
