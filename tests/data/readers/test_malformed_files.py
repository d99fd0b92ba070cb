"""A table of damaged and odd files: each is refused with the file, the line and the reason, or is read completely."""

import gzip
import random
import tracemalloc
import types
import zlib

import pytest

from seqjax.data.readers.files import read_examples
from seqjax.data.readers.lines import MAX_LINE, File, Malformed
from seqjax.errors import FieldError

FIX = '; fix it, or set config.data.on_error=skip'
FIRST = '; fix it: without the first row the columns are not known'
AGAIN = 'copy the file again'
FORMATS = 'tsv, csv, jsonl, steps, series, fasta, folder, images, idx, npz, listed, tar'
GOOD = b'good film\tpos\nbad film\tneg\nfine\tpos\npoor\tneg\n'
READ = [('good film', 'pos'), ('bad film', 'neg'), ('fine', 'pos'), ('poor', 'neg')]
ZIPPED = gzip.compress(b''.join(b'%d\t%d\n' % (i * 7919 % 1000, i % 2) for i in range(300)), mtime=0)
HALF = ZIPPED[:len(ZIPPED) // 2]
HALF_LINES = zlib.decompressobj(wbits=31).decompress(HALF).count(b'\n')
WORD = b'1\tDogs\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n'
BARK = b'2\tbark\tbark\tVERB\t_\t_\t1\tx\t_\t_\n'


def options(**changes):
    """`config.data`, as far as a reader looks at it."""
    return types.SimpleNamespace(**{**dict(
        format='', input_column='', target_column='', split_column='', sequence_column='', label_file='', mask_file='', image_size=0, cache_images=False, held_out=0.3,
        on_error='stop', split_seed=0, encoding='utf-8'), **changes})


def read(directory, name, content, task='classification', **changes):
    """Writes content, of one file or of several, to the directory and reads the file `name` there.

    A file that an option names is looked for in the same directory.
    """
    for path, written in (content if isinstance(content, dict) else {name: content}).items():
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_bytes(written)
    for field in ('label_file', 'mask_file'):
        if field in changes:
            changes[field] = str(directory / changes[field])
    return read_examples(str(directory / name), task, options(**changes))


def named(rows):
    """Rows of a table whose tests are called after their first column, and not after the bytes of a file."""
    return [pytest.param(*row, id=row[0]) for row in rows]


def pairs(examples):
    """What was read, whatever part it is in."""
    return sorted((example.inputs, example.target) for part in (examples.train, examples.validation, examples.test)
                  for example in part)


# name, content, reason. The sentence is: data.source='file:DIR/name': reason
TEXT = [
    ('empty.tsv', b'', 'the file is empty'),
    ('empty.tsv.gz', b'', 'the file is empty'),
    ('blank.tsv', b'\n  \n\n', 'has nothing to learn from: blank.tsv: 0 records, 3 blank lines'),
    ('header.tsv', b'text\tlabel\n', 'has nothing to learn from: header.tsv: 0 records, 1 header'),
    ('plain.tsv.gz', GOOD, 'is not compressed, though its name ends in .gz; rename it'),
    ('cut.tsv.gz', gzip.compress(GOOD, mtime=0)[:-4], f'line 5: the compressed data ends here, and too early; {AGAIN}'),
    ('half.tsv.gz', HALF, f'line {HALF_LINES + 1}: the compressed data ends here, and too early; {AGAIN}'),
    ('magic.tsv.gz', b'\x1f\x8b', f'line 1: the compressed data ends here, and too early; {AGAIN}'),
    ('sum.tsv.gz', gzip.compress(GOOD, mtime=0)[:-8] + b'\0\0\0\0' + gzip.compress(GOOD, mtime=0)[-4:],
     f'line 5: the compressed data is damaged (CRC check failed 0x0 != {zlib.crc32(GOOD):#x}); {AGAIN}'),
    ('bits.tsv.gz', ZIPPED[:10] + b'\xff' * 20 + ZIPPED[30:],
     f'line 1: the compressed data is damaged (Error -3 while decompressing data: invalid block type); {AGAIN}'),
    ('tail.tsv.gz', gzip.compress(GOOD, mtime=0) + b'more',
     f"line 5: the compressed data is damaged (Not a gzipped file (b'mo')); {AGAIN}"),
    ('latin.tsv', GOOD + 'caf\xe9\tpos\n'.encode('latin-1'), f'line 5: is not UTF-8: byte 4 is 0xe9{FIX}'),
    ('first.tsv', b'\xff\tpos\n' + GOOD,
     f'line 1: is not UTF-8: byte 1 is 0xff{FIRST}'),
    ('nul.tsv', GOOD + b'a\0b\tpos\n', f'line 5: has a NUL byte: byte 2{FIX}'),
    ('cr.tsv', GOOD + b'a\tpos\rb\tneg\n', f'line 5: has a carriage return that ends no line: byte 6{FIX}'),
    ('mac.tsv', GOOD.replace(b'\n', b'\r'),
     f'line 1: has a carriage return that ends no line: byte 14{FIRST}'),
    ('long.tsv', GOOD + b'x' * (10 << 20) + b'\tpos\nshort\tneg\n', f'line 5: is longer than 1,048,576 characters{FIX}'),
    ('longer.tsv', GOOD + b'x' * MAX_LINE + b'\tpos', f'line 5: is longer than 1,048,576 characters{FIX}'),
    ('one.tsv', GOOD + b'no label\n', f'line 5: has 1 column and 2 are needed{FIX}'),
    ('one_first.tsv', b'no label\n' + GOOD, f'line 1: has 1 column and 2 are needed{FIX}'),
    ('three.tsv', GOOD + b'a\tb\tpos\n', f'line 5: has 3 columns and 2 are needed{FIX}'),
    ('unlabelled.tsv', GOOD + b'\nwhat\t\n', f'line 6: the label is empty{FIX}'),
    ('inputless.tsv', GOOD + b' \tpos\n', f'line 5: the input is empty{FIX}'),
    ('quote.csv', b'text,label\ngood,pos\n"bad,neg\nfine,pos\n', 'line 3: a quote is opened here and never closed'),
    ('after.csv', b'text,label\ngood,pos\n"bad"x,neg\n', f"""line 3: is no CSV: ',' expected after '"'{FIX}"""),
    ('cell.csv', b'text,label\n' + b'x' * 200000 + b',pos\n',
     f'line 2: is no CSV: field larger than field limit (131072){FIX}'),
    ('columns.csv', b'text,label\n"a\nb",pos\nc\n', f'line 4: has 1 column and 2 are needed{FIX}'),
    ('inside.csv', b'text,label\n"a\n\xff",pos\n',
     'line 3: is not UTF-8: byte 1 is 0xff; fix it: where the quotes end that line 2 opens is not known'),
    ('split.csv', b'text,label,split\na,pos,train\nb,neg,later\n',
     f"line 3: the split is none of train, validation and test: 'later'{FIX}"),
    ('flip.csv', b'text,label,set,validation\na,pos,train,True\nb,neg,train,perhaps\n',
     f"line 3: the validation column is neither true nor false: 'perhaps'{FIX}"),
    ('tested.csv', b'text,label,split\na,pos,test\n', 'has no training record, only: test'),
    ('syntax.jsonl', b'{"text": "a", "label": "pos"}\n{"text": "b" "label": "neg"}\n',
     f"line 2: is no JSON: Expecting ',' delimiter, character 14{FIX}"),
    ('cut.jsonl', b'{"text": "a", "label": "pos"}\n{"text": "b", "la',
     f'line 2: is no JSON: Unterminated string starting at, character 15{FIX}'),
    ('list.jsonl', b'["a", "pos"]\n', f'line 1: is a list and an object is needed{FIX}'),
    ('deep.jsonl', b'{"text": ' + b'[' * 100000 + b'\n',
     f'line 1: is nested too deeply{FIX}'),
    ('digits.jsonl', b'{"text": "a", "label": ' + b'1' * 5000 + b'}\n', f'line 1: has a number of thousands of digits{FIX}'),
    ('key.jsonl', b'{"text": "a", "label": "pos"}\n{"text": "b"}\n',
     f'line 2: has none of the keys target, label, class, tags, labels: write config.data.target_column{FIX}'),
    ('twice.jsonl', b'{"text": "a", "label": "pos", "label": "neg"}\n', f'line 1: has a key twice{FIX}'),
    ('half.jsonl', rb'{"text": "a\ud83d", "label": "pos"}' + b'\n', f'line 1: has half a surrogate pair{FIX}'),
    ('label.jsonl', b'{"text": "a", "label": ["pos"]}\n',
     f'line 1: the label is a list and a text or a whole number is needed{FIX}'),
    ('input.jsonl', b'{"text": 7, "label": "pos"}\n',
     f'line 1: the input is a number and a text or a list of words is needed{FIX}'),
    ('mixed.jsonl', b'{"text": "a b", "label": 1}\n{"text": ["a", "b"], "label": 0}\n',
     f'line 2: the input is a list and that of earlier lines is a text{FIX}'),
    ('word.jsonl', b'{"words": ["a", ""], "label": 1}\n', f'line 1: a word of the input is empty or no text{FIX}'),
    ('headless.fasta', b'ACD\nEFG\n>a LABEL=x\nACD\n', f"line 1: has no header before it, a line that begins with '>'{FIX}"),
    ('nameless.fasta', b'>a LABEL=x\nACD\n> LABEL=y\nACD\n', f'line 3: the header has no id{FIX}'),
    ('labelless.fasta', b'>a LABEL=x\nACD\n>b\nACD\n', f'line 3: the header has neither TARGET=... nor LABEL=...{FIX}'),
    ('sequenceless.fasta', b'>a LABEL=x\n>b LABEL=y\nACD\n', f'line 1: the input is empty{FIX}'),
    ('latin.fasta', b'>a LABEL=x\nACD\n>b LABEL=y\nACD\n\xe9\nAC\n\0\n',
     f'line 5: is not UTF-8: byte 1 is 0xe9{FIX}'),
    ('notes.txt', b'a\nb\n', f'the format text has no labels for classification; those that have are: {FORMATS}; name that of the file in config.data.format'),
    ('notes.conllu', WORD, f'the format conllu has no labels for classification; those that have are: {FORMATS}; name that of the file in '
     'config.data.format'),
    ('notes.xyz', b'a\n', f"the suffix '.xyz' belongs to no format; set config.data.format to one of: {FORMATS}"),
    ('single.tsv', b'a\tpos\nb\tneg\n',
     'nothing can be held out of a training part of 2: one of every label must stay in it; give a validation part'),
]
NUMBERS = [
    *[(f'{value}.tsv', f'a\t1.5\nb\t{value}\n'.encode(), f"line 2: the target is no finite number: '{value}'{FIX}")
      for value in ('abc', 'nan', '-inf', '1e999', '1e39', '1_000', '1,5', '0x1')],
    ('missing.csv', b'sequence,target\nACD,1.5\nACE,\n', f"line 3: the target is no finite number: ''{FIX}"),
    ('nan.jsonl', b'{"text": "a", "target": NaN}\n', f'line 1: the target is no finite number: nan{FIX}'),
    ('true.jsonl', b'{"text": "a", "target": true}\n', f'line 1: the target is true or false and a number is needed{FIX}'),
    ('none.jsonl', b'{"text": "a", "target": null}\n', f'line 1: the target is null and a number is needed{FIX}'),
    ('huge.jsonl', b'{"text": "a", "target": 1' + b'0' * 400 + b'}\n',
     f'line 1: the target is no finite number: 1{"0" * 49}...{FIX}'),
    ('word.fasta', b'>a TARGET=1\nACD\n>b TARGET=high\nACD\n', f"line 3: the target is no finite number: 'high'{FIX}"),
]
TAGS = [
    ('nine.conllu', WORD + b'\n' + WORD + b'2\tbark\tbark\tVERB\t_\t_\t1\tx\t_\n\n',
     f'line 4: has 9 columns and 10 are needed{FIX}'),
    ('spaces.conllu', WORD.replace(b'\t', b' '), f'line 1: has 1 column and 10 are needed{FIX}'),
    ('joined.conllu', WORD + BARK + WORD,
     f"line 3: the words of a sentence are not numbered 1, 2, 3, ...: '1' comes after 2{FIX}"),
    ('unlabelled.conllu', b'# text = Dogs\n' + WORD.replace(b'NOUN', b''), f'line 2: the label is empty{FIX}'),
    ('latin.conllu', WORD + b'\n\xe9\n', f'line 3: is not UTF-8: byte 1 is 0xe9{FIX}'),
    ('comments.conllu', b'# a\n# b\n\n', 'has nothing to learn from: comments.conllu: 0 records, 2 comments'),
    ('columns.conll', b'Dogs N O\nbark V\n\n', f'line 2: has 2 columns and 3 are needed{FIX}'),
    ('single.conll', b'Dogs\nbark\n\n', f'line 1: has 1 column and 2 are needed{FIX}'),
    ('lengths.jsonl', b'{"words": ["a", "b"], "tags": ["X", "Y"]}\n{"words": ["a", "b"], "tags": ["X"]}\n',
     f'line 2: labels and steps are not as many: 1 label, 2 steps{FIX}'),
    ('number.jsonl', b'{"words": ["a", "b"], "tags": 12}\n',
     f'line 1: the target is a number and a list or a text, with a label for every step, is needed{FIX}'),
    ('empty.jsonl', b'{"words": ["a", "b"], "tags": ["X", " "]}\n', f'line 1: the label is empty{FIX}'),
    ('lengths.tsv', b'ACD\tHHC\nACDE\tHHC\n', f'line 2: labels and steps are not as many: 3 labels, 4 steps{FIX}'),
]


@pytest.mark.parametrize('name, content, reason, task', named(
    [*row, task] for task, table in (('classification', TEXT), ('regression', NUMBERS), ('tagging', TAGS)) for row in table))
def test_a_malformed_file_is_refused_with_its_line_and_the_reason(name, content, reason, task, tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, name, content, task)
    assert str(caught.value) == f"data.source='file:{tmp_path / name}': {reason}"


SEQUENCES = b'>a\nACDE\n>b\nACD\n'
LABELS = b'>a SET=train\nHHCC\n>b SET=test\nHHC\n'
BESIDE = dict(label_file='l.fasta', mask_file='m.fasta')


@pytest.mark.parametrize('sequences, labels, mask, field, reason', [
    (SEQUENCES, LABELS.replace(b'HHCC', b'HHC'), b'>a\n1111\n>b\n111\n', 'source',
     f'line 1: a sequence and its labels differ in length: 4 and 3, in line 1 of l.fasta{FIX}'),
    (SEQUENCES, LABELS, b'>a\n1111\n>b\n11\n', 'source',
     f'line 3: a sequence and its mask differ in length: 3 and 2, in line 3 of m.fasta{FIX}'),
    (SEQUENCES, LABELS, b'>a\n1111\n>b\n11x\n', 'mask_file',
     f"line 3: the mask has other characters than 0 and 1: 'x'{FIX}"),
    (SEQUENCES, LABELS.replace(b'>b', b'>c'), b'>a\n1111\n>b\n111\n', 'source',
     f"line 3: the id is not in l.fasta: 'b'{FIX}"),
    (SEQUENCES, LABELS, b'>a\n1111\n', 'source', f"line 3: the id is not in m.fasta: 'b'{FIX}"),
    (SEQUENCES, LABELS + b'>a\nHHCC\n', b'>a\n1111\n>b\n111\n', 'label_file',
     f"line 5: the id is there twice: 'a', first in line 1{FIX}"),
    (SEQUENCES + b'>a\nACDE\n', LABELS, b'>a\n1111\n>b\n111\n', 'source',
     f"line 5: the id is there twice: 'a', first in line 1{FIX}"),
    (SEQUENCES, b'', b'>a\n1111\n>b\n111\n', 'label_file', 'the file is empty'),
    (SEQUENCES, b'HHCC\n', b'>a\n1111\n>b\n111\n', 'label_file',
     f"line 1: has no header before it, a line that begins with '>'{FIX}"),
    (SEQUENCES, LABELS.replace(b'train', b'most'), b'>a\n1111\n>b\n111\n', 'source',
     f"line 1: the split is none of train, validation and test: 'most'{FIX}"),
    (SEQUENCES, LABELS.replace(b'HHC\n', b'HHX\n'), b'>a\n1111\n>b\n111\n', 'source',
     f"line 3: the label is not in the training part: 'X'{FIX}"),
])
def test_labels_that_do_not_fit_their_sequences_are_refused(sequences, labels, mask, field, reason, tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, 's.fasta', {'s.fasta': sequences, 'l.fasta': labels, 'm.fasta': mask}, 'tagging', **BESIDE)
    path = dict(source='file:@/s.fasta', label_file='@/l.fasta', mask_file='@/m.fasta')[field].replace('@', str(tmp_path))
    assert str(caught.value) == f"data.{field}='{path}': {reason}"


# what the user wrote and must change. The sentence is: field=value: reason, with @ for the directory
@pytest.mark.parametrize('name, content, task, changes, sentence', named([
    ('none.tsv', {}, 'classification', {}, "data.source='file:@/none.tsv': no such file (looked in CWD)"),
    ('a.tsv', GOOD, 'classification', dict(format='tvs'), "data.format='tvs': did you mean 'tsv'?"),
    ('a.tsv', GOOD, 'classification', dict(on_error='ignore'), "data.on_error='ignore': must be 'stop' or 'skip'"),
    ('a.tsv', GOOD, 'classification', dict(format='folder'),
     "data.source='file:@/a.tsv': is no directory, and the format folder needs one"),
    ('sub', {'sub/a.tsv': GOOD}, 'classification', dict(format='tsv'),
     "data.source='file:@/sub': is a directory, and a file is needed"),
    ('sub', {'sub/a.tsv': GOOD}, 'classification', {},
     "data.source='file:@/sub': has no file NAME.txt or NAME.txt.gz, one for every class"),
    ('sub', {'sub/a.txt': b'x\n', 'sub/b.txt': b''}, 'classification', {},
     "data.source='file:@/sub/b.txt': the file is empty"),
    ('sub', {'sub/a.txt': b'x\n', 'sub/a.txt.gz': b''}, 'classification', {},
     "data.source='file:@/sub': has a.txt and a.txt.gz; leave one"),
    ('sub', {'sub/a.txt': b'x\n'}, 'tagging', {},
     "data.source='file:@/sub': the format folder has no labels for tagging; those that have are: tsv, csv, jsonl, conll, "
     'conllu, steps, fasta, npz'),
    ('{a}.tsv', {}, 'classification', {},
     "data.source='file:@/{a}.tsv': has 1 alternative in braces; write two (train, validation) or three (train, validation, "
     'test)'),
    ('{a,b,c,d}.tsv', {}, 'classification', {},
     "data.source='file:@/{a,b,c,d}.tsv': has 4 alternatives in braces; write two (train, validation) or three (train, "
     'validation, test)'),
    *[(name, {}, 'classification', {}, f"data.source='file:@/{name}': has braces that do not match, or more than one pair; "
                                       'write one, as in DIR/{train,dev,test}.tsv')
      for name in ('{a,b.tsv', 'a,b}.tsv', '{a,{b,c}}.tsv', '{a,b}.{tsv,csv}')],
    ('{a,b}.tsv', {'a.tsv': GOOD}, 'classification', {}, "data.source='file:@/b.tsv': no such file (looked in CWD)"),
    ('{a,b}.tsv', {'a.tsv': GOOD, 'b.tsv': b'x\tneg\ny\tmixed\n'}, 'classification', {},
     f"data.source='file:@/b.tsv': line 2: the label is not in the training part: 'mixed'{FIX}"),
    ('{a,b}.conllu', {'a.conllu': WORD, 'b.conllu': b'# 1\n' + WORD + b'\n# 2\n' + WORD + BARK}, 'tagging', {},
     f"data.source='file:@/b.conllu': line 5: the label is not in the training part: 'VERB'{FIX}"),
    ('{a,b}.tsv', {'a.tsv': GOOD, 'b.tsv': GOOD}, 'classification', dict(split_column='3'),
     "data.split_column='3': the files are the parts already; leave it empty"),
    ('{a,b}.jsonl', {'a.jsonl': b'{"text": "a", "label": 1}\n', 'b.jsonl': b'{"text": ["a"], "label": 1}\n'},
     'classification', {},
     "data.source='file:@/{a,b}.jsonl': has texts in one file and lists of words in another"),
    ('a.csv', b'text,lable\na,pos\n', 'classification', dict(target_column='label'),
     "data.target_column='label': @/a.csv has no such column; did you mean 'lable'?"),
    ('a.csv', b'text,mood\na,pos\n', 'classification', {},
     "data.target_column='': @/a.csv has none of the columns target, label, class, tags, labels; write one of: text, mood"),
    ('a.csv', b'text,label,text\na,pos,b\n', 'classification', {},
     "data.input_column='': @/a.csv has two columns called 'text'; write a number"),
    ('a.tsv', GOOD, 'classification', dict(target_column='3'), "data.target_column='3': @/a.tsv has columns 1 to 2"),
    ('a.jsonl', b'{"text": "a", "lable": "pos"}\n', 'classification', dict(target_column='label'),
     f"data.source='file:@/a.jsonl': line 1: has no key 'label': did you mean 'lable'?{FIX}"),
    ('a.fasta', b'>a FITNES=1\nACD\n', 'regression', dict(target_column='FITNESS'),
     f"data.source='file:@/a.fasta': line 1: the header has no FITNESS=...: did you mean 'FITNES'?{FIX}"),
    ('a.conll', b'Dogs N\n', 'tagging', dict(target_column='UPOS'),
     "data.target_column='UPOS': @/a.conll has no such column; its columns have no names: write a number from 1 to 2"),
    ('a.conllu', WORD, 'tagging', dict(target_column='XPSO'),
     "data.target_column='XPSO': @/a.conllu has no such column; did you mean 'XPOS'?"),
    ('a.conllu', WORD, 'tagging', dict(split_column='3'),
     "data.split_column='3': means nothing for the format conllu of @/a.conllu; leave it empty"),
    ('a.tsv', GOOD, 'tagging', dict(label_file='l.fasta'),
     "data.label_file='@/l.fasta': means nothing for the format tsv of @/a.tsv; leave it empty"),
    ('a.fasta', SEQUENCES, 'tagging', {},
     "data.label_file='': tagging @/a.fasta needs a second FASTA file, with a label for every step"),
    ('a.fasta', SEQUENCES, 'tagging', dict(mask_file='m.fasta'),
     "data.mask_file='@/m.fasta': says which labels count, and there is no data.label_file"),
    ('a.fasta', SEQUENCES, 'tagging', dict(label_file='l.fasta'),
     "data.label_file='@/l.fasta': no such file (looked in CWD)"),
    ('a.fasta', SEQUENCES, 'regression', dict(label_file='l.fasta'),
     "data.label_file='@/l.fasta': is for labels of steps, and the task is regression; leave it empty, or set "
     'config.task=tagging'),
]))
def test_what_cannot_be_meant_is_refused_with_the_way_out(name, content, task, changes, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(FieldError) as caught:
        read(tmp_path, name, content, task, **changes)
    assert str(caught.value) == sentence.replace('@', str(tmp_path)).replace('CWD', str(tmp_path.parent))


@pytest.mark.parametrize('name, content, expected', named([
    ('crlf.tsv', GOOD.replace(b'\n', b'\r\n'), READ),
    ('end.tsv', GOOD.removesuffix(b'\n'), READ),
    ('end_cr.tsv', GOOD.removesuffix(b'\n') + b'\r', READ),
    ('bom.tsv', b'\xef\xbb\xbf' + GOOD, READ),
    ('bom.csv', b'\xef\xbb\xbftext,label\n' + GOOD.replace(b'\t', b','), READ),
    ('good.tsv.gz', gzip.compress(GOOD, mtime=0), READ),
    ('members.tsv.gz', gzip.compress(GOOD[:20], mtime=0) + gzip.compress(GOOD[20:], mtime=0), READ),
    ('longest.tsv', GOOD + b'x' * (MAX_LINE - 4) + b'\tpos', [*READ, ('x' * (MAX_LINE - 4), 'pos')]),
    ('widest.tsv', GOOD + '\U0001f642'.encode() * (MAX_LINE - 4) + b'\tpos\r\n',
     [*READ, ('\U0001f642' * (MAX_LINE - 4), 'pos')]),
    ('separators.tsv', GOOD + 'a\u2028b\x0bc\x85d\tpos\n'.encode(), [*READ, ('a\u2028b\x0bc\x85d', 'pos')]),
    ('quotes.tsv', GOOD + b'"a\tpos\n', [*READ, ('"a', 'pos')]),
    ('quotes.csv', b'label,text\npos,"a ""b"", c"\npos,"two\r\n\r\nlines"\npos,5" tall\n',
     [('a "b", c', 'pos'), ('two\n\nlines', 'pos'), ('5" tall', 'pos')]),
    ('spaces.csv', b'text,label\n a ,pos \nb, pos\n', [(' a ', 'pos'), ('b', 'pos')]),
    ('types.jsonl', b'{"text": "a", "label": 1}\n\n{"text": "b", "label": true}\n{"text": "\\u00e9", "label": " 1"}'
                    b'\n{"text": "d", "label": true}', [('a', '1'), ('b', 'true'), ('\xe9', '1'), ('d', 'true')]),
    ('lines.fasta', b'\n>a LABEL=x more\nAC D\n\nEF\n>b label=x\nACD', [('ACDEF', 'x'), ('ACD', 'x')]),
]))
def test_an_odd_file_is_read_completely(name, content, expected, tmp_path):
    examples = read(tmp_path, name, content)
    assert pairs(examples) == sorted(expected)
    assert f'{name}: {len(expected)} records' in examples.report


def test_what_is_skipped_is_counted_by_its_reason(tmp_path):
    content = (GOOD + b'\nno label\n\xff\tpos\na\0\tneg\nempty\t\nno label\n' + b'x' * (5 << 20) + b'\tpos\n'
               + b'no label\nno label\nlast\tpos\n')
    examples = read(tmp_path, 'a.tsv', content, on_error='skip')
    assert pairs(examples) == sorted([*READ, ('last', 'pos')])
    assert examples.report == (
        'a.tsv: 5 records, 1 blank line (skipped 4: has 1 column and 2 are needed, in lines 6, 10, 12, ...; '
        '1: is not UTF-8, in line 7; 1: has a NUL byte, in line 8; 1: the label is empty, in line 9; '
        '1: is longer than 1,048,576 characters, in line 11); 2 of 5 training records held out')


@pytest.mark.parametrize('name, content, task, left, skipped', named([
    ('a.csv', b'text,label\na,x\n"b"c,x\n"d\ne",x\nf\ng,x\n', 'classification', ['a', 'd\ne', 'g'],
     'skipped 1: is no CSV, in line 3; 1: has 1 column and 2 are needed, in line 6'),
    ('a.tsv', b'a\t1\nb\tnan\nc\tinf\nd\t2\n', 'regression', ['a', 'd'],
     'skipped 2: the target is no finite number, in lines 2, 3'),
    ('a.jsonl', b'{"text": "a", "label": 1}\n{\n{"text": "b"}\n{"text": "c", "label": 1}\n', 'classification', ['a', 'c'],
     'skipped 1: is no JSON, in line 2; 1: has none of the keys target, label, class, tags, labels, in line 3'),
    ('a.conllu', WORD + b'\n' + WORD + b'\xff\n' + WORD + b'\n' + WORD + b'x\n\n' + WORD, 'tagging', [('Dogs',), ('Dogs',)],
     'skipped 1: is not UTF-8, in line 4; 1: has 1 column and 10 are needed, in line 8'),
    ('a.conll', b'alone\n\na X\nb X\n\na X\nb\n\nc X\n', 'tagging', [('a', 'b'), ('c',)],
     'skipped 2: has 1 column and 2 are needed, in lines 1, 7'),
    ('a.fasta', b'AC\n>a LABEL=x\nAC\n>b LABEL=x\nA\xff\nA\n>c\nAC\n>d LABEL=x\nAD\n', 'classification', ['AC', 'AD'],
     "skipped 1: has no header before it, a line that begins with '>', in line 1; 1: is not UTF-8, in line 5; "
     '1: the header has neither TARGET=... nor LABEL=..., in line 7'),
]))
def test_a_record_is_skipped_as_a_whole_and_the_next_is_read(name, content, task, left, skipped, tmp_path):
    examples = read(tmp_path, name, content, task, on_error='skip')
    assert [inputs for inputs, _ in pairs(examples)] == left
    assert f'({skipped})' in examples.report


def test_labels_that_are_skipped_cost_their_sequences(tmp_path):
    files = {'s.fasta': SEQUENCES + b'>c\nAC\n>d\nA\n', 'l.fasta': b'>a\nHHCC\n>b\nHHC\n>c\nHC\n>e\nC\n',
             'm.fasta': b'>a\n1011\n>b\n11x\n>c\n11\n>d\n1\n'}
    examples = read(tmp_path, 's.fasta', files, 'tagging', on_error='skip', **BESIDE)
    assert pairs(examples) == [('AC', ('H', 'C')), ('ACDE', ('H', None, 'C', 'C'))]
    assert examples.report == (
        's.fasta: 2 records (skipped 1: the id is not in m.fasta, in line 3; 1: the id is not in l.fasta, in line 7); '
        'l.fasta: 4 records, 1 without a sequence; '
        'm.fasta: 3 records (skipped 1: the mask has other characters than 0 and 1, in line 3); '
        '1 of 2 training records held out')


def test_labels_that_training_never_shows_are_skipped_too(tmp_path):
    files = {'a.tsv': GOOD, 'b.tsv': b'x\tneg\ny\tmixed\n', 'c.tsv': b'z\tmixed\n'}
    examples = read(tmp_path, '{a,b}.tsv', files, on_error='skip')
    assert [example.inputs for example in examples.validation] == ['x']
    assert examples.report == ('a.tsv: 4 records; '
                               'b.tsv: 1 record (skipped 1: the label is not in the training part, in line 2)')
    with pytest.raises(FieldError, match='the test part has only labels that are not in the training part'):
        read(tmp_path, '{a,b,c}.tsv', files, on_error='skip')


@pytest.mark.parametrize('name, content, reason', named([
    ('a.tsv', b'a\nb\n',
     'has nothing to learn from: a.tsv: 0 records (skipped 2: has 1 column and 2 are needed, in lines 1, 2)'),
    ('a.tsv.gz', gzip.compress(GOOD, mtime=0)[:-4], f'line 5: the compressed data ends here, and too early; {AGAIN}'),
    ('a.csv', b'text,label\n"a\n', 'line 2: a quote is opened here and never closed'),
    ('b.csv', b'\xff,label\na,x\n', f'line 1: is not UTF-8: byte 1 is 0xff{FIRST}'),
]))
def test_damage_that_hides_the_rest_stops_even_where_lines_are_skipped(name, content, reason, tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, name, content, on_error='skip')
    assert caught.value.reason == reason


@pytest.mark.parametrize('name', ['a.tsv', 'a.tsv.gz'])
def test_a_line_that_is_too_long_is_never_in_memory_as_a_whole(name, tmp_path):
    content = GOOD + b'x' * (40 << 20) + b'\n' + GOOD
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith('.gz') else content)
    tracemalloc.start()
    try:
        found = [text for _, text in File(str(tmp_path / name), 'stop').lines()]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 9 and [isinstance(text, Malformed) for text in found].index(True) == 4
    assert most < 14 << 20  # a piece of 4 MB, what it is made of, and the one before


@pytest.mark.parametrize('name, task, content', named([
    ('a.tsv', 'classification', GOOD * 3), ('a.tsv.gz', 'classification', gzip.compress(GOOD * 3, mtime=0)),
    ('a.csv', 'regression', b'sequence,target,set,validation\n"AC\n""D""",1.5,train,True\nAC,-2,train,\nAC,3e4,test,\n' * 2),
    ('a.jsonl', 'classification', b'{"text": "\\u00e9 b", "label": 1}\n{"text": "c", "label": true}\n' * 3),
    ('b.jsonl', 'tagging', b'{"words": ["a", "b"], "tags": ["X", null]}\n{"words": ["c"], "tags": ["X"]}\n' * 3),
    ('a.conll', 'tagging', b'Dogs N\nbark V\n\nDogs N\n\n' * 3),
    ('a.conllu', 'tagging', (WORD + BARK + b'\n# a\n' + WORD) * 3),
    ('a.fasta', 'classification', b'>a LABEL=x\nACD\nEF\n>b LABEL=y SET=test\nACD\n' * 3),
]))
@pytest.mark.parametrize('on_error', ['stop', 'skip'])
def test_random_damage_is_read_or_refused_and_nothing_else(name, task, content, on_error, tmp_path):
    rng = random.Random(name)
    noticed = 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            at, removed, added = rng.randrange(len(damaged)), rng.randint(0, 3), rng.randint(0, 3)
            damaged[at:at + removed] = bytes(rng.choices(b'\0\t\n\r ",1>[]{}\\\xff\xc3\xa9=#-.', k=added))
        try:
            examples = read(tmp_path, name, bytes(damaged), task, on_error=on_error)
            assert examples.train and examples.validation
            noticed += 'skipped' in examples.report
        except FieldError as error:
            assert error.field in ('data.source', 'data.input_column', 'data.target_column')
            noticed += 1
    assert noticed > 15
