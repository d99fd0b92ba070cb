"""Writes a trained run as files that need none of its code, for `interop.load_exported` or any reader of StableHLO:

    model.stablehlo          the evaluation's forward pass, as `jax.export` writes it; the parameters are arguments
    parameters.safetensors   the running average where there is one, adapters merged, in 8 bits if config.quantise says so; names
                             are paths
    signature.json           inputs and outputs with shapes and dtypes, the task, the hash of every file
    codec.json               how text becomes numbers and back

Shapes: B rows, T steps (of a translation: of its target), S steps of a source, C characters of a word.
"""

import dataclasses
import hashlib
import json
import shutil
import sys
from typing import Any

from flax import linen, traverse_util
import jax
from jax import export
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

import seqjax
from seqjax import config as configs
from seqjax import models, nn, ops, tasks
from seqjax.data.text.codecs import FILES, saved_codec
from seqjax.errors import FieldError, UserError
from seqjax.interop.exported import FORMAT, PARAMETERS, PROGRAM, SIGNATURE, check_flatbuffers, read_exported
from seqjax.runs.restore import find_checkpoint, load_model, open_run
from seqjax.runs.saved_model import saved_model
from seqjax.modes.command.mode import CHECKPOINT, Mode, one_process
from seqjax.ops.attention.plain import plain
from seqjax.params import paths
from seqjax.tasks import Input
from seqjax.runs import files
from seqjax.train.sweeps import finished

PLATFORMS = ('cpu', 'cuda', 'tpu')


def export_run(config, workdir, checkpoint='latest', report=lambda text: print(text, file=sys.stderr)):
    """Writes workdir/export, in the place of what an earlier call wrote there; returns (its path, its signature).

    report: told of every platform that the program cannot be lowered for.
    """
    one_process('export')
    if jax.default_backend() != 'cpu':  # kernels that only this accelerator has would be part of the program
        raise UserError(f'--mode=export: is done on a CPU, for all platforms, and jax runs on {jax.default_backend()}; '
                        'set JAX_PLATFORMS=cpu')
    if config.quantise.weights == 'float8':
        raise FieldError('config.quantise.weights', 'float8', "numpy's reader of safetensors knows no such numbers; write 'int8'")
    check_flatbuffers()
    config, run = open_run(config, workdir)
    how = _codec(run)
    step, _ = find_checkpoint(run, checkpoint)
    if run.read('average.json') is None and finished(run.saved_config(), run.path) is None:
        raise UserError(f'--workdir={run.path}: the run is not finished; the command that started it goes on with it')
    model, params = load_model(run.path, str(step), **config.quantise)
    task = tasks.build(configs.task_name(config), model, **(how.for_task() if hasattr(how, 'classes') else {}))
    call = make_image_call(task, _image(run)) if _reads_numbers(how) else make_call(config, task, how)
    if isinstance(model, models.WithStatistics):
        params = traverse_util.unflatten_dict({**paths.by_path(params), **paths.by_path(model.batch_stats)}, sep='/')
    program = lower(call, params, report)
    signature = dict(
        format=FORMAT, task=configs.task_name(config), model=config.model.name, step=step,
        inputs={name: taken.describe() for name, taken in call.inputs.items()}, outputs=_outputs(program), longest=call.longest,
        classes=list(getattr(how, 'classes', ())), reading=[name for name in FILES if run.read(name) is not None],
        platforms=list(program.platforms), versions=dict(seqjax=seqjax.__version__, jax=jax.__version__))
    contents = {PROGRAM: bytes(program.serialize()),
                PARAMETERS: safetensors.numpy.save(jax.device_get(paths.by_path(params))),
                **{name: run.read(name).encode('utf-8') for name in signature['reading']}}
    return _write(run.path / 'export', signature, contents), signature


