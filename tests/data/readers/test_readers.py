"""Every format, plain and compressed, written by something else and read back; columns, splits and files as parts."""

import csv
import gzip
import io
import json
import random
import types

import pytest

from seqjax.data.readers.files import FORMATS, read_examples

WORDS = ('one', 'zwölf', '🙂', 'a,b', '"quoted"', "d'or", 'x=y', '>', '#', 'ﬁn', 'e\u0301')


def options(**changes):
    """`config.data`, as far as a reader looks at it."""
    return types.SimpleNamespace(**{**dict(
        format='', input_column='', target_column='', split_column='', sequence_column='', label_file='', mask_file='', image_size=0, cache_images=False, held_out=0.25,
        on_error='stop', split_seed=0, encoding='utf-8'), **changes})


def write(path, text):
    """Writes a text, compressed where the name says so."""
    path.parent.mkdir(exist_ok=True)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == '.gz' else content)
    return str(path)


def pairs(examples):
    return [(example.inputs, example.target) for example in examples]


def together(examples):
    """What was read, in whatever part."""
    return sorted(pairs(examples.train + examples.validation + examples.test))


def some_text(rng):
    return ' '.join(rng.choices(WORDS, k=rng.randint(1, 9)))


def some_words(rng):
    return tuple(rng.choices(WORDS, k=rng.randint(1, 9)))


def as_tsv(records):
    return ''.join(f'{inputs}\t{target}\n' for inputs, target in records)


def as_csv(records):
    made = io.StringIO()
    writer = csv.writer(made)
    writer.writerow(['text', 'label'])
    writer.writerows(records)
    return made.getvalue()


def as_jsonl(records):
    return ''.join(json.dumps(dict(target=target, text=inputs)) + '\n' for inputs, target in records)


def as_fasta(records):
    return ''.join(f'>id{i} LENGTH={len(inputs)} TARGET={target}\n{inputs[:4]}\n{inputs[4:]}\n'
                   for i, (inputs, target) in enumerate(records))


def as_conll(records):
    return ''.join(''.join(f'{word} - {label}\n' for word, label in zip(*record)) + '\n' for record in records)


def as_conllu(records):
    def sentence(words, labels):
        lines = [f'{i}\t{word}\t_\t{label}' + '\t_' * 6 for i, (word, label) in enumerate(zip(words, labels), 1)]
        joined, missing = ('\t'.join([number, 'word', *'_' * 8]) for number in ('1-2', '8.1'))
        return '\n'.join(['# text = ' + ' '.join(words), joined, *lines, missing]) + '\n\n'
    return ''.join(sentence(*record) for record in records)


@pytest.mark.parametrize('suffix', ['', '.gz'])
@pytest.mark.parametrize('name, task, written', [
    ('a.tsv', 'classification', as_tsv), ('a.tab', 'regression', as_tsv), ('a.csv', 'classification', as_csv),
    ('a.csv', 'regression', as_csv), ('a.jsonl', 'classification', as_jsonl), ('a.jsonl', 'regression', as_jsonl),
    ('a.jsonl', 'tagging', as_jsonl), ('a.fasta', 'classification', as_fasta), ('a.fa', 'regression', as_fasta),
    ('a.conll', 'tagging', as_conll), ('a.conllu', 'tagging', as_conllu)])
def test_what_is_written_is_read(name, task, written, suffix, tmp_path):
    rng = random.Random(repr((name, task)))
    inputs = [''.join(rng.choices('ACDEFGHIKLMNPQRSTVWY', k=rng.randint(1, 12))) if written is as_fasta
              else some_words(rng) if task == 'tagging' else some_text(rng) for _ in range(50)]
    target = dict(classification=lambda _: rng.choice(['neg', 'pos', 'mixed']), regression=lambda _: rng.gauss(0, 100),
                  tagging=lambda words: tuple(rng.choices(['NOUN', 'VERB', ':'], k=len(words))))[task]
    records = [(sequence, target(sequence)) for sequence in inputs]
    examples = read_examples(write(tmp_path / (name + suffix), written(records)), task, options())
    assert together(examples) == sorted(records)
    assert (len(examples.train), len(examples.validation), len(examples.test)) == (38, 12, 0)
    assert examples.report.startswith(f'{name + suffix}: 50 records')
    assert examples.report.endswith('; 12 of 50 training records held out')
    again = read_examples(str(tmp_path / (name + suffix)), task, options())
    assert again == examples
    assert read_examples(str(tmp_path / (name + suffix)), task, options(split_seed=1)).validation != examples.validation


