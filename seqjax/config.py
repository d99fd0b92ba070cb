"""The config of an experiment: the sections that the rooms declare, put together for a model, a task and a source."""

import dataclasses
import json

from flax import traverse_util
from ml_collections import ConfigDict

from seqjax import data, decode, fields, models, tasks
from seqjax.analysis.cost.options import CostOptions
from seqjax.data.options import DataOptions, kinds as kinds_of_data
from seqjax.decode.options import DecodeOptions, kinds as kinds_of_decoding
from seqjax.errors import FieldError, UserError, suggestion, with_prefix
from seqjax.fields import OFF_OR_POSITIVE, RENAMED, between, field
from seqjax.parallel.options import ParallelOptions
from seqjax.params.options import LoRAOptions, QuantiseOptions
from seqjax.train.options import OptimizerOptions, TrainOptions, check_stopping


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """The fields of no section."""

    seed: int = field(0, 'Seed of parameters, dropout and the order of the data.', between(0, 2 ** 32))  # jax takes 32 bits
    task: str = field('', "Task, one of tasks.TASKS; '': what the source is for.")
    parameters: int = field(0, 'Number of parameters, about, for which model.width is chosen; 0: as model.width says.', OFF_OR_POSITIVE)
    vocabulary: int = field(0, 'Vocabulary size, for --mode=describe without data; 0: what the data says.', fields.that(
        lambda value: value >= 0, 'must be a number of tokens, or 0 for what the data says'))
    init_from: str = field('', "Pretrained initialization: another run, 'DIR', 'DIR@STEP' or 'DIR@best', or a directory of Hugging "
                           "Face's files: docs/transfer.md; '': from scratch.")
    init_map: str = field('', "Other names for its parameters, 'encoder/*=*,head/*=': docs/transfer.md.")
    init_fresh: str = field('', 'Patterns of parameters that are drawn all the same.')


OPTIONS = dict(data=DataOptions, train=TrainOptions, optimizer=OptimizerOptions, lora=LoRAOptions, parallel=ParallelOptions,
               decode=DecodeOptions, quantise=QuantiseOptions, cost=CostOptions)
SECTIONS = ('data', 'model', 'train', 'optimizer', 'lora', 'parallel', 'decode', 'quantise', 'cost')
KIND = ('model.name', 'task', 'data.source')  # decide which fields there are
OPTIONAL = tuple(f'optimizer.{found.name}' for found in dataclasses.fields(OptimizerOptions) if found.default is None)


def defaults(model: str, *, task: str = '', source: str = 'python') -> ConfigDict:
    """All fields of a run with their defaults: of this model, of the task's kind of data and way of decoding.

    Args:
        model: a name of `models.MODELS`.
        task: a name of `tasks.TASKS`; '': the one that the source is for.
        source: what `config.data.source` says.
    """
    config = fields.defaults(RunOptions, ())
    config.task = task
    kinds = _kinds(with_prefix('config', lambda: tasks.TASKS[task or data.default_task(source)]), source)
    for section in SECTIONS:
        config[section] = fields.defaults(options_of(section), kinds.get(section, ())) if section in OPTIONS else ConfigDict(
            dict(name=model, **with_prefix('config.model', lambda: models.fields(model))))
    config.data.source = source
    return config


def for_another(config: ConfigDict, changes: dict) -> ConfigDict:
    """The config of a run of another model, task or source, with what was chosen of it that such a run has, too. changes: some of
    KIND."""
    make = lambda now: defaults(now['model.name'], task=now['task'], source=now['data.source'])
    old, now = flatten(config), {**flatten(config), **changes}
    usual, new = flatten(make(old)), make(now)
    for path in flatten(new).keys() & old.keys() - set(KIND):
        if old[path] != usual[path]:
            put(new, path, old[path])
    return new


def validate(config: ConfigDict) -> None:
    """Raises a FieldError that names the first impossible value; needs no device, builds and compiles nothing."""
    check_kind(config)
    model, task, name, source = config.model, task_of(config), task_name(config), config.data.source
    with_prefix('config', lambda: data.check_task(source, name))
    with_prefix('config.model', lambda: models.check_task(model.name, name, task.output_kind))
    kinds, run = _kinds(task, source), f'is for {name} on {source!r}'
    fields.check('config', RunOptions, (), {field: config[field] for field in config if field not in SECTIONS}, run)
    for section in OPTIONS:
        options = options_of(section)
        fields.check(f'config.{section}', options, kinds.get(section, ()), config[section], run)
        for missing in fields.chosen(options, kinds.get(section, ())).keys() - config[section].keys():
            raise UserError(f'config.{section} has no field {missing!r}; this run {run}: make its config with '
                            f'seqjax.config.defaults({model.name!r}, task={config.task!r}, source={source!r})')
    check_stopping(config.train)
    _check_rows(config)
    _check_kinds_of_models(config, task)
    if config.decode != fields.defaults(DecodeOptions, kinds['decode']):  # what was left alone is right
        _check_decoding(config)
    with_prefix('config.train', lambda: task.settings(config.train))


