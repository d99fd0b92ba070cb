"""seqjax: sequence models in JAX, from the Elman RNN to the Transformer.

    from seqjax import decode, models, nn, ops

    run = seqjax.open_run('runs/gpt')        # .model, .params, .config, .codec, .generate('class '), .evaluate(), ...
    seqjax.train(config, 'runs/new')         # the room of what trains; called, it trains

A room of the house is imported when it is first used, so `import seqjax` costs nothing.
"""

import importlib

__version__ = '0.1.0'

ROOMS = ('analysis', 'config', 'data', 'decode', 'errors', 'fields', 'interop', 'lazy', 'metrics', 'models', 'modes', 'nn', 'ops',
         'parallel', 'params', 'registry', 'run', 'runs', 'special_tokens', 'tasks', 'train')


def __getattr__(name):
    if name in ROOMS:
        return importlib.import_module(f'seqjax.{name}')
    if name == 'open_run':
        return importlib.import_module('seqjax.run').open_run
    raise AttributeError(f"module 'seqjax' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *ROOMS, 'open_run'])
