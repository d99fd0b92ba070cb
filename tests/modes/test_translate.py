"""Answers to new lines: as many as there are lines, in their order, and each as if its line had been alone."""

import collections
import importlib
import itertools
import random
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import decode
from seqjax.data.readers.examples import Example
from seqjax.data.text import pair_codec, tokenizers
from seqjax.data.text.pair_codec import PairCodec, Vocabulary
from seqjax.decode.batches import solve_batch
from seqjax.errors import FieldError, UserError
from seqjax.modes.predict import predict_lines
from seqjax.modes.translate import score_lines, translate_lines
from seqjax.runs import RunDirectory
from seqjax.train import progress
from seqjax.special_tokens import END
from seqjax.train import build
from tests.pair_files import pair_config, untrained_translator, write_pairs
from tests.tiny import tiny_config

module = importlib.import_module('seqjax.modes.translate')  # translate_lines is the function
lines_module = importlib.import_module('seqjax.modes.command.lines')
LONGEST = 22  # config.data.max_length
SHAPES = (16, LONGEST + 1)
SHORT = ['ab', '', 'abcd dcba', 'a b c', 'da', ' ', 'bb dd', 'ab', 'dcba dcba abcd', 'c']  # fit into rows of SHAPES[0]
LINES = ['c' * SHAPES[1], *SHORT]


def make(directory, name, tag='', **sections):
    """(config, workdir, parts, parameters) of a run with parameters that were drawn at random."""
    sections['data'] = dict(max_length=LONGEST) | sections.get('data', {})
    sections['decode'] = dict(length_penalty=0.0)
    config = pair_config(write_pairs(directory / f'{name}.tsv', tag=tag), **sections)
    return config, directory / name, *untrained_translator(config, directory / name)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('translate')


@pytest.fixture(scope='module')
def run(folder):
    return make(folder, 'run')


@pytest.fixture(scope='module')
def tagged(folder):
    return make(folder, 'tagged', tag='<de> ', data=dict(max_length=14))


def with_decode(config, **fields):
    config = config.copy_and_resolve_references()
    config.decode.update(fields)
    return config


def answers(run, lines, decode=None, **options):
    config, workdir, *_ = run
    return list(translate_lines(with_decode(config, **decode or {}), workdir, lines, **options))


def texts(found):
    return [answer for (_, answer), in found]


def alone(run, line, **search):
    """The answers to a short line, by itself."""
    config, _, parts, params = run
    encoding = parts.dataset.codec
    config = with_decode(config, **search)
    found, = decode.search(decode.make_decoder(parts.task.model, params), [encoding.source(line)], configs.method(config),
                           limits=configs.limits(config), batch_size=config.decode.batch_size, shapes=SHAPES)
    return [(pytest.approx(score, rel=1e-4), encoding.text(tokens)) for score, tokens in zip(found.scores, found.texts)]


# ------------------------------------------------------------------------------------------------ lines

def test_every_line_has_the_answer_that_it_has_alone_and_nothing_has_an_empty_one(run):
    found = answers(run, LINES)
    assert [len(each) for each in found] == [1] * len(LINES)
    for line, each in zip(SHORT, found[1:]):
        assert each == (alone(run, line) if line.strip() else [(0.0, '')])
    assert len(set(texts(found))) > 5


