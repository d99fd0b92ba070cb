"""A mode of launch.py: a function with the flags and the fields of the config that it reads."""

from collections.abc import Callable, Iterable
import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

from seqjax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Flag:
    """`--name=VALUE`. The type of the default is that of the value; with `kind`, the default may be None."""

    name: str
    default: Any
    help: str
    kind: type | None = None

    def parse(self, text: str) -> Any:
        """The value that was typed."""
        return parsed(f'--{self.name}', text, self.kind or type(self.default))


CHECKPOINT = Flag('checkpoint', 'latest', "'latest', 'best' (of config.train.stop_metric, or eval/loss) or a step.")
INPUT = Flag('input', '', "A file of lines, also .gz, or '-' for what is piped in; for a run over images a directory of them, or one.")


@dataclasses.dataclass
class Request:
    """What was typed, for a mode.

        config      with the changes of the command line      file       'FILE.py' or 'FILE.py:VARIANT', or ''
        workdir     the run directory, or ''                  changes    {'train.steps': 5} of the command line
        flags       the mode's own, as attributes             mode       the name
    """

    mode: str
    config: Any
    workdir: str
    file: str
    flags: SimpleNamespace
    changes: dict

    @functools.cached_property
    def variants(self) -> dict:
        """{name: config} of an experiment's variants with the changes; {} where one is named or none exist."""
        from seqjax.modes.command import command_line, experiment_files  # here, because help needs neither

        path, chosen = experiment_files.split(self.file)
        names = experiment_files.variants(path) if self.file and not chosen else ()
        load = lambda name: experiment_files.load(f'{path}:{name}')
        return {name: command_line.changed(load(name), self.changes, name, f'{self.workdir}/{name}')
                for name in names}


@dataclasses.dataclass(frozen=True)
class Mode:
    """One way to run launch.py; `modes.MODES.register('mine')(Mode(...))`.

    Args:
        run: request -> None; prints what was found.
        help: what it does, in a sentence.
        flags: its own, which no other mode takes unless it lists them too.
        reads: sections ('decode') and fields ('train.steps', 'seed') of the config that it reads.
        needs_workdir: whether a run directory must be named.
        takes_sweeps: whether that may hold several runs, each of which is read with its own config.
    """

    run: Callable[[Request], None]
    help: str
    flags: tuple[Flag, ...] = ()
    reads: tuple[str, ...] = ()
    needs_workdir: bool = True
    takes_sweeps: bool = False


def one_process(mode: str) -> None:
    """Refuses a mode that several processes cannot share."""
    import jax  # here, because help needs none

    if jax.process_count() > 1:
        raise UserError(f'--mode={mode}: is done by one process and not by {jax.process_count()}; leave out --coordinator')


class Words:
    """Words of a command line, each taken by who knows its name; `left` are those that nobody has taken."""

    def __init__(self, words: Iterable[str]) -> None:
        self.left = list(words)

    def names(self) -> list[str]:
        """Of those that are left and begin with '-'."""
        return [_name(word) for word in self.left if word.startswith('-')]

    def take(self, name: str, *, switch: bool = False) -> str | None:
        """The value of --name=VALUE or --name VALUE, the last one of several, or None; a `switch` may stand alone: --name."""
        value = None
        while (place := next((place for place, word in enumerate(self.left)
                              if word.startswith('-') and _name(word) == name), None)) is not None:
            _, equals, value = self.left.pop(place).partition('=')
            if switch and not equals:
                value = 'true'
            elif not equals:
                if place == len(self.left) or self.left[place].startswith('--'):
                    raise UserError(f'Missing value for flag --{name}')
                value = self.left.pop(place)
        return value

    def take_flags(self, flags: Iterable[Flag]) -> SimpleNamespace:
        """The values of `flags` as attributes; the defaults of those that are not given."""
        found = {}
        for flag in flags:
            text = self.take(flag.name, switch=isinstance(flag.default, bool))
            found[flag.name] = flag.default if text is None else flag.parse(text)
        return SimpleNamespace(**found)


def _name(word: str) -> str:
    return word.lstrip('-').partition('=')[0]


def parsed(name: str, text: str, kind: type) -> Any:
    """The value of kind `kind` that `text` stands for; name: as it was typed."""
    text = text.strip() if kind in (int, float, bool) else text
    if kind is bool:
        known = dict.fromkeys(('true', 't', '1', 'yes'), True) | dict.fromkeys(('false', 'f', '0', 'no'), False)
        if text.lower() not in known:
            raise UserError(f'{name}={text}: must be true or false')
        return known[text.lower()]
    if kind is list:
        return [part.strip() for part in text.split(',') if part.strip()]
    try:
        if kind is tuple:
            return tuple(int(part) for part in text.strip('() ').split(',') if part.strip())
        return kind(text)
    except ValueError:
        wanted = {int: 'a whole number', float: 'a number',
                  tuple: 'whole numbers with commas between them, as 64,128,256'}[kind]
        raise UserError(f'{name}={text}: must be {wanted}') from None


def help_of(flags: Iterable[Flag]) -> str:
    """A line for every flag."""
    shown = lambda flag: '' if flag.default in (None, '', [], False, 0) else f' (default: {flag.default})'
    return '\n'.join(f'  --{flag.name}: {flag.help}{shown(flag)}' for flag in flags)
