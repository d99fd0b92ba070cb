"""Labels for new lines: as many as there are lines, in their order, and each as if its line had been alone."""

import itertools
import json
import types

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import data, decode
from seqjax.errors import UserError
from seqjax.modes import predict
from seqjax.modes.command import lines
from seqjax.modes.predict import predict_lines
from seqjax.runs import RunDirectory
from tests.labelled_files import LETTERS, labelled_config, untrained_run, write_labelled
from tests.tiny import tiny_config

SHORT, LONG = decode.lengths.SHORTEST, decode.lengths.SHORTEST + 5
LINES = ['abc', 'h', '', 'gfedcba', 'a' * LONG, 'abé', 'c' * SHORT, 'dd', 'cab', 'fg', 'hgf', 'ad', 'cb', 'ee', ' ', 'ß']


def make(directory, task, *options, **sections):
    """(config, workdir, parts, parameters) of a run."""
    config = labelled_config(write_labelled(directory / f'{task}.jsonl', task), task, *options, **sections)
    return config, directory / task, *untrained_run(config, directory / task)


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    return make(tmp_path_factory.mktemp('predict'), 'classification')


@pytest.fixture(scope='module')
def tagger(tmp_path_factory):
    return make(tmp_path_factory.mktemp('predict'), 'tagging', model=dict(crf=True))


@pytest.fixture(scope='module')
def regressor(tmp_path_factory):
    return make(tmp_path_factory.mktemp('predict'), 'regression', 'conv')


def answers(run, lines):
    config, workdir, *_ = run
    return list(predict_lines(config, workdir, lines))


def outputs(run, lines):
    """What the model says of lines that are not empty, all in rows of one length."""
    _, _, parts, params = run
    tokens = [parts.dataset.tokenizer.encode(line) for line in lines]
    rows = np.stack([np.pad(row, (0, LONG - len(row))) for row in tokens])
    lengths = np.array([len(row) for row in tokens], np.int32)
    return jax.device_get(jax.jit(lambda params: parts.task.model.apply({'params': params}, rows, lengths))(params))


# ------------------------------------------------------------------------------------------------ classes

def test_every_line_gets_its_own_probabilities_in_the_order_of_the_lines(classifier):
    found, real = answers(classifier, [line + '\n' for line in LINES]), [line for line in LINES if line]
    assert [answer['input'] for answer in found] == LINES
    assert found[2] == dict(input='', label=None, reason='an empty line')
    logits = np.float64(outputs(classifier, real))
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for answer, p in zip((answer for answer in found if answer['input']), expected):
        assert list(answer) == ['input', 'label', 'probabilities'] and tuple(answer['probabilities']) == tuple(LETTERS)
        np.testing.assert_allclose(list(answer['probabilities'].values()), p, atol=1e-5)
        assert sum(answer['probabilities'].values()) == pytest.approx(1, abs=1e-5)
        assert answer['label'] == list(LETTERS)[p.argmax()]
    assert len({answer['label'] for answer in found}) > 2  # None, and not always the same class


def test_a_line_is_judged_alone_and_in_pieces_as_among_others(classifier, monkeypatch):
    together = answers(classifier, LINES)
    for place in (1, 4):
        alone, = answers(classifier, [LINES[place]])
        assert alone == {**together[place], 'probabilities': pytest.approx(together[place]['probabilities'], abs=1e-5)}
    monkeypatch.setattr(lines, 'LINES_AT_ONCE', 3)
    in_pieces = answers(classifier, iter(LINES))
    assert [answer['label'] for answer in in_pieces] == [answer['label'] for answer in together]
    assert answers(classifier, []) == []


def test_the_first_answers_do_not_wait_for_the_last_line(classifier, monkeypatch):
    monkeypatch.setattr(lines, 'LINES_AT_ONCE', 2)
    config, workdir, *_ = classifier
    endless = predict_lines(config, workdir, itertools.cycle(['abc', 'h']))
    assert [answer['input'] for answer in itertools.islice(endless, 5)] == ['abc', 'h', 'abc', 'h', 'abc']


def test_line_ends_are_no_part_of_a_line_and_unknown_characters_are_all_alike(classifier):
    plain, *others = answers(classifier, ['abz', 'abz\n', 'abz\r\n', 'abß\n', 'ab\N{REPLACEMENT CHARACTER}', 'ab🙂'])
    assert [answer['probabilities'] for answer in others] == [plain['probabilities']] * 5
    assert [answer['input'] for answer in others] == ['abz', 'abz', 'abß', 'ab\N{REPLACEMENT CHARACTER}', 'ab🙂']
    assert answers(classifier, ['aba'])[0]['probabilities'] != plain['probabilities']


