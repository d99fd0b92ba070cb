"""Series as windows: every value is predicted once, and nothing is known of the held-out part."""

import numpy as np
import pytest

from seqjax import data
from seqjax.data.embedded import mackey_glass
from seqjax.data.options import DataOptions
from seqjax.data.readers.examples import Example, Examples
from seqjax.data.series import load_series
from seqjax.errors import FieldError
from seqjax.fields import whole
from tests.tiny import tiny_config

RNG = np.random.default_rng(0)


def load(path, **changes):
    return data.load(tiny_config('reader', task='forecasting', data=dict(source=f'file:{path}', **changes)).data, 'forecasting')


def of(train, validation=(), **changes):
    examples = Examples(*([Example(x, 0.0) for x in part] for part in (train, validation)), [], 'series')
    return load_series(examples, whole(DataOptions, dict(sequence_length=8, **changes)))


def plain(found, row, name):
    return row[name][row['weights'] > 0] * np.float32(found.codec.deviation) + np.float32(found.codec.mean)


@pytest.mark.parametrize('steps', [40, 41, 33, 9])
def test_the_end_of_one_series_is_held_out_and_each_of_its_values_predicted_once(steps):
    values = RNG.normal(size=(steps, 2)).astype(np.float32) * [1, 5] + [0, 7]
    found = of([values], held_out=0.25)
    cut = round(0.75 * steps)
    predicted = np.concatenate([plain(found, found.row('validation', i), 'targets') for i in range(len(found.windows['validation']))])
    np.testing.assert_allclose(predicted, values[cut:], atol=1e-4)
    known = found.row('validation', 0)
    np.testing.assert_allclose(plain(found, known, 'inputs')[0], values[cut - 1], atol=1e-4)
    trained = {tuple(np.round(x, 3)) for i in range(len(found.windows['train'])) for x in plain(found, found.row('train', i), 'targets')}
    assert trained == {tuple(x) for x in np.round(values[1:cut], 3).astype(np.float32)} or len(trained) == cut - 1
    np.testing.assert_allclose(found.codec.mean, values[:cut].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found.codec.deviation, values[:cut].std(axis=0), rtol=1e-5)


def test_targets_are_the_inputs_one_step_later_and_windows_overlap():
    found = of([RNG.normal(size=(30, 1)).astype(np.float32)], [RNG.normal(size=(4, 1)).astype(np.float32)])
    assert found.windows == dict(train=[(0, b) for b in (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 21)], validation=[(0, 0)], test=[])
    for i in range(12):
        row = found.row('train', i)
        np.testing.assert_array_equal(row['inputs'][1:], row['targets'][:-1])
        assert row['weights'].all() and row['inputs'].shape == (8, 1)
    short = found.row('validation', 0)
    assert short['weights'].tolist() == [1, 1, 1, 0, 0, 0, 0, 0] and not short['targets'][3:].any()
    batch = found.training_batches(batch_size=3, seed=0)[4]
    assert batch['inputs'].shape == batch['targets'].shape == (3, 8, 1) and batch['weights'].shape == (3, 8)


def test_of_several_series_the_last_are_held_out():
    series = [RNG.normal(size=(12, 1)).astype(np.float32) for _ in range(10)]
    found = of(series, held_out=0.2)
    assert [len(found.series[split]) for split in ('train', 'validation')] == [8, 2] and found.report.endswith('the last 2 series held out')


def test_files(tmp_path):
    values = RNG.normal(size=(50, 2)).round(3).astype(np.float32)
    (tmp_path / 'a.csv').write_text('time,x,y\n' + ''.join(f'{t},{x},{y}\n' for t, (x, y) in enumerate(values)))
    np.savez(tmp_path / 'one.npz', data=values)
    np.savez(tmp_path / 'more.npz', inputs=np.stack([values, values, values]))
    table, one, more = (load(tmp_path / name, sequence_length=8) for name in ('a.csv', 'one.npz', 'more.npz'))
    np.testing.assert_allclose(table.series['train'][0], one.series['train'][0])
    assert table.facts()['sha256'] == one.facts()['sha256'] and str(one) == '19 train, 1 validation windows of 8 steps with 2 features'
    assert [len(series) for series in more.series.values()] == [2, 1, 0]
    assert data.load_codec(table.codec.dumps()) == table.codec and load(tmp_path / 'a.csv', sequence_length=8).facts() == table.facts()
    assert load(tmp_path / 'a.csv', sequence_length=8, input_column='y').for_model()['outputs'] == 1
    (tmp_path / 'a.csv').write_text('x\n1\n2\nthree\n')
    with pytest.raises(FieldError, match="line 4: a cell of the input is no number: x: 'three'"):
        load(tmp_path / 'a.csv')
    with pytest.raises(FieldError, match='has no train series of two steps'):
        of([np.ones((1, 2), np.float32)] * 3)
    with pytest.raises(FieldError, match='has other inputs than series'):
        of(['text'])


def test_mackey_glass_against_a_plain_loop(monkeypatch):
    values = mackey_glass.mackey_glass(300, 1.2)
    fine = [1.2] * 1700 + [1.2]  # Euler's method in steps of a hundredth
    for _ in range(300 * 100):
        late = fine[-1701]
        fine.append(fine[-1] + 0.01 * (0.2 * late / (1 + late ** 10) - 0.1 * fine[-1]))
    np.testing.assert_allclose(values, np.array(fine[1800::100])[:300], atol=0.02)
    monkeypatch.setattr(mackey_glass, 'VALUES', 400)
    one, other = (mackey_glass.mackey_glass_examples('', held_out=0.1, seed=seed) for seed in (0, 1))
    assert [len(part[0].inputs) for part in (one.train, one.validation, one.test)] == [324, 37, 41]
    np.testing.assert_array_equal(one.train[0].inputs[-1], one.validation[0].inputs[0])
    assert not np.allclose(one.train[0].inputs, other.train[0].inputs)


def test_every_column_of_numbers_is_predicted_also_one_called_target(tmp_path):
    (tmp_path / 'a.csv').write_text('date,value,target\n' + ''.join(f'2020-01-{i + 1:02},{i},{2 * i}\n' for i in range(30)))
    assert len(load(tmp_path / 'a.csv', sequence_length=4).codec.mean) == 2
    with pytest.raises(FieldError, match="data.target_column='target': every feature of a series is predicted; leave it empty"):
        load(tmp_path / 'a.csv', sequence_length=4, target_column='target')


def test_steps_of_padding_are_no_steps(tmp_path):
    values = np.zeros((3, 20, 1), np.float32)
    values[:, :8] = RNG.normal(size=(3, 8, 1)) + 5
    np.savez(tmp_path / 'a.npz', inputs=values, lengths=np.full(3, 8))
    found = load(tmp_path / 'a.npz', sequence_length=4, held_out=0.3)
    assert [len(one) for one in (*found.series['train'], *found.series['validation'])] == [8, 8, 8]
    np.testing.assert_allclose(found.codec.mean, values[:2, :8].mean(), rtol=1e-6)