def many_lines(count):
    """Short lines, among them blank, unknown and far too long ones, with all kinds of ends, the last one without any."""
    rng = random.Random(0)
    lines = [''.join(rng.choices('abcd ', k=rng.randint(0, 3))) for _ in range(count)]
    lines[5], lines[7], lines[11] = '🙂', 'aß\u2028b', 'ab 🙂 cd'
    lines[count // 2], lines[-2] = 'abcd ' * 1000, 'd' * 5000
    ends = [rng.choice(['\n', '\r\n']) for _ in lines[:-1]] + ['']
    return lines, [line + end for line, end in zip(lines, ends)]


def test_ten_thousand_lines_of_all_kinds(run, capsys):
    """Two programs for all of them, and equal lines have equal answers wherever they stand."""
    count = 10_000
    lines, ended = many_lines(count)
    before = solve_batch._cache_size()
    found = answers(run, ended)
    assert solve_batch._cache_size() <= before + len(SHAPES)
    assert len(found) == count and all(len(each) == 1 and '\n' not in each[0][1] for each in found)
    of_line = collections.defaultdict(set)
    for line, text in zip(lines, texts(found)):
        of_line[line].add(text)
    assert all(len(different) == 1 for different in of_line.values())
    assert all(of_line[line] == {''} for line in of_line if not line.strip())
    for line in ('ab', 'c', 'd a', 'aß\u2028b'):
        assert of_line[line] == {alone(run, line)[0][1]}
    room = SHAPES[-1] - 1
    assert len(of_line['d' * 5000].pop().split(' ')) >= 5000 / room  # one answer to each piece, joined
    empty, unknown, long = ([n for n, line in enumerate(lines, 1) if fits(line)] for fits in (
        lambda line: not line.strip(), lambda line: set(line) - set('abcd '), lambda line: len(line) > room))
    numbers = lambda places: ', '.join(map(str, places[:5])) + (', ...' if len(places) > 5 else '')
    said = capsys.readouterr().err
    assert f'{len(empty):,} lines empty: {numbers(empty)}\n' in said
    assert f'3 lines with symbols that are not known: {numbers(unknown)}\n' in said
    assert f'2 lines of more than 22 tokens, translated in pieces: {numbers(long)}\n' in said


def test_the_first_answers_do_not_wait_for_the_last_line(run, monkeypatch):
    monkeypatch.setattr(lines_module, 'LINES_AT_ONCE', 2)
    config, workdir, *_ = run
    endless = translate_lines(config, workdir, itertools.cycle(['ab', 'da']))
    first = texts(itertools.islice(endless, 5))
    assert first == [first[0], first[1]] * 2 + [first[0]] and first[0] != first[1]
    endless.close()
    assert answers(run, []) == []


def test_a_line_end_that_was_written_does_not_end_the_line():
    encoding = PairCodec(*[Vocabulary(tokenizers.ByteTokenizer())] * 2)
    tokens, none = encoding.target('a\nb\r\nc\u2028d\n'), decode.Hypotheses(*np.zeros((4, 0)))
    answer = decode.Hypotheses(tokens[None], np.array([len(tokens)]), *np.full((2, 1), -1.5))
    assert module._texts([answer], encoding) == [(-1.5, 'a b c d')]
    assert module._texts([answer, answer], encoding) == [(-3.0, 'a b c d a b c d')]
    assert module._texts([none], encoding) == module._texts([], encoding) == [(0.0, '')]


# ------------------------------------------------------------------------------------------------ pieces

@pytest.mark.parametrize('kind', ['char', 'byte', 'bpe', 'word'])
@pytest.mark.parametrize('tag', ['', '<de> '])
def test_pieces_are_the_line_cut_between_words(kind, tag):
    rng = random.Random(0)
    words = [''.join(rng.choices('abcdefgh', k=rng.randint(1, 9))) for _ in range(200)]
    options = types.SimpleNamespace(tokenizer=kind, vocabulary=300, lowercase=False, shared_vocabulary=False)
    encoding = pair_codec.learn_pairs([Example(f'{tag}{word} {word}', word) for word in words], options)
    tokens = encoding.source(tag + ' '.join(words))
    pieces = module.cut(tokens, encoding, 24)
    tags = 1 if tag else 0
    assert all(len(piece) <= 24 and piece[-1] == END and piece[:tags].tolist() == tokens[:tags].tolist() for piece in pieces)
    first = encoding.source_words(pieces[0][tags:])[0]
    assert [encoding.source_words(piece[tags:])[0].startswith('▁') for piece in pieces] == [first.startswith('▁')] * len(pieces)
    blank = encoding.source_side.tokens(' ') if kind in ('char', 'byte') else tokens[:0]
    joined = np.concatenate([part for piece in pieces for part in (piece[tags:-1], blank)])
    np.testing.assert_array_equal(joined[:len(joined) - len(blank)], tokens[tags:-1])
    assert len(pieces) <= len(tokens) / 12  # no word is longer than ten tokens
    assert [word for piece in pieces for word in encoding.source_side.decode(piece[tags:-1]).split()] == words


def test_a_word_that_fits_into_no_row_is_cut_where_the_row_is_full():
    encoding = PairCodec(*[Vocabulary(tokenizers.symbols('char', ['ab ']))] * 2)
    pieces = module.cut(encoding.source('ab ' + 'a' * 30 + ' b'), encoding, 12)
    assert [encoding.text(piece) for piece in pieces] == ['ab', 'a' * 11, 'a' * 11, 'a' * 8 + ' b']
    pieces = module.cut(encoding.source('ab' + ' ' * 30 + 'b' + ' ' * 30), encoding, 12)
    assert [encoding.text(piece) for piece in pieces] == ['ab' + ' ' * 9, 'b' + ' ' * 10]


def test_the_longest_row_is_the_one_that_the_run_was_trained_with():
    assert module._shapes(0) == (16, 32, 64, 128, 256)
    assert module._shapes(LONGEST) == SHAPES and module._shapes(5) == (6,) and module._shapes(15) == (16,)
    assert module._shapes(1000) == (16, 32, 64, 128, 256, 1001)


def test_no_row_is_longer_than_those_that_were_trained_with(tmp_path):
    for n, tag in enumerate(('', '<de> ')):
        config = pair_config(write_pairs(tmp_path / f'{n}.tsv', tag=tag), data=dict(max_length=6))
        trained = build(config, RunDirectory(tmp_path / str(n))).dataset.rows['train']
        assert max(len(row['inputs']) for row in trained) == module._shapes(6)[-1]


# ------------------------------------------------------------------------------------------------ beams, draws, tags

def test_of_a_beam_the_best_ones_are_answers(run):
    options = dict(num_beams=3, n_best=2, length_penalty=0.5)
    for line, found in zip(SHORT, answers(run, SHORT, options)):
        assert len(found) == (2 if line.strip() else 1)
        if line.strip():
            assert found == alone(run, line, **options)
            assert found[0][0] >= found[1][0] and found[0][1] != found[1][1]


def test_another_seed_draws_another_text_and_so_does_another_line(run, monkeypatch):
    drawn = lambda seed: texts(answers(run, ['abcd'] * 8, dict(sample=True, temperature=1.0, seed=seed)))
    first = drawn(0)
    assert drawn(0) == first and drawn(1) != first and len(set(first)) > 4
    monkeypatch.setattr(lines_module, 'LINES_AT_ONCE', 4)
    in_pieces = drawn(0)
    assert in_pieces[:4] != in_pieces[4:]


def test_a_line_without_its_tag_is_left_out_and_named(tagged, capsys):
    lines = ['<de> ab', 'ab', '<en> ab', '<de> ' + 'ab ' * 20, '<de>ab', '']
    found = texts(answers(tagged, lines))
    assert [bool(text) for text in found] == [True, False, False, True, False, False]
    said = capsys.readouterr().err
    assert '3 lines left out, without a tag (<de>): 2, 3, 5\n' in said
    assert '1 line of more than 14 tokens, translated in pieces: 4\n' in said


# ------------------------------------------------------------------------------------------------ what answers begin with

@pytest.mark.parametrize('options', [dict(num_beams=2, n_best=2), dict(sample=True)], ids=str)
def test_every_answer_begins_with_the_prefix_but_not_every_piece(options, run, monkeypatch):
    given, plain = [], decode.search
    monkeypatch.setattr(decode, 'search', lambda *args, prefixes, **kwargs: (
        given.extend(map(tuple, prefixes)) or plain(*args, prefixes=prefixes, **kwargs)))
    found = answers(run, LINES, dict(prefix='zy w', **options))
    for line, each in zip(LINES, found):
        assert all(text.startswith('zy w') for _, text in each) if line.strip() else each == [(0.0, '')]
    prefix = tuple(run[2].dataset.codec.target('zy w')[:-1].tolist())
    assert given[:3] == [prefix, (), prefix]  # the first line is cut in two, and the third is the next that has tokens
    assert given.count(prefix) == sum(bool(line.strip()) for line in LINES)


def test_an_exact_search_finds_the_best_answers_of_every_line(run):
    found = answers(run, ['ab', '', 'da'], dict(exact=True, prefix='w', max_new_tokens=2, n_best=3))
    assert found[1] == [(0.0, '')] and [len(each) for each in found] == [3, 1, 3]
    for each in (found[0], found[2]):
        assert all(text.startswith('w') for _, text in each) and len({text for _, text in each}) == 3
        assert [score for score, _ in each] == sorted((score for score, _ in each), reverse=True)


@pytest.mark.parametrize('options, sentence', [
    (dict(prefix='wqxé'), "config.decode.prefix='wqxé': the answers of the run have no 'q', 'é'; write what was learned"),
    (dict(prefix='wxyz', max_new_tokens=4), "config.decode.prefix='wxyz': has 4 tokens, and an answer at most "
     'config.decode.max_new_tokens=4; write a shorter one, or allow more'),
    (dict(exact=True), 'config.decode.exact=True: there is too much to search: 5 beginnings of answers to a row of 3 tokens do '
     'not show the best one, of up to 16 tokens out of 9; write false and search with a beam, or make it easier with '
     'length_penalty=0 or a smaller max_new_tokens')])
def test_what_cannot_be_the_beginning_or_be_searched_is_said(options, sentence, run, monkeypatch):
    monkeypatch.setattr(decode.exact, 'STEPS', 5)
    with pytest.raises(FieldError) as caught:
        answers(run, ['ab'], options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize('field, value', [('prefix', 'w'), ('exact', True)])
def test_a_beginning_is_for_new_answers(field, value, run):
    config, workdir, *_ = run
    config = with_decode(config, **{field: value})
    usual = repr(dict(prefix='', exact=False)[field])
    with pytest.raises(FieldError) as caught:
        next(score_lines(config, workdir, ['a\tb']))
    assert str(caught.value) == (f'config.decode.{field}={value!r}: is for answers that are written, and --mode=score measures '
                                 f'those that are given; write {usual}')
    with pytest.raises(FieldError) as caught:
        build(config, RunDirectory(workdir))
    assert str(caught.value) == (f'config.decode.{field}={value!r}: is for --mode=generate --input=FILE, and not for answers '
                                 f'that are compared with references; write {usual}')
    if field == 'exact':
        with pytest.raises(UserError, match='^--explain: shows what a beam thought of, and config.decode.exact=True has none; '):
            answers(run, LINES, dict(exact=True), explain=True)


# ------------------------------------------------------------------------------------------------ several runs

def test_a_run_and_itself_say_what_it_says_alone(run):
    config, workdir, *_ = run
    single, several = answers(run, SHORT), answers(run, SHORT, ensemble=[str(workdir)])
    assert texts(several) == texts(single)
    for (a,), (b,) in zip(several, single):
        assert a[0] == pytest.approx(b[0], rel=1e-4)


def test_another_run_has_its_say(run, folder):
    other = make(folder, 'other', model=dict(width=6, context='last'))
    mixed, single = (texts(answers(run, SHORT, ensemble=ensemble)) for ensemble in ([other[1]], []))
    assert sum(a != b for a, b in zip(mixed, single)) > 2


@pytest.mark.parametrize('name, sentence', [
    ('tagged', 'the run has learned other tokens, so its answers cannot be added up; train it on the same data with the '
               'same config.data'),
    ('none', 'no run is here (no config.json); train one first with --config=FILE'),
    ('text', 'the run has not learned to translate'),
])
def test_a_run_that_cannot_take_part_is_named(name, sentence, run, tagged, folder):
    RunDirectory(folder / 'text').claim(tiny_config('recurrent'), types.SimpleNamespace(files=dict, facts=dict))
    with pytest.raises(UserError) as caught:
        answers(run, LINES, ensemble=[folder / name])
    assert str(caught.value) == f'--ensemble={folder / name}: {sentence}'


def test_the_checkpoint_that_is_asked_for_is_that_of_all(run):
    config, workdir, *_ = run
    with pytest.raises(UserError, match="^--checkpoint=7: write 'latest', 'best' or a step; there are: 1$"):
        answers(run, LINES, checkpoint='7')
    assert module._same_words(run[2].dataset.codec, run[0].quantise, workdir, '1')()[0] == run[2].task.model
    with pytest.raises(UserError, match=f'^--ensemble={workdir}: --checkpoint=7: write '):
        module._same_words(run[2].dataset.codec, run[0].quantise, workdir, '7')


# ------------------------------------------------------------------------------------------------ what cannot be

def test_what_translating_does_not_do_is_refused(run, monkeypatch):
    config, workdir, *_ = run
    with pytest.raises(FieldError, match="^config.decode.samples=3: is for language models; this run is for translation on "):
        answers(run, LINES, dict(samples=3))
    with pytest.raises(UserError, match='^--explain: shows how an answer was searched for, and config.decode.sample=True '):
        answers(run, LINES, dict(sample=True), explain=True)
    fields = dict(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1, seed=1)
    usual = configs.defaults('seq2seq', source='reverse').decode
    for field, value in fields.items():
        with pytest.raises(FieldError) as caught:
            answers(run, LINES, {field: value})
        assert str(caught.value) == (f'config.decode.{field}={value}: is for answers that are drawn; set '
                                     f'config.decode.sample=true too, or write {usual[field]}')
    for drawn in (False, True):
        with pytest.raises(FieldError, match="^config.decode.prompt='a': is for language models; this run is for "):
            answers(run, LINES, dict(prompt='a', sample=drawn))
    assert len(answers(run, ['ab'], dict(sample=True, **fields))) == 1
    monkeypatch.setattr(jax, 'process_count', lambda: 2)
    with pytest.raises(UserError, match='^--mode=generate: is done by one process and not by 2; leave out --coordinator$'):
        answers(run, LINES)
    with pytest.raises(UserError, match='^--mode=score: is done by one process and not by 2; leave out --coordinator$'):
        next(score_lines(config, workdir, ['a\tb']))


def test_a_translator_labels_nothing_and_a_language_model_translates_nothing(run, folder):
    config, workdir, *_ = run
    with pytest.raises(UserError, match='the run has not learned to label sequences; use --mode=generate --input=FILE$'):
        next(predict_lines(config, workdir, ['ab']))
    other = tiny_config('recurrent')
    RunDirectory(folder / 'words').claim(other, types.SimpleNamespace(files=dict, facts=dict))
    with pytest.raises(UserError) as caught:
        next(score_lines(other, folder / 'words', ['a\tb']))
    assert str(caught.value) == f'--workdir={folder / "words"}: the run has not learned to translate; use --mode=eval'


# ------------------------------------------------------------------------------------------------ scores

def test_a_score_is_the_log_p_of_the_target_step_by_step(run, monkeypatch):
    monkeypatch.setattr(lines_module, 'LINES_AT_ONCE', 5)
    config, workdir, parts, params = run
    encoding, writer = parts.dataset.codec, decode.make_decoder(parts.task.model, params)
    pairs = [('ab', 'wx'), ('abcd dcba abcd', 'w'), ('a', 'wxyz zyxw wxyz'), ('ß', 'xß'), ('', 'w'), ('d', ''),
             ('cd', 'y\tz')]
    found = list(score_lines(config, workdir, [f'{source}\t{target}\r\n' for source, target in pairs]))
    assert [(answer['source'], answer['target']) for answer in found] == pairs

    @jax.jit
    def score(inputs, lengths, targets, target_lengths):
        memory, state = writer.begin(inputs, lengths, targets.shape[1])
        return decode.score(lambda state, tokens: writer.step(memory, state, tokens), state, writer.first(inputs, lengths),
                            targets, target_lengths)

    for (source, target), answer in zip(pairs, found):
        rows = encoding.source(source), encoding.target(target)
        padded = (np.pad(row, (0, 20 - len(row)))[None] for row in rows)
        lengths = (jnp.array([len(row)]) for row in rows)
        inputs, targets = padded
        total, tokens = score(inputs, next(lengths), targets, next(lengths))
        np.testing.assert_allclose(answer['log_prob'], total[0], rtol=1e-4)
        np.testing.assert_allclose(answer['log_probs'], tokens[0, :len(rows[1])], rtol=1e-4, atol=1e-4)
        assert answer['tokens'] == encoding.target_words(rows[1]) and answer['tokens'][-1] == '</s>'
    assert len({round(answer['log_prob'], 3) for answer in found}) == len(pairs)


def test_what_a_search_found_has_the_score_that_it_said(run):
    config, workdir, *_ = run
    lines = ['ab', 'abcd', 'dd a', 'cab', 'bd b', 'aac']
    ended = [(line, score, text) for line, ((score, text),) in zip(lines, answers(run, lines))
             if len(text) < min(16, 2 * (len(line) + 1) + 10)]
    assert ended
    scores = score_lines(config, workdir, [f'{line}\t{text}' for line, _, text in ended])
    assert [answer['log_prob'] for answer in scores] == pytest.approx([score for _, score, _ in ended], rel=1e-3)


def test_a_line_that_cannot_be_scored_keeps_its_place_and_says_why(run, tagged, monkeypatch, capsys):
    monkeypatch.setattr(lines_module, 'LINES_AT_ONCE', 2)
    lines = ['a\tw', 'd\tw', 'a\tß', 'a b', '', 'a\tw']
    found = list(score_lines(*run[:2], lines))
    reason = 'no TAB between source and target'
    assert found[3:5] == [dict(source=source, target=None, log_prob=None, reason=reason) for source in ('a b', '')]
    assert [found[place]['log_prob'] < 0 for place in (0, 1, 2, 5)] == [True] * 4 and len(found) == len(lines)
    assert found[0] == {**found[5], 'log_prob': pytest.approx(found[5]['log_prob'])} != found[1]
    said = capsys.readouterr().err
    assert '1 line with symbols that are not known: 3\n2 lines without a score, for lack of a TAB: 4, 5\n' in said
    first, second = score_lines(*tagged[:2], ['<de> a\tw', 'a\tw'])
    assert first['log_prob'] < 0 and second == dict(
        source='a', target='w', log_prob=None, reason="'a' begins with no tag that was learned; there are: <de>")
    assert '1 line without a score, for lack of a tag (<de>): 2\n' in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ what is said

def test_bytes_that_are_no_text_are_counted(run, capsys):
    assert len(answers(run, ['ab', 'a\0b', 'ab\N{REPLACEMENT CHARACTER}', '\0'])) == 4
    said = capsys.readouterr().err
    assert '2 lines with NUL bytes: 2, 4\n1 line with U+FFFD, which stands for bytes that are not UTF-8: 3\n' in said


def test_progress_counts_lines(run, capsys, monkeypatch):
    monkeypatch.setattr(progress.ProgressBar, 'SECONDS_BETWEEN_LINES', -1)
    answers(run, ['ab'])
    said = capsys.readouterr().err.splitlines()
    assert said[0] == 'translate 0 lines  compiling' and said[-1] == 'translate 1 line'
