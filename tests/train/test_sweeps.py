"""Several experiments one after another: each in its own directory, finished ones left alone, all of them compared."""

import json

import pytest

from seqjax import train
from seqjax.errors import UserError
from seqjax.train import sweeps
from tests.tiny import tiny_config


def variants():
    return {name: tiny_config('reader', data=dict(source='adding', sequence_length=8, held_out_rows=10),
                              model=dict(encoder='elman', width=width), train=dict(eval_batches=0), parallel=dict(data=1))
            for name, width in (('narrow', 4), ('wide', 8))}


@pytest.fixture
def calls(monkeypatch):
    """Names of the runs that were trained; each leaves what a run leaves, or is interrupted."""
    made = []

    def train_nothing(config, workdir):
        made.append(workdir.name)
        if config.seed == 13:
            raise train.Interrupted(1, 130)
        result = {'eval/loss': 1.0, 'steps': config.train.steps}
        workdir.mkdir(parents=True)
        (workdir / 'result.json').write_text(json.dumps(result))
        return result

    monkeypatch.setattr(sweeps, 'train', train_nothing)
    return made


def test_every_variant_is_trained_in_its_own_directory_and_compared(tmp_path, capsys):
    results = train.sweep(variants(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['comparison.json', 'comparison.png', 'narrow', 'wide']
    assert json.loads((tmp_path / 'comparison.json').read_text()) == results
    assert results['narrow']['parameters'] < results['wide']['parameters']
    for name, result in results.items():
        assert json.loads((tmp_path / name / 'result.json').read_text()) == result
        assert result['eval/root_mean_squared_error'] == pytest.approx(result['eval/loss'] ** 0.5)
    assert 'wide (2 of 2)' in capsys.readouterr().err


def test_what_is_finished_is_not_trained_again(calls, tmp_path):
    train.sweep({'narrow': variants()['narrow']}, tmp_path)
    train.sweep(variants(), tmp_path)
    assert calls == ['narrow', 'wide']


def test_an_interrupted_run_stops_the_sweep(calls, tmp_path):
    both = variants()
    both['narrow'].seed = 13
    with pytest.raises(train.Interrupted):
        train.sweep(both, tmp_path)
    assert calls == ['narrow'] and not list(tmp_path.glob('comparison*'))


def test_a_mistake_in_any_variant_is_found_before_the_first_starts(calls, tmp_path):
    both = variants()
    both['wide'].model.width = 0
    with pytest.raises(UserError, match='^wide: config.model.width=0: must be at least 1'):
        train.sweep(both, tmp_path)
    assert calls == [] and not list(tmp_path.iterdir())


def test_the_directory_of_a_single_run_is_refused(calls, tmp_path):
    (tmp_path / 'config.json').write_text('{}')
    with pytest.raises(UserError, match='holds one run; to go on with it write --config=FILE.py:VARIANT'):
        train.sweep(variants(), tmp_path)
    assert calls == []
