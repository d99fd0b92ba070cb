"""LoRA: W + (alpha / r) a b is numpy's, models start as they were, and of a run nothing but a and b moves."""

from flax import linen, traverse_util
from flax.core import meta
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import interop, nn, train
from seqjax.errors import FieldError
from seqjax.modes.average import average_checkpoints
from seqjax.modes.continue_text import generate_text
from seqjax.modes.eval import evaluate
from seqjax.params import paths
from seqjax import params as trees
from seqjax.params.low_rank import Axes, LoRA, is_adapter, lora, merge
from seqjax.runs import Checkpoints, RunDirectory, load_model, transfer
from tests.modes.test_averaging import arrays_of
from tests.tiny import tiny_config, write_text

L, D, H, K, F = 3, 6, 2, 3, 5


class Toy(linen.Module):
    """Every kind of linear map that an attention layer has, and one that is no Projection; `stacked` in a loop of L."""

    stacked: bool = False

    @linen.compact
    def __call__(self, x):
        make = linen.scan(Layer, variable_axes={'params': 0}, split_rngs={'params': True}, length=L,
                          metadata_params={linen.PARTITION_NAME: 'layers'}) if self.stacked else Layer
        x, _ = make(name='layer')(x, None)
        matrix = self.param('matrix', linen.initializers.normal(), (D, F))
        return x @ matrix + self.param('vector', linen.initializers.ones, (F,))


class Layer(linen.Module):
    @linen.compact
    def __call__(self, x, _):
        query = nn.Projection((H, K), ('embed', 'heads', None), name='query')(x)
        value = nn.Projection((H, K), ('embed', 'heads', None), name='value')(x)
        out = nn.Projection((D,), ('heads', None, 'embed'), contract=2, name='out')
        return x + out(query + value), None


def toy(stacked=False, **fields):
    """(boxed parameters, LoRA) of a Toy."""
    init = lambda: Toy(stacked).init(jax.random.key(0), jnp.ones((1, D)))
    boxed = jax.eval_shape(init)['params']
    return boxed, lora(meta.unbox(boxed), init=init, **{**dict(rank=2, alpha=3.0, targets='*kernel,matrix'), **fields})


def random_like(tree, seed=0):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), tree)


# ------------------------------------------------------------------------------------------------ the transformation

@pytest.mark.parametrize('stacked', [False, True])
def test_it_knows_which_axes_a_kernel_sums_over(stacked):
    _, found = toy(stacked)
    s = int(stacked)
    assert found.adapted == {'layer/query/kernel': Axes(s, s + 1), 'layer/value/kernel': Axes(s, s + 1),
                             'layer/out/kernel': Axes(s, s + 2), 'matrix': Axes(0, 1)}


@pytest.mark.parametrize('stacked', [False, True])
def test_merging_adds_the_product_of_a_and_b(stacked):
    boxed, found = toy(stacked)
    params = random_like(jax.eval_shape(lambda: found.add(meta.unbox(Toy(stacked).init(
        jax.random.key(0), jnp.ones((1, D)))['params']), jax.random.key(1))))
    flat = paths.by_path(params)
    merged = paths.by_path(merge(params, alpha=3.0))
    assert merged.keys() == {path for path in flat if 'lora' not in path} == paths.by_path(meta.unbox(boxed)).keys()
    for path, axes in found.adapted.items():
        W, a, b = (flat[name].astype(np.float64) for name in (path, f'{path}_lora/a', f'{path}_lora/b'))
        layers = [(W, a, b)] if not axes.stacked else zip(W, a, b)
        expected = [W + 3.0 / 2 * (a.reshape(-1, 2) @ b.reshape(2, -1)).reshape(W.shape) for W, a, b in layers]
        np.testing.assert_allclose(merged[path], expected if axes.stacked else expected[0], rtol=1e-5, atol=1e-6, err_msg=path)
    for path in merged.keys() - found.adapted.keys():
        assert merged[path] is flat[path]


