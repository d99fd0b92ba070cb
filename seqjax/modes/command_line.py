"""Sentences for mistakes on a command line: each says what was meant, or what to type instead."""

import difflib

from ml_collections import ConfigDict

from seqjax import config as configs
from seqjax.errors import UserError, suggestion


def unknown_field(path, config):
    """'train.stesp' -> "no field 'stesp' in config.train; did you mean 'steps'?"."""
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


def first_unknown_field(words, config):
    """The sentence for the first of the command line's words that sets a field which does not exist."""
    known = configs.flatten(config)
    names = [word.lstrip('-').partition('=')[0] for word in words]
    fields = [name.removeprefix('config.') for name in names if name.startswith('config.')]
    return next((unknown_field(field, config) for field in fields if field not in known), 'the config has no such field')


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


def wrong_value(message):
    """'flag --config.train.steps=abc: invalid literal for int() ...' -> '--config.train.steps=abc: must be a whole number'."""
    flag, _, reason = message.removeprefix('flag ').partition(': ')
    for kind, wanted in dict(int='a whole number', float='a number', bool='true or false').items():
        if f'{kind}()' in reason or f'to {kind}' in reason or f'{kind}:' in reason:
            reason = f'must be {wanted}'
    return f'{flag}: {reason}'


def set_to_none(words):
    """{'--config.optimizer.b2=none': 'b2'}: optional fields of the optimizer; ml_collections would want a number there."""
    return {word: field.removeprefix('optimizer.') for word in words for field in configs.OPTIONAL
            if word.lower().lstrip('-') == f'config.{field}=none'}


def changed(config, changes, variant):
    """The config of a variant with the command line's changes {'train.steps': 5}, each of which must be a field of it."""
    known = configs.flatten(config)
    for field, value in changes.items():
        if field not in known:
            raise UserError(f'{variant}: {unknown_field(field, config)}')
        section, _, name = field.rpartition('.')
        (config[section] if section else config)[name] = value
    return config


def _homes(field, config):
    """'learning_rate' -> ['optimizer.learning_rate']."""
    return [full for full in configs.flatten(config) if full.rpartition('.')[2] == field]
