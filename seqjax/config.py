"""The config of an experiment: what values its fields may have (`config_fields` has them all), and how it is saved."""

import json
import math

from ml_collections import ConfigDict

from seqjax import data, decode, models, ops, tasks
from seqjax.config_fields import SECTIONS, defaults
from seqjax.errors import FieldError, UserError, suggestion, with_prefix

OPTIONAL = ('optimizer.b1', 'optimizer.b2', 'optimizer.eps', 'optimizer.momentum')  # may be None: what optax chooses


def validate(config):
    """Raises a FieldError that names the first impossible value; needs no device and compiles nothing."""
    check_kind(config)
    for field, (fits, reason) in _LIMITS.items():
        section, name = field.split('.')
        value = config[section][name]
        if value is None and field in OPTIONAL:
            continue
        if isinstance(value, float) and math.isnan(value) or not fits(value):
            raise FieldError(f'config.{field}', value, reason)
    if not 0 <= config.seed < 2 ** 32:  # jax would take its last 32 bits
        raise FieldError('config.seed', config.seed, f'must be at least 0 and less than {2 ** 32}')
    if config.data.batch_size % config.train.accumulate:
        raise FieldError('config.train.accumulate', config.train.accumulate,
                         f'must divide data.batch_size={config.data.batch_size}')
    if config.parameters < 0:
        raise FieldError('config.parameters', config.parameters, 'must be a positive number, or 0 for off')
    if config.vocabulary < 0:
        raise FieldError('config.vocabulary', config.vocabulary, 'must be a number of tokens, or 0 for what the data says')
    for field in ('init_map', 'init_fresh'):
        if config[field] and not config.init_from:
            raise FieldError(f'config.{field}', config[field], 'is for parameters of another run; set config.init_from too')
    for field, known in _CHOICES.items():
        value = config.data[field]
        if value not in known:
            raise FieldError(f'config.data.{field}', value, suggestion(value, known))
    _check_stopping(config.train)
    _check_targets(config)
    _check_task(config)
    _check_decoding(config)
    _check_quantisation(config.quantise)
    _check_labelled(config)
    _check_hidden(config)
    model = config.model.to_dict()
    with_prefix('config.model', lambda: models.build(
        model.pop('name'), vocabulary=2, target_vocabulary=2, shared=config.data.shared or task_of(config).data == 'spans',
        context_length=config.data.sequence_length, per_step=task_of(config).per_step,
        characters=2 if config.data.spelling else None, **model))


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


def method(config, draft=None):
    """How answers are searched for or drawn. draft: the decoder of config.decode.draft, for speculative sampling."""
    continues, usual = task_of(config).writes, defaults(config.model.name).decode
    return with_prefix('config.decode', lambda: decode.method_of(config.decode, usual, continues, draft))


def limits(config):
    """What answers may be."""
    return with_prefix('config.decode', lambda: decode.limits_of(config.decode))


def refuse_unread(config, fields, reason):
    """Fields of config.decode that nothing would read must have their defaults. reason: ends before the default."""
    usual = defaults(config.model.name).decode
    for field in fields:
        if config.decode[field] != usual[field]:
            raise FieldError(f'config.decode.{field}', config.decode[field], f'{reason} {usual[field]!r}')


def _check_targets(config):
    """What is done to targets must be something that the task does."""
    options, task = config.train, task_of(config)
    with_prefix('config.train', lambda: tasks.Teacher(options.teacher, options.teacher_steps, options.teacher_floor))
    for field, off, meaning in (('label_smoothing', 0, 'is for tokens and classes'), ('decode_rows', 0, 'is for translation'),
                                ('teacher', 'always', 'is for translation')):
        if options[field] != off and field not in task.fields:
            raise FieldError(f'config.train.{field}', options[field], f'{meaning}, and the task is {task_name(config)}; '
                             f'set it to {off!r}')


def _check_decoding(config):
    """What is searched or drawn by must be possible, and coverage is that of an attention over a source."""
    method(config), limits(config)
    penalty = config.decode.coverage_penalty
    if penalty and (task_of(config).data != 'pairs' or config.model.get('context', 'attention') != 'attention'):
        raise FieldError('config.decode.coverage_penalty', penalty, 'is for translation by a model with attention; set it '
                         'to 0')
    _check_writing(config)


