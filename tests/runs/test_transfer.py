"""A run that begins with another's parameters: the very bytes where names fit, a sentence where they do not, read once."""

import dataclasses
import json
import os
import re
import shutil
import types

from flax import traverse_util
import jax
import numpy as np
import pytest

from seqjax import interop, train
from seqjax.errors import FieldError
from seqjax.modes.eval import evaluate
from seqjax.runs import Checkpoints, RunDirectory, transfer
from seqjax.train import build
from seqjax.params import paths
from seqjax.runs.origins import open_origin
from tests.labelled_files import labelled_config, untrained_run, write_labelled
from tests.tiny import tiny_config, write_text
from tests.modes.test_averaging import arrays_of, contents

OLD = ('encoder/block_0/kernel', 'encoder/block_1/kernel', 'encoder/norm', 'head/bias', 'head/kernel', 'header')


# ------------------------------------------------------------------------------------------------ names

@pytest.mark.parametrize('text, new', [
    ('', OLD),
    ('encoder/*=*', ('block_0/kernel', 'block_1/kernel', 'norm', *OLD[3:])),
    ('encoder=body', ('body/block_0/kernel', 'body/block_1/kernel', 'body/norm', *OLD[3:])),
    ('head=', (*OLD[:3], '', '', 'header')),  # a part of that name, and none that begins with it
    ('head*=', (*OLD[:3], '', '', '')),
    ('*/block_*/*=layers/*/*/*', ('layers/encoder/0/kernel', 'layers/encoder/1/kernel', *OLD[2:])),
    ('encoder/*=x/*, encoder/norm=last', ('x/block_0/kernel', 'x/block_1/kernel', 'last', *OLD[3:])),  # the last rule decides
    ('encoder/block_1=encoder/block_0,encoder/block_0=', ('', 'encoder/block_0/kernel', *OLD[2:])),
])
def test_old_names_become_new_ones(text, new):
    assert transfer.renamed(OLD, text) == {name: old for old, name in zip(OLD, new, strict=True) if name}


@pytest.mark.parametrize('text, sentence', [
    ('encoder', "config.init_map='encoder': write OLD=NEW, as in 'encoder/*=*', or OLD= to leave it out"),
    ('=x', "config.init_map='=x': write OLD=NEW, as in 'encoder/*=*', or OLD= to leave it out"),
    ('head/*=x', "config.init_map='head/*=x': must have as many '*' on the right as on the left"),
    ('head=x,body=', f"config.init_map='body=': matches no parameter there; there are: {', '.join(OLD)}"),
    ('head/bias=header', "config.init_map='head/bias=header': head/bias and header would both be header; leave one of them out, "
                         "as with 'header='"),
])
def test_a_rule_that_cannot_be_is_refused(text, sentence):
    with pytest.raises(FieldError) as caught:
        transfer.renamed(OLD, text)
    assert str(caught.value) == sentence


# ------------------------------------------------------------------------------------------------ from one run to another

@pytest.fixture(scope='module')
def old(tmp_path_factory):
    """(directory, parameters by path) of a classifier that was never trained."""
    folder = tmp_path_factory.mktemp('old')
    config = labelled_config(write_labelled(folder / 'trees.jsonl', 'classification'), 'classification', 'conv')
    _, params = untrained_run(config, folder / 'run')
    return folder / 'run', paths.by_path(params)


@pytest.fixture
def tagger(tmp_path):
    """A config of a tagger with the same encoder and other answers, which begins with what it is told."""
    path = write_labelled(tmp_path / 'tags.jsonl', 'tagging')
    return lambda init_from, **sections: labelled_config(path, 'tagging', 'conv', init_from=str(init_from), **sections)


def begun(config, workdir):
    """(Start, first parameters by path) of a new run."""
    run = RunDirectory(workdir)
    origin = transfer.find_origin(config, run)
    parts = build(config, run, origin)
    start = transfer.make_start(config, origin, parts)
    state = parts.initial_state(config, start.parameters())
    jax.tree.map(lambda x, wanted: x.sharding == wanted.sharding or pytest.fail(f'{x.sharding}'), state, parts.target)
    return start, paths.by_path(jax.device_get(state.params))


