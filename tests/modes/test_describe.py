"""What a config describes: counts, operations and bytes are those of a hand's calculation and of the run itself."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import train
from seqjax.analysis.cost.model_size import Parameter, alike, saved_bytes
from seqjax.analysis.tables import columns, in_units
from seqjax.errors import FieldError
from seqjax.modes.describe import describe_experiment
from seqjax.runs import RunDirectory
from tests.labelled_files import labelled_config, untrained_run, write_labelled
from tests.test_launch import GPT, TWO, launch, run_here, snapshot  # noqa: F401 (a fixture)
from tests.tiny import tiny_config, write_text

B, T, V, D, F, L = 8, 16, 11, 16, 64, 6



def decoder(**sections):
    """A config of a decoder without biases, and without data."""
    return tiny_config(vocabulary=V, model=dict(depth=L) | sections.pop('model', {}), **sections)


# ------------------------------------------------------------------------------------------------ parts

def test_what_the_backward_pass_needs_is_counted_once_and_without_arguments():
    x, w = jnp.ones((4, 8)), jnp.ones((8, 3))
    assert saved_bytes(lambda w, x: (x @ w).sum(), w, x) == 0  # it needs x, which is there anyway
    assert saved_bytes(lambda w, x: jnp.sin(x @ w).sum(), w, x) == 4 * 4 * 3  # cos of the product
    loop = lambda w, x: jax.lax.scan(lambda y, _: (jnp.sin(y @ w @ w.T), None), x, length=5)[0].sum()
    assert saved_bytes(loop, w, x) == 5 * 4 * (4 * 8 + 4 * 3 + 4 * 8) + 4 * 8 * 3  # y, y w and the cos, five times; w.T once


@pytest.mark.parametrize('wrap', [lambda layer: layer, jax.jit, jax.checkpoint], ids=['plain', 'jit', 'checkpoint'])
def test_where_platforms_differ_only_what_the_default_saves_is_counted(wrap):
    x, w = jnp.ones((4, 8)), jnp.ones((5, 8))

    def loop(act):  # in every turn some array is saved that another branch would not
        layer = wrap(lambda y, w: act(y * w))
        return lambda w, x: jax.lax.scan(lambda y, w: (layer(y, w), None), x, w)[0].sum()

    default = lambda y: jnp.sin(y) * y
    chosen = lambda y: jax.lax.platform_dependent(y, tpu=lambda y: jnp.exp(jnp.tanh(jnp.exp(y))) * (y @ jnp.ones((8, 8))),
                                                  default=default)
    assert saved_bytes(loop(chosen), w, x) == saved_bytes(loop(default), w, x) > 0


def test_layers_that_are_alike_are_one_line():
    make = lambda path, shape=(2, 3), **fields: Parameter(path, shape, 'float32', (None, 'mlp'), shape, **fields)
    found = list(alike([make('x/block_10/k'), make('x/block_9/k'), make('x/block_8/k'), make('x/block_0/k', (2, 2)), make('n'),
                        make('y_1/k'), make('y_3/k'), make('z_1/k', trained=False), make('z_2/k')]))
    assert [(parameter.path, parameter.copies, parameter.count) for parameter in found] == [
        ('x/block_8..10/k', 3, 18), ('x/block_0/k', 1, 4), ('n', 1, 6), ('y_1/k', 1, 6), ('y_3/k', 1, 6), ('z_1/k', 1, 6),
        ('z_2/k', 1, 6)]


def test_numbers_and_columns_for_a_reader():
    assert [in_units(value, 'B') for value in (0, 999, 1000, 1234567, 1.5e12)] == ['0 B', '999 B', '1 kB', '1.23 MB', '1.5 TB']
    assert in_units(5) == '5'
    assert columns([('a', '1', ''), ('bbb', '100', 'x')], right=(1,)) == ['a      1', 'bbb  100  x']


# ------------------------------------------------------------------------------------------------ whole configs

def test_parameters_and_operations_are_those_that_a_hand_would_count():
    found = describe_experiment(decoder())
    matrices = L * (4 * D * D + 2 * D * F)  # queries, keys, values and out; in and out of the feed-forward network
    norms = (2 * L + 1) * D
    assert found.count == matrices + norms + V * D + T * D
    assert found.parts() == dict(decoder=matrices + norms, embedding=V * D, positions=T * D)
    everything_at_once = 2 * (matrices + V * D) + L * 2 * 2 * T * D  # scores and their use; the half of them is masked
    assert 2 * (matrices + V * D) < found.forward <= everything_at_once
    assert 2.9 * found.forward < found.training < 3.5 * found.forward
    text = str(found)
    assert f'decoder/block_0..{L - 1}/feed_forward/in/kernel' in text and f'{L} x [16 x 64]' in text and 'embed, mlp' in text
    assert f'{found.count:,}' in text
    assert found.memory['parameters'] == found.memory['gradients'] == 4 * found.count
    assert found.memory['optimizer'] == 2 * 4 * found.count + 2 * 4  # two moments, and the steps of adam and of its schedule


def test_layers_in_a_loop_are_counted_as_layers_one_after_another(monkeypatch):
    with_loop = describe_experiment(decoder())
    monkeypatch.setattr(sys.modules[describe_experiment.__module__], '_in_a_loop', lambda *_: None)
    without = describe_experiment(decoder())
    assert (with_loop.forward, with_loop.training) == (without.forward, without.training)
    name = 'activations, at most'
    assert with_loop.memory[name] == pytest.approx(without.memory[name], rel=0.15)


def test_a_network_for_images_is_described_by_the_image():
    """One image of 8 x 8 pixels in patches of 4 and [CLS]: 5 tokens."""
    config = tiny_config('vit', data=dict(source='digits', batch_size=512), model=dict(heads=2, pooling='cls'), parallel=dict(data=8))
    found, tokens, D = describe_experiment(config), 5, 16
    matrices = tokens * 12 * D * D + 4 * 16 * D + 10 * D  # a block, four patches of 16 pixels, the head for 10 classes
    assert found.forward == 2 * matrices + 2 * 2 * tokens * tokens * D
    text = str(found)
    assert 'an image' in text and 'a micro-batch has 512 images' in text and 'positions/table' in text


@pytest.mark.parametrize('mesh, options', [
    (dict(data=1, fsdp=8), dict(ema_decay=0.9)), (dict(data=2, fsdp=2, tensor=2), dict(name='adafactor', freeze='embedding/*'))])
def test_memory_is_that_of_the_arrays_that_a_run_makes(mesh, options, tmp_path):
    config = tiny_config(data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'), parallel=mesh, optimizer=options)
    parts = train.build(config, RunDirectory(tmp_path / 'run'))
    found = describe_experiment(config)
    share = lambda tree: sum(np.prod(x.sharding.shard_shape(x.shape), dtype=int) * x.dtype.itemsize
                             for x in jax.tree.leaves(tree))
    assert found.memory['parameters'] == share(parts.target.params)
    assert found.memory['optimizer'] == share(parts.target.opt_state)
    assert found.memory.get('average', 0) == share(parts.target.ema)
    frozen = share(parts.target.params['embedding']) if 'freeze' in options else 0
    assert found.memory['gradients'] == share(parts.target.params) - frozen
    assert found.count == parts.parameter_count()
    assert not (tmp_path / 'run').exists()


def test_a_mesh_that_is_not_here_is_described():
    found = describe_experiment(decoder(parallel=dict(data=4, fsdp=16, tensor=2), data=dict(batch_size=128)))
    (kernel,) = [parameter for parameter in found.parameters if parameter.path == 'decoder/block_0/feed_forward/in/kernel']
    assert kernel.local == (D // 16, F // 2) and kernel.axes == ('embed', 'mlp')
    assert '128 devices (jit, data=4 x fsdp=16 x tensor=2); a micro-batch has 128 rows, 2,048 tokens' in str(found)


@pytest.mark.parametrize('model, task, options', [
    ('bert', 'masked_lm', dict(next_sentence=True)), ('bert', 'tagging', dict(source='python_tokens')),
    ('t5', 'span_corruption', dict()), ('recurrent', '', dict()), ('mamba', '', dict()), ('rwkv', '', dict()),
    ('reader', 'classification', dict(source='reviews')), ('reader', 'regression', dict(source='peptides'))])
def test_every_family_is_described_without_data(model, task, options, monkeypatch):
    marked = dict(special_tokens=True) if model == 'bert' and task != 'masked_lm' else {}
    config = tiny_config(model, task=task, vocabulary=V, data=dict(**options, **marked))
    monkeypatch.setattr('seqjax.data.load', lambda *_: pytest.fail('data was read'))
    found = describe_experiment(config)
    assert found.count > V * 4 and found.training > found.forward > 0


def test_assumed_rows_are_those_that_data_would_have(tmp_path):
    module, text = sys.modules[describe_experiment.__module__], f'file:{write_text(tmp_path / "text.txt")}'
    shapes = lambda rows: jax.tree.map(lambda x: (x.shape, x.dtype), rows.batch)
    for model, task, options in (('t5', 'span_corruption', dict(sequence_length=40)), ('bert', 'masked_lm', dict(mask_probability=0.3)),
                                 ('bert', 'masked_lm', dict(next_sentence=True))):
        config = tiny_config(model, task=task, vocabulary=V, data=dict(source=text, **options))
        assumed = shapes(module._assumed(config))
        config.vocabulary = 0
        assert assumed == shapes(module._from_data(config, None)[1])
    for accumulate, rows in ((1, 24), (4, 6)):  # of 3 * 8 rows of 2 * 16 tokens
        config = tiny_config('transformer', task='translation', vocabulary=V, train=dict(gradient_accumulation_steps=accumulate),
                             data=dict(source='reverse', batch_tokens=1000, sequence_length=16))
        assert shapes(module._assumed(config))['targets'][0] == (rows, 16)
    config.vocabulary = 0
    assert shapes(module._from_data(config, None)[1])['targets'][0] == (rows, 17)  # with the end


def test_batches_of_shorter_pairs_have_more_tokens_than_those_of_the_longest():
    def activations(tokens):
        config = tiny_config('transformer', task='translation', vocabulary=V, model=dict(heads=2),
                             data=dict(source='reverse', batch_tokens=tokens), train=dict(gradient_accumulation_steps=2), parallel=dict(data=4))
        found = describe_experiment(config)
        assert 'a micro-batch has 12 rows, 384 tokens' in str(found)
        return found.memory['activations, at most']

    assert activations(1000) == pytest.approx(activations(2 * 384) * 1000 / (2 * 384), rel=1e-6)


@pytest.mark.parametrize('schedule', ['linear', 'exponential', 'inverse_sigmoid'])
def test_a_decoder_that_reads_its_own_tokens_is_described(schedule):
    config = tiny_config('seq2seq', task='translation', vocabulary=V, data=dict(source='reverse'), train=dict(teacher_forcing=schedule))
    assert describe_experiment(config).training > 0


def test_a_batch_that_training_refuses_is_refused():
    config = decoder(parallel=dict(data=16), data=dict(batch_size=24))
    with pytest.raises(FieldError, match='^config.data.batch_size=24: must be a multiple of 16: data x fsdp = 16 shards'):
        describe_experiment(config)


def test_spans_are_put_back_in_the_vocabulary_that_they_are_missing_from(tmp_path):
    config = tiny_config('t5', task='span_corruption', data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'))
    found = describe_experiment(config)
    (table,) = [parameter for parameter in found.parameters if parameter.path.endswith('table') and 'embed' in parameter.axes]
    config.vocabulary = table.shape[0]
    assert describe_experiment(config).count == found.count


def test_a_vocabulary_that_is_not_that_of_the_data_is_refused_where_data_is_read(tmp_path):
    config = tiny_config(data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'), vocabulary=50257)
    with pytest.raises(FieldError) as caught:
        train.train(config, tmp_path / 'run')
    assert str(caught.value) == ('config.vocabulary=50257: the data has 29 tokens, and only --mode=describe can do without; '
                                 'set it to 0')
    config.vocabulary = 29
    assert train.build(config, RunDirectory(tmp_path / 'run')).task.model.vocabulary == 29


@pytest.mark.parametrize('batching', ['pad', 'bucket', 'exact'])
def test_rows_are_as_long_as_the_longest_of_labelled_data(batching, tmp_path):
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification', 'conv')
    config.data.batching = batching
    assert 'a micro-batch has 8 rows, 96 tokens' in str(describe_experiment(config))
    assert config.data.batching == batching


def test_a_run_that_is_to_begin_with_another_has_its_tokens(tmp_path):
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification', 'conv')
    untrained_run(config, tmp_path / 'old')
    (tmp_path / 'few.jsonl').write_text('\n'.join(json.dumps(dict(text='ab', label=label, split=split)) for label, split in
                                                  [('x', 'train'), ('y', 'train'), ('x', 'validation')]))
    config.data.source = f'file:{tmp_path / "few.jsonl"}'
    table = lambda config, run: next(x.shape for x in describe_experiment(config, run).parameters if x.path.endswith('table'))
    new = RunDirectory(tmp_path / 'new')
    assert table(config, None) == table(config, new) == (4, 8)
    config.init_from = str(tmp_path / 'old')
    assert table(config, None) == table(config, new) == (10, 8)
    assert not new.path.exists()


# ------------------------------------------------------------------------------------------------ the command line

def test_the_launcher_describes_a_config_and_a_run_and_writes_nothing(tmp_path, launch, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    code, output, errors = run_here(launch, [f'--config={GPT}', '--mode=describe', '--config.vocabulary=100', '--config.parallel.data=1'], monkeypatch)
    assert (code, errors) == (0, '') and 'embedding/table' in output and '[100 x 128]' in output
    assert not snapshot(tmp_path)
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification', 'conv')
    untrained_run(config, tmp_path / 'run')
    before = snapshot(tmp_path)
    code, output, errors = run_here(launch, [f'--workdir={tmp_path / "run"}', '--mode=describe'], monkeypatch)
    assert code == 0 and '[10 x 8]' in output, errors
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize('named, variant', [('', 'wide'), (':narrow', 'narrow')])
def test_the_launcher_says_which_variant_it_describes(named, variant, tmp_path, launch, monkeypatch):  # noqa: F811
    (tmp_path / 'two.py').write_text(TWO)
    code, output, errors = run_here(launch, [f'--config={tmp_path / "two.py"}{named}', '--mode=describe',
                                             '--config.vocabulary=100'], monkeypatch)
    first, empty, *_ = output.splitlines()
    assert (code, errors, empty) == (0, '', '') and first.startswith(f'variant {variant} of {tmp_path / "two.py"}; for another ')
    assert 'variant' not in run_here(launch, [f'--config={GPT}', '--mode=describe', '--config.vocabulary=100'], monkeypatch)[1]


@pytest.mark.parametrize('words, sentence', [
    (['--mode=describe'], 'no experiment: give --config=FILE to start one'),
    ([f'--config={GPT}', '--mode=describe', '--checkpoint=best'], '--checkpoint=best: is for --mode=eval|generate|'),
    ([f'--config={GPT}', '--mode=describe', '--config.vocabulary=-1'],
     'config.vocabulary=-1: must be a number of tokens, or 0 for what the data says'),
    ([f'--config={GPT}', '--mode=describe', '--config.parallel.fsdp=0'],
     'config.parallel.fsdp=0: must be at least 1, or -1 for all remaining devices'),
])
def test_a_command_that_cannot_be_is_one_sentence(words, sentence, launch, monkeypatch):  # noqa: F811
    code, output, errors = run_here(launch, words, monkeypatch)
    assert (code, output) == (2, '') and sentence in errors and 'Traceback' not in errors
