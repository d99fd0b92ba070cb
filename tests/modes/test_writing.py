"""A run continues the lines of a file: each as `decode.search` would, ending where it is told to, and none is lost."""

import jax
import pytest

from seqjax import decode, runs, train
from seqjax.errors import FieldError
from seqjax.modes.continue_text import continue_lines, generate_text
from seqjax.runs import load_model
from tests.tiny import tiny_config, write_text

LINES = ['the', '', 'a b', 'Ü', 'word after word after word']


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp('writing')
    config = tiny_config('gpt', data=dict(source=f'file:{write_text(folder / "text.txt", 3000)}'), parallel=dict(data=1))
    train.train(config, folder / 'run')
    return config, folder / 'run'


def with_decode(config, **fields):
    config = config.copy_and_resolve_references()
    config.decode.update(fields)
    return config


def expected(workdir, texts, **options):
    model, params = load_model(workdir)
    tokenizer = runs.RunDirectory(workdir).codec('text').tokenizer
    key = jax.random.fold_in(jax.random.key(0), 0)
    written = decode.search(decode.make_decoder(model, params, **options), [tokenizer.encode(text) for text in texts],
                            decode.Sample(0.8), limits=decode.Limits(8), key=key)
    return [text + tokenizer.decode(found.texts[0]) for text, found in zip(texts, written)]


def test_lines_are_continued_in_their_order(run, capsys):
    config, workdir = run
    found = list(continue_lines(with_decode(config, batch_size=2, page_size=4, pages=4), workdir, LINES))
    assert [answer['input'] for answer in found] == LINES
    able = [LINES[0], LINES[2], LINES[4]]
    assert [answer['texts'] for answer in found if answer['texts']] == [[text] for text in expected(workdir, able)]
    assert found[1]['reason'] == 'has no word to continue from' and "'Ü'" in found[3]['reason']
    said = capsys.readouterr().err
    assert '1 line without an answer (has no word to continue from): 2' in said and 'had to wait for pages' in said


def test_several_texts_of_a_line(run):
    config, workdir = run
    found, = continue_lines(with_decode(config, samples=3), workdir, ['the\n'])
    assert found == dict(input='the', texts=expected(workdir, ['the'] * 3)) and len(set(found['texts'])) > 1


def test_a_text_ends_before_the_character_that_stops_it(run):
    config, workdir = run
    stop = expected(workdir, ['the'])[0][5]  # the third that is written
    whole = expected(workdir, ['the'])[0]
    found, = continue_lines(with_decode(config, stop=stop), workdir, ['the'])
    assert found['texts'] == ['the' + whole[3:].partition(stop)[0]]
    one, = generate_text(with_decode(config, stop=stop, prompt='the', temperature=0.0), workdir)
    plain, = generate_text(with_decode(config, prompt='the', temperature=0.0), workdir)
    assert one == 'the' + plain[3:].partition(stop)[0]


@pytest.mark.parametrize('fields, message', [
    (dict(num_beams=2), 'config.decode.num_beams=2: is for one prompt'), (dict(stop='é'), "config.decode.stop='é': the run has no token"),
    (dict(stop='ab'), "config.decode.stop='ab': must be one character"),
    (dict(pages=1, page_size=1), 'config.decode.pages=1: one text may need 11 pages of 1 tokens'),
    (dict(prompt='a'), "config.decode.prompt='a': is not read")])
def test_what_lines_cannot_have_is_refused(run, fields, message):
    config, workdir = run
    with pytest.raises(FieldError, match=message):
        list(continue_lines(with_decode(config, **fields), workdir, ['the']))


@pytest.mark.parametrize('fields, message', [
    (dict(pages=3), 'config.decode.pages=3: is for the lines of --input'),
    (dict(num_beams=2, stop='a'), "config.decode.stop='a': is for a text that is drawn")])
def test_what_one_prompt_cannot_have_is_refused(run, fields, message):
    config, workdir = run
    with pytest.raises(FieldError, match=message):
        generate_text(with_decode(config, prompt='the', **fields), workdir)