def test_what_fits_is_taken_to_the_bit_on_any_mesh_and_the_rest_is_drawn(old, tagger, tmp_path):
    directory, params = old
    config = tagger(directory, init_fresh='output/*', parallel=dict(data=1, fsdp=8))
    start, first = begun(config, tmp_path / 'new')
    assert list(start.describe()) == [f'begins with {directory}, step 1: 9 parameters taken, 2 left out (output/*), '
                                      '2 new (output/*)']
    for path, x in first.items():
        assert path.startswith('output') or x.tobytes() == np.asarray(params[path]).tobytes(), path
    config.init_from, config.init_fresh = '', ''
    scratch = build(config, RunDirectory(tmp_path / 'new')).initial_state(config).params
    np.testing.assert_array_equal(first['output/kernel'], scratch['output']['kernel'])  # as without the other run


def test_parts_are_renamed_and_left_out(old, tagger, tmp_path):
    directory, params = old
    start, first = begun(tagger(directory, init_map='encoder/norm=encoder/norm_0,encoder/norm_0=,output='), tmp_path / 'new')
    assert list(start.describe()) == [
        f'begins with {directory}, step 1: 7 parameters taken, 4 left out (encoder/norm_0/*, output/*), '
        '4 new (encoder/norm/*, output/*)']
    np.testing.assert_array_equal(first['encoder/norm_0/scale'], params['encoder/norm/scale'])
    np.testing.assert_array_equal(first['encoder/norm/scale'], np.ones(8))


def test_the_average_is_taken_where_there_is_one_and_the_step_that_is_named(old, tagger, tmp_path):
    directory = shutil.copytree(old[0], tmp_path / 'old')
    draw = lambda seed: {path: np.random.default_rng(seed).normal(size=x.shape).astype(np.float32)
                         for path, x in old[1].items()}
    saved = {step: dict(params=draw(step), ema=draw(step + 100)) for step in (2, 3)}
    for step, score in ((2, 1.0), (3, 2.0)):
        Checkpoints(directory / 'checkpoints', keep_latest=9).save(saved[step], step=step, config={}, score=score)
    os.truncate(directory / 'checkpoints' / '00000003' / 'arrays' / '_METADATA', 5)
    before, said = contents(directory), []
    origin = open_origin(str(directory), said.append)
    assert str(origin) == f'{directory}, step 2' == str(open_origin(f'{directory}@2')) == str(open_origin(f'{directory}@best'))
    assert len(said) == 1 and said[0].startswith(f'checkpoint 3 of {directory / "checkpoints"} is damaged (arrays/_METADATA')
    assert contents(directory) == before  # nothing is set aside in a directory that is another's
    place = jax.sharding.NamedSharding(jax.make_mesh((8,), ('x',)), jax.sharding.PartitionSpec('x'))
    found = origin.fetch({'encoder/norm/scale': place})
    np.testing.assert_array_equal(found['encoder/norm/scale'], saved[2]['ema']['encoder/norm/scale'])
    assert list(found) == ['encoder/norm/scale'] and found['encoder/norm/scale'].sharding == place
    found = open_origin(f'{directory}@1').fetch({'encoder/norm/scale': place})
    np.testing.assert_array_equal(found['encoder/norm/scale'], old[1]['encoder/norm/scale'])


def test_tokens_are_inherited(old, tagger, tmp_path):
    texts = [json.dumps(dict(text=text, label=['x', 'y', 'x'][:len(text)], split=split)) for text, split in
             [('ab', 'train'), ('ba', 'train'), ('bab', 'validation')]]
    path = tmp_path / 'few.jsonl'
    path.write_text('\n'.join(texts))
    config = tagger(old[0], init_fresh='output/*', data=dict(batch_size=2))
    config.data.source = f'file:{path}'
    origin = transfer.find_origin(config, RunDirectory(tmp_path / 'new'))
    dataset = build(config, RunDirectory(tmp_path / 'new'), origin).dataset
    assert dataset.tokenizer.vocabulary == old[1]['embedding/words/table'].shape[0] == 10
    assert build(config, RunDirectory(tmp_path / 'new')).dataset.tokenizer.vocabulary == 4  # by itself it would know a and b


# ------------------------------------------------------------------------------------------------ what does not fit

