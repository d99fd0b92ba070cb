"""An exported run says what its model says, for any number of rows and steps, without the code of the model."""

import json
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import interop, train
from seqjax.errors import FieldError, UserError
from seqjax.interop import exported
from seqjax.runs import load_model
from seqjax.modes.export import PLATFORMS, Call, export_run, lower, make_call
from seqjax.tasks import Input
from seqjax.params import paths
from seqjax.runs import RunDirectory
from tests.labelled_files import labelled_config, untrained_run, write_labelled
from tests.pair_files import pair_config, write_pairs
from tests.processes import ROOT, finish, plain_environment, start
from tests.tiny import tiny_config, write_text

pytest.importorskip('flatbuffers')

ONE = dict(parallel=dict(data=1))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('export')


def language_model(folder, name='recurrent', **sections):
    sections['data'] = dict(source=f'file:{write_text(folder / "text.txt", 3000)}') | sections.get('data', {})
    return tiny_config(name, **ONE, **sections)


def labelled(folder, task, *options, **sections):
    return labelled_config(write_labelled(folder / f'{task}.jsonl', task), task, *options, **sections)


def spelled(folder):
    sentences = [(('An', 'elm', 'stands'), ('D', 'N', 'V')), (('elm', 'trees', 'stand', 'there'), ('N', 'N', 'V', 'A'))]
    (folder / 'words.jsonl').write_text('\n'.join(json.dumps(dict(words=words, tags=tags, split=split))
                                                  for words, tags in sentences for split in ('train', 'validation')))
    return labelled_config(folder / 'words.jsonl', 'tagging', 'conv', data=dict(tokenizer='word', characters_per_word=4),
                           model=dict(character_encoder='conv', character_width=4))


def masked(folder):
    return language_model(folder, 'bert', task='masked_lm', data=dict(next_sentence=True), model=dict(heads=2, width=8))


def translator(folder, name='seq2seq', **model):
    config = pair_config(write_pairs(folder / 'pairs.tsv'))
    if name == 'seq2seq':
        return config
    return tiny_config(name, task='translation', data=config.data.to_dict(), model=dict(width=8, heads=2) | model, **ONE)


RUNS = {  # name: (its config, the axes of its inputs in several calls)
    'recurrent': (language_model, [dict(B=1, T=1), dict(B=3, T=20)]),
    'gpt': (lambda folder: language_model(folder, 'gpt', data=dict(sequence_length=80), model=dict(dtype='bfloat16')),
            [dict(B=2, T=80), dict(B=1, T=7)]),
    'classifier': (lambda folder: labelled(folder, 'classification', 'attention'), [dict(B=1, T=2), dict(B=4, T=70)]),
    'regressor': (lambda folder: labelled(folder, 'regression', 'lstm', model=dict(bidirectional=True)), [dict(B=5, T=9)]),
    'tagger': (lambda folder: labelled(folder, 'tagging', model=dict(crf=True)), [dict(B=5, T=9), dict(B=1, T=1)]),
    'spelled': (spelled, [dict(B=3, T=4)]),
    'masked': (masked, [dict(B=3, T=16)]),
    'seq2seq': (translator, [dict(B=1, S=2, T=5), dict(B=4, S=6, T=3)]),
    't5': (lambda folder: translator(folder, 't5'), [dict(B=3, S=6, T=4)]),
}


def finished_run(config, workdir):
    """(parts, parameters) of a run that has nothing left to do. Parameters are small: answers are near 1."""
    parts, params = untrained_run(config, workdir, lambda params: jax.tree.map(lambda x: x * jnp.asarray(0.3, x.dtype), params))
    RunDirectory(workdir).write('result.json', json.dumps(dict(steps=config.train.steps)))
    return parts, params


@pytest.fixture(scope='module')
def runs(folder):
    """name -> (config, workdir, parts, parameters), exported once."""
    made = {}

    def run(name):
        if name not in made:
            config, workdir = RUNS[name][0](folder), folder / name
            made[name] = config, workdir, *finished_run(config, workdir)
            export_run(config, workdir, report=pytest.fail)
        return made[name]

    return run


