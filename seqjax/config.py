"""The config of an experiment: every field with its default, what values it may have, and how it is saved."""

import json
import math

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from seqjax import data, models, tasks
from seqjax.errors import FieldError, UserError, suggestion

SECTIONS = ('data', 'model', 'train', 'optimizer', 'parallel', 'decode')
OPTIONAL = ('optimizer.b1', 'optimizer.b2', 'optimizer.eps', 'optimizer.momentum')  # may be None: what optax chooses


def defaults(model):
    """All fields with their defaults; `config.model` has those of `model`, a name of `models.MODELS`."""
    config = ConfigDict()
    config.seed = 0
    config.task = ''              # 'language_model', 'classification', 'regression', 'tagging'; '': what the source is for
    config.parameters = 0         # choose model.width so that the model has about so many; 0: as model.width says
    config.data = ConfigDict(dict(
        source='python',          # an embedded set, 'file:PATH', 'file:DIR/{train,dev,test}.tsv' or 'tfds:NAME': docs/data_files.md
        directory='',             # where TFDS keeps its sets; '': its own default
        held_out=0.1,             # the part held out, where the source has no validation split; the last part of a text
        held_out_rows=1000,       # of 'adding' and 'copy', which are generated without end
        split='validation',       # what --mode=eval measures: 'validation' or 'test'
        tokenizer='char',         # 'char', 'byte', 'bpe' or 'word'
        vocabulary=1024,          # tokens that 'bpe' and 'word' may use; 'char' and 'byte' need no number
        lowercase=False,          # words and characters of labelled sequences
        batch_size=32,            # rows of one step, over all devices
        sequence_length=64,       # tokens of a row of text; T of 'adding' and 'copy'
        carry=False,              # rows go on where those of the batch before ended, and the recurrent state with them
        documents='',             # 'line', 'paragraph' or what ends one: rows hold several, none sees another; '': one text
        # Labelled sequences are ragged:
        batching='bucket',        # 'bucket': a few row lengths with little padding; 'pad': one; 'exact': each its own;
                                  # 'pack', for tagging: rows as long as the longest sequence, which hold several
        shapes=4,                 # row lengths that 'bucket' may use; each is compiled once
        max_length=0,             # longer training sequences are cut to so many steps; 0: none
        spelling=0,               # characters of every word that the model sees, beside the word; 0: none
        vectors='',               # a text file of pretrained word vectors; '': none
        # How a file of labelled sequences is read:
        format='',                # 'tsv', 'csv', 'jsonl', 'conll', 'conllu', 'fasta', 'folder'; '': as the file's name says
        input_column='',          # name or number; '': see docs/data_files.md
        target_column='',
        split_column='',
        label_file='',            # beside a FASTA file of sequences, one with a label for every residue,
        mask_file='',             # and one that has 1 where the label counts
        split_seed=0,             # which of them are held out, where the file does not say
        on_error='stop',          # at a malformed line: 'stop', or 'skip' and count it
    ))
    config.model = ConfigDict(dict(name=model, **with_prefix('config.model', lambda: models.fields(model))))
    config.train = ConfigDict(dict(
        steps=1000,
        eval_every=250,           # 0: only at the end
        eval_batches=0,           # 0: the whole validation split
        save_every=250,           # 0: only at the end
        xray_every=0,             # how far gradients reach back through recurrent layers (docs/gradient_xray.md); 0: never
        keep_latest=2,            # checkpoints
        keep_best=1,              # and, apart from those, the ones with the lowest eval/loss
        accumulate=1,             # micro-batches that a batch is cut into to save memory
        max_skipped=10,           # stop after so many updates in a row that were not finite
    ))
    config.optimizer = ConfigDict(dict(
        name='adamw',             # any optimizer of optax
        learning_rate=1e-3,
        schedule='cosine',        # 'constant', 'linear', 'cosine' or 'noam'
        warmup_steps=100,
        final_rate=0.1,           # what linear and cosine fall to, as a part of learning_rate
        clip_norm=1.0,            # global norm of the gradient; 0: off
        clip_value=0.0,           # every value of the gradient; 0: off
        weight_decay=0.0,
        no_decay='*bias,*scale',  # parameters without decay, as patterns over their paths
        freeze='',                # parameters that are not trained: 'embedding/*,block_0/*'
        rates='',                 # factors of the learning rate for parts: 'embedding/*=0.1,output/*=2'
        ema=0.0,                  # decay of the running average of the parameters; 0: off
        b1=placeholder(float),    # the four below are passed on where set
        b2=placeholder(float),
        eps=placeholder(float),
        momentum=placeholder(float),
    ))
    config.parallel = ConfigDict(dict(
        strategy='jit',           # 'jit' (sharded) or 'pmap' (data parallel)
        data=-1,                  # devices along each axis of the mesh; -1: all that are left
        fsdp=1,
        tensor=1,
        deadline=600,             # with several processes: give up when a step, evaluation batch or save takes so many seconds
    ))
    config.decode = ConfigDict(dict(
        prompt='\n',
        samples=1,
        seed=0,                   # another seed, another text
        max_new_tokens=500,
        temperature=0.8,          # 0: greedy
        top_k=0,                  # 0: all tokens
        top_p=1.0,
    ))
    return config


