"""The training step has nothing in it that only a CPU could run, and the kernel of a TPU where it is for one."""

import jax
import pytest

from seqjax.runs import RunDirectory
from seqjax.train import build, make_train_step
from tests.tiny import tiny_config, write_text


def lower(folder, model, platforms, *, data={}, fields={}):
    """The training step of a tiny model in bfloat16 with dropout, lowered for platforms that need not be here."""
    config = tiny_config(model, data=dict(source=f'file:{write_text(folder / "text.txt")}') | data,
                         model=dict(dtype='bfloat16', dropout=0.1) | fields)
    parts = build(config, RunDirectory(folder))
    step = jax.jit(make_train_step(parts.task, parts.optimizer, parts.schedule, seed=0))
    state, batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (parts.target, parts.training[0]))
    return jax.export.export(step, platforms=platforms)(state, batch)


@pytest.mark.parametrize('model, fields', [('gpt', {}), ('gpt', dict(experts=4)), ('recurrent', {}), ('mamba', {}), ('rwkv', {})],
                         ids=['gpt', 'experts', 'recurrent', 'mamba', 'rwkv'])
def test_a_step_is_lowered_for_gpus_and_tpus(model, fields, tmp_path):
    exported = lower(tmp_path, model, ['cuda', 'tpu'], fields=fields)
    assert set(exported.platforms) == {'cuda', 'tpu'}
    assert 'bf16' in exported.mlir_module()


@pytest.mark.parametrize('platform, kernels', [('cuda', 0), ('tpu', 3)])
def test_a_step_with_long_rows_has_the_kernel_of_a_tpu_where_it_is_for_one(platform, kernels, tmp_path):
    """One forward and two backward, in one layer. cuDNN's kernel is chosen on a machine that has it."""
    exported = lower(tmp_path, 'gpt', [platform], data=dict(sequence_length=128))
    assert exported.mlir_module().count('@tpu_custom_call') == kernels