def drawn(signature, sizes, seed=0):
    """Inputs at random; of the lengths the first is the longest there may be."""
    rng, inputs = np.random.default_rng(seed), {}
    for name, takes in signature['inputs'].items():
        shape = [sizes.get(axis, axis) for axis in takes['shape']]
        inputs[name] = rng.integers(0, sizes.get(takes['at_most'], takes['at_most']) + 1, shape)
    if 'lengths' in inputs:
        inputs['lengths'][0] = sizes.get('S', sizes.get('T'))
    return inputs


def said(task, params, inputs):
    """What a model itself says of the inputs, {name: array}."""
    inputs = {name: np.int32(value) for name, value in inputs.items()}
    apply = lambda *given: jax.jit(task.model.apply)({'params': params}, *given)
    match type(task).__name__:
        case 'LanguageModel':
            return dict(logits=apply(inputs['tokens']))
        case 'Translation':
            return dict(logits=apply(inputs['source'], inputs['lengths'], inputs['targets']))
        case 'Regression':
            return dict(predictions=task.offset + task.scale * apply(inputs['tokens'], inputs['lengths'])[:, 0])
        case 'MaskedLM':
            outputs = apply(inputs['tokens'], inputs['lengths'])
            return dict(logits=outputs['tokens'], next=outputs['next'])
        case 'Tagging' if task.has_crf:
            return jax.jit(task.predict)(params, dict(inputs=inputs['tokens'], lengths=inputs['lengths']))
    lengths = inputs.pop('lengths')
    return dict(logits=apply(inputs.get('tokens', inputs), lengths))


# ------------------------------------------------------------------------------------------------ the same answers

@pytest.mark.parametrize('name', RUNS)
def test_an_exported_run_says_what_its_model_says(name, runs):
    config, workdir, parts, params = runs(name)
    model = interop.load_exported(workdir / 'export')
    assert model.signature['task'] == configs.task_name(config) and tuple(model.program.platforms) == PLATFORMS
    for seed, sizes in enumerate(RUNS[name][1]):
        inputs = drawn(model.signature, sizes, seed)
        expected, found = said(parts.task, params, inputs), model(**inputs)
        assert found.keys() == expected.keys() == model.signature['outputs'].keys()
        for output, value in found.items():
            described = model.signature['outputs'][output]
            assert isinstance(value, np.ndarray) and str(value.dtype) == described['dtype']
            assert list(value.shape) == [sizes.get(axis, axis) for axis in described['shape']]
            np.testing.assert_allclose(value, np.asarray(expected[output], value.dtype), rtol=1e-6, atol=1e-6)


LENGTHS = {  # whose forward pass has a branch of its own here: a bias by distance, a loop over blocks, one length for all rows
    'alibi': (dict(name='gpt', model=dict(positions='alibi')), [dict(B=2, T=16), dict(B=1, T=5)]),
    'relative in a scan': (dict(name='gpt', model=dict(positions='relative', scan_layers=True, sliding_window=3)), [dict(B=2, T=9)]),
    'min_gru': (dict(name='recurrent', model=dict(cell='min_gru')), [dict(B=3)]),
    'linear': (dict(name='gpt', model=dict(attention='linear')), [dict(B=1)]),
    'mamba': (dict(name='mamba'), [dict(B=2, T=1), dict(B=1, T=37)]),
    'rwkv in a scan': (dict(name='rwkv', model=dict(scan_layers=True)), [dict(B=2, T=1), dict(B=1, T=37)]),
}


