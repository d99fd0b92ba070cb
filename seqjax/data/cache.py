"""What is computed once from files and kept for later runs: hashes, tokenizers that were learned, tokens, encoded rows.

An entry is a directory KIND_HASH below $SEQJAX_CACHE/tokens, or ~/.cache/seqjax/tokens, with an entry.json and .npy files. It
is written beside and renamed; one that is damaged is made again. Removing any of them costs time and nothing else.

Where all of them have more than $SEQJAX_CACHE_GB gigabytes after one is written, those that were used longest ago are removed:
the time of its directory says when an entry was used. Files that a process has mapped are locked (see `Mapped`), and stay.
"""

from collections.abc import Callable, Iterable, Sequence
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time
from typing import Any

from seqjax.errors import UserError

VERSION = 2          # of all entries: those of another are not read; raise it where files are read or encoded in another way
BLOCK = 1 << 16      # bytes
BLOCKS = 64          # of a file that are verified when it is opened, evenly spread; of a small file all
GIGABYTES = 20.0     # of all entries, unless SEQJAX_CACHE_GB says otherwise
SETTLED = 2.0        # seconds after which a file that is written again has another time, on any file system
OPENING = 60.0       # seconds in which an entry that was verified has been mapped
LEFT_BEHIND = 86400  # seconds after which what is being written has no writer any more


def manifest(paths: Sequence[str | os.PathLike]) -> list | None:
    """[path, size, times] of every file: the key of what is made of them.

    None where there is none, or one is not there, or was written just now and may be again.
    """
    try:
        files = [(os.path.realpath(path), os.stat(path)) for path in paths]
    except OSError:
        return None
    if not files or any(time.time() - stat.st_mtime < SETTLED for _, stat in files):
        return None
    return [[path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for path, stat in files]


def found(kind: str, key: Any) -> tuple[dict, pathlib.Path] | None:
    """(facts, directory) of an entry, or None where it is not there."""
    name = _name(kind, key)
    return next(((facts, folder / name) for folder in _folders() if (facts := _used(folder / name)) is not None), None)


def remembered(kind: str, key: Any, make: Callable[[pathlib.Path], dict]) -> tuple[dict, pathlib.Path]:
    """(facts, directory) of an entry: the one that is there, or what `make` makes of it.

    key: all that decides about it, as JSON. make(directory) -> facts, which JSON must have: writes .npy files to it.
    """
    limit = limit_of_entries()
    if entry := found(kind, key):
        return entry
    folders = _folders()
    for folder in folders:
        path = folder / _name(kind, key)
        try:
            facts = _make(path, make)
        except OSError as error:
            problem = error
        else:
            _prune(folder, path, limit)
            return facts, path
    raise UserError(f'{folders[0]}: what is made of the data cannot be kept there ({problem}); set SEQJAX_CACHE to a directory '
                    'with room')


def _name(kind, key):
    return f'{kind}_{hashlib.sha256(json.dumps([VERSION, key]).encode()).hexdigest()[:32]}'


def _folders():
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    return [pathlib.Path(os.environ.get('SEQJAX_CACHE') or pathlib.Path(home) / 'seqjax') / 'tokens',
            pathlib.Path(tempfile.gettempdir()) / f'seqjax_tokens_{os.getuid()}']  # where the first cannot be written to


def limit_of_entries():
    """Bytes that all entries may have."""
    text = os.environ.get('SEQJAX_CACHE_GB') or str(GIGABYTES)
    try:
        if (gigabytes := float(text)) >= 0:
            return gigabytes * 1e9
    except ValueError:
        pass
    raise UserError(f'SEQJAX_CACHE_GB={text}: must be a number of gigabytes of at least 0, as in SEQJAX_CACHE_GB=20')


def _used(path):
    """The facts of an entry, of which it is noted that it was used now, or None."""
    with contextlib.suppress(OSError):  # it is not there, or somebody else's
        os.utime(path)
    return _open(path)


def _make(path, make):
    path.parent.mkdir(parents=True, exist_ok=True)
    writing = pathlib.Path(tempfile.mkdtemp(prefix=f'.{path.name}.', dir=path.parent))
    try:
        facts = json.loads(json.dumps(make(writing)))
        files = {file.name: _sample(file) for file in sorted(writing.iterdir())}
        (writing / 'entry.json').write_text(json.dumps(dict(facts=facts, files=files)), 'utf-8')
        for _ in range(2):  # another process may have made the same, or left something damaged
            with contextlib.suppress(OSError):
                writing.rename(path)
                break
            if _open(path) is None:
                shutil.rmtree(path, ignore_errors=True)
    finally:
        shutil.rmtree(writing, ignore_errors=True)
    if _open(path) is None:
        raise OSError('what was written is not what is read')
    return facts


def _open(path):
    """The facts of an entry, or None where it is not there or not as it was written."""
    try:
        saved = json.loads((path / 'entry.json').read_text('utf-8'))
        intact = all(_sample(path / name) == sample for name, sample in saved['files'].items())
        return saved['facts'] if intact else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sample(path):
    """[bytes of a file, the hash of BLOCKS blocks of it]."""
    size, digest = path.stat().st_size, hashlib.sha256()
    with open(path, 'rb') as file:
        for start in _starts(size):
            file.seek(start)
            digest.update(file.read(BLOCK))
    return [size, digest.hexdigest()]


def _starts(size) -> Iterable[int]:
    if size <= BLOCK * BLOCKS:
        return range(0, size, BLOCK)
    return [i * (size - BLOCK) // (BLOCKS - 1) for i in range(BLOCKS)]


def _prune(folder, newest, limit):
    """Removes entries, those that were used longest ago first, until all have `limit` bytes; never one that is in use."""
    entries = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process removes it
            entries.append((path.stat().st_mtime, sum(file.stat().st_size for file in path.iterdir()), path))
    total = sum(size for _, size, _ in entries)
    for used, size, path in sorted(entries):
        since = LEFT_BEHIND if path.name.startswith('.') else OPENING
        if total > limit and path != newest and time.time() - used > since and _remove(path):
            total -= size


def _remove(path):
    """Whether an entry that no process has mapped is gone."""
    gone = path.with_name(f'.removed.{path.name}.{os.getpid()}')
    with contextlib.ExitStack() as opened:
        try:
            for file in path.iterdir():
                fcntl.flock(opened.enter_context(open(file, 'rb')), fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.rename(gone)
        except OSError:
            return not path.exists()
    shutil.rmtree(gone, ignore_errors=True)
    return True
