"""Parallel files and tables of translations: every pair is read, or the file, the line and the reason are named."""

import gzip
import itertools
import os
import types

import pytest

from seqjax.data.pairs import load_pairs
from seqjax.data.readers.files import read_examples
from seqjax.errors import FieldError

FIX = '; fix it, or set config.data.on_error=skip'
WRITE = 'write DIR/train.{de,en} or DIR/{train,dev,test}.{de,en}'
GERMAN = 'ein Hund\nzwei Männer\n  drei  Bäume 😀 \nvier\n'.encode()
ENGLISH = 'a dog\ntwo men\n  three  trees 😀 \nfour\n'.encode()
READ = [('ein Hund', 'a dog'), ('zwei Männer', 'two men'), ('  drei  Bäume 😀 ', '  three  trees 😀 '), ('vier', 'four')]


def options(**changes):
    """`config.data`, as far as a reader looks at it."""
    return types.SimpleNamespace(**{**dict(
        format='', input_column='', target_column='', split_column='', sequence_column='', label_file='', mask_file='', image_size=0, cache_images=False, held_out=0.3,
        on_error='stop', split_seed=0, encoding='utf-8'), **changes})


def read(directory, pattern, files, **changes):
    for name, content in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith('.gz') else content)
    return read_examples(f'{directory}/{pattern}', 'translation', options(**changes))


def pairs(part):
    return [(example.inputs, example.target) for example in part]


def lines(*numbers):
    return ''.join(f'{number}\n' for number in numbers).encode()


# ------------------------------------------------------------------------------------------------ what is read

@pytest.mark.parametrize('suffix', ['', '.gz', '.txt', '.txt.gz'])
def test_parallel_files_are_pairs_line_by_line(tmp_path, suffix):
    found = read(tmp_path, 'train.{de,en}' + suffix, {f'train.de{suffix}': GERMAN, f'train.en{suffix}': ENGLISH})
    assert sorted(pairs(found.train) + pairs(found.validation)) == sorted(READ) and found.test == []
    assert len(found.validation) == 1
    assert found.report == (f'train.de{suffix}: 4 records; train.en{suffix}: 4 records; 1 of 4 training records held out')
    other_way = read(tmp_path, 'train.{en,de}' + suffix, {})
    assert sorted((target, source) for source, target in pairs(other_way.train + other_way.validation)) == sorted(READ)


