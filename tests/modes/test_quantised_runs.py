"""A model with parameters in 8 bits is the model with those rounded parameters, in every mode that uses a finished run."""

from flax.core import meta
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import decode, interop, models, nn, ops, runs, train
from seqjax.errors import FieldError
from seqjax.modes.average import average_checkpoints
from seqjax.modes.continue_text import generate_text
from seqjax.modes.cost import measure_cost
from seqjax.modes.describe import describe_experiment
from seqjax.modes.eval import evaluate
from seqjax.runs import load_model
from seqjax.modes.export import export_run
from seqjax.params import quantise, size_in_bytes
from seqjax.params.quantisation import find_summed_axes
from tests.tiny import tiny_config, write_text

V = 23
TRANSFORMER = dict(width=16, depth=2, heads=2)
MODELS = {  # name: (model, fields, parameters that are in 8 bits)
    'lstm': ('recurrent', dict(width=8), ('embedding/table', 'recurrent/layer_0/recurrent_kernel', 'output/kernel')),
    'lru': ('recurrent', dict(width=8, cell='lru'), ('recurrent/layer_0/output_kernel',)),
    'gpt': ('gpt', TRANSFORMER | dict(bias=True), ('embedding/table', 'decoder/block_1/attention/out/kernel')),
    'scanned': ('llama', TRANSFORMER | dict(scan_layers=True, kv_heads=1), ('decoder/blocks/feed_forward/gate/kernel',)),
    'experts': ('gpt', TRANSFORMER | dict(experts=3, gated=True), ('decoder/block_0/feed_forward/gate_kernel',)),
    'bfloat16': ('gpt', TRANSFORMER | dict(dtype='bfloat16', attention='linear', positions='none'), ()),
}


def is_quantised(x):
    return isinstance(x, ops.Quantised)


def rounded(params):
    """The tree of plain arrays that a quantised one stands for."""
    return jax.tree.map(lambda x: x.astype(jnp.float32) if is_quantised(x) else x, params, is_leaf=is_quantised)


@pytest.mark.parametrize('name', MODELS)
def test_a_quantised_model_is_the_model_with_rounded_parameters(name):
    model, fields, expected = MODELS[name]
    model = models.build(model, vocabulary=V, context_length=12, **fields)
    tokens = np.random.default_rng(0).integers(V, size=(2, 9))
    init = lambda: model.init(jax.random.key(0), tokens)
    params = jax.jit(lambda: unboxed(init()))()
    quantised = quantise(params, init)
    found = find_summed_axes(init)
    assert found.keys() >= set(expected) and not any(path.endswith(('bias', 'scale')) for path in found)
    apply = jax.jit(lambda params: model.apply({'params': params}, tokens).astype(jnp.float32))
    close = dict(rtol=2e-2, atol=2e-2) if name == 'bfloat16' else dict(rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(apply(quantised), apply(rounded(quantised)), **close)
    assert np.abs(apply(quantised) - apply(params)).max() > 0
    assert size_in_bytes(quantised) < 0.5 * size_in_bytes(params)


def unboxed(variables):
    return meta.unbox(variables)['params']


def test_most_of_a_large_model_needs_a_quarter_of_its_memory():
    model = models.build('gpt', vocabulary=50257, context_length=1024, width=768, depth=12, heads=12)
    init = lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))
    params = unboxed(jax.eval_shape(init))
    quantised = jax.eval_shape(lambda params: quantise(params, init), params)
    assert size_in_bytes(quantised) < 0.26 * size_in_bytes(params)


def test_parameters_of_something_else_are_refused():
    model = models.build('gpt', vocabulary=V, context_length=12, **TRANSFORMER)
    init = lambda: model.init(jax.random.key(0), np.zeros((1, 2), np.int32))
    with pytest.raises(ValueError, match="without 'params' around them"):
        quantise(jax.eval_shape(init), init)


