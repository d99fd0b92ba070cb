"""Experiment files: what they say about themselves. An experiment is a Python file with

    get_config()                         the config, or
    VARIANTS = ('elman', 'lstm')         the names of several, to be compared, and
    get_config(variant='lstm')           the config of one of them

`FILE.py:VARIANT` names one. A file may also register cells, tasks, models, modes and so on of its own. Only `load` and `say_variant` run it; nothing here
imports jax.
"""

import ast
import importlib.util
import inspect
import itertools
import os
import pathlib
import sys

from seqjax.errors import UserError, suggestion

FOLDER = pathlib.Path(__file__).parents[3] / 'experiments'


def ours():
    """The experiments of this project."""
    return sorted(FOLDER.glob('*/*.py'))


def split(name):
    """'experiments/recurrence/adding.py:gru' -> (its path, 'gru'); without a variant ''."""
    path, _, variant = name.partition(':')
    return pathlib.Path(path), variant


def title(path):
    """The first line of the docstring."""
    return (ast.get_docstring(ast.parse(path.read_text('utf-8'))) or '').partition('\n')[0]


def variants(path):
    """The names in VARIANTS; () where the experiment is a single one."""
    for node in ast.parse(path.read_text('utf-8')).body:
        if isinstance(node, ast.Assign) and [getattr(target, 'id', '') for target in node.targets] == ['VARIANTS']:
            return tuple(ast.literal_eval(node.value))
    return ()


def check(name):
    """Refuses what is no experiment, and a variant that it does not have."""
    path, variant = split(name)
    if not path.is_file():
        known = [os.path.relpath(experiment) for experiment in ours()]
        near = [experiment for experiment in known if path.stem == pathlib.Path(experiment).stem]
        raise UserError(f'--config={name}: no such file; ' + (f'did you mean {near[0]}?' if near else
                        f'the experiments are: {", ".join(known)}'))
    if path.suffix != '.py' or 'get_config' not in path.read_text('utf-8'):
        raise UserError(f'--config={name}: an experiment is a Python file with get_config()')
    try:
        known = variants(path)
    except SyntaxError as error:
        raise UserError(f'--config={name}: line {error.lineno} is not Python: {error.msg}') from None
    except ValueError:
        raise UserError(f'--config={name}: VARIANTS must be a plain tuple of names, so that it can be read without running '
                        'the file') from None
    if variant and not known:
        raise UserError(f'--config={name}: the experiment has no variants; write --config={path}')
    if variant and variant not in known:
        raise UserError(f'--config={name}: no such variant; {suggestion(variant, known)}')


def load(name):
    """The config that the file makes, before the command line changes it."""
    path, variant = split(name)
    get_config = _module(path).get_config
    return get_config(variant) if variant else get_config()


def say_variant(name):
    """Which variant `load` makes the config of, and how to name another, in a line; '' where the experiment is a single one."""
    path, variant = split(name)
    if not (known := variants(path)):
        return ''
    if not variant:
        variant = next(iter(inspect.signature(_module(path).get_config).parameters.values())).default
    return f'variant {variant} of {path}; for another write --config={path}:NAME, with one of: {", ".join(known)}'


def what_to_type():
    """The ways to begin, and all experiments by subject."""
    lines = ['To train:  python launch.py --config=experiments/SUBJECT/NAME.py --workdir=DIR [--config.model.width=256 ...]',
             'Before it: python launch.py --config=experiments/SUBJECT/NAME.py --mode=describe [--config.parallel.fsdp=8 ...]',
             'After it:  python launch.py --workdir=DIR --mode=eval|generate|predict|score|xray|cells|average|export', '',
             'Experiments (all variants are trained and compared, or the one that is named, as in NAME.py:VARIANT):']
    for folder, paths in itertools.groupby(ours(), lambda path: path.parent.name):
        lines.append(f'  experiments/{folder}/')
        for path in paths:
            lines.append(f'    {path.name:24} {title(path)}')
            if known := variants(path):
                lines.append(f'{"variants:":>38} {", ".join(known)}')
    return '\n'.join(lines)


def _module(path):
    """The file as a module, executed once; what it registers is registered with it."""
    name, text = f'experiment_{path.stem}', path.read_text('utf-8')
    if getattr(sys.modules.get(name), 'text_of_experiment', None) != (str(path.resolve()), text):
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.text_of_experiment = str(path.resolve()), text
    return sys.modules[name]
