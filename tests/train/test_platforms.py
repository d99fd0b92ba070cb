"""The training step has nothing in it that only a CPU could run."""

import jax
import pytest

from seqjax.train import RunDirectory, build, make_train_step
from tests.tiny import tiny_config, write_text


@pytest.mark.parametrize('model', ['gpt', 'recurrent'])
def test_a_step_is_lowered_for_gpus_and_tpus(model, tmp_path):
    text = write_text(tmp_path / 'text.txt')
    config = tiny_config(model, data=dict(source=f'file:{text}'), model=dict(dtype='bfloat16', dropout=0.1))
    parts = build(config, RunDirectory(tmp_path))
    step = jax.jit(make_train_step(parts.task, parts.optimizer, parts.schedule, seed=0))
    state, batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (parts.target, parts.training[0]))
    exported = jax.export.export(step, platforms=['cuda', 'tpu'])(state, batch)
    assert set(exported.platforms) == {'cuda', 'tpu'}
    assert 'bf16' in exported.mlir_module()