def _codec(run):
    """The codec of a run; one that reads no text is refused."""
    found = saved_codec(run.read)
    if found is None:
        raise UserError(f'--mode=export: {run.path} was not trained on text, and only what reads text is exported; use tasks '
                        'and models as a library')
    learned = configs.task_of(run.saved_config())
    if _reads_numbers(found) and not (learned.answer and _image(run)):
        raise UserError(f'--mode=export: {run.path} reads clips of frames, and only what reads text or images is exported; use '
                        'tasks and models as a library')
    return found


def _reads_numbers(codec):
    """Whether inputs are images or frames, and no text."""
    return hasattr(codec, 'classes') and codec.tokenizer is None


def _image(run):
    """(H, W, C) of the images of 8 bits that a run reads; None where it reads something else."""
    inputs = saved_model(run).given[0][0]
    return inputs.shape[1:] if getattr(inputs, 'dtype', None) == np.uint8 and len(inputs.shape) == 4 else None


# --------------------------------------------------------------------------------------------------------------- The call

@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """forward(parameters, **inputs) -> {name: array}, the Inputs by name, and {axis: its largest size} where there is one."""

    forward: Any
    inputs: dict
    longest: dict

    def __call__(self, params, inputs):
        """What is not whole is float32, whatever the model computes in."""
        with linen.intercept_methods(_attend_plainly):
            outputs = self.forward(params, **inputs)
        return {name: y.astype(jnp.float32) if jnp.issubdtype(y.dtype, jnp.floating) else y for name, y in outputs.items()}

    def arguments(self):
        """ShapeDtypeStructs of the inputs, with a symbol for every named axis."""
        names = sorted({axis for taken in self.inputs.values() for axis in taken.shape if isinstance(axis, str)})
        limits = [f'{axis} <= {size}' for axis, size in self.longest.items()]
        symbols = dict(zip(names, export.symbolic_shape(', '.join(names), constraints=limits)))
        return {name: jax.ShapeDtypeStruct(tuple(symbols.get(axis, axis) for axis in taken.shape), jnp.int32)
                for name, taken in self.inputs.items()}


def make_call(config, task, how=None):
    """The Call of a task. how: its codec."""
    T = _steps(config, task)
    longest = {'T': task.model.context_length} if T == 'T' and getattr(task.model, 'context_length', None) else {}
    return Call(*task.exported(T, how, config.data), longest)


def make_image_call(task, shape):
    """The same of a task on images of this shape: pixels as the files have them, normalised within. Running statistics are among
    the parameters, by their paths."""
    statistics = paths.by_path(task.model.batch_stats) if isinstance(task.model, models.WithStatistics) else {}

    def forward(params, images):
        held = task
        if statistics:
            flat = paths.by_path(params)
            part = lambda wanted: {path: x for path, x in flat.items() if (path in statistics) == wanted}
            stored, params = (traverse_util.unflatten_dict(part(wanted), sep='/') for wanted in (True, False))
            held = dataclasses.replace(task, model=models.WithStatistics(task.model.module, stored))
        return held.answers(params, held.prepare(dict(inputs=images.astype(jnp.uint8))))

    return Call(forward, dict(images=Input(('B', *shape), 255)), {})


def _steps(config, task):
    """'T' where rows may have any length, or up to a longest one, and otherwise the one length of all rows.

    Linear attention reads rows in chunks, and a linear recurrence takes log T rounds on accelerators: both count with T.
    """
    model = task.model
    cells = [ops.make_cell(name) for name in (getattr(model, 'cell', None), getattr(model, 'encoder', None)) if name in ops.CELLS]
    if getattr(model, 'attention', None) != 'linear' and not any(cell.linear for cell in cells):
        return 'T'
    if getattr(model, 'context_length', None):
        return model.context_length
    if not task.longest_row(config.data):
        raise FieldError('config.data.max_length', 0, 'linear cells and linear attention are exported for rows of one length, '
                         'and this run does not say how long its longest row is; train one with a limit, or another cell')
    return task.longest_row(config.data)