def test_the_seed_says_which_are_held_out(tmp_path):
    files = {'train.de': lines(*range(40)), 'train.en': lines(*range(100, 140))}
    found = [read(tmp_path, 'train.{de,en}', files, split_seed=seed) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    for each in found:
        assert [int(target) - int(source) for source, target in pairs(each.train)] == [100] * 28
        assert not set(pairs(each.train)) & set(pairs(each.validation)) and len(each.validation) == 12


@pytest.mark.parametrize('pattern', ['{train,val,test}.{de,en}', '{train,val}.{de,en}', 'deep/{train,val}.low.{de,en}.gz'])
def test_parts_have_files_of_their_own(tmp_path, pattern):
    parts = pattern[pattern.index('{') + 1:pattern.index('}')].split(',')
    name = lambda part, language: pattern.replace('{' + ','.join(parts) + '}', part).replace('{de,en}', language)
    contents = {(part, language): lines(*(f'{part} {language} {n}' for n in range(2 + i)))
                for i, part in enumerate(parts) for language in ('de', 'en')}
    found = read(tmp_path, pattern, {name(*key): content for key, content in contents.items()})
    for i, (part, got) in enumerate(itertools.zip_longest(parts, (found.train, found.validation, found.test))):
        assert pairs(got) == ([(f'{part} de {n}', f'{part} en {n}') for n in range(2 + i)] if part else [])


def test_line_ends_of_windows_and_a_byte_order_mark_are_no_text(tmp_path):
    found = read(tmp_path, '{t,v}.{de,en}', {'t.de': b'\xef\xbb\xbf1\r\n2\r\n', 't.en': b'3\n4', 'v.de': b'5\n',
                                             'v.en': '6\u2028\x0b7\n'.encode()})
    assert pairs(found.train) == [('1', '3'), ('2', '4')] and pairs(found.validation) == [('5', '6\u2028\x0b7')]


def test_malformed_lines_are_skipped_on_both_sides_and_counted(tmp_path):
    found = read(tmp_path, '{t,v}.{de,en}', {
        't.de': b'a\n\nc\nd\ne\n \n', 't.en': b'1\n2\n3\n\xff\n \n6\n', 'v.de': b'x\n', 'v.en': b'y\n'}, on_error='skip')
    assert pairs(found.train) == [('a', '1'), ('c', '3')]
    assert found.report == ('t.de: 2 records (skipped 2: is empty, in lines 2, 6); t.en: 2 records (skipped 1: is not '
                            'UTF-8, in line 4; 1: is empty, in line 5); v.de: 1 record; v.en: 1 record')


@pytest.mark.parametrize('name, content', [
    ('pairs.tsv', b'ein Hund\ta dog\nzwei\ttwo\ndrei\tthree\n'),
    ('pairs.tsv', b'source\ttarget\nein Hund\ta dog\nzwei\ttwo\ndrei\tthree\n'),
    ('pairs.csv', b'text,target\n"ein Hund","a dog"\nzwei,two\ndrei,three\n'),
    ('pairs.jsonl.gz', b'{"source": "ein Hund", "target": "a dog"}\n{"target": "two", "source": "zwei"}\n'
                       b'{"source": "drei", "target": "three"}\n')])
def test_tables_have_both_sides_in_a_record(tmp_path, name, content):
    found = read(tmp_path, name, {name: content})
    assert sorted(pairs(found.train + found.validation)) == [('drei', 'three'), ('ein Hund', 'a dog'), ('zwei', 'two')]


def test_columns_are_languages_and_parts_are_files(tmp_path):
    files = {'train.tsv': b'en\tfr\tde\none\tun\teins\n', 'dev.tsv': b'en\tfr\tde\ntwo\tdeux\tzwei\n'}
    found = read(tmp_path, '{train,dev}.tsv', files, input_column='de', target_column='en')
    assert pairs(found.train) == [('eins', 'one')] and pairs(found.validation) == [('zwei', 'two')]


@pytest.mark.skipif('MULTI30K' not in os.environ, reason='MULTI30K names no directory with the files of that set')
def test_multi30k_is_read_and_comes_back():
    found = read_examples(os.environ['MULTI30K'] + '/{train,val,test_2016_flickr}.{de,en}.gz', 'translation', options())
    assert [len(part) for part in (found.train, found.validation, found.test)] == [29_000, 1_014, 1_000]
    assert pairs(found.test)[0] == ('Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.',
                                    'A man in an orange hat starring at something.')
    made = load_pairs(found, types.SimpleNamespace(source='multi30k', tokenizer='bpe', vocabulary=4000, shared_vocabulary=True,
                                                   lowercase=False, max_length=0, batching='bucket', num_buckets=4,
                                                   batch_tokens=4096))
    for split in ('validation', 'test'):
        assert [made.codec.text(row['targets']) for row in made.rows[split]] == made.texts(split)[1]
    assert made.efficiency() > 0.75 and made.for_model()['vocabulary'] == 4004


# ------------------------------------------------------------------------------------------------ what is refused

# pattern, {file: content}, the file that is named, reason
REFUSED = [
    ('t.{de,en}', {'t.de': lines(1, 2, 3), 't.en': lines(1, 2)}, 't.en',
     'has 2 lines, and t.de has 3; line by line they must be pairs'),
    ('t.{de,en}', {'t.de': lines(1), 't.en': lines(*range(9))}, 't.de',
     'has 1 line, and t.en has 9; line by line they must be pairs'),
    ('t.{de,en}', {'t.de': b'', 't.en': lines(1)}, 't.de', 'has 0 lines, and t.en has 1; line by line they must be pairs'),
    ('t.{de,en}', {'t.de': b'', 't.en': b''}, 't.de', 'the file is empty'),
    ('t.{de,en}', {'t.de': lines(1, 2), 't.en': b'1\n  \n'}, 't.en', f'line 2: is empty{FIX}'),
    ('t.{de,en}', {'t.de': b'1\n\n', 't.en': lines(1, 2)}, 't.de', f'line 2: is empty{FIX}'),
    ('t.{de,en}', {'t.de': lines(1, 2), 't.en': b'1\nc\xe9\n'}, 't.en', f'line 2: is not UTF-8: byte 2 is 0xe9{FIX}'),
    ('t.{de,en}', {'t.de': b'a\0\n', 't.en': lines(1)}, 't.de', f'line 1: has a NUL byte: byte 2{FIX}'),
    ('t.{de,en}', {'t.de': lines(1)}, 't.en', 'no such file (looked in '),
    ('t.{de,en}', {'t.de/x': b'', 't.en': lines(1)}, 't.de', 'is a directory, and a file is needed'),
    ('{t,v}.{de,en}', {'t.de': lines(1), 't.en': lines(1), 'v.de': lines(1)}, 'v.en', 'no such file (looked in '),
    ('t.{de,en,fr}', {}, None, 'has 3 languages in braces; write two, of sources and of targets, after the parts: '
     'DIR/train.{de,en} or DIR/{train,dev,test}.{de,en}'),
    ('t.{de}', {}, None, 'has 1 language in braces; write two, '),
    ('{de,en}/{t,v,w}', {}, None, 'has 3 languages in braces; write two, of sources and of targets, after the parts: '),
    ('t.{de,de}', {}, None, 'has sources and targets in the same file; write two languages'),
    ('{a,b,c,d}.{de,en}', {}, None,
     'has 4 parts in braces; write two (train, validation) or three (train, validation, test)'),
    ('{a}.{de,en}', {}, None, 'has 1 part in braces; write two '),
    ('{a,b}.{c,d}.{de,en}', {}, None, f'parallel files have one pair of braces or two; {WRITE}'),
    ('t.{de,en', {}, None, f'parallel files have one pair of braces or two; {WRITE}'),
    ('t.de', {'t.de': lines(1)}, 't.de',
     "the suffix '.de' belongs to no format; set config.data.format to one of: tsv, csv, jsonl, parallel"),
    ('t.txt', {'t.txt': lines(1)}, 't.txt', 'the format text has no translations; those that have are: tsv, csv, jsonl, '
     'parallel'),
    ('t.tsv', {'t.tsv': b'a\tb\nc\t \n'}, 't.tsv', f'line 2: the target is empty{FIX}'),
    ('t.tsv', {'t.tsv': b'a\tb\n\tc\n'}, 't.tsv', f'line 2: the input is empty{FIX}'),
    ('t.tsv', {'t.tsv': b'a\tb\nc\n'}, 't.tsv', f'line 2: has 1 column and 2 are needed{FIX}'),
    ('t.jsonl', {'t.jsonl': b'{"source": ["a"], "target": "b"}\n'}, 't.jsonl',
     f'line 1: the input is a list and a text is needed{FIX}'),
    ('t.jsonl', {'t.jsonl': b'{"source": "a", "target": 5}\n'}, 't.jsonl',
     f'line 1: the target is a number and a text is needed{FIX}'),
    ('t.conll', {'t.conll': b'a b\n'}, 't.conll', 'the format conll has no translations; those that have are: '),
]


@pytest.mark.parametrize('pattern, files, named, reason', REFUSED, ids=[f'{row[0]}: {row[3][:40]}' for row in REFUSED])
def test_a_mistake_has_a_sentence(tmp_path, pattern, files, named, reason):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, pattern, files)
    assert str(caught.value).startswith(f"data.source='file:{tmp_path}/{named or pattern}': {reason}")