@pytest.mark.parametrize('name', LENGTHS)
def test_every_kind_of_model_is_exported_for_the_lengths_that_it_can(name, folder):
    options, calls = LENGTHS[name]
    config = language_model(folder, **options)
    parts = train.build(config, RunDirectory(folder / name))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape, scale=0.3).astype(x.dtype), parts.target.params)
    call = make_call(config, parts.task)
    program, signature = lower(call, params, pytest.fail), dict(inputs={'tokens': call.inputs['tokens'].describe()})
    longest = {'T': 16} if options['name'] == 'gpt' else {}
    assert (call.inputs['tokens'].shape, call.longest) == ((('B', 'T'), longest) if 'T' in calls[0] else (('B', 16), {}))
    for sizes in calls:
        inputs = drawn(signature, sizes)
        found = jax.jit(program.call)(paths.by_path(params), jax.tree.map(np.int32, inputs))
        np.testing.assert_allclose(found['logits'], said(parts.task, params, inputs)['logits'], rtol=1e-6, atol=1e-6)


def test_a_reader_that_reads_one_length_must_know_it(folder):
    config = labelled(folder, 'regression', 'lru')
    parts = train.build(config, RunDirectory(folder / 'lru'))
    with pytest.raises(FieldError, match='config.data.max_length=0: linear cells and linear attention are exported for rows of'):
        make_call(config, parts.task)
    config.data.max_length = 12
    assert make_call(config, parts.task, parts.dataset.codec).inputs['tokens'].shape == ('B', 12)


def test_the_average_and_merged_adapters_are_exported(folder, tmp_path):
    config = language_model(folder, optimizer=dict(ema_decay=0.9), lora=dict(rank=2, targets='output/kernel'), train=dict(steps=2))
    train.train(config, tmp_path / 'run')
    export_run(config, tmp_path / 'run')
    _, params = load_model(tmp_path / 'run')
    found = interop.load_exported(tmp_path / 'run' / 'export').parameters
    assert found.keys() == paths.by_path(params).keys() and not any('lora' in path for path in found)
    for path, value in paths.by_path(params).items():
        np.testing.assert_array_equal(found[path], value)


# ------------------------------------------------------------------------------------------------ files

def test_the_folder_holds_the_program_the_parameters_and_how_text_is_read(runs):
    _, workdir, _, params = runs('classifier')
    folder = workdir / 'export'
    assert sorted(path.name for path in folder.iterdir()) == ['codec.json', 'model.stablehlo', 'parameters.safetensors',
                                                              'signature.json']
    assert (folder / 'codec.json').read_bytes() == (workdir / 'codec.json').read_bytes()
    signature = json.loads((folder / 'signature.json').read_text('utf-8'))
    assert signature['step'] == 1 and signature['classes'] == ['ash', 'birch', 'cedar']
    assert signature['reading'] == ['codec.json'] and signature['versions']['jax'] == jax.__version__
    assert signature['inputs']['tokens'] == dict(shape=['B', 'T'], dtype='int32', at_most=9)
    assert signature['outputs'] == {'logits': dict(shape=['B', 3], dtype='float32')}
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    assert (folder / 'parameters.safetensors').stat().st_size > size  # and the program has none of them in it
    assert not [path.name for path in workdir.iterdir() if path.name.startswith('.')]


def test_the_parameters_are_arguments_of_the_program(runs):
    model = interop.load_exported(runs('regressor')[1] / 'export')
    zeros = {path: np.zeros_like(value) for path, value in model.parameters.items()}
    found = exported.ExportedModel(model.signature, zeros, model.program)(tokens=[[1, 2]], lengths=[2])
    np.testing.assert_allclose(found['predictions'], runs('regressor')[2].task.offset, rtol=1e-6)


def test_an_export_that_fails_leaves_the_earlier_one(runs, monkeypatch):
    config, workdir, *_ = runs('recurrent')
    before = {path.name: path.read_bytes() for path in (workdir / 'export').iterdir()}

    def full(path):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('seqjax.runs.files.sync_file', full)
    with pytest.raises(UserError, match='could not write .*/export: .*No space left on device; the earlier export is still there'):
        export_run(config, workdir)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (workdir / 'export').iterdir()} == before
    assert not [path.name for path in workdir.iterdir() if path.name.startswith('.')]
    (workdir / 'export').rename(workdir / '.export.old')  # as a process does that is killed before it renames the new one
    (workdir / '.export.writing').mkdir()
    export_run(config, workdir)
    assert {path.name for path in (workdir / 'export').iterdir()} == before.keys()
    assert not [path.name for path in workdir.iterdir() if path.name.startswith('.')]


