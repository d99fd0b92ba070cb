"""Images that are encoded in files, and decoded when they are asked for: what class folders, lists of files and tar shards share.

Headers and ends of all files are read once at the start, in threads, and what was found is kept in the cache: a file that is
no image is refused before a run begins. Damage inside of a file is found when it is decoded.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
import concurrent.futures
import functools
import hashlib
import os
import threading
from typing import Any, NamedTuple
import warnings

import numpy as np

from seqjax.data.images.decoding import WAY_OUT, Header, look, pixels_of
from seqjax.data.mapped import Mapped, Writer
from seqjax.data.readers.examples import Example
from seqjax.data.readers.lines import Malformed, plural
from seqjax.data.source import Source
from seqjax.data.cache import limit_of_entries, remembered
from seqjax.errors import UserError

THREADS = min(8, 2 * (os.cpu_count() or 1))
AT_ONCE = 256  # images that are decoded before they are written


class Found(NamedTuple):
    """An image file, or the bytes `begin` to `begin + length` of one, and what is said of it.

    time: when the file was written, in nanoseconds.
    """

    path: str
    target: Any
    length: int
    time: int
    begin: int | None = None
    member: str = ''

    @property
    def name(self) -> str:
        """As an error names it."""
        return f'{self.path}:{self.member}' if self.member else self.path

    def file(self) -> str | bytes:
        """A path, or the bytes."""
        if self.begin is None:
            return self.path
        try:
            with open(self.path, 'rb') as file:
                file.seek(self.begin)
                return file.read(self.length)
        except OSError as error:
            raise Malformed('cannot be read', error.strerror or str(error)) from None


def found_at(path: str, target: Any) -> Found:
    """An image file; one that is not there is found out with the headers."""
    try:
        stat = os.stat(path)
        return Found(path, target, stat.st_size, stat.st_mtime_ns)
    except OSError:
        return Found(path, target, 0, 0)


class LazyImages(Source):
    """Images in files.

    Args:
        found: where they are.
        size: height and width that they are resized to; 0: all have one size as they are.
        on_error: at a file that cannot be read 'stop', or 'skip': it is left out, or where it is found out
            only when it is decoded, the next one takes its place with weight 0, and a warning names it:
            batch norms, mixup and negatives then see an image of the set.
        cached: whether all are decoded at the start, once, into an array in the cache that later runs map into memory.
    """

    def __init__(self, found: Sequence[Found], size: int = 0, on_error: str = 'stop', cached: bool = False) -> None:
        self.size, self.on_error = size, on_error
        self.skipped = collections.defaultdict(list)  # {reason: names of files}
        self._found, self.shape = self._sound(found)
        self._warned, self._lock = set(), threading.Lock()
        self._pixels, self._places = self._decoded() if cached and self._found else (None, ())

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, i: int) -> Example:
        found = self._found[i]
        if self._pixels is not None:
            return Example(self._pixels[self._places[i]], found.target)
        try:
            return Example(self._read(found), found.target)
        except Malformed as problem:
            if self.on_error == 'stop':
                raise UserError(f'{found.name}: {problem}; {WAY_OUT}') from None
            self._warn(found.name, problem)
            return self._stand_in(i % len(self))

    def _stand_in(self, i):
        """The first after image i that can be read, with weight 0."""
        for other in (*self._found[i + 1:], *self._found[:i]):
            try:
                return Example(self._read(other), other.target, weight=0.0)
            except Malformed:
                continue
        raise UserError(f'{self._found[i].name}: no image of the set can be read')

    @property
    def targets(self) -> Sequence[Any]:
        return [found.target for found in self._found]

    def manifest(self) -> Mapping[str, Any]:
        """Names, sizes and targets of all files, not what is in them."""
        return dict(images=len(self), files=self._digest, size=self.size)

    def summary(self, count: int | None = None) -> str:
        """'1,203 images (skipped 2: is empty, in cat/001.png, cat/002.png)'."""
        skipped = [f'{len(names):,}: {reason}, in {", ".join(names[:3])}{", ..." if len(names) > 3 else ""}'
                   for reason, names in self.skipped.items()]
        return plural(len(self) if count is None else count, 'image') + (f' (skipped {"; ".join(skipped)})' if skipped else '')

    @functools.cached_property
    def _digest(self):
        digest = hashlib.sha256()
        for found in self._found:
            place = f'{os.path.basename(os.path.dirname(found.path))}/{os.path.basename(found.path)}:{found.member}'
            digest.update(f'{place} {found.length} {found.target!r}\n'.encode('utf-8', 'surrogateescape'))
        return digest.hexdigest()

    def _sound(self, found):
        """(those that have a header that fits, the shape of all)."""
        facts = headers(found)
        kept, shape, first = [], None, ''
        for one, fact in zip(found, facts):
            problem = Malformed(*fact) if isinstance(fact[0], str) else None
            if not problem:
                header = Header(*fact)
                own = (self.size or header.height, self.size or header.width, header.channels)
                shape, first = shape or own, first or one.name
                try:
                    _check_shape(own, shape, first)
                except Malformed as error:
                    problem = error
            if problem and self.on_error == 'stop':
                raise UserError(f'{one.name}: {problem}; {WAY_OUT}')
            if problem:
                self.skipped[problem.reason].append(one.name)
            else:
                kept.append(one)
        if found and not kept:
            raise UserError(f'{found[0].name}: no image is left; {self.summary(0)}')
        return kept, shape

    def _decoded(self):
        """(the pixels of all images [N, H, W, C] as they are in the cache, the place of every image there)."""
        needed, room = len(self._found) * int(np.prod(self.shape)), limit_of_entries()
        if needed > room:
            raise UserError(f'{self._found[0].name}: all {len(self._found):,} images decoded have {needed / 1e9:.1f} gigabytes, and the '
                            f'cache may have {room / 1e9:.1f}; set SEQJAX_CACHE_GB, or config.data.image_size, or '
                            'config.data.cache_images=false')
        facts, folder = remembered('pixels', [_key(self._found), self.size, *self.shape], self._decode)
        places = list(range(len(self._found)))
        for i, reason, detail in facts['broken']:
            problem = Malformed(reason, detail)
            if self.on_error == 'stop':
                raise UserError(f'{self._found[i].name}: {problem}; {WAY_OUT}')
            self.skipped[reason].append(self._found[i].name)
        lost = {i for i, *_ in facts['broken']}
        kept = [i for i in places if i not in lost]
        self._found = [self._found[i] for i in kept]
        return Mapped(folder / 'pixels.npy'), kept

    def _decode(self, folder):
        writer, broken = Writer(folder / 'pixels.npy', np.uint8, self.shape), []

        def pixels(found):
            try:
                return self._read(found)
            except Malformed as problem:
                return problem

        for begin in range(0, len(self._found), AT_ONCE):
            for i, made in enumerate(threaded(pixels, self._found[begin:begin + AT_ONCE]), begin):
                if isinstance(made, Malformed):
                    broken.append([i, made.reason, made.detail])
                    made = np.zeros(self.shape, np.uint8)
                writer.add(made[None])
        writer.close()
        return dict(broken=broken)

    def _read(self, found):
        """Its pixels. Raises `Malformed`."""
        pixels = pixels_of(found.file(), self.size, self.shape[-1])
        _check_shape(pixels.shape, self.shape, self._found[0].name)
        return pixels

    def _warn(self, name, problem):
        with self._lock:
            new = name not in self._warned
            self._warned.add(name)
        if new:
            warnings.warn(f'{name}: {problem}; it counts with weight 0', stacklevel=2)


def headers(found: Sequence[Found]) -> list[Sequence]:
    """The `Header` of every file, or (reason, detail) where it is no image; from the cache where the files have not changed."""
    if len(found) < 100:  # not worth a file
        return threaded(_header, found)
    return remembered('images', _key(found), lambda folder: dict(headers=threaded(_header, found)))[0]['headers']


def threaded(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """function(item) of all items, in their order."""
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, items))


def _key(found):
    """What changes where the files do."""
    digest = hashlib.sha256()
    for one in found:
        digest.update(f'{os.path.abspath(one.path)}\0{one.begin}\0{one.length}\0{one.time}\n'.encode('utf-8', 'surrogateescape'))
    return [len(found), digest.hexdigest()]


def _header(found):
    try:
        return tuple(look(found.file()))
    except Malformed as problem:
        return problem.reason, problem.detail


def _check_shape(shape, wanted, first):
    if tuple(shape[:2]) != tuple(wanted[:2]):
        raise Malformed('has another size than the first image', f'{shape[0]} x {shape[1]} pixels, and {first} has '
                        f'{wanted[0]} x {wanted[1]}: set config.data.image_size to resize all images')
    if shape[2] == 3 and wanted[2] == 1:
        raise Malformed('has colours, and the others are grey')