def _check_writing(config):
    """Contrastive search and drafts are ways to continue a text, and the first needs to know among how many tokens."""
    options, task = config.decode, task_of(config)
    if options.draft_tokens < 1:
        raise FieldError('config.decode.draft_tokens', options.draft_tokens, 'must be at least 1')
    if len(options.stop) > 1:
        raise FieldError('config.decode.stop', options.stop, 'must be one character')
    for field, off in (('contrastive', 0.0), ('draft', ''), ('stop', ''), ('pages', 0)):
        if options[field] and not task.writes:
            raise FieldError(f'config.decode.{field}', options[field], 'is for language models, and the task is '
                             f'{task_name(config)}; set it to {off!r}')
    if not task.decodes:
        if task.writes:
            refuse_unread(config, ['prefix'], 'is for translations, and a text begins with config.decode.prompt; set that, and write')
        refuse_unread(config, ('prefix', 'exact'), f'is for translations, and the task is {task_name(config)}; write')
    if not options.draft:
        refuse_unread(config, ('draft_tokens',), 'is for config.decode.draft, and there is none; write')


def _check_quantisation(options):
    if options.weights and options.weights not in ops.EIGHT_BITS:
        raise FieldError('config.quantise.weights', options.weights, suggestion(options.weights, ops.EIGHT_BITS))
    if options.activations and not options.weights:
        raise FieldError('config.quantise.activations', True, "goes together with 8-bit weights; set config.quantise.weights='int8'")


def refuse_quantised(config, what):
    """For what works with parameters as they are trained. what: begins the reason."""
    if config.quantise.weights:
        raise FieldError('config.quantise.weights', config.quantise.weights, f'{what} parameters as they are trained, and 8 bits '
                         "are for --mode=eval|generate|predict|score|export; set it to ''")


def _check_stopping(options):
    """What training may end early by must be measured while it goes on."""
    metric, patience = options.stop_metric, options.patience
    if bool(metric) != bool(patience):
        raise FieldError('config.train.patience', patience, f'goes together with config.train.stop_metric={metric!r}; '
                         'set both or neither')
    if metric and not metric.startswith('eval/'):
        raise FieldError('config.train.stop_metric', metric, "must be of the validation split, as 'eval/loss' is: what "
                         'evaluations write to metrics.jsonl')
    if metric and not options.eval_every:
        raise FieldError('config.train.eval_every', 0, f'{metric} is then measured only at the end, and cannot stop '
                         'training; set it to a number of steps')


def _check_task(config):
    """The task must be known, and the model must be made for it and for the way batches follow each other."""
    name, task = config.model.name, task_of(config)
    with_prefix('config', lambda: data.check_task(config.data.source, task_name(config)))
    with_prefix('config.model', lambda: models.check_task(name, task_name(config), task.output_kind))
    if config.train.xray_every and task.decodes:
        raise FieldError('config.train.xray_every', config.train.xray_every, 'is for models that read one sequence, and '
                         'those for translation read two; set it to 0')
    if config.train.xray_every and not models.is_recurrent(name, config.model):
        raise FieldError('config.train.xray_every', config.train.xray_every,
                         f'{name!r} has no recurrent layer to look into; set it to 0')
    if config.data.carry and data.is_endless(config.data.source):
        raise FieldError('config.data.carry', True,
                         f'rows of {config.data.source!r} do not go on from one another; set it to false')
    if config.data.carry and name not in models.able('carries'):
        raise FieldError('config.data.carry', True, f'{name!r} has no state to carry; set it to false, or use a model that '
                         f'has one: {", ".join(models.able("carries"))}')