def test_a_and_b_have_the_axes_that_they_share_with_the_kernel():
    boxed, found = toy(stacked=True)
    flat = traverse_util.flatten_dict(found.add_axes(boxed), sep='/')
    names = {path: (box.names, box.value.shape) for path, box in flat.items() if is_adapter(path)}
    assert names == {
        'layer/query/kernel_lora/a': (('layers', 'embed', None), (L, D, 2)),
        'layer/query/kernel_lora/b': (('layers', None, 'heads', None), (L, 2, H, K)),
        'layer/value/kernel_lora/a': (('layers', 'embed', None), (L, D, 2)),
        'layer/value/kernel_lora/b': (('layers', None, 'heads', None), (L, 2, H, K)),
        'layer/out/kernel_lora/a': (('layers', 'heads', None, None), (L, H, K, 2)),
        'layer/out/kernel_lora/b': (('layers', None, 'embed'), (L, 2, D)),
        'matrix_lora/a': ((None, None), (D, 2)),
        'matrix_lora/b': ((None, None), (2, F)),
    }


def test_it_starts_as_the_model_without_and_a_keeps_the_size_of_what_it_reads():
    kernel = jnp.asarray(np.random.default_rng(0).normal(size=(64, 4, 16)), jnp.float32)
    found = LoRA(32, 16.0, {'query/kernel': Axes(0, 1)})
    params = found.add({'query': {'kernel': kernel}}, jax.random.key(0))
    np.testing.assert_array_equal(found.merge(params)['query']['kernel'], kernel)
    a, b = params['query']['kernel_lora']['a'], params['query']['kernel_lora']['b']
    assert not b.any() and a.std() == pytest.approx(64 ** -0.5, rel=0.1) and len(np.unique(a)) == a.size


@pytest.mark.parametrize('fields, sentence', [
    (dict(targets='*/qkv/kernel'), "targets='*/qkv/kernel': matches no linear map of the model; there are: "
     'layer/out/kernel, layer/query/kernel, layer/value/kernel, matrix'),
    (dict(targets='matrix,vector'), "targets='vector': matches no linear map of the model; there are: "
     'layer/out/kernel, layer/query/kernel, layer/value/kernel, matrix'),
    (dict(targets=''), "targets='': matches no linear map of the model; there are: "
     'layer/out/kernel, layer/query/kernel, layer/value/kernel, matrix'),
    (dict(rank=0), 'rank=0: must be at least 1'),
    (dict(rank=6, targets='matrix'), 'rank=6: is more than matrix has, which maps 6 numbers to 5; choose at most 5'),
])
def test_what_cannot_be_adapted_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        toy(**fields)
    assert str(caught.value) == sentence


def test_a_model_of_ones_own_is_adapted_with_plain_arguments():
    """As the page says: gradients of a and b alone lower the loss, and W is not touched."""
    model, key = linen.Dense(3), jax.random.key(0)
    x, y = jax.random.normal(key, (16, 4)), jnp.ones((16, 3))
    tree = trees.unbox(model.init(key, x))['params']
    adapters = trees.lora(tree, rank=2, targets='kernel')
    tree = adapters.add(tree, key)
    trained, frozen = trees.split(tree, trees.LORA_FROZEN)

    def loss(trained):
        return ((model.apply({'params': adapters.merge(trees.join(trained, frozen))}, x) - y) ** 2).mean()

    before = loss(trained)
    for _ in range(20):
        trained = jax.tree.map(lambda w, g: w - 0.02 * g, trained, jax.grad(loss)(trained))
    assert loss(trained) < 0.9 * before and len(jax.tree.leaves(trained)) == 2


def test_unboxed_variables_are_plain_arrays():
    v = trees.unbox(nn.LSTM(16).init(jax.random.key(0), jnp.ones((2, 3, 4))))
    np.testing.assert_array_equal(v['params']['layer_0']['bias'] + 1, np.asarray(v['params']['layer_0']['bias']) + 1)


# ------------------------------------------------------------------------------------------------ runs

