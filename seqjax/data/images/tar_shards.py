"""Images in .tar shards of the WebDataset layout: members with one key are a record.

    0001.jpg    0001.cls    0001.json    0002.jpg    0002.txt    ...

.png, .jpg, .jpeg and .webp are the image; .cls, .txt, .label and .caption its label or caption, or .json an object with one.
Headers of members are walked once and what they say is kept in the cache; an image is read from its place in the shard when
it is asked for. Nothing is unpacked.
"""

import collections
import json
import os
import tarfile

from seqjax.data.cache import manifest, remembered
from seqjax.data.images.decoding import SUFFIXES, WAY_OUT
from seqjax.data.images.lazy import Found
from seqjax.data.images.listed import customary_targets
from seqjax.data.readers.lines import Malformed
from seqjax.data.readers.targets import TARGETS
from seqjax.errors import FieldError, UserError, suggestion

TEXTS = {'class': ('cls', 'label', 'txt'), 'captions': ('txt', 'caption')}  # members that are a target, by its kind
MEMBERS = {'json'}.union(*TEXTS.values())
MOST_MEMBERS = 10_000_000  # of a shard
MOST_TEXT = 1 << 20        # bytes of a label or caption


def shards(directory):
    """The .tar files in a directory, in the order of their names."""
    directory = os.path.expanduser(directory)
    return [os.path.join(directory, name) for name in sorted(os.listdir(directory)) if name.endswith('.tar')]


def tar_images(path, kind, options):
    """([Found], what is to be said of those that were skipped) of a shard, or of a directory of them.

    kind: of the targets, see `Task.takes`. options: `config.data`.
    """
    place = os.path.expanduser(path)
    found, skipped = [], collections.defaultdict(list)
    for shard in shards(place) if os.path.isdir(place) else [place]:
        for key, record in _index(shard).items():
            try:
                found.append(_found(shard, record, TARGETS[kind](_target(record, kind, options.target_column))))
            except Malformed as problem:
                if options.on_error == 'stop':
                    raise UserError(f'{shard}:{key}: {problem}; {WAY_OUT}') from None
                skipped[problem.reason].append(f'{os.path.basename(shard)}:{key}')
    return found, '; '.join(f'{len(keys):,}: {reason}, in {", ".join(keys[:3])}{", ..." if len(keys) > 3 else ""}'
                            for reason, keys in skipped.items())


def _index(shard):
    """{key: {suffix: [offset, length, name] of an image, or `_text` of another member}}.

    From the cache, where the shard has not changed.
    """
    known = manifest([shard])
    return remembered('shard', known, lambda folder: _walk(shard))[0] if known else _walk(shard)


def _walk(shard):
    records = {}
    try:
        with tarfile.open(shard, 'r:') as file:  # no compression: places in the file are then places in the shard
            for number, member in enumerate(file):
                if number >= MOST_MEMBERS:
                    raise UserError(f'{shard}: has more than {MOST_MEMBERS:,} members')
                folder, name = os.path.split(member.name)
                key, _, suffix = name.partition('.')
                if not member.isreg() or not key:
                    continue
                record, suffix = records.setdefault(os.path.join(folder, key), {}), suffix.lower()
                if suffix in record:
                    record['twice'] = suffix
                elif f'.{suffix}' in SUFFIXES:
                    record[suffix] = [member.offset_data, member.size, member.name]
                elif suffix in MEMBERS:
                    record[suffix] = _text(file, member)
            _check_end(file)
    except FileNotFoundError:
        raise UserError(f'{shard}: no such file') from None
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f'{shard}: is no .tar file that can be read ({error}), or is compressed; copy it again, or decompress '
                        'it') from None
    return records


def _text(file, member):
    """What a member has, or {'reason': why it cannot be read}."""
    if member.size > MOST_TEXT:
        return dict(reason=f'a label has more than {MOST_TEXT:,} bytes')
    try:
        return file.extractfile(member).read().decode('utf-8')
    except UnicodeDecodeError:
        return dict(reason='a label is not UTF-8')


def _check_end(file):
    """Members end at a block of zeros; tarfile stops at any other as well, and says nothing."""
    file.fileobj.seek(file.offset)
    block = file.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f'it is cut off after {file.offset:,} bytes, where a member or the end '
                                'mark is missing')
    if any(block):
        raise tarfile.ReadError(f'the header of a member is damaged, at {file.offset:,} bytes')
    while rest := file.fileobj.read(1 << 20):
        if rest.strip(b'\0'):
            raise tarfile.ReadError('members follow its end mark, as where shards were joined')


def _found(shard, record, target):
    if 'twice' in record:
        raise Malformed('has a member twice', f'.{record["twice"]}')
    images = [suffix for suffix in record if f'.{suffix}' in SUFFIXES]
    if len(images) != 1:
        raise Malformed('has no image' if not images else f'has {len(images)} images')
    begin, length, name = record[images[0]]
    stat = os.stat(shard)
    if begin + length > stat.st_size:
        raise Malformed('is cut off', 'the shard ends before it')
    return Found(shard, target, length, stat.st_mtime_ns, begin, name)


def _target(record, kind, wanted):
    """What stands beside an image: in the member or below the key of its .json that is wanted, or the first customary one."""
    texts = {suffix: text for suffix, text in record.items() if suffix in MEMBERS}
    for text in texts.values():
        if isinstance(text, dict):
            raise Malformed(text['reason'])
    if wanted in texts and wanted != 'json':
        return texts[wanted].strip()
    if 'json' in texts:
        try:
            value = json.loads(texts['json'])
        except (ValueError, RecursionError):
            raise Malformed('the .json is no JSON') from None
        if not isinstance(value, dict):
            raise Malformed('the .json is no object')
        key = wanted or next((name for name in customary_targets(kind) if name in value), '')
        if key in value:
            return value[key]
        if wanted:
            raise FieldError('data.target_column', wanted, f'is no key of a .json; {suggestion(wanted, value)}')
    for suffix in () if wanted else (TEXTS[kind] if kind in TEXTS else TEXTS['class']):
        if suffix in texts:
            return texts[suffix].strip()
    raise Malformed('has no label or caption')
