"""Runs as `--mode=export` writes them, without the code of their models: this needs jax, numpy, safetensors and flatbuffers.

    model = load_exported('runs/names/export')
    logits = model(tokens=tokens, lengths=lengths)['logits']

Inputs and outputs are numpy arrays, by the names in signature.json.
"""

import dataclasses
import functools
import hashlib
import pathlib

import jax
from jax import export
import numpy as np
import safetensors.numpy

from seqjax.errors import FieldError, UserError, suggestion
from seqjax.interop import hf_files

PROGRAM, PARAMETERS, SIGNATURE = 'model.stablehlo', 'parameters.safetensors', 'signature.json'
FORMAT = 1  # of the signature
NEEDED = ('inputs', 'longest', 'files', 'versions')  # of what is in it


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedModel:
    """What `load_exported` has read.

    signature: signature.json. parameters: {path: numpy array}. program: takes the parameters and the inputs, both by name, and
    returns the outputs by name.
    """

    signature: dict
    parameters: dict
    program: export.Exported

    def __call__(self, **inputs):
        """{name: numpy array} of inputs by name, whatever whole numbers they are. Compiled once for every shape."""
        return jax.device_get(self._run(self._on_device, check_inputs(self.signature, inputs)))

    @functools.cached_property
    def _run(self):
        return jax.jit(self.program.call)

    @functools.cached_property
    def _on_device(self):
        return jax.device_put(self.parameters)


def load_exported(directory):
    """The ExportedModel in a directory that `launch.py --mode=export` has written, for the platform that jax runs on."""
    model, here = read_exported(directory), export.default_export_platform()
    if here not in model.program.platforms:
        raise UserError(f'{directory}: was exported for {", ".join(model.program.platforms)}, and jax runs on {here} here; set '
                        f'JAX_PLATFORMS={model.program.platforms[0]}')
    return model


def read_exported(directory):
    """The same for any platform; a file that is missing, or has changed since it was written, is refused."""
    directory, problems = pathlib.Path(directory), []
    if not directory.is_dir():
        raise UserError(f'{directory}: there is no such directory; launch.py --mode=export writes one')
    signature = hf_files.read_json(directory / SIGNATURE, problems)
    if not problems and signature.get('format') != FORMAT:
        problems.append(f'{SIGNATURE}: format={signature.get("format")!r}, and this seqjax reads {FORMAT}; export the run again')
    elif not problems and (missing := [key for key in NEEDED if key not in signature]):
        problems.append(f'{SIGNATURE}: has no {", ".join(missing)}')
    contents = {} if problems else {name: _read(directory / name, digest, problems)
                                    for name, digest in signature['files'].items()}
    if problems:
        raise UserError(f'{directory} cannot be read as an exported run:' + ''.join(f'\n  {problem}' for problem in problems))
    return ExportedModel(signature, safetensors.numpy.load(contents[PARAMETERS]),
                         _program(directory, contents[PROGRAM], signature))


def check_flatbuffers():
    """jax keeps programs as flatbuffers, and does not install that package by itself."""
    try:
        import flatbuffers  # noqa: F401
    except ImportError:
        raise UserError('jax needs the package flatbuffers to write and read programs, and it is not here; '
                        'pip install flatbuffers') from None


def _read(path, digest, problems):
    """The bytes of a file, if they are those that were written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        problems.append(f'{path.name}: {error.strerror or error}')
        return b''
    if hashlib.sha256(content).hexdigest() != digest:
        problems.append(f'{path.name}: is damaged, or is not the file that {SIGNATURE} is about')
    return content


def _program(directory, content, signature):
    check_flatbuffers()
    try:
        return export.deserialize(bytearray(content))
    except ValueError as error:  # of another version
        raise UserError(f'{directory / PROGRAM}: jax {jax.__version__} cannot read what jax {signature["versions"]["jax"]} '
                        f'wrote ({error}); export the run again') from error


# ----------------------------------------------------------------------------------------------------------------- Inputs

def check_inputs(signature, inputs):
    """The inputs as the program takes them; what does not fit the signature is refused by its name."""
    known, sizes = signature['inputs'], {}
    for name in inputs:
        if name not in known:
            raise FieldError(name, '...', f'the model has no such input; {suggestion(name, known)}')
    arrays = {}
    for name, takes in known.items():
        if inputs.get(name) is None:
            raise FieldError(name, None, f'the model needs it: whole numbers, {_shape(takes)}')
        value = np.asarray(inputs[name])
        if value.dtype.kind not in 'iu' or value.ndim != len(takes['shape']):
            raise FieldError(name, f'{value.dtype} {list(value.shape)}', f'must be whole numbers, {_shape(takes)}')
        for axis, size in zip(takes['shape'], value.shape):
            _check_size(name, takes, value.shape, axis, size, sizes, signature['longest'])
        arrays[name] = value
    for name, value in arrays.items():
        _check_values(name, known[name], value, sizes)
    return {name: value.astype(known[name]['dtype']) for name, value in arrays.items()}


def _check_size(name, takes, shape, axis, size, sizes, longest):
    """axis: a number, or the name of one that all inputs share; sizes: what those are that were met before."""
    if isinstance(axis, int):
        if size != axis:
            raise FieldError(name, list(shape), f'must be {_shape(takes)}; fill shorter rows up with 0')
        return
    if not 1 <= size <= longest.get(axis, size):
        most = f' and at most {longest[axis]}' if axis in longest else ''
        raise FieldError(name, list(shape), f'must be {_shape(takes)} with {axis} at least 1{most}')
    if sizes.setdefault(axis, size) != size:
        raise FieldError(name, list(shape), f'must be {_shape(takes)}, and the inputs before it have {axis}={sizes[axis]}')


def _check_values(name, takes, value, sizes):
    """at_most: a number, or the name of an axis."""
    most = sizes.get(takes['at_most'], takes['at_most'])
    if not 0 <= value.min() <= value.max() <= most:
        raise FieldError(name, int(value.min() if value.min() < 0 else value.max()), f'must be at least 0 and at most {most}')


def _shape(takes):
    return f'[{", ".join(map(str, takes["shape"]))}]'