def _attend_plainly(method, arguments, options, context):
    """Attention by its equation: the kernels are chosen by T and by the machine, and here neither is known.

    A bias is looked up for every distance, as with a cache: as diagonals of a matrix it would need to know T.
    """
    if not isinstance(context.module, nn.MultiHeadAttention) or context.method_name != '_attend':
        return method(*arguments, **options)
    query, key, value, mask, bias, _ = arguments
    scale = query.shape[-1] ** -0.5 if context.module.scale is None else context.module.scale
    if bias is not None:
        mask = mask.replace(start=jnp.zeros(query.shape[0], jnp.int32))
    return plain(query, key, value, mask, bias, scale, dropout=0.0, dropout_key=None)


# ------------------------------------------------------------------------------------------------------------ The program

def lower(call, params, report):
    """The `jax.export.Exported` of a Call for all of PLATFORMS that it can be lowered for; report: told of the others.

    It takes {path: array} and not the tree: what reads it knows of no class that is in the tree.
    """
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), paths.by_path(params))
    names, structure = paths.parameter_paths(params), jax.tree.structure(params)

    def by_name(parameters, inputs):
        return call(jax.tree.unflatten(structure, [parameters[name] for name in names]), inputs)

    lowered = lambda platforms: export.export(jax.jit(by_name), platforms=platforms)(shapes, call.arguments())
    try:
        return lowered(PLATFORMS)
    except (NotImplementedError, ValueError):  # of one platform; which one is found out below
        able = []
    for platform in PLATFORMS:
        try:
            lowered([platform])
            able.append(platform)
        except (NotImplementedError, ValueError) as error:
            report(f'not for {platform}: {str(error).splitlines()[0]}')
    if not able:
        raise UserError('--mode=export: the model cannot be lowered for any platform, see above')
    return lowered(able)


def _outputs(program):
    """{name: shape and dtype}, the shape with names for axes of any size."""
    outputs = jax.tree.unflatten(program.out_tree, program.out_avals)
    return {name: dict(shape=[axis if isinstance(axis, int) else str(axis) for axis in y.shape], dtype=str(y.dtype))
            for name, y in outputs.items()}


# -------------------------------------------------------------------------------------------------------------- The files

def _write(final, signature, contents):
    """Writes beside, reads back, and only then takes the place of an earlier export; returns `final`."""
    writing, old = (final.with_name(f'.{final.name}.{what}') for what in ('writing', 'old'))
    if old.exists() and not final.exists():  # killed between two renames
        old.rename(final)
    if final.exists() and not (final / SIGNATURE).is_file():
        raise UserError(f'{final}: holds something else than an export (it has no {SIGNATURE}); move it away')
    try:
        for left_by_a_killed_process in (writing, old):
            shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
        writing.mkdir()
        for name, content in contents.items():
            (writing / name).write_bytes(content)
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        (writing / SIGNATURE).write_text(json.dumps({**signature, 'files': hashes}, indent=2, ensure_ascii=False) + '\n', 'utf-8')
        read_exported(writing)
        files.commit_directory(writing, final, old)
    except (OSError, UserError) as error:
        shutil.rmtree(writing, ignore_errors=True)
        kept = 'the earlier export is still there' if final.exists() else 'nothing was left behind'
        raise UserError(f'could not write {final}: {error}; {kept}') from error
    shutil.rmtree(old, ignore_errors=True)
    return final


def _run(request):
    jax.config.update('jax_platforms', 'cpu')  # what is chosen for an accelerator of this machine is not for all
    path, signature = export_run(request.config, request.workdir, request.flags.checkpoint)
    print(f'step {signature["step"]} for {", ".join(signature["platforms"])}: {path} (read it with interop.load_exported)')


MODE = Mode(_run, 'Export the forward pass as StableHLO, for CPU, CUDA and TPU.', (CHECKPOINT,), reads=('quantise',))