def test_other_shapes_are_listed_with_the_way_out(old, tagger, tmp_path):
    with pytest.raises(FieldError) as caught:
        begun(tagger(old[0], init_fresh='encoder/norm/*'), tmp_path / 'new')
    assert str(caught.value) == (
        f"config.init_from='{old[0]}': some parameters have another shape there:\n  output/bias: [3] there, [2] here\n"
        "  output/kernel: [8, 3] there, [8, 2] here\nto start these anew, add --config.init_fresh='encoder/norm/*,output/*'")


@pytest.mark.parametrize('fields, sentence', [
    (dict(init_fresh='outputs/*'), "config.init_fresh='outputs/*': matches no parameter; there are: embedding/words/table, "),
    (dict(init_map='*=x/*'), 'no parameter has the same name there and here; there: embedding/words/table, encoder/conv'),
    (dict(init_map='*=x/*'), 'rename them with config.init_map'),
])
def test_what_names_nothing_is_refused(old, tagger, tmp_path, fields, sentence):
    with pytest.raises(FieldError) as caught:
        begun(tagger(old[0], **fields), tmp_path / 'new')
    assert sentence in str(caught.value)


@pytest.mark.parametrize('name, sentence', [
    ('nothing', "there is no such directory; train the run that it names first, or set --config.init_from to another; files of Hugging "
     "Face are downloaded with 'hf download NAME --local-dir DIR'"),
    ('a_file', "there is no such directory; train the run that it names first, or set --config.init_from to another; files of Hugging "
     "Face are downloaded with 'hf download NAME --local-dir DIR'"),
    ('empty', 'holds neither a run (config.json and checkpoints/) nor weights of Hugging Face (config.json and *.safetensors)'),
    ('sweep', 'holds several runs; name one of them, as in {folder}/sweep/wide'),
    ('run@7', "after @ write 'best' or a step; there are: 1"),
    ('run@last', "after @ write 'best' or a step; there are: 1"),
    ('new', 'the run has no checkpoint yet'),
    ('hf@3', "Hugging Face's files have no steps; leave out @3"),
    ('damaged', 'every checkpoint of the run is damaged'),
    ('damaged@1', 'checkpoint 1 is damaged (manifest.json does not match manifest.sha256)'),
])
def test_a_directory_that_holds_no_parameters_is_refused(old, tmp_path, name, sentence):
    (tmp_path / 'a_file').write_text('x')
    for folder in ('empty', 'sweep/wide', 'hf'):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / 'sweep' / 'wide' / 'config.json').write_text('{}')
    (tmp_path / 'hf' / 'model.safetensors').write_text('')
    shutil.copytree(old[0], tmp_path / 'run')
    shutil.copytree(old[0], tmp_path / 'new', ignore=shutil.ignore_patterns('checkpoints'))
    shutil.copytree(old[0], tmp_path / 'damaged')
    (tmp_path / 'damaged' / 'checkpoints' / '00000001' / 'manifest.json').write_text('{}')
    with pytest.raises(FieldError) as caught:
        open_origin(f'{tmp_path / name}', report=lambda text: None)
    assert str(caught.value) == f"config.init_from='{tmp_path / name}': " + sentence.format(folder=tmp_path)