def validate(config):
    """Raises a FieldError that names the first impossible value; needs no device and compiles nothing."""
    if not isinstance(config, ConfigDict):
        raise UserError(f'{config!r} is not a config; start from seqjax.config.defaults(model) and return that')
    for section in SECTIONS:
        if section not in config:
            raise UserError(f'config has no section {section!r}; start from seqjax.config.defaults(model)')
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
    for field, known in _CHOICES.items():
        value = config.data[field]
        if value not in known:
            raise FieldError(f'config.data.{field}', value, suggestion(value, known))
    _check_task(config)
    _check_labelled(config)
    model = config.model.to_dict()
    with_prefix('config.model', lambda: models.build(
        model.pop('name'), vocabulary=2, context_length=config.data.sequence_length, per_step=task_name(config) == 'tagging',
        characters=2 if config.data.spelling else None, **model))


def task_name(config):
    """The task that is trained: the one that the config names, or the one that its source is for."""
    return config.task or data.default_task(config.data.source)


def _check_task(config):
    """The task must be known, and the model must be made for it and for the way batches follow each other."""
    name, task = config.model.name, task_name(config)
    if task not in tasks.TASKS:
        raise FieldError('config.task', config.task, f'no such task; {suggestion(task, tasks.TASKS)}')
    with_prefix('config', lambda: data.check_task(config.data.source, task))
    with_prefix('config.model', lambda: models.check_task(name, task))
    if config.train.xray_every and not models.is_recurrent(name, config.model):
        raise FieldError('config.train.xray_every', config.train.xray_every,
                         f'{name!r} has no recurrent layer to look into; set it to 0')
    if config.data.carry and config.data.source in data.GENERATORS:
        raise FieldError('config.data.carry', True,
                         f'rows of {config.data.source!r} do not go on from one another; set it to false')
    if config.data.carry and name not in models.CARRYING:
        raise FieldError('config.data.carry', True, f'{name!r} has no state to carry; set it to false, or use a model that '
                         f'has one: {", ".join(models.CARRYING)}')


def _check_labelled(config):
    """What concerns words and documents must fit the task and the model."""
    options, text = config.data, task_name(config) == 'language_model'
    kind = 'generated' if options.source in data.GENERATORS else 'text' if text else 'labelled'
    for field, of_kind, meaning in (('spelling', 'labelled', 'of labelled words'),
                                    ('vectors', 'labelled', 'of labelled words'),
                                    ('max_length', 'labelled', 'of labelled sequences'),
                                    ('documents', 'text', 'of the text of a language model')):
        if options[field] and kind != of_kind:
            raise FieldError(f'config.data.{field}', options[field], f'is a matter {meaning}, and the data is '
                             f'{options.source!r} for {task_name(config)}; set it to {type(options[field])()!r}')
    if options.documents and config.model.name not in models.PACKING:
        raise FieldError('config.data.documents', options.documents, f'{config.model.name!r} cannot keep the documents of a '
                         f"row apart; set it to '', or use a model that can: {', '.join(models.PACKING)}")
    if options.documents and options.carry:
        raise FieldError('config.data.carry', True, 'documents do not go on from one another; set it to false, or '
                         "config.data.documents to ''")
    if options.batching == 'pack' and task_name(config) != 'tagging':
        raise FieldError('config.data.batching', 'pack', 'puts several sequences in a row, which is for tagging, and the '
                         f"task is {task_name(config)}; write 'bucket'")
    if bool(options.spelling) != bool(config.model.get('character_encoder')):
        raise FieldError('config.data.spelling', options.spelling, 'goes together with config.model.character_encoder='
                         f'{config.model.get("character_encoder")!r}; set both or neither')


def with_prefix(prefix, function):
    """Runs function(); a FieldError in it names its field with `prefix` in front, as the user would type it."""
    try:
        return function()
    except FieldError as error:
        field = error.field if error.field.startswith(prefix) else f'{prefix}.{error.field}'
        raise FieldError(field, error.value, error.reason) from None


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
                                      'train.xray_every', 'data.split', 'train.keep_latest', 'train.keep_best', 'train.max_skipped',
                                      'parallel', 'decode')):
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
    'data.spelling': _at_least(0),
    'data.split_seed': _at_least(0),
    'data.held_out': ((lambda value: 0 < value < 1), 'must be more than 0 and less than 1'),
    'data.held_out_rows': _at_least(1),
    'data.vocabulary': _at_least(1),
    'data.batch_size': _at_least(1),
    'data.sequence_length': _at_least(2),
    'train.steps': _between(1, 2 ** 31),  # the step is a 32-bit integer
    'train.eval_every': _at_least(0),
    'train.eval_batches': _at_least(0),
    'train.save_every': _at_least(0),
    'train.xray_every': _at_least(0),
    'train.keep_latest': _at_least(1),
    'train.keep_best': _at_least(0),
    'train.accumulate': _at_least(1),
    'train.max_skipped': _at_least(1),
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
    'parallel.deadline': _at_least(1),
    'decode.samples': _at_least(1),
    'decode.seed': _between(0, 2 ** 32),
    'decode.max_new_tokens': _at_least(1),
    'decode.temperature': ((lambda value: 0 <= value < math.inf), 'must be at least 0 (0 is greedy)'),
    'decode.top_k': _at_least(0),
    'decode.top_p': ((lambda value: 0 < value <= 1), 'must be more than 0 and at most 1'),
}