def check_model(config: ConfigDict) -> None:
    """Raises a FieldError that names an impossible field of config.model, before data is read: for many runs one after another."""
    model, options = config.model.to_dict(), config.data
    with_prefix('config.model', lambda: models.build(
        model.pop('name'), vocabulary=2, target_vocabulary=2, shared=options.get('shared_vocabulary') or task_of(config).data == 'spans',
        context_length=options.get('sequence_length'), per_step=task_of(config).per_step,
        characters=2 if options.get('characters_per_word') else None, **model))


def _check_rows(config):
    """What concerns rows and their parts must fit together."""
    options, parts = config.data, config.train.gradient_accumulation_steps
    if options.batch_size % parts:
        raise FieldError('config.train.gradient_accumulation_steps', parts, f'must divide data.batch_size={options.batch_size}')
    for name in ('init_map', 'init_fresh'):
        if config[name] and not config.init_from:
            raise FieldError(f'config.{name}', config[name], 'is for parameters of another run; set config.init_from too')
    if options.get('lowercase') and options.tokenizer in ('byte', 'bpe', 'unigram') and task_of(config).data in ('labelled', 'masked'):
        raise FieldError('config.data.lowercase', True, 'is for characters and words, and config.data.tokenizer='
                         f"{options.tokenizer!r}; set it to False, or the tokenizer to 'char' or 'word'")
    if options.get('documents') and options.get('stateful'):
        raise FieldError('config.data.stateful', True, 'documents do not go on from one another; set it to false, or '
                         "config.data.documents to ''")
    if options.get('batching') == 'pack' and not task_of(config).per_step:
        raise FieldError('config.data.batching', 'pack', 'puts several sequences in a row, which is for tagging, and the '
                         f"task is {task_name(config)}; write 'bucket'")
    if config.quantise.activations and not config.quantise.weights:
        raise FieldError('config.quantise.activations', True, "goes together with 8-bit weights; set config.quantise.weights='int8'")


def _check_kinds_of_models(config, task):
    """What is asked of a model must be something that models of its kind do."""
    name, model, options = config.model.name, config.model, config.data
    if config.train.xray_every and (task.decodes or not models.is_recurrent(name, model)):
        reason = ('is for models that read one sequence, and those for translation read two' if task.decodes else
                  f'{name!r} has no recurrent layer to look into')
        raise FieldError('config.train.xray_every', config.train.xray_every, f'{reason}; set it to 0')
    if options.get('stateful') and name not in models.able('carries'):
        raise FieldError('config.data.stateful', True, f'{name!r} has no state to carry; set it to false, or use a model that '
                         f'has one: {", ".join(models.able("carries"))}')
    if options.get('documents') and task.data == 'text' and name not in models.able('packs'):
        raise FieldError('config.data.documents', options.documents, f'{name!r} cannot keep the documents of a '
                         f"row apart; set it to '', or use a model that can: {', '.join(models.able('packs'))}")
    if bool(options.get('characters_per_word')) != bool(model.get('character_encoder')):
        raise FieldError('config.data.characters_per_word', options.get('characters_per_word', 0), 'goes together with '
                         f'config.model.character_encoder={model.get("character_encoder")!r}; set both or neither')
    if getattr(models.MODELS[name], 'marks_rows', False) and task.data != 'masked' and not options.get('special_tokens'):
        raise FieldError('config.data.special_tokens', False, f'{name!r} reads rows that begin with START and end with END; '
                         'set it to true')


def _check_decoding(config):
    """Fields of config.decode must fit together, and the model."""
    if config.decode.get('coverage_penalty') and config.model.get('context', 'attention') != 'attention':
        raise FieldError('config.decode.coverage_penalty', config.decode.coverage_penalty,
                         'is for translation by a model with attention; set it to 0')
    if 'num_draft_tokens' in config.decode and not config.decode.draft_model:
        refuse_unread(config, ('num_draft_tokens',), 'is for config.decode.draft_model, and there is none; write')
    method(config), limits(config)


def check_kind(config):
    """Refuses what is no config."""
    if not isinstance(config, ConfigDict):
        raise UserError(f'{config!r} is not a config; start from seqjax.config.defaults(model) and return that')
    for section in SECTIONS:
        if section not in config:
            raise UserError(f'config has no section {section!r}; start from seqjax.config.defaults(model)')


def task_name(config):
    """The task that is trained: the one that the config names, or the one that its source is for."""
    return config.task or data.default_task(config.data.source)


def task_of(config):
    """The class of the task."""
    return with_prefix('config', lambda: tasks.TASKS[task_name(config)])