def _check_labelled(config):
    """What concerns words and documents must fit the task and the model."""
    options = config.data
    kind = 'generated' if data.is_endless(options.source) else task_of(config).data
    for field, kinds, meaning in (('spelling', ('labelled',), 'of labelled words'),
                                  ('vectors', ('labelled',), 'of labelled words'),
                                  ('max_length', ('labelled', 'pairs'), 'of labelled sequences'),
                                  ('marked', ('labelled', 'masked'), 'of labelled sequences'),
                                  ('train_examples', ('labelled',), 'of labelled sequences'),
                                  ('lowercase', ('labelled', 'masked', 'spans', 'pairs'), 'of labelled sequences and translations'),
                                  ('shared', ('pairs', 'spans'), 'of translations'),
                                  ('batch_tokens', ('pairs',), 'of translations'),
                                  ('documents', ('text', 'masked', 'spans'), 'of a text')):
        if options[field] and kind not in kinds:
            raise FieldError(f'config.data.{field}', options[field], f'is a matter {meaning}, and the data is '
                             f'{options.source!r} for {task_name(config)}; set it to {type(options[field])()!r}')
    if options.lowercase and options.tokenizer in ('byte', 'bpe', 'unigram') and kind in ('labelled', 'masked'):
        raise FieldError('config.data.lowercase', True, 'is for characters and words, and config.data.tokenizer='
                         f"{options.tokenizer!r}; set it to False, or the tokenizer to 'char' or 'word'")
    if options.documents and kind == 'text' and config.model.name not in models.able('packs'):
        raise FieldError('config.data.documents', options.documents, f'{config.model.name!r} cannot keep the documents of a '
                         f"row apart; set it to '', or use a model that can: {', '.join(models.able('packs'))}")
    if options.documents and options.carry:
        raise FieldError('config.data.carry', True, 'documents do not go on from one another; set it to false, or '
                         "config.data.documents to ''")
    if options.batching == 'pack' and not task_of(config).per_step:
        raise FieldError('config.data.batching', 'pack', 'puts several sequences in a row, which is for tagging, and the '
                         f"task is {task_name(config)}; write 'bucket'")
    if bool(options.spelling) != bool(config.model.get('character_encoder')):
        raise FieldError('config.data.spelling', options.spelling, 'goes together with config.model.character_encoder='
                         f'{config.model.get("character_encoder")!r}; set both or neither')


def _check_hidden(config):
    """What concerns hidden tokens is for the tasks that hide some, and a model that needs marks must find them."""
    options, kind = config.data, task_of(config).data
    for field, default, kinds in (('masked', 0.15, ('masked', 'spans')), ('span_length', 3.0, ('spans',)),
                                  ('next_sentence', False, ('masked',))):
        if options[field] != default and kind not in kinds:
            raise FieldError(f'config.data.{field}', options[field], f'is for {" and ".join(tasks.taking(*kinds))}, and the task '
                             f'is {task_name(config)}; leave it at {default!r}')
    marks = getattr(models.MODELS[config.model.name], 'marks_rows', False)
    if marks and kind != 'masked' and not options.marked:
        raise FieldError('config.data.marked', False, f'{config.model.name!r} reads rows that begin with START and end with END; '
                         'set it to true')


def dumps(config):
    return json.dumps(config.to_dict(), indent=2, sort_keys=True) + '\n'


def loads(text):
    """The config that `dumps` wrote, with today's defaults for fields that did not exist then."""
    saved = json.loads(text)
    config = defaults(saved['model']['name'])
    for section, value in saved.items():
        if section not in config:
            raise UserError(f'saved config has a section {section!r} that this version of seqjax does not know; '
                            f'{suggestion(section, config)}')
        if isinstance(value, dict):
            for field in value:
                if field not in config[section]:
                    raise UserError(f'saved config has a field {section}.{field} that this version of seqjax does not know; '
                                    f'{suggestion(field, config[section])}')
            config[section].update({field: v for field, v in value.items() if v is not None})
        else:
            config[section] = value
    return config


def differences(ours, theirs, ignore=('train.steps', 'train.eval_every', 'train.eval_batches', 'train.save_every',
                                      'train.xray_every', 'train.stop_metric', 'train.patience', 'train.decode_rows', 'data.split',
                                      'train.keep_latest', 'train.keep_best', 'train.max_skipped', 'train.baselines', 'train.peak_flops',
                                      'parallel', 'decode', 'quantise', 'cost')):
    """[(field, our value, their value)] where two configs describe different experiments.

    What may change when a run goes on is ignored: how long, how often it evaluates and saves, on which devices.
    """
    ours, theirs = flatten(ours), flatten(theirs)
    ignored = lambda field: field in ignore or field.partition('.')[0] in ignore
    # The name of the model explains the rest, so it comes first.
    fields = sorted(ours.keys() | theirs.keys(), key=lambda field: (field != 'model.name', field))
    return [(field, ours.get(field), theirs.get(field)) for field in fields
            if ours.get(field) != theirs.get(field) and not ignored(field)]


