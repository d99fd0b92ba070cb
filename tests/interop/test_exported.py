"""What load_exported accepts, and what it says of the rest. The models here are one line; see tests/modes/test_export.py."""

import hashlib
import json
import subprocess
import sys

import jax
from jax import export
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from seqjax import interop
from seqjax.errors import FieldError, UserError
from seqjax.interop import exported
from tests.processes import ROOT, plain_environment

V, LONGEST = 7, 6


@pytest.fixture
def without_flatbuffers(monkeypatch):
    monkeypatch.setitem(sys.modules, 'flatbuffers', None)


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """An exported model of tokens [B, T] and lengths [B], whose answer [B] is the sum of the weights of a row."""
    pytest.importorskip('flatbuffers')
    return write(tmp_path_factory.mktemp('exported') / 'export')


def write(folder, platforms=('cpu', 'tpu')):
    def total(parameters, inputs):
        tokens, lengths = inputs['tokens'], inputs['lengths']
        return dict(total=jnp.where(jnp.arange(tokens.shape[1]) < lengths[:, None], parameters['w'][tokens], 0).sum(axis=1))

    B, T = export.symbolic_shape('B, T')
    shapes = dict(tokens=jax.ShapeDtypeStruct((B, T), jnp.int32), lengths=jax.ShapeDtypeStruct((B,), jnp.int32))
    program = export.export(jax.jit(total), platforms=platforms)(dict(w=jax.ShapeDtypeStruct((V,), jnp.float32)), shapes)
    contents = {exported.PROGRAM: bytes(program.serialize()),
                exported.PARAMETERS: safetensors.numpy.save(dict(w=np.arange(V, dtype=np.float32))), 'tokenizer.json': b'{}'}
    takes = lambda at_most, *shape: dict(shape=shape, dtype='int32', at_most=at_most)
    signature = dict(format=exported.FORMAT, inputs=dict(tokens=takes(V - 1, 'B', 'T'), lengths=takes('T', 'B')),
                     longest=dict(T=LONGEST), versions=dict(jax='0.0.1'),
                     files={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()})
    folder.mkdir()
    for name, content in {**contents, exported.SIGNATURE: json.dumps(signature).encode()}.items():
        (folder / name).write_bytes(content)
    return folder


def copied(made, folder, changes):
    """The same folder with other bytes in some files; None: without it."""
    folder.mkdir()
    for path in made.iterdir():
        content = changes.get(path.name, path.read_bytes())
        if content is not None:
            (folder / path.name).write_bytes(content)
    return folder


def refused(function, *arguments, **options):
    with pytest.raises(UserError) as caught:
        function(*arguments, **options)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------ what is read

def test_any_whole_numbers_are_taken_and_numpy_arrays_come_back(made):
    model = interop.load_exported(made)
    found = model(tokens=[[1, 2, 3], [4, 5, 6]], lengths=np.array([3, 1], np.uint8))
    assert list(found) == ['total'] and isinstance(found['total'], np.ndarray)
    np.testing.assert_array_equal(found['total'], [6, 4])
    np.testing.assert_array_equal(model(tokens=np.int64([[6] * LONGEST]), lengths=[0])['total'], [0])


def test_no_model_and_no_flax_is_imported(made):
    code = (f'from seqjax import interop; import sys; model = interop.load_exported({str(made)!r})\n'
            'print(model(tokens=[[5]], lengths=[1])["total"])\n'
            "print(sorted({'flax', 'seqjax.models', 'seqjax.nn', 'seqjax.train', 'optax'} & set(sys.modules)))")
    ended = subprocess.run([sys.executable, '-c', code], cwd=ROOT, env=plain_environment(), capture_output=True, text=True)
    assert ended.stdout == '[5.]\n[]\n', ended.stderr


def test_every_name_of_the_room_is_found_when_it_is_asked_for():
    assert {'load_exported', 'from_hf', 'to_torch_rnn'} < set(interop.__all__) <= set(dir(interop))
    for name in interop.__all__:
        assert getattr(interop, name).__module__.startswith('seqjax.interop.')
    with pytest.raises(AttributeError, match="module 'seqjax.interop' has no attribute 'to_tf'"):
        interop.to_tf


# ------------------------------------------------------------------------------------------------ what is refused