def test_every_format_that_carries_labels_is_tried():
    assert FORMATS.keys() - {'text', 'folder', 'images', 'idx', 'npz', 'listed', 'tar', 'parallel'} == {'tsv', 'csv', 'jsonl', 'steps', 'series', 'fasta', 'conll', 'conllu'}


def test_a_folder_has_a_class_in_every_file(tmp_path):
    write(tmp_path / 'Irish.txt', "O'Neal\n\nByrne\nDaly\n")
    write(tmp_path / 'Greek.txt.gz', 'Adamou\nBabis')
    write(tmp_path / 'old.names.txt', 'Sym\nSym\n')
    write(tmp_path / 'README.md', 'names')
    write(tmp_path / 'more' / 'Dutch.txt', 'Vann')
    examples = read_examples(f'{tmp_path}/', 'classification', options(held_out=0.5))
    assert together(examples) == [('Adamou', 'Greek'), ('Babis', 'Greek'), ('Byrne', 'Irish'), ('Daly', 'Irish'),
                                  ("O'Neal", 'Irish'), ('Sym', 'old.names'), ('Sym', 'old.names')]
    assert examples.report == ('Greek.txt.gz: 2 records; Irish.txt: 3 records, 1 blank line; old.names.txt: 2 records; '
                               '2 other files in the folder: README.md, more; 4 of 7 training records held out')


TABLE = 'id,mood,review,stars\n1,pos,good,5\n2,neg,bad,1\n3,pos,fine,4\n4,neg,poor,2\n'
MOODS = [('bad', 'neg'), ('fine', 'pos'), ('good', 'pos'), ('poor', 'neg')]


@pytest.mark.parametrize('text, changes, expected', [
    (TABLE, dict(input_column='review', target_column='mood'), MOODS),
    (TABLE, dict(input_column='review', target_column='2'), MOODS),
    (TABLE, dict(input_column='3', target_column='mood'), MOODS),
    (TABLE.replace('mood', 'Label').replace('review', ' Sentence'), {}, MOODS),
    (TABLE.replace('id', '').replace('mood', 'class').replace('review', 'text'), {}, MOODS),
    ('label,text,sequence\nx,a,b\nx,c,d\n', {}, [('b', 'x'), ('d', 'x')]),  # the first of the names, not of the columns
    ('a,b,x\nc,d,x\n', {}, [('a', 'x'), ('c', 'x')]),
    ('a,b,x\nc,d,x\n', dict(input_column='2'), [('b', 'x'), ('d', 'x')]),
    ('x,b,a\nx,d,c\n', dict(input_column='3', target_column='1'), [('a', 'x'), ('c', 'x')]),
])
def test_columns_are_found_by_name_by_number_or_by_custom(text, changes, expected, tmp_path):
    comma = read_examples(write(tmp_path / 'a.csv', text), 'classification', options(**changes))
    tab = read_examples(write(tmp_path / 'a.tsv', text.replace(',', '\t')), 'classification', options(**changes))
    named = read_examples(str(tmp_path / 'a.csv'), 'classification', options(**changes, format='csv'))
    assert together(comma) == together(tab) == together(named) == expected


def test_a_first_row_that_may_be_a_header_is_pointed_out(tmp_path):
    note = ("only line 1 has the label 'mood'; if it is a header, name config.data.input_column and "
            'config.data.target_column')
    path = write(tmp_path / 'a.tsv', 'review\tmood\ngood\tpos\nfine\tpos\n')
    assert note in read_examples(path, 'classification', options()).report
    named = read_examples(path, 'classification', options(target_column='mood', input_column='review'))
    assert 'only line' not in named.report and together(named) == [('fine', 'pos'), ('good', 'pos')]
    write(tmp_path / 'a.tsv', 'good\tpos\nbad\tneg\nfine\tpos\n')
    assert 'only line' not in read_examples(path, 'classification', options()).report


