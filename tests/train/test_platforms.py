"""The training step has nothing in it that only a CPU could run, and the kernel of a TPU where it is for one."""

import jax
import pytest

from seqjax.modes.command import experiment_files
from seqjax.runs import RunDirectory
from seqjax.train import build, make_train_step
from tests.tiny import loaded, tiny_config, write_text


def lower(folder, model, platforms, *, data={}, fields={}):
    """The training step of a tiny model in bfloat16 with dropout, lowered for platforms that need not be here."""
    return lowered(tiny_config(model, data=dict(source=f'file:{write_text(folder / "text.txt")}') | data,
                               model=dict(dtype='bfloat16', dropout=0.1) | fields), folder, platforms)


def lowered(config, folder, platforms):
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


@pytest.mark.parametrize('model, source', [('vit', 'digits'), ('cct', 'digits'), ('resnet', 'digits'), ('video', 'moving_digit_videos')])
def test_a_step_on_images_is_lowered_with_its_augmentation(model, source, tmp_path):
    fields = dict(depth=8) if model == 'resnet' else {}
    data = dict(source=source, augment='crop(padding=1), flip, rand_augment, mixup', normalise=True)
    exported = lower(tmp_path, model, ['cuda', 'tpu'], data=data, fields=fields)
    assert set(exported.platforms) == {'cuda', 'tpu'} and 'bf16' in exported.mlir_module()


def test_a_published_vision_transformer_is_lowered_for_gpus(tmp_path):
    with loaded(experiment_files.FOLDER / 'vision' / 'image_presets.py') as experiment:
        config = experiment.get_config('vit_b_16')
        config.data.batch_size = 8
        exported = lowered(config, tmp_path, ['cuda'])
    assert exported.platforms == ('cuda',) and '8x224x224x3xui8' in exported.mlir_module()


@pytest.mark.parametrize('platform, kernels', [('cuda', 0), ('tpu', 3)])
def test_a_step_with_long_rows_has_the_kernel_of_a_tpu_where_it_is_for_one(platform, kernels, tmp_path):
    """One forward and two backward, in one layer. cuDNN's kernel is chosen on a machine that has it."""
    exported = lower(tmp_path, 'gpt', [platform], data=dict(sequence_length=128))
    assert exported.mlir_module().count('@tpu_custom_call') == kernels
