"""Files that are either whole or not there: write beside, sync, rename."""

import hashlib
import os
import pathlib


def write_atomically(path, text):
    """After this returns, `path` holds `text` even if the power fails; until then it holds what it held before."""
    path = pathlib.Path(path)
    beside = path.with_name(f'.{path.name}.writing')
    with open(beside, 'w', encoding='utf-8') as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_folder(path.parent)


def commit_directory(writing, final, old=None):
    """After this returns, `final` holds what was in `writing`, even if the power fails.

    What was at `final` is moved to `old` where that is given; else nothing may be there.
    """
    for path in sorted(writing.rglob('*')):
        (sync_folder if path.is_dir() else sync_file)(path)
    sync_folder(writing)
    if old is not None and final.exists():
        final.rename(old)
    writing.rename(final)
    sync_folder(final.parent)


def sync_file(path):
    with open(path, 'rb') as file:
        os.fsync(file.fileno())


def sync_folder(path):
    """Makes the names in a folder durable: a rename is safe only after this."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path):
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()