def test_a_run_for_another_kind_of_task_is_refused(old, tmp_path):
    config = tiny_config(data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'), init_from=str(old[0]))
    with pytest.raises(FieldError, match=f"init_from='{old[0]}': is a run for .*, and its tokens are of no use for language_mo"):
        build(config, RunDirectory(tmp_path / 'new'), transfer.find_origin(config, RunDirectory(tmp_path / 'new')))


def test_parts_that_would_stay_random_are_said(old, tagger, tmp_path):
    config = tagger(old[0], init_fresh='output/*', optimizer=dict(freeze='*,!encoder/*'))
    start, _ = begun(config, tmp_path / 'new')
    lines = list(start.describe())
    assert lines[-1] == ("warning: output/* is new and frozen, so it stays as it was drawn; to train it, add '!output/*' to "
                         'config.optimizer.freeze')


# ------------------------------------------------------------------------------------------------ whole runs

def test_a_run_needs_what_it_began_with_only_once(old, tagger, tmp_path, capsys):
    directory = shutil.copytree(old[0], tmp_path / 'old')
    config = tagger(directory, init_fresh='output/*', optimizer=dict(freeze='*,!output/*'), train=dict(steps=2))
    train.train(config, tmp_path / 'new')
    assert f'begins with {directory}, step 1: 9 parameters taken' in capsys.readouterr().err
    shutil.rmtree(directory)
    config.train.steps = 4
    train.train(config, tmp_path / 'new')
    errors = capsys.readouterr().err
    assert 'resumed from step 2' in errors and 'begins with' not in errors
    last = arrays_of(tmp_path / 'new', 4)
    for path, x in old[1].items():
        assert path.startswith('output') or last[f'params/{path}'].tobytes() == np.asarray(x).tobytes(), path
    assert np.isfinite(evaluate(config, tmp_path / 'new')['eval/loss'])


@pytest.mark.parametrize('scanned_there', [False, True])
@pytest.mark.parametrize('mesh', [dict(data=1, fsdp=8), dict(data=2, tensor=4)], ids=['fsdp', 'tensor'])
def test_layers_that_were_learned_one_by_one_are_stacked_and_the_other_way_round(scanned_there, mesh, tmp_path):
    source = f'file:{write_text(tmp_path / "text.txt")}'
    config = lambda scan, **more: tiny_config('gpt', data=dict(source=source, batch_size=8), model=dict(scan_layers=scan, depth=3),
                                              **more)
    there = paths.by_path(jax.device_get(untrained_run(config(scanned_there), tmp_path / 'old')[1]))
    start, here = begun(config(not scanned_there, init_from=str(tmp_path / 'old'), parallel=mesh), tmp_path / 'new')
    assert next(start.describe()) == f'begins with {tmp_path / "old"}, step 1: {len(here)} parameters taken, 0 new'
    stacked, single = (there, here) if scanned_there else (here, there)
    assert len(single) > len(stacked) and any('/blocks/' in path for path in stacked)
    for path, x in single.items():
        found = re.search(r'/block_(\d)/', path)
        other = stacked[path.replace(found[0], '/blocks/')][int(found[1])] if found else stacked[path]
        np.testing.assert_array_equal(x, other, err_msg=path)


def test_another_number_of_layers_is_named_in_either_layout(tmp_path):
    source = f'file:{write_text(tmp_path / "text.txt")}'
    untrained_run(tiny_config('gpt', data=dict(source=source), model=dict(depth=3)), tmp_path / 'old')
    config = tiny_config('gpt', data=dict(source=source), model=dict(depth=2, scan_layers=True), init_from=str(tmp_path / 'old'))
    with pytest.raises(FieldError, match=r'decoder/blocks/attention/key/kernel: \[3, 16, 2, 8\] there, \[2, 16, 2, 8\] here'):
        begun(config, tmp_path / 'new')


def test_a_mistake_leaves_nothing_behind(old, tagger, tmp_path):
    with pytest.raises(FieldError, match='some parameters have another shape there'):
        train.train(tagger(old[0]), tmp_path / 'new')
    assert not (tmp_path / 'new').exists()


def test_weights_of_hugging_face_are_cast_placed_and_named(old, tagger, tmp_path, monkeypatch):
    directory = tmp_path / 'hf'
    directory.mkdir()
    (directory / 'model.safetensors').write_text('')
    half = {path: np.asarray(x).astype(np.float16) for path, x in old[1].items()}
    tree = traverse_util.unflatten_dict(half, sep='/')
    config = tagger(directory, init_fresh='output/*', parallel=dict(data=1, fsdp=8))
    model = dataclasses.make_dataclass('Model', [('vocabulary', int), ('encoder', str, 'gru'), ('dropout', float, 0.9)])(30522)
    monkeypatch.setattr(interop, 'from_hf', lambda path: types.SimpleNamespace(model=model, variables={'params': tree}),
                        raising=False)
    start, first = begun(config, tmp_path / 'new')
    lines = list(start.describe())
    assert lines[0] == f'begins with {directory}: 9 parameters taken, 2 left out (output/*), 2 new (output/*)'
    assert first['encoder/out_0/kernel'].dtype == np.float32
    np.testing.assert_array_equal(first['encoder/out_0/kernel'], half['encoder/out_0/kernel'].astype(np.float32))
    assert lines[1].startswith('note: tokens are those of this run: what was learned there of single tokens')
    assert lines[2:] == ["note: config.model differs: encoder='conv' here, 'gru' there"]