@pytest.mark.parametrize('name, text, changes', [
    ('a.csv', 'text,label,split\na,x,train\nb,x,dev\nc,x,test\nd,x,Training\ne,x,valid\n', {}),
    ('a.csv', 'text,label,set,validation\na,x,train,\nb,x,train,True\nc,x,test,\nd,x,train,False\ne,x,train,true\n', {}),
    ('a.csv', 'text,label,set,fold\na,x,?,train\nb,x,?,val\nc,x,?,test\nd,x,?,train\ne,x,?,dev\n',
     dict(split_column='fold')),
    ('a.tsv', 'train\ta\tx\ndev\tb\tx\ntest\tc\tx\ntrain\td\tx\ndev\te\tx\n', dict(split_column='1', input_column='2')),
    ('a.jsonl', ''.join(json.dumps(dict(text=text, label='x', set=split, validation=flag)) + '\n' for text, split, flag in [
        ('a', 'train', False), ('b', 'train', True), ('c', 'test', None), ('d', 'train', ''), ('e', 'dev', 0)]), {}),
    ('a.fasta', '>1 SET=train VALIDATION=False LABEL=x\na\n>2 SET=train VALIDATION=True LABEL=x\nb\n>3 LABEL=x SET=test\nc\n'
                '>4 LABEL=x SET=train\nd\n>5 SET=validation LABEL=x\ne\n', {}),
    ('a.fasta', ''.join(f'>{i} LABEL=x part={part}\n{text}\n' for i, (text, part) in enumerate(
        zip('abcde', ['train', 'dev', 'test', 'train', 'dev']))), dict(split_column='part')),
])
def test_a_file_may_say_which_part_a_record_is_in(name, text, changes, tmp_path):
    examples = read_examples(write(tmp_path / name, text), 'classification', options(**changes))
    assert ''.join(example.inputs for example in examples.train) == 'ad'
    assert ''.join(example.inputs for example in examples.validation) == 'be'
    assert ''.join(example.inputs for example in examples.test) == 'c'
    assert 'held out' not in examples.report


def test_without_a_validation_part_it_comes_from_the_training_part_alone(tmp_path):
    rows = [(f'{part} {i}', i % 3, part) for part in ('train', 'test') for i in range(20)]
    lines = [','.join(map(str, row)) for row in [('text', 'target', 'split'), *rows]]
    path = write(tmp_path / 'a.csv', '\n'.join(lines))
    examples = read_examples(path, 'regression', options())
    assert pairs(examples.test) == [(text, target) for text, target, part in rows if part == 'test']
    assert len(examples.train) == 15 and len(examples.validation) == 5
    assert all(example.inputs.startswith('train') for example in examples.train + examples.validation)


def test_files_are_parts_in_the_order_of_the_braces(tmp_path, monkeypatch):
    for name in ('x-learn', 'x-tune', 'x-judge'):
        write(tmp_path / f'{name}.tsv', ''.join(f'{name} {i}\t{i % 2}\n' for i in range(4)))
    first, second, third = ([(f'{name} {i}', str(i % 2)) for i in range(4)] for name in ('x-learn', 'x-tune', 'x-judge'))
    three = read_examples(f'{tmp_path}/x-{{learn,tune,judge}}.tsv', 'classification', options())
    assert (pairs(three.train), pairs(three.validation), pairs(three.test)) == (first, second, third)
    assert three.report == 'x-learn.tsv: 4 records; x-tune.tsv: 4 records; x-judge.tsv: 4 records'
    monkeypatch.setenv('HOME', str(tmp_path))
    two = read_examples('~/x-{judge,tune}.tsv', 'classification', options())
    assert (pairs(two.train), pairs(two.validation), pairs(two.test)) == (third, second, [])


def test_folders_may_be_parts_and_a_split_column_does_not_change_a_part(tmp_path):
    for part in ('train', 'dev'):
        for label in ('x', 'y'):
            write(tmp_path / part / f'{label}.txt', f'{part} {label}\n')
        write(tmp_path / f'{part}.csv', f'text,label,split\n{part},x,test\n')
    examples = read_examples(f'{tmp_path}/{{train,dev}}', 'classification', options())
    assert pairs(examples.validation) == [('dev x', 'x'), ('dev y', 'y')]
    examples = read_examples(f'{tmp_path}/{{train,dev}}.csv', 'classification', options())
    assert pairs(examples.train) == [('train', 'x')] and pairs(examples.validation) == [('dev', 'x')]


CONLLU = '''# sent_id = 1
# text = vámonos al New York
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
2.1\tgone\t_\tVERB\tV\t_\t_\t_\t_\t_
3\tNew York\tNew York\tPROPN\tN\t_\t1\tobl\t_\t_


# sent_id = 2
1\t#\t#\tSYM\tS\t_\t0\troot\t_\t_'''


