"""X-rays and cells of a run, from its directory; and what is logged of an X-ray while training."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import runs, train
from seqjax.errors import FieldError, UserError
from seqjax.modes.interpretable_units import find_cells, unit_names
from seqjax.modes.xray import describe_xray, xray_run, xray_sweep
from seqjax.train.xray_step import readings
from tests.tiny import tiny_config, write_text


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, workdir) of a tiny character LSTM, X-rayed after each of its two steps."""
    directory = tmp_path_factory.mktemp('sweep')
    config = tiny_config('recurrent', data=dict(source=f'file:{write_text(directory / "text.txt")}', sequence_length=6),
                         model=dict(width=4), train=dict(steps=2, xray_every=1))
    train.train(config, directory / 'lstm')
    return config, directory / 'lstm'


def test_what_is_logged_while_training(run):
    lines = [line for line in runs.read_metrics(run[1] / 'metrics.jsonl') if 'xray/recurrent/layer_0/horizon' in line]
    assert [line['step'] for line in lines] == [1, 2]
    names = ('horizon', 'gradient_ratio', 'saturated')
    assert set(lines[0]) == {'step', *(f'xray/recurrent/layer_0/{name}' for name in names)}
    assert lines[0]['xray/recurrent/layer_0/gradient_ratio'] < 0 and 1 <= lines[0]['xray/recurrent/layer_0/horizon'] <= 6


def test_an_xray_of_several_runs_writes_pictures_arrays_and_numbers_of_each_and_one_picture_of_all(run):
    seen, (_, workdir) = [], run
    assert runs.runs_below(workdir.parent) == ['lstm'] and runs.runs_below(workdir) == []
    summaries = xray_sweep(workdir.parent, seen=lambda name, summary: seen.append(name))
    assert list(summaries) == seen == ['lstm'] and (workdir.parent / 'xray.png').is_file()

    summary = summaries['lstm']
    assert json.loads((workdir / 'xray' / 'xray.json').read_text()) == summary
    pictures = {path.name for path in (workdir / 'xray').glob('*.png')}
    assert pictures == {'gradients.png', 'spectrum.png', 'saturation.png', 'cell_path.png', 'receptive_field.png'}
    layer = summary['layers']['recurrent/layer_0']
    assert layer['verdict'] in ('vanishing', 'stable', 'exploding') and layer['lags'] == 6
    with np.load(workdir / 'xray' / 'xray.npz') as arrays:
        assert arrays['recurrent/layer_0/norm'].shape == (2, 7)
        assert arrays['receptive_field/recurrent/layer_0'].shape == (6, 6)
        assert arrays['recurrent/layer_0/loss_gradient'].shape[1] == 7
    norms = [line['train/gradient_norm'] for line in runs.read_metrics(workdir / 'metrics.jsonl') if 'train/loss' in line]
    assert summary['suggested_clip'] == pytest.approx(np.percentile(norms, 90))
    text = describe_xray(summary)
    assert 'recurrent/layer_0: ' in text and 'Lyapunov' in text and 'clip_norm' in text


def test_cells_write_a_page_and_a_table(run):
    config, workdir = run
    table, found = find_cells(config, workdir)
    page = (workdir / 'cells' / 'index.html').read_text('utf-8')
    assert 'recurrent/layer_0 ' in table and found[0]['unit'] in page and 'a typical unit' in page
    saved = json.loads((workdir / 'cells' / 'cells.json').read_text())
    assert saved['best'][0] == found[0] and len(found) == 8
    with np.load(workdir / 'cells' / 'cells.npz') as arrays:
        assert arrays['correlations'].shape == (8, 6) and arrays['activations'].shape == (saved['tokens'], 8)
    assert (workdir / 'cells' / 'cells.png').is_file()


@pytest.mark.parametrize('mode, look', [('xray', xray_run), ('cells', find_cells)])
def test_a_model_without_recurrent_layers_is_refused(tmp_path, mode, look):
    config = tiny_config('gpt', data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'))
    (tmp_path / 'config.json').write_text(configs.dumps(config))
    with pytest.raises(UserError, match=f"--mode={mode}: 'gpt' has no recurrent layer to look into"):
        look(config, tmp_path)


def test_cells_are_for_text(tmp_path):
    config = tiny_config('reader', data=dict(source='adding', held_out_rows=8))
    with pytest.raises(UserError, match="--mode=cells: the run reads 'adding' for regression; choose"):
        find_cells(config, tmp_path)


def test_packed_and_spelled_rows_have_no_xray(tmp_path):
    packed = tiny_config('reader', data=dict(source='python_tokens', batching='pack'))
    spelled = tiny_config('reader', data=dict(source='file:x.tsv', tokenizer='word', characters_per_word=4),
                          model=dict(character_encoder='conv'), task='classification')
    for config in (packed, spelled):
        with pytest.raises(UserError, match='^--mode=xray: looks at rows that hold one sequence of tokens, and those of this'):
            xray_run(config, tmp_path)


def test_xrays_while_training_need_a_recurrent_layer():
    with pytest.raises(FieldError, match="config.train.xray_every=5: 'gpt' has no recurrent layer .*; set it to 0"):
        configs.validate(tiny_config('gpt', train=dict(xray_every=5)))


def test_readings_average_over_the_rows_that_reach_so_far_back():
    layer = dict(logs=np.array([0.0, -2.0, -6.0, 0.0]), reached=np.array([2, 2, 1, 0]), rows=np.int32(2),
                 saturated=dict(f=np.float32(1.0), i=np.float32(0.0)))
    assert readings(dict(a=layer)) == {'xray/a/horizon': 2, 'xray/a/gradient_ratio': pytest.approx(-6 / np.log(10)),
                                       'xray/a/saturated': 0.25}


def test_units_are_named_by_their_part_of_the_state():
    class Call:
        class cell:
            parts = ('h', 'c')
        state = jnp.zeros((1, 2)), jnp.zeros((1, 1), jnp.complex64)

    assert unit_names(Call) == ['h0', 'h1', 'c0.re', 'c0.im']
