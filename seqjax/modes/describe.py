"""What a config describes, before anything of it exists: its parameters, the cost of a token, the memory of a device.

Nothing is allocated, compiled or written, and the devices of its mesh need not be here.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

from flax import linen, traverse_util
import jax
import jax.numpy as jnp

from seqjax import config as configs
from seqjax import parallel
from seqjax.analysis.cost.flops import matmul_flops
from seqjax.analysis.cost.model_size import Description, Parameter, local_bytes, saved_bytes
from seqjax.errors import FieldError, UserError
from seqjax.modes.command import experiment_files
from seqjax.modes.command.mode import Mode
from seqjax.params import freezing
from seqjax.runs.directory import RunDirectory
from seqjax.runs.origins import open_origin
from seqjax.runs.transfer import as_begun, find_origin, with_model_of
from seqjax.train.experiment import check_batch, load_data, make_task, optimizer_of
from seqjax.train.parameters import make_parameters

ASSUMED = 64  # tokens of a row, where no data is read and config.data.max_length=0
SHORT = 2  # steps of a row that parameters are made from: their shapes do not depend on it
DEEP = 4   # layers; a deeper model is counted as the same one with its layers in a loop, which is traced once


class Rows(NamedTuple):
    """What the data decides: about model and task, a batch of one row, and the shapes of a micro-batch of the longest rows."""

    for_model: dict
    for_task: dict
    sample: Any
    batch: Any


def describe_experiment(config, run=None):
    """A `Description` of what `config` describes. run: the RunDirectory whose tokens are counted; None: as for a new run.

    Where config.vocabulary says how many there are no data is read, and rows have config.data.sequence_length positions, or config.data.max_length.
    """
    configs.validate(config)
    configs.refuse_quantised(config, '--mode=describe is about')
    sizes = {axis: config.parallel[axis] for axis in parallel.AXES}
    mesh = configs.with_prefix('config', lambda: parallel.abstract_mesh(**sizes))
    strategy = configs.with_prefix('config', lambda: parallel.STRATEGIES[config.parallel.strategy](mesh))
    check_batch(config, mesh)
    config, rows = (config, _assumed(config)) if config.vocabulary else _from_data(config, run)
    task = make_task(config, for_model=rows.for_model, for_task=rows.for_task, sample=rows.sample['inputs'])
    parameters = make_parameters(config, task, rows.sample)
    tokens = _tokens(task, rows.batch)
    rows_of = f'{len(rows.batch["targets"]):,} {"images" if _of_images(rows.batch) else f"rows, {tokens:,} tokens"}'
    notes = [f'{strategy}; a micro-batch has {rows_of}']
    forward, training, activations = _costs(config, task, parameters, rows, notes)
    memory = _memory(config, task, parameters, strategy)
    micro_tokens = config.data.get('batch_tokens', 0) / config.train.gradient_accumulation_steps
    fuller = max(1, micro_tokens / tokens)  # batches of shorter pairs have more tokens
    memory['activations, at most'] = fuller * activations / (mesh.shape['data'] * mesh.shape['fsdp'])
    return Description(_parameters(parameters, strategy), forward and forward / tokens, training and training / tokens,
                       memory, notes, 'image' if _of_images(rows.batch) else 'token')


def _from_data(config, run):
    origin = find_origin(config, run) if run else open_origin(config.init_from) if config.init_from else None
    config, _ = with_model_of(origin, as_begun(config, run) if run else config)
    dataset = configs.with_prefix('config', lambda: load_data(config, run or _NoRun(), origin))
    if getattr(dataset, 'batching', 'pack') != 'pack':
        dataset = dataclasses.replace(dataset, batching='pad')  # every row as long as the longest, which needs the most memory
    sample, rows = dataset.sample(), config.data.batch_size // config.train.gradient_accumulation_steps
    micro = lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype)
    if _of_images(sample):  # all have one shape, and a thousand of them need not be read to know it
        batch = sample
    else:
        batch = dataset.training_batches(batch_size=config.data.batch_size, seed=config.seed)[0]
        micro = lambda x: jax.ShapeDtypeStruct((len(x) // config.train.gradient_accumulation_steps, *x.shape[1:]), x.dtype)
    return config, Rows(dataset.for_model(), dataset.for_task(), sample, jax.tree.map(micro, jax.eval_shape(lambda: batch)))


def _assumed(config):
    """Full rows of tokens, as many as the config says there are, for the task it names; two classes where there are any."""
    task, V, classes = configs.task_of(config), config.vocabulary, ('0', '1')
    T = config.data.get('sequence_length') or config.data.get('max_length') or ASSUMED
    for_model = dict(vocabulary=V, target_vocabulary=V, shared=config.data.get('shared_vocabulary') or task.data == 'spans', context_length=T,
                     **task.head(classes))
    spec, rows = functools.partial(task.batch_spec, config.data), config.data.batch_size
    if config.data.get('batch_tokens'):
        rows *= max(1, config.data.batch_tokens // (_tokens(task, spec(1, T)) * rows))
    sample = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), spec(1, SHORT))
    return Rows(for_model, dict(classes=classes), sample, spec(rows // config.train.gradient_accumulation_steps, T))


def _tokens(task, batch):
    """Positions of a batch, padding included; of pairs those of both sides; images, where they are some."""
    if _of_images(batch):
        return len(batch['targets'])
    B, T = jax.tree.leaves(batch['inputs'])[0].shape[:2]
    return B * T + (batch['targets'].size if task.decodes else 0)


def _of_images(batch):
    """Whether a batch has an image a row, [B, H, W, C], and one target for each."""
    return getattr(batch['inputs'], 'ndim', 0) == 4 and batch['targets'].ndim == 1


class _NoRun:
    """A run that has written nothing yet."""

    path = None

    def read(self, name):
        del name


# ------------------------------------------------------------------------------------------------ what the tables say

def _parameters(parameters, strategy):
    target = traverse_util.flatten_dict(strategy.placed(parameters.abstract, parameters.boxed), sep='/')
    names = {path: box.names if isinstance(box, linen.LogicallyPartitioned) else (None,) * box.ndim
             for path, box in traverse_util.flatten_dict(parameters.boxed, sep='/').items()}
    return [Parameter(path, x.shape, str(x.dtype), names[path], x.sharding.shard_shape(x.shape), parameters.is_trained(path))
            for path, x in target.items()]


def _memory(config, task, parameters, strategy):
    """{what: bytes on one device} of what a training step holds from beginning to end."""
    trained, _ = freezing.split(parameters.abstract, parameters.frozen)
    _, optimizer = configs.with_prefix('config.optimizer', lambda: optimizer_of(config, task.model.width))
    state = dict(parameters=parameters.abstract, gradients=trained, optimizer=jax.eval_shape(optimizer.init, trained),
                 **(dict(average=parameters.abstract) if config.optimizer.ema_decay else {}))
    statistics, kept = jax.eval_shape(functools.partial(_held, task, parameters.merge), parameters.abstract, parameters.batch_stats)
    state |= {what: held for what, held in {'statistics': statistics, 'state of the task': kept}.items() if held is not None}
    on_devices = strategy.placed(state, parameters.boxed)
    return {what: local_bytes(on_devices[what]) for what in state}


def _costs(config, task, parameters, rows, notes):
    """(operations of the forward pass, and of both, or None; bytes of activations) of a micro-batch on all devices."""
    task, parameters = _in_a_loop(config, task, rows) or (task, parameters)
    trained, frozen = freezing.split(parameters.abstract, parameters.frozen)
    held = jax.eval_shape(functools.partial(_held, task, parameters.merge), parameters.abstract, parameters.batch_stats)

    def loss(trained, frozen, held, batch, key=None):
        asked = task.at(jnp.int32(0)).holding(*held)
        keys = None if key is None else jax.random.split(key, jax.tree.leaves(batch)[0].shape[0])
        return asked(parameters.merge(freezing.join(trained, frozen)), asked.prepare(batch, keys), key).loss

    arguments = trained, frozen, held, rows.batch, jax.eval_shape(lambda: jax.random.key(0))
    activations = saved_bytes(loss, *arguments)
    try:
        return matmul_flops(loss, *arguments[:-1]), matmul_flops(jax.grad(loss), *arguments), activations
    except UserError as error:
        notes.append(f'operations are not counted: {error}')
        return None, None, activations


def _held(task, merge, params, batch_stats):
    """(running statistics, state of the task) before the first step."""
    return batch_stats, task.holding(batch_stats).initial_state(merge(params))


def _in_a_loop(config, task, rows):
    """(task, parameters) of the same network with its layers in a loop; None where it has none, or they cannot be."""
    if getattr(task.model, 'scan_layers', True) or task.model.depth <= DEEP:
        return None
    try:
        task = dataclasses.replace(task, model=task.model.clone(scan_layers=True))
        return task, make_parameters(config, task, rows.sample)
    except FieldError:  # patterns that name single layers
        return None


def _run(request):
    if about := request.file and experiment_files.say_variant(request.file):
        print(about, end='\n\n')
    print(describe_experiment(request.config, RunDirectory(request.workdir) if request.workdir else None))


MODE = Mode(_run, 'Count parameters, FLOPs and memory without a device or a run.', needs_workdir=False, reads=(
    'task', 'vocabulary', 'parameters', 'init_from', 'data', 'model', 'train.gradient_accumulation_steps', 'optimizer',
    'lora', 'parallel'))