def flipped(made, name):
    content = bytearray((made / name).read_bytes())
    content[len(content) // 2] ^= 1
    return bytes(content)


@pytest.mark.parametrize('name', [exported.PROGRAM, exported.PARAMETERS, 'tokenizer.json'])
def test_files_that_are_damaged_or_missing_are_named(name, made, tmp_path):
    one_bit = copied(made, tmp_path / 'bit', {name: flipped(made, name)})
    assert refused(interop.load_exported, one_bit) == (
        f'{one_bit} cannot be read as an exported run:\n  {name}: is damaged, or is not the file that signature.json is about')
    missing = copied(made, tmp_path / 'missing', {name: None})
    assert f'{missing} cannot be read as an exported run:\n  {name}: No such file' in refused(interop.load_exported, missing)


@pytest.mark.parametrize('content, says', [
    (None, 'signature.json: No such file or directory'),
    (b'{"format": 1, "inp', 'signature.json: is not JSON'),
    (b'[]', 'signature.json: holds no JSON object'),
    (b'{"format": 2}', 'signature.json: format=2, and this seqjax reads 1; export the run again'),
    (b'{"format": 1, "inputs": {}}', 'signature.json: has no longest, files, versions'),
])
def test_a_signature_that_is_none_is_named(content, says, made, tmp_path):
    folder = copied(made, tmp_path / 'export', {exported.SIGNATURE: content})
    assert says in refused(interop.load_exported, folder)


def test_another_directory_platform_or_version(made, tmp_path):
    assert refused(interop.load_exported, tmp_path / 'none') == (
        f'{tmp_path / "none"}: there is no such directory; launch.py --mode=export writes one')
    elsewhere = write(tmp_path / 'elsewhere', platforms=('tpu', 'cuda'))
    assert refused(interop.load_exported, elsewhere) == (
        f'{elsewhere}: was exported for tpu, cuda, and jax runs on cpu here; set JAX_PLATFORMS=tpu')


def test_a_program_of_another_version(made, monkeypatch):
    def unknown(content):
        raise ValueError('version 99')

    monkeypatch.setattr(export, 'deserialize', unknown)
    assert refused(interop.load_exported, made).endswith('cannot read what jax 0.0.1 wrote (version 99); export the run again')


def test_without_flatbuffers_the_way_out_is_named(without_flatbuffers):
    assert refused(exported.check_flatbuffers) == ('jax needs the package flatbuffers to write and read programs, and it is not '
                                                   'here; pip install flatbuffers')


SIGNATURE = dict(inputs=dict(tokens=dict(shape=['B', 'T'], dtype='int32', at_most=V - 1),
                             characters=dict(shape=['B', 'T', 4], dtype='int32', at_most=9),
                             lengths=dict(shape=['B'], dtype='int32', at_most='T')), longest=dict(T=LONGEST))
FITS = dict(tokens=np.zeros((2, 3), int), characters=np.zeros((2, 3, 4), int), lengths=[3, 1])


@pytest.mark.parametrize('name, value, says', [
    ('tokns', [1], "tokns='...': the model has no such input; did you mean 'tokens'?"),
    ('lengths', None, 'lengths=None: the model needs it: whole numbers, [B]'),
    ('tokens', np.zeros((2, 3)), "tokens='float64 [2, 3]': must be whole numbers, [B, T]"),
    ('tokens', [1, 2, 3], "tokens='int64 [3]': must be whole numbers, [B, T]"),
    ('tokens', np.zeros((2, 0), int), 'tokens=[2, 0]: must be [B, T] with T at least 1 and at most 6'),
    ('tokens', np.zeros((2, 7), int), 'tokens=[2, 7]: must be [B, T] with T at least 1 and at most 6'),
    ('tokens', np.zeros((0, 3), int), 'tokens=[0, 3]: must be [B, T] with B at least 1'),
    ('characters', np.zeros((2, 3, 5), int), 'characters=[2, 3, 5]: must be [B, T, 4]; fill shorter rows up with 0'),
    ('characters', np.zeros((2, 4, 4), int), 'characters=[2, 4, 4]: must be [B, T, 4], and the inputs before it have T=3'),
    ('lengths', [1, 2, 3], 'lengths=[3]: must be [B], and the inputs before it have B=2'),
    ('lengths', [3, 4], 'lengths=4: must be at least 0 and at most 3'),
    ('lengths', [-1, 3], 'lengths=-1: must be at least 0 and at most 3'),
    ('tokens', [[0, 1, 2], [7, 0, 0]], 'tokens=7: must be at least 0 and at most 6'),
])
def test_inputs_that_do_not_fit_are_named_with_the_way_out(name, value, says):
    with pytest.raises(FieldError) as caught:
        exported.check_inputs(SIGNATURE, {**FITS, name: value})
    assert str(caught.value) == says
    assert exported.check_inputs(SIGNATURE, FITS)['lengths'].dtype == np.int32
