"""ResNets of transformers: ours become theirs with their statistics, a training step is theirs, runs begin with their files."""

import json
import os

from flax.core import meta
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy

from seqjax import config as configs
from seqjax import interop, models, tasks, train
from seqjax.errors import FieldError, UserError
from seqjax.modes.hugging_face import write_hugging_face
from seqjax.params import paths
from seqjax.train.step import make_train_step
from tests.interop.test_hf_vision import RESNET, library, run, tensors_in  # noqa: F401

os.environ.setdefault('HF_HUB_OFFLINE', '1')
IMAGES = np.random.default_rng(0).random((4, 3, 32, 32), np.float32)
OURS = dict(stem='imagenet', shortcut='projection', width=6, outputs=4)


def random_variables(model):
    """Of such a size that what goes through 50 layers does not grow without end."""
    images, rng = np.moveaxis(IMAGES, 1, -1), np.random.default_rng(1)
    variables = meta.unbox(jax.jit(model.init)(jax.random.key(0), images))
    low = lambda path: dict(scale=0.3, bias=-0.2, mean=-0.5, var=0.5).get(path.rpartition('/')[2])
    draw = lambda path, x: np.asarray(x) if low(path) is None else rng.uniform(low(path), low(path) + 0.4, x.shape).astype(np.float32)
    return {collection: paths.map_paths(draw, tree) for collection, tree in variables.items()}


@pytest.mark.parametrize('fields', [dict(depth=18), dict(depth=50, stride_first=True), dict(depth=8, stages=(1, 1), block='bottleneck'),
                                    dict(depth=8, stages=(2, 1), channels=(6, 10), downsample_first_stage=True, outputs=0)], ids=str)
def test_transformers_computes_what_our_models_compute(fields, library, tmp_path):
    model = models.ResNet(**{**OURS, **fields})
    variables = random_variables(model)
    interop.to_hf(model, tmp_path, variables)
    name = json.loads((tmp_path / 'config.json').read_text())['architectures'][0]
    theirs, report = getattr(library, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    found = run(theirs.eval(), pixel_values=IMAGES)
    wanted = found['logits'] if model.outputs else found['pooler_output'][:, :, 0, 0]
    np.testing.assert_allclose(jax.jit(model.apply)(variables, np.moveaxis(IMAGES, 1, -1)), wanted, rtol=1e-4, atol=1e-4)
    jax.tree.map(np.testing.assert_array_equal, interop.from_hf(tmp_path).variables, variables)


@pytest.mark.parametrize('fields, sentence', [
    (dict(stem='cifar', depth=20), "stem='cifar': resnet has only 'imagenet'"),
    (dict(depth=18, residual=False), 'residual=False: resnet has only True'),
    (dict(depth=18, norm_position='pre'), "norm_position='pre': resnet has only 'post'"),
    (dict(depth=18, epsilon=1e-3), 'epsilon=0.001: resnet has only 1e-05'),
])
def test_what_transformers_has_no_option_for_is_refused(fields, sentence, tmp_path):
    model = models.ResNet(**{**OURS, **fields})
    with pytest.raises(UserError, match=sentence):
        interop.to_hf(model, tmp_path, random_variables(model))


def test_weights_without_statistics_are_refused(tmp_path):
    model = models.ResNet(**OURS, depth=18)
    with pytest.raises(UserError, match=r'missing: stem_norm/mean \[6\]'):
        interop.to_hf(model, tmp_path, dict(params=random_variables(model)['params']))


@pytest.mark.parametrize('kind', ['basic', 'bottleneck'])
def test_two_training_steps_and_running_statistics_are_those_of_transformers(kind, library, tmp_path):
    """Float32 sums of 1,000 and more terms in another order, through batch norms over as few as 4 numbers: 1e-3."""
    torch = pytest.importorskip('torch')
    torch.manual_seed(0)
    theirs = library.ResNetForImageClassification(library.ResNetConfig(**{**RESNET, 'layer_type': kind}, num_labels=3)).train()
    theirs.save_pretrained(tmp_path / 'before')
    loaded, targets = interop.from_hf(tmp_path / 'before'), np.array([0, 2, 1, 1])
    task, optimizer = tasks.Classification(loaded.model, classes=tuple('abc')), optax.sgd(0.05)
    batch = dict(inputs=np.moveaxis(IMAGES, 1, -1), targets=targets.astype(np.int32), weights=np.ones(4, np.float32))
    state = train.create_state(task, optimizer, jax.random.key(0), batch).replace(**jax.tree.map(jnp.asarray, loaded.variables))
    step = jax.jit(make_train_step(task, optimizer, optax.constant_schedule(0.05), seed=0))
    of_theirs = torch.optim.SGD(theirs.parameters(), 0.05)
    for _ in range(2):
        state, facts = step(state, batch)
        of_theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(IMAGES)).logits, torch.tensor(targets))
        loss.backward()
        of_theirs.step()
        np.testing.assert_allclose(facts['sums'].means()['loss'], loss.item(), rtol=1e-4)
    theirs.save_pretrained(tmp_path / 'after')
    wanted = interop.from_hf(tmp_path / 'after').variables
    found = dict(params=state.params, batch_stats=state.batch_stats)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4), found, wanted)


