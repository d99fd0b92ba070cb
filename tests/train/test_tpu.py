"""Training steps compiled for TPUs, on a machine without any: libtpu brings the compiler.

    python tests/train/test_tpu.py PRESET TOPOLOGY     memory with fsdp = all chips, as JSON; of a network for images with data = all chips
"""

import collections
import importlib.util
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.processes import ROOT, plain_environment

MESHES = {'data': (8, 1, 1), 'fsdp': (1, 8, 1), 'tensor': (2, 2, 2)}  # sizes of data, fsdp and tensor
B, T, H, K, L = 8, 128, 2, 128, 1
IMAGES = {'vit_b_16': 'v5e:2x4', 'resnet50': 'v5e:2x4'}
PRESETS = {'gpt2_xl': 'v5p:4x4x4', 'bert_large': 'v5e:8x8', 't5_3b': 'v5p:4x4x4'}
MEMORY = {'v5e': 15.75, 'v5p': 95.74}  # GiB of a chip that programs may take
OTHERS = {'experts': ('gpt', dict(experts=4)), 'mamba': ('mamba', {}), 'rwkv': ('rwkv', {})}  # on the mesh 'tensor'
SETTINGS = dict(JAX_PLATFORMS='cpu', TPU_SKIP_MDS_QUERY='1', TPU_WORKER_HOSTNAMES='localhost', TPU_ACCELERATOR_TYPE='v5litepod-8')


def run_main(*arguments):
    """What `main` says, from a process in which libtpu finds its settings."""
    if importlib.util.find_spec('libtpu') is None:
        pytest.skip("libtpu, the compiler for TPUs, is not installed: pip install 'jax[tpu]'")
    paths = os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True,
                          cwd=ROOT, env=plain_environment() | SETTINGS | dict(PYTHONPATH=paths), timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope='module')
def programs(tmp_path_factory):
    """What `tiny_steps` says of the compiled step on every mesh."""
    return run_main(tmp_path_factory.mktemp('tpu'))


@pytest.mark.parametrize('mesh', MESHES)
def test_the_step_is_compiled_with_the_kernel_forward_and_backward(mesh, programs):
    """Each layer once forward and twice backward: for the queries, and for the keys and values."""
    assert programs[mesh]['kernels'] == dict(splash_mha_fwd_residuals=L, splash_mha_dq_no_residuals=L,
                                             splash_mha_dkv_no_residuals=L)
    assert programs[mesh]['numbers'] == [B * H * T * K // 8] * L  # of an output: each TPU has its share of rows and heads


@pytest.mark.parametrize('name', OTHERS)
def test_other_steps_are_compiled(name, programs):
    assert programs[name]['ragged'] == (name == 'experts')  # the products that only chosen experts take part in


@pytest.mark.slow
@pytest.mark.parametrize('name', PRESETS)
def test_a_published_size_with_fully_sharded_parameters_fits(name):
    """Rows that lay whole on every chip needed 205 GiB (gpt2_xl) and 171 GiB (bert_large)."""
    topology = PRESETS[name]
    found = run_main(name, topology)
    assert found['temporaries'] + found['arguments'] < MEMORY[topology.partition(':')[0]]


@pytest.mark.slow
@pytest.mark.parametrize('name', IMAGES)
def test_a_published_network_for_images_fits(name):
    """The batch of its paper, bfloat16, augmented on the chips; ViT-B/16 at 224 pixels with gradient checkpointing."""
    found = run_main(name, IMAGES[name])
    assert found['rows'][0] >= 256 and found['rows'][1:] == [224, 224, 3]
    assert found['temporaries'] + found['arguments'] < MEMORY['v5e']


def tiny_steps(folder):
    import jax
    from jax.experimental import topologies
    from jax.sharding import AxisType, Mesh
    import numpy as np

    from seqjax.parallel import AXES, rules, strategies
    from seqjax.runs import RunDirectory
    from seqjax.train import build, make_train_step
    from tests.tiny import tiny_config, write_text

    chips = np.array(topologies.get_topology_desc(platform='tpu', topology_name='v5e:2x4').devices)
    source = f'file:{write_text(folder / "text.txt")}'

    def compiled(model, sizes, **fields):
        mesh = Mesh(chips.reshape(sizes), AXES, axis_types=(AxisType.Auto,) * len(AXES))
        strategies.make_mesh = lambda **unused: mesh
        config = tiny_config(model, data=dict(source=source, batch_size=B, sequence_length=T),
                             model=dict(width=H * K, depth=L, dtype='bfloat16') | fields)
        parts = build(config, RunDirectory(folder))
        step = make_train_step(parts.task, parts.optimizer, parts.schedule, seed=0)
        batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rules.over_batch(mesh)),
                             parts.training[0])
        return parts.strategy.compile(step, parts.target, batch, updates_state=True).run.as_text()

    facts = {name: dict(ragged='ragged' in compiled(model, MESHES['tensor'], **fields)) for name, (model, fields) in OTHERS.items()}
    for name, sizes in MESHES.items():
        text = compiled('gpt', sizes, heads=H)
        calls = re.findall(r'%(splash_\w+?)[.\d]* = \((.*?)\) custom-call\(.*custom_call_target="tpu_custom_call"', text)
        outputs = [re.search(r'bf16\[([\d,]+)\]', shapes)[1] for kernel, shapes in calls if '_fwd_' in kernel]
        facts[name] = dict(kernels=collections.Counter(kernel for kernel, _ in calls),
                           numbers=[math.prod(map(int, output.split(','))) for output in outputs])
    return facts


