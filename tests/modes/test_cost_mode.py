"""--mode=cost: what a training step costs at other lengths and widths, and the table of layers."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from seqjax import models
from seqjax.analysis.cost import complexity, scaling
from seqjax.analysis.cost.flops import jaxpr_flops
from seqjax.errors import FieldError, UserError
from seqjax.modes import cost
from seqjax.modes.cost import measure_cost
from seqjax.runs import RunDirectory
from seqjax.train import build
from tests.labelled_files import labelled_config, write_labelled
from tests.pair_files import pair_config, write_pairs
from tests.tiny import first_task, tiny_config, write_text

COUNTED = dict(cost=dict(largest=1.0, seconds=0.001))  # nothing is compiled


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp('cost')
    write_text(path / 'text.txt', 4000)
    for task in ('classification', 'tagging', 'regression'):
        write_labelled(path / f'{task}.jsonl', task)
    write_pairs(path / 'pairs.tsv')
    return path


def config_of(model, folder, /, **sections):
    """A tiny config of a model for the first task that it can learn, on one device."""
    task = first_task(model)
    if task == 'translation' and model == 'seq2seq':
        return pair_config(folder / 'pairs.tsv', **COUNTED, **sections)
    if model == 'reader':
        return labelled_config(folder / f'{task}.jsonl', task, **COUNTED, **sections)
    source = dict(source=f'file:{folder / ("pairs.tsv" if task == "translation" else "text.txt")}')
    return tiny_config(model, task=task, data=source, parallel=dict(data=1), **COUNTED, **sections)


def few_sizes(monkeypatch):
    monkeypatch.setattr(cost, 'LENGTHS', (1, 2))
    monkeypatch.setattr(cost, 'WIDTHS', (1, 2))


FAMILIES = 'llama', 'mamba', 'rwkv', 'bert', 't5', 'reader', 'seq2seq'  # gpt and transformer are two of them with other fields


@pytest.mark.parametrize('model', FAMILIES)
def test_models_can_be_counted_at_other_sizes(model, folder, tmp_path, monkeypatch):
    few_sizes(monkeypatch)
    facts, _, _ = cost.cost_of_models({'it': config_of(model, folder)}, tmp_path)
    facts = facts['measured']['it']
    exponents = facts['fits']['operations']['exponents']
    assert 0.9 < exponents['n'] < 2.1 and 0.4 < exponents['d'] < 2.1, exponents
    assert len(facts['points']) == 3 and all(point['seconds'] is None and point['bytes'] is None for point in facts['points'])


def test_at_its_own_size_it_is_the_training_step_of_the_run(folder, tmp_path, monkeypatch):
    few_sizes(monkeypatch)
    config = config_of('recurrent', folder)
    points = cost.cost_of_models({'it': config}, tmp_path)[0]['measured']['it']['points']
    parts = build(config, RunDirectory(tmp_path / 'none'))
    step = parts.train_step(config)._function
    batch = jax.tree.map(np.asarray, parts.training[0])
    flops = jaxpr_flops(jax.make_jaxpr(step)(parts.target, batch))
    n, d = config.data.sequence_length, config.model.width
    assert [point['operations'] for point in points if (point['n'], point['d']) == (n, d)] == [flops]


def test_what_is_measured_is_compiled_run_and_drawn(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cost, 'LENGTHS', (0.5, 1))
    monkeypatch.setattr(cost, 'WIDTHS', (0.5, 1, 2))
    config = config_of('recurrent', folder)
    config.cost.largest = 1e9
    table, written = measure_cost({'recurrent': config}, tmp_path)
    facts = json.loads((tmp_path / 'cost.json').read_text())['measured']['recurrent']
    assert set(facts['fits']) == set(scaling.METRICS)
    assert [point['n'] / 16 for point in scaling.along(facts['points'], 'n')] == [0.5, 1]
    assert [point['d'] / 16 for point in scaling.along(facts['points'], 'd')] == [0.5, 1, 2]
    for point in facts['points']:
        assert point['seconds'] > 0 and point['bytes'] > point['d'] ** 2
    lines = table.splitlines()
    assert lines[0] == 'recurrent, a training step' and lines[1].split() == ['n', 'd', *scaling.METRICS]
    assert lines[-1].startswith('grows') and f'n^{facts["fits"]["operations"]["exponents"]["n"]:.2f}' in lines[-1]
    assert written == [tmp_path / 'cost.json', tmp_path / 'cost.png'] and all(path.is_file() for path in written)


def test_variants_are_measured_side_by_side(folder, tmp_path, monkeypatch):
    few_sizes(monkeypatch)
    variants = {encoder: labelled_config(folder / 'classification.jsonl', 'classification', encoder, **COUNTED)
                for encoder in ('gru', 'attention')}
    facts, table, _ = cost.cost_of_models(variants, tmp_path)
    assert [line for line in table.splitlines() if 'training step' in line] == ['gru, a training step', 'attention, a training step']
    assert list(facts['measured']) == ['gru', 'attention']
    assert table.count('\n-: more operations than config.cost.largest, so neither compiled nor run') == 2


def test_the_table_of_layers(folder, tmp_path, monkeypatch):
    sizes = dict(n=(16, 32), d=(4, 8), k=(2, 3), r=(4, 8))
    small = {name: dataclasses.replace(layer, sizes={letter: sizes[letter] for letter in layer.sizes})
             for name, layer in complexity.LAYERS.items()}
    monkeypatch.setattr(complexity, 'LAYERS', small)
    monkeypatch.setattr(cost, 'PATHS', (16,))
    config = config_of('recurrent', folder)
    config.cost.update(layers='recurrent,restricted', largest=1e9)
    table, written = measure_cost({'recurrent': config}, tmp_path)
    assert [path.name for path in written] == ['cost.json', 'complexity.png'] and all(path.is_file() for path in written)
    facts = json.loads((tmp_path / 'cost.json').read_text())['measured']
    assert facts['recurrent']['path'] == [dict(n=16, layers=1, length=3 * 16 + 1)]
    assert facts['restricted']['path'][0]['layers'] == 1
    head, recurrent, restricted = table.splitlines()
    assert head.split()[:6] == ['layer', 'the', 'table', 'operations', 'seconds', 'bytes']
    assert 'n d^2' in recurrent and '4 n^1.00 d^2.00' in recurrent
    assert 'r n d' in restricted and '8 r^1.00 n^1.00 d^1.00' in restricted


def test_a_batch_of_other_rows():
    batch = dict(inputs=dict(words=np.ones((2, 10), np.int32), characters=np.ones((2, 10, 4), np.int32)),
                 lengths=np.array([10, 3], np.int32), targets=np.ones((2, 5), np.int32), weights=np.zeros((2, 5), np.float32),
                 next=np.ones(2, np.int32))
    found = cost.resized(batch, 30)
    shapes = jax.tree.map(lambda x: x.shape, found)
    assert shapes == dict(inputs=dict(words=(2, 30), characters=(2, 30, 4)), lengths=(2,), targets=(2, 15), weights=(2, 15),
                          next=(2,))
    assert jax.tree.map(lambda x: x.dtype, found) == jax.tree.map(lambda x: x.dtype, batch)
    assert found['lengths'].tolist() == [30, 30] and found['weights'].all() and not found['targets'].any()
    assert cost.resized(batch, 1)['targets'].shape == (2, 1)


def test_mistakes_are_sentences(folder, tmp_path):
    config = config_of('gpt', folder)
    config.cost.layers = 'lstm'
    with pytest.raises(FieldError, match="config.cost.layers='lstm': no such layer as 'lstm'; choose one of: all, conv"):
        measure_cost({'gpt': config}, tmp_path)
    narrow = config_of('gpt', folder, model=dict(width=8, heads=2), lora=dict(rank=6))
    with pytest.raises(UserError, match='measures rows of 16 steps and a width of 4 too, and that cannot be: config.lora.rank=6'):
        measure_cost({'gpt': narrow}, tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / 'config.json').write_text('{}')
    with pytest.raises(UserError, match='holds one run; to go on with it write --config=FILE.py:VARIANT'):
        measure_cost({'a': config, 'b': config}, tmp_path)
