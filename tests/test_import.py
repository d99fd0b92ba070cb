"""The house rules that imports must keep."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ORDER = ['errors', 'registry', 'special_tokens', 'lazy', 'fields', 'ops', 'nn', 'models', 'metrics', 'tasks', 'parallel', 'params', 'decode', 'data', 'interop',
         'config', 'analysis', 'runs', 'train', 'modes', 'run']  # every room; imports point only to the left
OWNERS = {'absl.flags': 'launch.py', 'absl': 'launch.py', 'orbax': 'seqjax/runs/checkpoints.py', 'grain': 'seqjax/data',
          'tensorflow_datasets': 'seqjax/data', 'pickle': 'nobody', 'yaml': 'nobody', 'torch': 'nobody', 'tensorflow': 'nobody'}
FILES = sorted([*ROOT.glob('seqjax/**/*.py'), ROOT / 'launch.py'])


def imported(path):
    for node in ast.walk(ast.parse(path.read_text('utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{path}: relative import'
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_to_the_left_and_libraries_stay_with_their_owner(path):
    where = path.relative_to(ROOT).as_posix()
    room = path.relative_to(ROOT).parts[1].removesuffix('.py') if where.startswith('seqjax/') else None
    for name in imported(path):
        for library, owner in OWNERS.items():
            if name == library or name.startswith(library + '.'):
                assert where.startswith(owner), f'{where} imports {name}, which belongs to {owner}'
        parts = name.split('.')
        if parts[0] == 'seqjax' and len(parts) > 1 and where not in ('launch.py', 'seqjax/__init__.py'):
            options = 'options' in parts[2:]  # of a room: fields of the config, which `config` puts together
            assert options or ORDER.index(parts[1]) <= ORDER.index(room), f'{where} reaches right into {parts[1]}'
        if path.stem == 'options':
            assert parts[0] in ('dataclasses', 'typing') or parts[1] in ('errors', 'fields', 'ops'), where
        if room == 'ops' and parts[0] != 'seqjax':
            assert parts[0] in ('jax', *sys.stdlib_module_names), f'{where} imports {name}'


def test_importing_seqjax_loads_nothing_heavy():
    code = "import seqjax, sys; print(sorted({'jax', 'flax', 'orbax', 'grain', 'tensorflow', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout == '[]\n'


def test_training_needs_no_tensorflow_and_no_torch():
    code = "import seqjax.train, sys; print(sorted({'tensorflow', 'torch', 'tensorflow_datasets'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout == '[]\n'


def test_every_room_is_reachable_from_the_package():
    import seqjax

    folders, files = ROOT.glob('seqjax/*/__init__.py'), ROOT.glob('seqjax/[a-z]*.py')
    rooms = {path.parent.name for path in folders} | {path.stem for path in files}
    assert rooms == set(seqjax.ROOMS)
    for room in rooms:
        assert getattr(seqjax, room).__doc__