def test_a_line_far_longer_than_any_in_training(classifier):
    line = 'abcdefgh' * 375
    answer, short = answers(classifier, [line, 'abc'])
    assert answer['input'] == line and sum(answer['probabilities'].values()) == pytest.approx(1, abs=1e-5)
    assert short['probabilities'] == pytest.approx(answers(classifier, ['abc'])[0]['probabilities'], abs=1e-5)


@pytest.mark.parametrize('mesh', [dict(strategy='pmap', data=8), dict(data=1, fsdp=8)], ids=['pmap', 'fsdp'])
def test_any_mesh_gives_the_same_answers(classifier, mesh):
    config, workdir, *_ = classifier
    config = config.copy_and_resolve_references()
    config.parallel.update(mesh)
    lines = LINES[:2]
    for answer, expected in zip(predict_lines(config, workdir, lines), answers(classifier, lines), strict=True):
        assert answer['probabilities'] == pytest.approx(expected['probabilities'], abs=1e-5)


# ------------------------------------------------------------------------------------------------ labels, numbers

def test_a_random_field_gives_the_best_path_and_the_marginals_of_its_labels(tagger):
    """Against all paths of short lines, one by one."""
    lines = ['abc', 'hea', 'e', 'dbca']
    scores, between = outputs(tagger, lines)
    for line, answer, row in zip(lines, answers(tagger, lines), np.float64(scores), strict=True):
        paths = list(itertools.product(range(2), repeat=len(line)))
        totals = np.array([sum(row[t, label] for t, label in enumerate(path)) + between.start[path[0]]
                           + sum(between.between[a, b] for a, b in itertools.pairwise(path)) + between.end[path[-1]]
                           for path in paths])
        probabilities = np.exp(totals - totals.max()) / np.exp(totals - totals.max()).sum()
        best = paths[probabilities.argmax()]
        assert answer['input'] == line and answer['tokens'] == list(line)
        assert answer['labels'] == [('other', 'vowel')[label] for label in best]
        marginals = [sum(p for p, path in zip(probabilities, paths) if path[t] == label) for t, label in enumerate(best)]
        np.testing.assert_allclose(answer['probabilities'], marginals, atol=1e-5)


def test_there_is_a_label_for_every_character_and_none_for_nothing(tagger):
    found = answers(tagger, ['ab é\n', '\r\n', 'c' * LONG])
    assert found[0]['tokens'] == ['a', 'b', ' ', 'é'] and len(found[0]['labels']) == len(found[0]['probabilities']) == 4
    assert found[1] == dict(input='', labels=None, reason='an empty line')
    assert len(found[2]['labels']) == LONG


def test_words_are_labelled_one_by_one_as_they_stand(tmp_path, capsys):
    sentences = [(('An', 'elm', 'stands'), ('D', 'N', 'V')), (('elm', 'trees', 'stand', 'there'), ('N', 'N', 'V', 'A'))]
    (tmp_path / 'words.jsonl').write_text('\n'.join(json.dumps(dict(words=words, tags=tags, split=split))
                                                    for words, tags in sentences for split in ('train', 'validation')))
    config = labelled_config(tmp_path / 'words.jsonl', 'tagging', 'conv',
                             data=dict(tokenizer='word', lowercase=True, characters_per_word=4),
                             model=dict(character_encoder='conv', character_width=4))
    untrained_run(config, tmp_path / 'run')
    lines = ['An elm stands', ' An\telm  stands\n', 'oak ELM', ' \t']
    plain, spaced, unknown, nothing = predict_lines(config, tmp_path / 'run', lines)
    assert plain['tokens'] == spaced['tokens'] == ['An', 'elm', 'stands'] and plain['labels'] == spaced['labels']
    assert unknown['tokens'] == ['oak', 'ELM'] and len(unknown['labels']) == 2 and set(plain['labels']) <= set('DNVA')
    assert nothing == dict(input=' \t', labels=None, reason='an empty line')
    assert '1 line with symbols that are not known: 3\n' in capsys.readouterr().err


def test_numbers_are_in_the_unit_of_the_targets(regressor):
    _, workdir, parts, _ = regressor
    lines, how = [line for line in LINES if line], RunDirectory(workdir).codec('labelled')
    targets = [row['targets'] for row in parts.dataset.rows['train']]
    expected = np.mean(targets) + np.std(targets) * outputs(regressor, lines)[:, 0]
    found = answers(regressor, [*lines, ''])
    np.testing.assert_allclose([answer['prediction'] for answer in found[:-1]], expected, rtol=1e-4)
    assert found[-1] == dict(input='', prediction=None, reason='an empty line')
    assert how.scale != 1 and how.offset > 9