def preset_step(name, topology):
    """GiB of one chip for the training step of a preset, as its experiment has it."""
    import functools
    import importlib

    import jax
    from jax.experimental import topologies
    from jax.sharding import AxisType, Mesh
    import numpy as np

    from seqjax.parallel import AXES, Jit, over_batch
    from seqjax.train import make_train_step
    from seqjax.train.experiment import make_task, optimizer_of
    from seqjax.train.parameters import make_parameters
    from seqjax.train.state import create_state

    chips = np.array(topologies.get_topology_desc(platform='tpu', topology_name=topology).devices)
    sizes, file = ((-1, 1, 1), 'vision.image_presets') if name in IMAGES else ((1, -1, 1), 'scaling.presets')
    strategy = Jit(Mesh(chips.reshape(sizes), AXES, axis_types=(AxisType.Auto,) * len(AXES)))
    config = importlib.import_module(f'experiments.{file}').get_config(name)
    describe = importlib.import_module('seqjax.modes.describe')
    if name in IMAGES:
        config.model.update(dict(remat=True) if 'remat' in config.model else {})
        config, rows = describe._from_data(config, None)
    else:
        rows = describe._assumed(config)
    task = make_task(config, for_model=rows.for_model, for_task=rows.for_task, sample=rows.sample['inputs'])
    schedule, optimizer = optimizer_of(config, task.model.width)
    parameters = make_parameters(config, task, rows.sample)
    create = functools.partial(create_state, task, optimizer, batch=rows.sample, parameters=parameters)
    target = strategy.placed(jax.eval_shape(create, jax.random.key(0)), parameters.boxed)
    n = config.train.gradient_accumulation_steps
    place = over_batch(strategy.mesh)
    batch = {name: jax.ShapeDtypeStruct((n * x.shape[0], *x.shape[1:]), x.dtype, sharding=place)
             for name, x in rows.batch.items()}
    step = make_train_step(task, optimizer, schedule, seed=0, accumulate=n)
    program = strategy.compile(step, target, batch, updates_state=True)
    memory, gib = program.run.memory_analysis(), 2 ** 30
    return dict(rows=batch['inputs'].shape, arguments=memory.argument_size_in_bytes / gib,
                temporaries=memory.temp_size_in_bytes / gib, peak=memory.peak_memory_in_bytes / gib)


if __name__ == '__main__':
    print(json.dumps(tiny_steps(pathlib.Path(sys.argv[1])) if len(sys.argv) == 2 else preset_step(*sys.argv[1:])))
