"""How much of its devices a run has used: from the operations of a step, the time of the steps and a peak."""

import types

import pytest

from seqjax import train
from seqjax.train import result as module
from seqjax.train.utilisation import _GPUS, _TPUS, compute_speed, peak_flops
from tests.tiny import tiny_config, write_text

# ------------------------------------------------------------------------------------------------ peaks

@pytest.mark.parametrize('kind, dtype, teraflops', [
    ('TPU v3', 'bfloat16', 123 / 2), ('TPU v4', 'float32', 275), ('TPU v5 lite', 'bfloat16', 197), ('TPU v6 lite', 'bfloat16', 918),
    ('NVIDIA A100-SXM4-80GB', 'bfloat16', 312), ('NVIDIA A100-SXM4-80GB', 'float32', 156), ('Tesla V100-SXM2-16GB', 'float32', 15.7),
    ('Tesla V100-SXM2-16GB', 'bfloat16', 0), ('cpu', 'float32', 0), ('', 'float32', 0)])
def test_the_peak_of_a_device_is_the_published_one(kind, dtype, teraflops):
    assert peak_flops(kind, dtype) == pytest.approx(teraflops * 1e12)


def test_every_peak_is_in_operations_a_second_and_half_as_wide_is_never_slower():
    assert all(1e13 < peak < 1e15 for peak in _TPUS.values())
    for peaks in _GPUS.values():
        assert set(peaks) <= {'bfloat16', 'float32'} and 1e12 < peaks['float32'] < peaks.get('bfloat16', 1e15) <= 1e15


# ------------------------------------------------------------------------------------------------ numbers

def test_utilisation_by_hand():
    assert compute_speed(6e9, 2.5, 1e11) == dict(flops_per_second=15_000_000_000, utilisation=0.15)
    assert compute_speed(6e9, 1 / 3, 7e12) == dict(flops_per_second=2_000_000_000, utilisation=0.0002857)
    assert compute_speed(6e9, 2.5, 0) == dict(flops_per_second=15_000_000_000)
    assert compute_speed(None, 2.5, 1e11) == dict(flops_per_second=None)


def found(kind, *, dtype='float32', peak=0.0, devices=4, tokens_per_second=1000.0, flops=2e9, before=None):
    """What a run says that reads 100 tokens a step, on devices of a kind."""
    config = tiny_config(model=dict(dtype=dtype), train=dict(peak_flops=peak))
    device = types.SimpleNamespace(device_kind=kind)
    mesh = types.SimpleNamespace(devices=types.SimpleNamespace(flatten=lambda: [device] * devices))
    parts = types.SimpleNamespace(strategy=types.SimpleNamespace(mesh=mesh), tokens_per_step=lambda batch_size: 100)
    return module._compute_speed(config, parts, tokens_per_second, flops, before or {})


def test_the_peak_is_that_of_all_devices_and_the_config_goes_before_the_table():
    assert found('TPU v4') == dict(flops_per_second=20_000_000_000, utilisation=pytest.approx(2e10 / (4 * 275e12), rel=1e-3))
    assert found('TPU v4', peak=1e11) == dict(flops_per_second=20_000_000_000, utilisation=0.05)
    assert found('cpu', peak=1e11, devices=1)['utilisation'] == 0.2
    assert found('cpu') == dict(flops_per_second=20_000_000_000)
    half, whole = (found('NVIDIA A100-SXM4-40GB', dtype=dtype)['utilisation'] for dtype in ('bfloat16', 'float32'))
    assert whole == pytest.approx(2 * half, rel=1e-3)


def test_a_process_that_trains_no_step_keeps_what_was_measured():
    before = dict(flops_per_second=7, utilisation=0.5, steps=3)
    assert found('cpu', tokens_per_second=0.0, before=before) == dict(flops_per_second=7, utilisation=0.5)
    assert found('TPU v4', tokens_per_second=0.0) == dict(flops_per_second=None)


# ------------------------------------------------------------------------------------------------ a run

def test_a_run_on_a_device_without_a_published_peak_takes_that_of_the_config(tmp_path):
    source = f'file:{write_text(tmp_path / "text.txt", 2000)}'
    config = tiny_config(data=dict(source=source), parallel=dict(data=2))
    plain = train.train(config, tmp_path / 'run')
    assert 'utilisation' not in plain
    steps_per_second = plain['tokens_per_second'] / (config.data.batch_size * config.data.sequence_length)
    assert plain['flops_per_second'] == pytest.approx(plain['flops_per_step'] * steps_per_second, rel=1e-2)  # tokens are rounded
    config.train.update(peak_flops=1e10, steps=6)  # a run may go on with another peak
    result = train.train(config, tmp_path / 'run')
    assert result['utilisation'] == pytest.approx(result['flops_per_second'] / (2 * 1e10), rel=1e-3)  # of two devices
    again = train.train(config, tmp_path / 'run')
    assert (again['flops_per_second'], again['utilisation']) == (result['flops_per_second'], result['utilisation'])
