"""A config and a text so small that a whole run takes seconds."""

import contextlib
import pathlib
import random
import string
import sys
from unittest import mock

from seqjax import config as configs
from seqjax import data, models, tasks
from seqjax.modes.command import experiment_files

_SIZES = {
    'data': dict(batch_size=8, sequence_length=16),
    'train': dict(steps=4, eval_every=0, eval_batches=2, save_every=0),
    'optimizer': dict(warmup_steps=0),
    'decode': dict(max_new_tokens=8),
}
_MODEL_SIZES = dict(width=16, depth=1)


def tiny_config(model='gpt', /, **sections):
    """`seqjax.config.defaults(model, task=..., source=...)`, small; sections change fields: `tiny_config(train=dict(steps=2), seed=1)`.

    It has the embedded source: give `data=dict(source=f'file:{write_text(path)}')` to train on a short text.
    """
    data = sections.get('data', {})
    config = configs.defaults(model, task=sections.get('task', ''), source=data.get('source', 'python'))
    config.model.update({field: value for field, value in _MODEL_SIZES.items() if field in config.model})
    if model == 'gpt':
        config.model.heads = 2
    if model == 'resnet':
        config.model.depth = 8  # 6 n + 2
    for section, fields in _SIZES.items():
        config[section].update({field: value for field, value in fields.items() if field in config[section]})
    with config.unlocked():
        for section, fields in sections.items():
            if isinstance(fields, dict):
                for field in fields:
                    path = f'{section}.{field}'
                    assert field in config[section] or path not in configs.RENAMED and configs.why_unknown(path, config), f'no field {path}'
                config[section].update(fields)
            else:
                config[section] = fields
    return config


def first_task(model):
    """The name of a task that model `model` can learn, the most usual one."""
    kind = models.MODELS[model].output_kinds[0]
    return next(name for name, task in tasks.TASKS.items() if task.output_kind == kind and task.data != 'spans')


def write_text(path, characters=20000, seed=0):
    """Writes lines of random words, the same for the same seed; returns the path."""
    rng = random.Random(seed)
    words = [''.join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 8))) for _ in range(200)]
    lines, length = [], 0
    while length < characters:
        lines.append(' '.join(rng.choices(words, k=rng.randint(3, 12))) + '.\n')
        length += len(lines[-1])
    path = pathlib.Path(path)
    path.write_text(''.join(lines)[:characters], 'utf-8')
    return path


@contextlib.contextmanager
def loaded(path):
    """An experiment file as a module; the models and sources that it registers are known within, and let go afterwards."""
    name = f'experiment_{path.stem}'
    with (mock.patch.object(models.MODELS, '_things', dict(models.MODELS)),
          mock.patch.object(data.SOURCES, '_things', dict(data.SOURCES))):
        experiment_files.load(str(path))
        try:
            yield sys.modules[name]
        finally:
            del sys.modules[name]