def options_of(section: str) -> type:
    """The dataclass that declares the fields of a section: that of a room; `config.train` also has those that tasks own."""
    return OPTIONS[section] if section != 'train' else fields.joined(
        TrainOptions, {name: task.options for name, task in tasks.TASKS.items()})


def _kinds(task, source):
    """{section: the kinds of its fields that a run of a task has}, see `fields.field`."""
    made, own = data.SOURCES.get(source), (found.name for found in dataclasses.fields(task.options))
    return dict(data=kinds_of_data(task.data, source, made), train=(task.data, *own),
                decode=() if made and made.endless else kinds_of_decoding(task))


def why_unknown(field, config):
    """Why a run has no field 'decode.num_beams' that others have; '' where nobody has it. An old name is answered with the new one."""
    section, _, name = field.rpartition('.')
    options = section in OPTIONS and options_of(section)
    names = {found.name for found in dataclasses.fields(options)} if options else {*config.model} if section == 'model' else set()
    if new := fields.new_name(section, name, names):
        return f'config.{field}: is called config.{section}.{new} now'
    if not options or name not in names:
        return ''
    run = f'is for {task_name(config)} on {config.data.source!r}'
    return f'config.{field}: {fields.unknown(name, options, config[section], run)}'


def method(config, draft=None):
    """How answers are searched for or drawn. draft: the decoder of config.decode.draft_model, for speculative sampling."""
    usual, options = (fields.whole(DecodeOptions, values) for values in ({}, config.decode))
    return with_prefix('config.decode', lambda: decode.method_of(options, usual, task_of(config).writes, draft))


def limits(config):
    """What answers may be."""
    return with_prefix('config.decode', lambda: decode.limits_of(fields.whole(DecodeOptions, config.decode)))


def refuse_unread(config, names, reason):
    """Fields of config.decode that nothing would read must have their defaults. reason: ends before the default."""
    for found in dataclasses.fields(DecodeOptions):
        value = config.decode.get(found.name, found.default)
        if found.name in names and value != found.default:
            raise FieldError(f'config.decode.{found.name}', value, f'{reason} {found.default!r}')


def refuse_quantised(config, what):
    """For what works with parameters as they are trained. what: begins the reason."""
    if config.quantise.weights:
        raise FieldError('config.quantise.weights', config.quantise.weights, f'{what} parameters as they are trained, and 8 bits '
                         "are for --mode=eval|generate|predict|score|export; set it to ''")


def dumps(config):
    return json.dumps(config.to_dict(), indent=2, sort_keys=True) + '\n'


def loads(text):
    """The config that `dumps` wrote, with today's defaults for fields that did not exist then."""
    saved = json.loads(text)
    for name, known in ((saved['model']['name'], models.MODELS), (saved.get('task'), tasks.TASKS)):
        if name and name not in known:
            raise UserError(f'{name!r} is not registered; give the experiment file that registers it too: --config=FILE')
    config = defaults(saved['model']['name'], task=saved.get('task', ''), source=saved.get('data', {}).get('source', 'python'))
    known = flatten(config)
    for old, value in traverse_util.flatten_dict(saved, sep='.').items():
        path = old if old in known else RENAMED.get(old, old)
        if path in known and value is not None:
            put(config, path, value)
        elif path not in known and not why_unknown(path, config):  # what only other kinds of runs have, nothing read
            section, _, field = path.rpartition('.')
            what = f'field {path}' if section in config else f'section {section!r}'
            raise UserError(f'saved config has a {what} that this version of seqjax does not know; '
                            + suggestion(*((field, config[section]) if section in config else (section, config))))
    return config


def put(config, path, value):
    """Sets the field 'train.steps' of a config."""
    section, _, field = path.rpartition('.')
    (config[section] if section else config)[field] = value


def differences(ours, theirs, ignore=('train.steps', 'train.eval_every', 'train.eval_batches', 'train.save_every',
                                      'train.xray_every', 'train.stop_metric', 'train.patience', 'train.decode_rows', 'data.split',
                                      'train.keep_latest', 'train.keep_best', 'train.max_skipped', 'train.baselines', 'train.peak_flops',
                                      'parallel', 'decode', 'quantise', 'cost')):
    """[(field, our value, their value)] where two configs describe different experiments.

    What may change when a run goes on is ignored: how long, how often it evaluates and saves, on which devices.
    """
    ours, theirs = flatten(ours), flatten(theirs)
    ignored = lambda field: field in ignore or field.partition('.')[0] in ignore
    fields = sorted(ours.keys() | theirs.keys(), key=lambda field: (field != 'model.name', field))  # its name explains the rest
    return [(field, ours.get(field), theirs.get(field)) for field in fields
            if ours.get(field) != theirs.get(field) and not ignored(field)]


def flatten(config):
    """{'model.width': 128, ...}"""
    return traverse_util.flatten_dict(config.to_dict(), sep='.')