@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, directory, what it began with, its two checkpoints) of a run on a mesh of data, fsdp and tensor."""
    folder = tmp_path_factory.mktemp('lora')
    config = tiny_config(data=dict(source=f'file:{write_text(folder / "text.txt")}'), parallel=dict(data=2, fsdp=2, tensor=2),
                         lora=dict(rank=2, alpha=8.0), model=dict(bias=True), optimizer=dict(freeze='!*norm*', weight_decay=0.1, learning_rate=0.03),
                         train=dict(steps=6, save_every=3, keep_latest=2), decode=dict(temperature=0.0))
    first = jax.device_get(train.build(config, RunDirectory(folder / 'none')).initial_state(config).params)
    train.train(config, folder / 'run')
    return config, folder / 'run', paths.by_path(first), [arrays_of(folder / 'run', step) for step in (3, 6)]


def test_of_a_run_only_a_and_b_move_and_what_the_config_adds_to_them(run):
    _, _, first, (_, last) = run
    moved = {path for path, x in first.items() if x.tobytes() != last[f'params/{path}'].tobytes()}
    assert moved == {path for path in first if 'norm' in path or 'lora' in path}
    assert {path.rpartition('/')[0] for path in moved if 'lora' in path} == {
        f'decoder/block_0/attention/{name}/kernel_lora' for name in ('query', 'value')}
    shapes = sorted(x.shape for path, x in last.items() if path.startswith('opt_state') and x.ndim)
    assert shapes == sorted(2 * [first[path].shape for path in moved])  # two moments each, and of nothing else


def plain(arrays, alpha, prefix='params/'):
    """What the model computes with, by numpy."""
    params = {path.removeprefix(prefix): x for path, x in arrays.items() if path.startswith(prefix)}
    found = {path: x for path, x in params.items() if 'lora' not in path}
    for path in found:
        if f'{path}_lora/a' in params:
            a, b = params[f'{path}_lora/a'], params[f'{path}_lora/b']
            found[path] = found[path] + alpha / 2 * np.tensordot(a, b, axes=1)
    return found


def test_every_mode_uses_the_merged_parameters(run):
    config, workdir, _, (_, last) = run
    parts = train.build(config, RunDirectory(workdir))
    _, params = load_model(workdir)
    expected = plain(last, 8.0)
    for path, x in paths.by_path(params).items():
        np.testing.assert_allclose(x, expected.pop(path), rtol=1e-5, atol=1e-7, err_msg=path)
    assert not expected
    loss = sum(np.asarray(parts.task(jax.device_get(params), parts.evaluation[i]).loss) for i in range(2))
    found = evaluate(config, workdir)
    assert found['eval/loss'] == pytest.approx(loss / (2 * 8 * 16), rel=1e-5)

    tokenizer, text = RunDirectory(workdir).codec('text').tokenizer, generate_text(config, workdir)[0]
    tokens, logits = list(tokenizer.encode('\n')), jax.jit(parts.task.model.apply)
    for _ in range(8):
        padded = np.zeros((1, 16), np.int32)
        padded[0, :len(tokens)] = tokens
        tokens.append(int(np.asarray(logits({'params': params}, padded))[0, len(tokens) - 1].argmax()))
    assert text == tokenizer.decode(tokens)


def test_it_is_written_for_others_as_one_plain_model(run, tmp_path):
    _, workdir, _, _ = run
    model, params = load_model(workdir)
    interop.to_hf(model, tmp_path / 'hf', {'params': jax.device_get(params)})
    loaded = interop.from_hf(tmp_path / 'hf')
    for path, x in paths.by_path(params).items():
        np.testing.assert_array_equal(paths.by_path(loaded.variables['params'])[path], x, err_msg=path)


def test_the_mean_of_checkpoints_is_a_run_with_the_same_base(run):
    config, workdir, first, saved = run
    path, steps = average_checkpoints(config, workdir, 2)
    found = arrays_of(path, 6)
    for name, x in first.items():
        mean = np.mean([arrays[f'params/{name}'] for arrays in saved], axis=0, dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(found[f'params/{name}'], mean)
        assert 'lora' in name or 'norm' in name or mean.tobytes() == x.tobytes()
    assert np.isfinite(evaluate(RunDirectory(path).saved_config(), path)['eval/loss'])


def test_another_run_begins_with_the_merged_parameters(run, tmp_path):
    config, workdir, _, (_, last) = run
    config = tiny_config(data=dict(source=config.data.source), init_from=f'{workdir}@6', parallel=dict(data=4, fsdp=2),
                         model=dict(bias=True))
    origin = transfer.find_origin(config, RunDirectory(tmp_path))
    parts = train.build(config, RunDirectory(tmp_path), origin)
    start = transfer.make_start(config, origin, parts)
    assert list(start.describe()) == [f'begins with {workdir}, step 6: 20 parameters taken, 0 new']
    state = parts.initial_state(config, start.parameters())
    for path, x in plain(last, 8.0).items():
        np.testing.assert_allclose(paths.by_path(state.params)[path], x, rtol=1e-5, atol=1e-7, err_msg=path)
    assert Checkpoints(workdir / 'checkpoints').steps() == [3, 6]