# ------------------------------------------------------------------------------------------------ what is said

def test_what_was_unusual_is_said_at_the_end(classifier, monkeypatch, capsys):
    monkeypatch.setattr(lines, 'LINES_AT_ONCE', 2)
    answers(classifier, ['abc', 'abß', '', 'a\0', 'ab\N{REPLACEMENT CHARACTER}', 'h'])
    said = capsys.readouterr().err
    assert said.startswith('predict 0 lines  compiling\n')
    assert said.endswith('3 lines with symbols that are not known: 2, 4, 5\n1 line without an answer (an empty line): 3\n'
                         '1 line with NUL bytes: 4\n'
                         '1 line with U+FFFD, which stands for bytes that are not UTF-8: 5\n')
    answers(classifier, ['abc', 'h'])
    assert ' known' not in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ what has no labels

def test_a_language_model_has_no_labels(tmp_path):
    config = tiny_config('recurrent')
    RunDirectory(tmp_path).claim(config, types.SimpleNamespace(files=lambda: {'codec.json': data.TextCodec(data.ByteTokenizer(), 8).dumps()}, facts=dict))
    with pytest.raises(UserError) as caught:
        next(predict_lines(config, tmp_path, ['a']))
    assert str(caught.value) == (f'--workdir={tmp_path}: the run has not learned to label sequences; '
                                 'use --mode=generate')


def test_frames_are_no_lines(tmp_path):
    config = tiny_config('reader', task='classification', data=dict(source='moving_digits'))
    files = {'codec.json': data.LabelledCodec('classification', classes=('0', '1')).dumps()}
    RunDirectory(tmp_path).claim(config, types.SimpleNamespace(files=lambda: files, facts=dict))
    with pytest.raises(UserError) as caught:
        next(predict_lines(config, tmp_path, ['a']))
    assert str(caught.value) == (f'--workdir={tmp_path}: the run labels clips of frames, which are no lines of text; use '
                                 '--mode=eval, or tasks and models as a library')


def test_a_run_without_a_checkpoint_and_a_directory_without_a_run_say_so(classifier, tmp_path):
    config, workdir, *_ = classifier
    for name in ('codec.json', 'data.json'):
        (tmp_path / name).write_bytes((workdir / name).read_bytes())
    with pytest.raises(UserError, match='no run is here'):
        next(predict_lines(config, tmp_path, ['a']))
    (tmp_path / 'config.json').write_text(configs.dumps(config))
    with pytest.raises(UserError, match='no checkpoint yet; train first'):
        next(predict_lines(config, tmp_path, ['a']))


# ------------------------------------------------------------------------------------------------ CoNLL files

def launched(run, path, capsys):
    """What --mode=predict --input=PATH prints, as objects."""
    config, workdir, *_ = run
    flags = types.SimpleNamespace(input=str(path), checkpoint='latest', explain=False)
    predict.MODE.run(types.SimpleNamespace(mode='predict', config=config, workdir=workdir, flags=flags))
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_of_a_conll_file_the_sentences_are_labelled_and_not_its_lines(tmp_path, capsys):
    path = tmp_path / 'train.conll'
    path.write_text('EU NNP B-ORG\nrejects VBZ O\n\n' * 4 + 'Peter NNP B-PER\nBlackburn NNP I-PER\n\n' * 4)
    config = labelled_config(path, 'tagging', data=dict(tokenizer='word', held_out=0.5))
    run = config, tmp_path / 'run', *untrained_run(config, tmp_path / 'run')
    new = tmp_path / 'new.conll'
    new.write_text('-DOCSTART- X O\n\nPeter NNP O\nrejects VBZ UNSEEN\nEU NNP O\n\n\nBlackburn X Y')
    found = launched(run, new, capsys)
    assert [answer['tokens'] for answer in found] == [['Peter', 'rejects', 'EU'], ['Blackburn']]
    assert found == answers(run, ['Peter rejects EU', 'Blackburn'])
    broken = tmp_path / 'broken.conll'
    broken.write_text('EU NNP O\nrejects O\n')
    with pytest.raises(UserError, match='broken.conll.: line 2: has 2 columns and 3 are needed'):
        launched(run, broken, capsys)


def test_a_run_that_labels_whole_lines_refuses_a_conll_file(classifier, tmp_path, capsys):
    path = tmp_path / 'new.conll'
    path.write_text('EU NNP O\n')
    with pytest.raises(UserError, match='new.conll: a CoNLL file is for runs that label every word, and this one does not'):
        launched(classifier, path, capsys)