def test_a_folder_of_somebody_else_is_not_replaced(folder, tmp_path):
    config = language_model(folder)
    untrained_run(config, tmp_path)
    (tmp_path / 'average.json').write_text('{}')  # a mean of checkpoints is finished when it is there
    (tmp_path / 'export').mkdir()
    (tmp_path / 'export' / 'notes.txt').write_text('mine')
    with pytest.raises(UserError, match='holds something else than an export .it has no signature.json.; move it away'):
        export_run(config, tmp_path)
    assert (tmp_path / 'export' / 'notes.txt').read_text() == 'mine'


# ------------------------------------------------------------------------------------------------ what cannot be

def test_a_platform_that_cannot_be_is_left_out_and_named():
    """Schur's decomposition is there on CPUs alone."""
    call = Call(lambda params, tokens: dict(found=jax.lax.linalg.schur(params['w'])[0] + tokens.sum().astype(jnp.float32)),
                dict(tokens=Input(('B', 'T'), 5)), {})
    lines = []
    program = lower(call, dict(w=jnp.eye(2)), lines.append)
    assert tuple(program.platforms) == ('cpu',)
    assert [line.partition(':')[0] for line in lines] == ['not for cuda', 'not for tpu']


def test_runs_that_cannot_be_exported_say_why(folder, tmp_path, monkeypatch):
    config = language_model(folder)
    untrained_run(config, tmp_path / 'unfinished')
    with pytest.raises(UserError, match='unfinished: the run is not finished; the command that started it goes on with it'):
        export_run(config, tmp_path / 'unfinished')
    with pytest.raises(UserError, match="--checkpoint=7: write 'latest', 'best' or a step; there are: 1"):
        export_run(config, tmp_path / 'unfinished', '7')
    run = RunDirectory(tmp_path / 'new')
    run.claim(config, train.build(config, run).dataset)
    with pytest.raises(UserError, match='no checkpoint yet; train first'):
        export_run(config, run.path)
    config = tiny_config('reader', data=dict(source='adding'), **ONE)
    run = RunDirectory(tmp_path / 'adding')
    run.claim(config, train.build(config, run).dataset)
    with pytest.raises(UserError, match='adding was not trained on text, and only what reads text is exported'):
        export_run(config, run.path)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    with pytest.raises(UserError, match='is done on a CPU, for all platforms, and jax runs on gpu; set JAX_PLATFORMS=cpu'):
        export_run(config, run.path)


# ------------------------------------------------------------------------------------------------ from the outside

def test_the_launcher_exports_a_run_and_its_reader_loads_no_model(folder, tmp_path):
    """The code on the page runs where the page says the run is; it is told what to read by the signature."""
    finished_run(language_model(folder), tmp_path / 'runs' / 'first')
    code, output, errors = finish(start('--mode=export', f'--workdir={tmp_path / "runs" / "first"}'))
    assert (code, errors) == (0, '')
    assert output.startswith('step 1 for cpu, cuda, tpu: ')
    page = (ROOT / 'docs' / 'export.md').read_text('utf-8')
    snippet, = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
    look = "import sys; print(sorted({'flax', 'seqjax.models', 'seqjax.train', 'optax', 'orbax'} & set(sys.modules)))"
    environment = {**plain_environment(), 'PYTHONPATH': str(ROOT)}
    ended = subprocess.run([sys.executable, '-c', f'{snippet}\n{look}'], cwd=tmp_path, env=environment, capture_output=True,
                           text=True)
    assert ended.stdout.splitlines()[-1] == '[]', ended.stderr


def test_the_launcher_refuses_an_unfinished_run(folder, tmp_path):
    untrained_run(language_model(folder), tmp_path / 'run')
    code, output, errors = finish(start('--mode=export', f'--workdir={tmp_path / "run"}'))
    assert code == 2 and not output and 'the run is not finished' in errors and 'Traceback' not in errors