def test_padding_rows_stay_zero():
    table = nn.Embedding(V, 8, padding=3)
    params = unboxed(table.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))
    quantised = dict(table=ops.quantise(params['table'], -1))
    assert not np.asarray(table.apply({'params': quantised}, jnp.array([3]))).any()
    scores = table.apply({'params': quantised}, jnp.ones((1, 8)), method='attend')
    assert scores[0, 3] == 0 and np.asarray(scores[0, :3]).all()


# ---------------------------------------------------------------------------------------------------- runs

INT8 = dict(weights='int8', activations=False)


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, workdir) of a small GPT with adapters and a running average: all that can lie between a file and a model."""
    folder = tmp_path_factory.mktemp('quantised')
    config = tiny_config('gpt', data=dict(source=f'file:{write_text(folder / "text.txt", 3000)}'), lora=dict(rank=2),
                         optimizer=dict(ema_decay=0.5), parallel=dict(data=1), decode=dict(temperature=0.0, prompt='the'))
    train.train(config, folder / 'run')
    return config, folder / 'run'


def with_quantisation(config, **fields):
    config = config.copy_and_resolve_references()
    config.quantise.update(INT8 | fields)
    return config


@pytest.mark.parametrize('activations', [False, True])
def test_evaluation_is_that_of_the_rounded_model_on_any_mesh(run, activations):
    config, workdir = run
    before, files = evaluate(config, workdir), sorted(path.name for path in workdir.iterdir())
    changed = with_quantisation(config, activations=activations)
    found = evaluate(changed, workdir)
    assert found['eval/loss'] != before['eval/loss'] and abs(found['eval/loss'] - before['eval/loss']) < 0.02
    changed.parallel.update(data=2, fsdp=2, tensor=2)
    # Sums are rounded in another order on a mesh, and now and then an activation to another of 255 numbers.
    assert evaluate(changed, workdir)['eval/loss'] == pytest.approx(found['eval/loss'], abs=1e-3 if activations else 1e-5)
    assert sorted(path.name for path in workdir.iterdir()) == files


def test_a_loaded_model_writes_what_the_mode_writes(run):
    config, workdir = run
    model, params = load_model(workdir, weights='int8')
    assert is_quantised(params['embedding']['table'])
    tokenizer = runs.RunDirectory(workdir).codec('text').tokenizer
    found, = decode.search(decode.make_decoder(model, params), [tokenizer.encode('the')], decode.Greedy(), limits=decode.Limits(8))
    written, = found.texts
    assert generate_text(with_quantisation(config), workdir) == ['the' + tokenizer.decode(written)]


def test_an_export_holds_bytes(run):
    pytest.importorskip('flatbuffers')
    config, workdir = run
    tokens = np.arange(6).reshape(1, 6)
    path, _ = export_run(with_quantisation(config, activations=True), workdir)
    exported = interop.load_exported(path)
    assert exported.parameters['embedding/table/values'].dtype == np.int8
    model, params = load_model(workdir, weights='int8', activations=True)
    np.testing.assert_allclose(exported(tokens=tokens)['logits'], model.apply({'params': params}, tokens), atol=2e-3)
    with pytest.raises(FieldError, match="weights='float8'.*write 'int8'"):
        export_run(with_quantisation(config, weights='float8'), workdir)


@pytest.mark.parametrize('mode', ['train', 'describe', 'measure_cost', 'average'])
def test_what_is_about_trained_parameters_refuses_it(run, mode):
    config, workdir = run
    before = sorted(workdir.iterdir())
    config = with_quantisation(config)
    call = {'train': lambda: train.train(config, workdir), 'describe': lambda: describe_experiment(config),
            'measure_cost': lambda: measure_cost({'gpt': config}, workdir),
            'average': lambda: average_checkpoints(config, workdir, 2)}[mode]
    with pytest.raises(FieldError, match="config.quantise.weights='int8'.*--mode=eval"):
        call()
    assert sorted(workdir.iterdir()) == before


def test_impossible_fields_are_refused():
    for fields, message in ((dict(weights='int4'), "config.quantise.weights='int4': did you mean 'int8'"),
                            (dict(weights='', activations=True), 'config.quantise.activations=True: goes together')):
        with pytest.raises(FieldError, match=message):
            configs.validate(with_quantisation(tiny_config(), **fields))
