"""Fields of the config on a command line, and sentences for mistakes: each says what was meant, or what to type instead."""

import dataclasses
import difflib

from ml_collections import ConfigDict

from seqjax import config as configs
from seqjax.errors import UserError, suggestion
from seqjax.modes import MODES
from seqjax.modes.command.mode import Mode, help_of, parsed


def take_changes(words, config):
    """{'train.steps': 5} of --config.train.steps=5, each a field of the config and of its type."""
    configs.check_kind(config)
    check_one_source(words.left)
    changes = {field: text for field in configs.KIND if (text := words.take(f'config.{field}')) is not None}
    config = changed(config, changes)  # its fields are those of its kind
    while field := next((name[7:] for name in words.names() if name.startswith('config.')), ''):
        kind = type_of(field, config)
        text = words.take(f'config.{field}', switch=kind is bool)
        none = field in configs.OPTIONAL and text.lower() == 'none'
        changes[field] = None if none else parsed(f'--config.{field}', text, kind)
    return changes


def type_of(field, config):
    """The type of a field of the config."""
    if field not in configs.flatten(config):
        raise UserError(unknown_field(field, config))
    section, _, name = field.rpartition('.')
    return (config[section] if section else config).get_type(name)


def refuse_left(words, flags, config):
    """Refuses words that nobody has taken: unknown flags first."""
    for name in words.names():
        modes = [mode for mode in MODES if any(flag.name == name for flag in MODES[mode].flags)]
        word = next(word for word in words.left if word.startswith('-'))
        raise UserError(f'{word}: is for --mode={"|".join(modes)}; leave it out' if modes else
                        unknown_flag(name, [flag.name for flag in flags], config))
    for word in words.left:
        raise UserError(left_over(word, config))


def help_of_mode(name: str, mode: Mode, config: ConfigDict | None = None) -> str:
    """What a mode does, its flags, and the fields that it reads: of this config, or of runs of all kinds."""
    kind = 'default' if config is None else 'now'
    rows = [f'  --config.{path} ({kind}: {value!r})' + f'  {help}' * bool(help)
            for path, (value, help) in _described(config).items() if is_read(path, mode)]
    if not rows:
        rows = ['  none']
    elif config is None:
        rows.append('\nThese are the fields of all kinds of runs; --config=FILE or --workdir=DIR too lists those of one, '
                    'config.model included.')
    return '\n'.join([f'--mode={name}: {mode.help}', '', help_of(mode.flags), '', 'Fields of the config:', *rows])


def _described(config):
    """{path: (value, help)} of every field."""
    options = {'': configs.RunOptions, **{f'{section}.': configs.options_of(section) for section in configs.OPTIONS}}
    known = {section + found.name: found for section, of in options.items() for found in dataclasses.fields(of)}
    values = {path: found.default for path, found in known.items()} if config is None else configs.flatten(config)
    return {path: (value, known[path].metadata['help'] if path in known else '') for path, value in values.items()}


def is_read(field, mode):
    """Whether a mode reads a field, by its section or by itself."""
    return any(field == name or field.startswith(f'{name}.') for name in mode.reads)


def unknown_field(path, config):
    """'train.stesp' -> "no field 'stesp' in config.train; did you mean 'steps'?"."""
    if why := configs.why_unknown(path, config):
        return why
    section, _, field = path.rpartition('.')
    known = config
    for name in filter(None, section.split('.')):
        if not isinstance(known.get(name), ConfigDict):
            sections = [name for name, value in config.items() if isinstance(value, ConfigDict)]
            return f'no section {section!r} in config; {suggestion(section, sections)}'
        known = known[name]
    where = f'config.{section}' if section else 'config'
    kind = f' ({config.model.name})' if section == 'model' else ''
    hint = suggestion(field, known)
    if not section and not difflib.get_close_matches(field, known):  # 'learning_rate' instead of 'optimizer.learning_rate'
        homes = _homes(field, config)
        hint = f"did you mean '{homes[0]}'?" if homes else hint
    return f"no field '{field}' in {where}{kind}; {hint}"


def unknown_flag(name, flags, config):
    """'stpes' -> 'no flag --stpes; did you mean --config.train.steps?'."""
    known = {field.rpartition('.')[2]: f'config.{field}' for field in configs.flatten(config)}
    known.update({flag: flag for flag in flags})
    close = difflib.get_close_matches(name, known, n=1)
    return f'no flag --{name}; ' + (f'did you mean --{known[close[0]]}?' if close else
                                    f'there are: --{", --".join(flags)} and --config.SECTION.FIELD')


def check_one_source(words):
    """Refuses two sources: of other fields the last one given counts, but here a shell has taken braces apart, and the last is
    the test part."""
    name = '--config.data.source'
    sources = [word.partition('=')[2] for word in words if word.partition('=')[0] == name]
    if len(set(sources)) > 1:
        raise UserError(f'{name} is given twice, as {sources[0]} and {sources[1]}; give it once, and put quotes around a value '
                        'with braces')


def left_over(word, config):
    """'steps=5' -> "'steps=5' is left over: options are written --name=value, as in --config.train.steps=5"."""
    name, equals, value = word.partition('=')
    homes = _homes(name, config)
    example = f', as in --config.{homes[0]}={value}' if equals and homes else ''
    return f"'{word}' is left over: options are written --name=value{example}"


def changed(config, changes, variant='', workdir=''):
    """The config, of a variant, with the command line's changes {'train.steps': 5}, each of which must be
    a field of it; of the run at `workdir`, with the fields of the model that files of Hugging Face decided
    when it began."""
    kind = {field: changes[field] for field in configs.KIND if field in changes}
    config = configs.for_another(config, kind) if kind else config
    known = configs.flatten(config)
    for field, value in changes.items():
        if field not in known:
            raise UserError(f'{variant}: {unknown_field(field, config)}')
        configs.put(config, field, value)
    if not (workdir and config.init_from):
        return config
    from seqjax.runs import RunDirectory, transfer  # here, because help needs neither

    return transfer.as_begun(config, RunDirectory(workdir), changes)


def _homes(field, config):
    """'learning_rate' -> ['optimizer.learning_rate']."""
    return [full for full in configs.flatten(config) if full.rpartition('.')[2] == field]