@pytest.mark.parametrize('changes, labels, words', [
    ({}, [('SYM',), ('VERB', 'PRON', 'PROPN')], [('#',), ('vamos', 'nos', 'New York')]),
    (dict(target_column='XPOS'), [('S',), ('V', 'P', 'N')], [('#',), ('vamos', 'nos', 'New York')]),
    (dict(target_column='5', input_column='LEMMA'), [('S',), ('V', 'P', 'N')], [('#',), ('ir', 'nosotros', 'New York')]),
])
def test_words_of_conllu_are_the_parts_of_joined_words(changes, labels, words, tmp_path):
    path = write(tmp_path / 'a.conllu', CONLLU + '\n\n' + CONLLU)  # every label twice, so that one can be held out
    examples = read_examples(path, 'tagging', options(**changes))
    assert together(examples) == sorted([*zip(words, labels)] * 2)
    assert examples.report.startswith('a.conllu: 4 records, 6 comments, 2 multiword ranges, 2 empty nodes; ')


def test_document_marks_of_conll_are_counted_and_left_out(tmp_path):
    mark = '-DOCSTART- -X- O O\n\n'
    path = write(tmp_path / 'a.conll', f'{mark}EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n'
                                       f'{mark}Peter NNP I-NP B-ORG\nBlackburn NNP I-NP O')
    examples = read_examples(path, 'tagging', options())
    assert together(examples) == [(('EU', 'rejects'), ('B-ORG', 'O')), (('Peter', 'Blackburn'), ('B-ORG', 'O'))]
    assert examples.report.startswith('a.conll: 2 records, 2 document marks; ')
    chunks = read_examples(path, 'tagging', options(target_column='3', input_column='2'))
    assert together(chunks) == [(('NNP', 'NNP'), ('I-NP', 'I-NP')), (('NNP', 'VBZ'), ('I-NP', 'I-VP'))]


@pytest.mark.parametrize('name, text', [
    ('a.tsv', 'ACD\tHHC\nAC\tH \nD\tC\nD\t \n'),
    ('a.csv', 'sequence,label\nACD,HHC\nAC,"H "\nD,C\nD,\x20\n'),
    ('a.jsonl', '{"text": "ACD", "tags": "HHC"}\n{"text": "AC", "tags": "H "}\n{"text": "D", "tags": "C"}\n'
                '{"text": "D", "tags": " "}\n'),
])
def test_texts_have_a_label_for_every_character(name, text, tmp_path):
    examples = read_examples(write(tmp_path / name, text), 'tagging', options())
    assert together(examples) == [('AC', ('H', ' ')), ('ACD', ('H', 'H', 'C')), ('D', (' ',)), ('D', ('C',))]


def test_lists_of_json_may_have_labels_that_do_not_count(tmp_path):
    path = write(tmp_path / 'a.jsonl', '{"words": ["a", "b"], "tags": [1, null]}\n{"words": ["c"], "tags": ["1"]}\n')
    assert together(read_examples(path, 'tagging', options())) == [(('a', 'b'), ('1', None)), (('c',), ('1',))]


@pytest.mark.parametrize('suffix', ['', '.gz'])
def test_labels_and_masks_of_steps_stand_in_files_beside_the_sequences(suffix, tmp_path):
    rng = random.Random(4)
    rows = []
    for i in range(30):
        length = rng.randint(1, 100)
        sequence, labels, mask = (''.join(rng.choices(letters, k=length)) for letters in ('ACDEFGHIK', 'CEH', '01'))
        rows.append((f'id-{i}', sequence, labels, mask, rng.choice(['train', 'test']), rng.choice(['True', 'False'])))
    fold = lambda text: '\n'.join(text[at:at + 20] for at in range(0, len(text), 20))
    shuffled = rng.sample(rows, len(rows))
    path = write(tmp_path / f's.fasta{suffix}', ''.join(f'>{row[0]}\n{fold(row[1])}\n' for row in rows))
    beside = dict(
        label_file=write(tmp_path / f'l.fasta{suffix}',
                         ''.join(f'>{row[0]} SET={row[4]} VALIDATION={row[5]}\n{row[2]}\n' for row in shuffled)),
        mask_file=write(tmp_path / f'm.fasta{suffix}', ''.join(f'>{row[0]}\n{fold(row[3])}\n' for row in shuffled)))
    expected = dict(train=[], validation=[], test=[])
    for _, sequence, labels, mask, split, validation in rows:
        part = 'validation' if split == 'train' and validation == 'True' else split
        expected[part].append((sequence, tuple(label if counts == '1' else None for label, counts in zip(labels, mask))))
    examples = read_examples(path, 'tagging', options(**beside))
    assert {part: pairs(getattr(examples, part)) for part in expected} == expected
    names = [f'{name}.fasta{suffix}: 30 records' for name in 'slm']
    assert examples.report == '; '.join(names)
    unmasked = read_examples(path, 'tagging', options(label_file=beside['label_file']))
    assert [''.join(example.target) for example in unmasked.test] == [row[2] for row in rows if row[4] == 'test']