def test_a_run_begins_with_their_files_and_becomes_files_again(library, tmp_path):
    made = library.ResNetForImageClassification(library.ResNetConfig(**RESNET, num_channels=1, num_labels=10))
    made.save_pretrained(tmp_path / 'theirs')
    config = configs.defaults('resnet', source='digits')
    config.init_from = str(tmp_path / 'theirs')
    config.data.batch_size, config.parallel.data, config.train.steps, config.train.eval_batches = 16, 1, 2, 1
    config.optimizer.warmup_steps = 0
    train.train(config, tmp_path / 'run')
    config = configs.loads((tmp_path / 'run' / 'config.json').read_text())
    saved = config.model
    assert (saved.stages, saved.channels, saved.stem, saved.depth) == ((1, 2, 1), (8, 16, 20), 'imagenet', 10)
    path = write_hugging_face(config, tmp_path / 'run', report=lambda text: None)
    found = tensors_in(path)
    assert found.keys() == tensors_in(tmp_path / 'theirs').keys()
    assert not np.allclose(found['resnet.embedder.embedder.normalization.running_mean'], 0)
    again = library.ResNetForImageClassification.from_pretrained(path)
    assert again.config.hidden_sizes == [8, 16, 20]


def test_a_run_that_begins_with_their_files_normalises_as_they_say(library, tmp_path):
    made = library.ResNetForImageClassification(library.ResNetConfig(**RESNET, num_channels=1, num_labels=10))
    made.save_pretrained(tmp_path / 'theirs')
    says = dict(do_resize=False, do_rescale=True, do_normalize=True, image_mean=[0.25], image_std=[0.5])
    (tmp_path / 'theirs' / 'preprocessor_config.json').write_text(json.dumps(says))
    config = configs.defaults('resnet', source='digits')
    config.init_from = str(tmp_path / 'theirs')
    config.data.batch_size, config.parallel.data = 16, 1
    with pytest.raises(FieldError) as caught:
        train.prepare(config, tmp_path / 'run')
    assert str(caught.value) == ('config.data.normalise=False: the run that this one '
                                 'starts from has True; write that')
    config.data.normalise = True
    task = train.prepare(config, tmp_path / 'run').task
    assert (task.mean, task.deviation) == ((0.25,), (0.5,))
    (tmp_path / 'theirs' / 'preprocessor_config.json').write_text(json.dumps(says | dict(image_mean=[0.2] * 3, image_std=[0.5] * 3)))
    with pytest.raises(FieldError, match="data.source='digits': has inputs of 1 channel, and what this run starts from normalises 3"):
        train.prepare(config, tmp_path / 'run')
    (tmp_path / 'theirs' / 'preprocessor_config.json').write_text(json.dumps(says | dict(rescale_factor=1.0)))
    with pytest.raises(UserError, match='rescale_factor=1.0: a run reads pixels from 0 to 1'):
        train.prepare(config, tmp_path / 'run')


def test_a_tensor_of_a_batch_norm_that_is_missing_is_named(library, tmp_path):
    library.ResNetModel(library.ResNetConfig(**RESNET)).save_pretrained(tmp_path)
    tensors = tensors_in(tmp_path)
    del tensors['encoder.stages.1.layers.0.shortcut.normalization.running_var']
    safetensors.numpy.save_file(tensors, tmp_path / 'model.safetensors')
    with pytest.raises(UserError, match=r'missing: encoder.stages.1.layers.0.shortcut.normalization.running_var \[16\]'):
        interop.from_hf(tmp_path)
