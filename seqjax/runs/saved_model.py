"""model.json: what it takes to rebuild the model of a run by itself, without its task, its optimizer or its data.

    name, fields, from_data     the model, the fields that the config set, and those that the data decided
    given                       shapes and dtypes of what its init takes, for a batch of one row
    alpha                       of its LoRA adapters, where it has some
    decided                     names of the fields that the files of Hugging Face decided that the run began with
"""

import copy
import dataclasses
import json
from typing import Any

import jax
import numpy as np

from seqjax import config as configs
from seqjax import models
from seqjax.errors import UserError
from seqjax.fields import new_name
from seqjax.runs.directory import RunDirectory

FILE = 'model.json'


@dataclasses.dataclass(frozen=True)
class SavedModel:
    """A model as it is written down. given: (positional, named) arguments of its init, as ShapeDtypeStructs."""

    name: str
    fields: dict
    from_data: dict
    given: tuple
    alpha: float = 1.0
    decided: tuple = ()

    def build(self) -> Any:
        """The linen module."""
        if self.name not in models.MODELS:
            raise UserError(f'{self.name!r} is not registered; give the experiment file that registers it too: --config=FILE')
        return configs.with_prefix('config.model', lambda: models.build(self.name, self.from_data, **self.fields))

    def init(self, model: Any) -> Any:
        """Variables of the model; to be called where nothing is computed, as in jax.eval_shape."""
        arguments, named = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), self.given)
        return model.init(jax.random.key(0), *arguments, **named)

    def dumps(self) -> str:
        from_data = {name: dict(shape=value.shape, dtype='float32') if isinstance(value, np.ndarray) else value
                     for name, value in self.from_data.items()}  # of pretrained vectors, which are parameters by now
        given = jax.tree.map(lambda x: dict(shape=x.shape, dtype=str(x.dtype)), self.given)
        return json.dumps({**dataclasses.asdict(self), 'from_data': from_data, 'given': given}, indent=1) + '\n'


def loads(text: str) -> SavedModel:
    """What `dumps` wrote."""
    saved = json.loads(text)
    is_spec = lambda value: isinstance(value, dict) and value.keys() == {'shape', 'dtype'}
    spec = lambda value: jax.ShapeDtypeStruct(tuple(value['shape']), value['dtype']) if is_spec(value) else value
    arguments, named = jax.tree.map(spec, saved['given'], is_leaf=is_spec)
    from_data = {name: np.zeros(value['shape'], value['dtype']) if is_spec(value) else value
                 for name, value in saved['from_data'].items()}
    known = models.fields(saved['name']) if saved['name'] in models.MODELS else {}
    now = lambda field: new_name('model', field, known) or field  # what an older run calls otherwise
    return SavedModel(saved['name'], {now(field): value for field, value in saved['fields'].items()}, from_data,
                      (tuple(arguments), named), saved['alpha'], tuple(map(now, saved.get('decided', ()))))


def make_model(config: Any, from_data: dict, inputs: Any) -> tuple[Any, dict]:
    """(the linen module that a config describes, its fields). inputs: of a batch of one row, where config.parameters decides
    the width."""
    fields = config.model.to_dict()
    name = fields.pop('name')
    make = lambda **changed: models.build(name, from_data, **{**fields, **changed})
    model = configs.with_prefix('config.model', make)
    if config.parameters:
        fields['width'] = configs.with_prefix('config', lambda: models.match_width(
            lambda width: make(width=width), inputs, config.parameters, models.width_multiple(name, fields)))
        model = make(width=fields['width'])
    return model, fields


def describe_model(config: Any, task: Any, from_data: dict, sample: dict, decided: tuple = ()) -> SavedModel:
    """The SavedModel of a task's model. sample: a batch of one row."""
    fields = {name: value for name, value in config.model.to_dict().items() if name != 'name'}
    if config.parameters:
        fields['width'] = task.model.width
    return SavedModel(config.model.name, fields, dict(from_data), _given(task, sample), config.lora.alpha,
                      decided)


def saved_model(run: RunDirectory) -> SavedModel:
    """That of a run; of one from before model.json was written, from its config and how it reads text."""
    if (text := run.read(FILE)) is not None:
        return loads(text)
    config, codec = run.saved_config(), run.codec()
    row = jax.ShapeDtypeStruct((1, 2), np.int32)
    inputs = row
    if codec.kind == 'labelled' and codec.tokenizer is None:
        raise UserError(f'--workdir={run.path}: the run reads frames and was saved without {FILE}; the command that started it '
                        'writes one')
    if getattr(codec, 'spelling', None):
        inputs = dict(words=row, characters=jax.ShapeDtypeStruct((1, 2, codec.spelling_length), np.int32))
    pairs = (row, jax.ShapeDtypeStruct((1,), np.int32), row) if configs.task_of(config).decodes else (inputs,)
    from_data = codec.for_model()
    _, fields = make_model(config, from_data, jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), inputs))
    return SavedModel(config.model.name, fields, from_data, (pairs, {}), config.lora.alpha)


def _given(task, sample):
    """What the task gives the init of its model; what it makes of its own afterwards, as a head, is not made here."""
    class Probe:
        def init(self, key, *arguments, **named):
            raise _Given(arguments, named)

    probed = copy.copy(task)
    object.__setattr__(probed, 'model', Probe())
    try:
        probed.init(None, sample)
    except _Given as given:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *np.shape(x)[1:]), np.asarray(x).dtype), given.args)
    raise TypeError(f'{type(task).__name__}.init does not call the init of its model')


class _Given(Exception):
    """args: (positional, named) arguments of an init."""