def flatten(config):
    """{'model.width': 128, ...}"""
    flat = {}
    for name, value in config.items():
        if isinstance(value, ConfigDict):
            flat.update({f'{name}.{field}': v for field, v in flatten(value).items()})
        else:
            flat[name] = value
    return flat


def _at_least(low):
    return (lambda value: value >= low), f'must be at least {low}'


def _between(low, high):
    return (lambda value: low <= value < high), f'must be at least {low} and less than {high}'


_CHOICES = {'split': ('validation', 'test'), 'batching': ('bucket', 'pad', 'exact', 'pack'), 'on_error': ('stop', 'skip')}
_POSITIVE = (lambda value: 0 < value < math.inf), 'must be a positive number'
_OFF_OR_POSITIVE = (lambda value: 0 <= value < math.inf), 'must be a positive number, or 0 for off'
_LIMITS = {
    'data.shapes': _at_least(1),
    'data.max_length': _at_least(0),
    'data.batch_tokens': _at_least(0),
    'data.spelling': _at_least(0),
    'data.train_examples': _at_least(0),
    'data.split_seed': _at_least(0),
    'data.held_out': ((lambda value: 0 < value < 1), 'must be more than 0 and less than 1'),
    'data.held_out_rows': _at_least(1),
    'data.masked': ((lambda value: 0 < value < 1), 'must be more than 0 and less than 1'),
    'data.span_length': ((lambda value: 1 <= value < math.inf), 'must be at least 1'),
    'data.vocabulary': _at_least(1),
    'data.batch_size': _at_least(1),
    'data.sequence_length': _at_least(2),
    'train.steps': _between(1, 2 ** 31),  # the step is a 32-bit integer
    'train.eval_every': _at_least(0),
    'train.eval_batches': _at_least(0),
    'train.save_every': _at_least(0),
    'train.xray_every': _at_least(0),
    'train.label_smoothing': _between(0, 1),
    'train.patience': _at_least(0),
    'train.decode_rows': _at_least(0),
    'train.keep_latest': _at_least(1),
    'train.keep_best': _at_least(0),
    'train.accumulate': _at_least(1),
    'train.max_skipped': _at_least(1),
    'train.peak_flops': _OFF_OR_POSITIVE,
    'optimizer.learning_rate': _POSITIVE,
    'optimizer.warmup_steps': _at_least(0),
    'optimizer.final_rate': ((lambda value: 0 <= value <= 1), 'must be between 0 and 1'),
    'optimizer.clip_norm': _OFF_OR_POSITIVE,
    'optimizer.clip_value': _OFF_OR_POSITIVE,
    'optimizer.weight_decay': _OFF_OR_POSITIVE,
    'optimizer.ema': _between(0, 1),
    'optimizer.b1': _between(0, 1),
    'optimizer.b2': _between(0, 1),
    'optimizer.eps': _POSITIVE,
    'optimizer.momentum': _between(0, 1),
    'lora.rank': _at_least(0),
    'lora.alpha': _POSITIVE,
    'parallel.deadline': _at_least(1),
    'decode.samples': _at_least(1),
    'decode.seed': _between(0, 2 ** 32),
    'decode.max_new_tokens': _at_least(1),
    'decode.temperature': ((lambda value: 0 <= value < math.inf), 'must be at least 0 (0 is greedy)'),
    'decode.batch_size': _at_least(1),
    'decode.page_size': _at_least(1),
    'decode.pages': _at_least(0),
    'decode.top_k': _at_least(0),
    'decode.top_p': ((lambda value: 0 < value <= 1), 'must be more than 0 and at most 1'),
    'cost.seconds': _POSITIVE,
    'cost.largest': _POSITIVE,
}