def test_damage_is_refused_in_the_name_of_its_file(tmp_path):
    (tmp_path / 't.de').write_bytes(GERMAN)
    for content, reason in ((gzip.compress(ENGLISH, mtime=0)[:-4], 'line 5: the compressed data ends here, and too early; '),
                            (ENGLISH, 'is not compressed, though its name ends in .gz; rename it')):
        (tmp_path / 't.de.gz').write_bytes(gzip.compress(GERMAN, mtime=0))
        (tmp_path / 't.en.gz').write_bytes(content)
        for on_error in ('stop', 'skip'):  # there is nothing to go on with
            with pytest.raises(FieldError) as caught:
                read(tmp_path, 't.{de,en}.gz', {}, on_error=on_error)
            assert str(caught.value).startswith(f"data.source='file:{tmp_path}/t.en.gz': {reason}")


def test_different_numbers_of_lines_stop_always(tmp_path):
    with pytest.raises(FieldError, match='t.en.: has 2 lines, and t.de has 3'):
        read(tmp_path, 't.{de,en}', {'t.de': lines(1, 2, 3), 't.en': lines(1, 2)}, on_error='skip')


def test_nothing_but_malformed_lines_is_refused(tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, 't.{de,en}', {'t.de': lines(1, 2), 't.en': b'\n\n'}, on_error='skip')
    assert str(caught.value) == (f"data.source='file:{tmp_path}/t.de': has nothing to learn from: t.de: 0 records; t.en: 0 "
                                 'records (skipped 2: is empty, in lines 1, 2)')


@pytest.mark.parametrize('field', ['input_column', 'split_column', 'label_file'])
def test_fields_that_mean_nothing_for_parallel_files_are_refused(tmp_path, field):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, 't.{de,en}', {}, **{field: 'x'})
    assert str(caught.value) == (f"data.{field}='x': means nothing for the format parallel of {tmp_path}/t.{{de,en}}; "
                                 'leave it empty')


def test_another_format_than_lines_is_refused_where_braces_name_languages(tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, '{t,v}.{de,en}', {}, format='tsv')
    assert str(caught.value) == (f"data.format='tsv': {tmp_path}/{{t,v}}.{{de,en}} has languages in braces, which is for "
                                 'parallel files; leave it empty')


def test_one_pair_cannot_be_cut_in_two(tmp_path):
    with pytest.raises(FieldError, match='nothing can be held out of a training part of 1'):
        read(tmp_path, 't.{de,en}', {'t.de': lines(1), 't.en': lines(2)})
