"""Pictures of how lines were translated: which there are, and that they show what was answered."""

import dataclasses
import importlib
import xml.etree.ElementTree

import jax
from matplotlib import image
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import decode
from seqjax.modes import explain
from seqjax.modes.translate import translate_lines
from tests.pair_files import pair_config, untrained_translator, write_pairs

translate = importlib.import_module('seqjax.modes.translate')
LINES = ['ab', '', 'a' * 40, 'dcb', 'ab ab', 'c', 'd', 'bb', 'cc', 'dd']  # the third one is cut in pieces
BEAM = dict(num_beams=3, max_new_tokens=6, no_repeat_ngram_size=2)


def make(directory, name, **sections):
    """(config, workdir, parts, parameters)"""
    config = pair_config(write_pairs(directory / 'pairs.tsv'), data=dict(max_length=14), decode=BEAM, **sections)
    return config, directory / name, *untrained_translator(config, directory / name)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('explain')


@pytest.fixture(scope='module')
def run(folder):
    return make(folder, 'run')


@pytest.fixture
def drawn(monkeypatch):
    """[(number, source words, target words, weights)] of the pictures of alignments, which takes too long to draw."""
    seen = []
    monkeypatch.setattr(explain, 'plot_alignment', lambda weights, sources, targets, path: seen.append(
        (path.name, sources, targets, weights)))
    return seen


def words(svg):
    """What is written in a picture."""
    return [element.text for element in xml.etree.ElementTree.parse(svg).iter('{http://www.w3.org/2000/svg}text')]


def test_the_first_lines_are_explained_by_their_numbers(run, folder, drawn):
    config, workdir, parts, _ = run
    found = list(translate_lines(config, workdir, LINES, explain=True))
    explained = [1, 3, 4, 5, 6, 7, 8]  # nothing of the empty line, and nothing after the eighth
    assert sorted(path.name for path in (workdir / 'explain').iterdir()) == [f'{n:03d}_beam.svg' for n in explained]
    assert [name for name, *_ in drawn] == [f'{n:03d}_alignment.png' for n in explained]
    encoding = parts.dataset.codec
    for n, (_, sources, targets, weights) in zip(explained, drawn):
        piece, = translate.cut(encoding.source(LINES[n - 1]), encoding, 15)[:1]
        assert sources == encoding.source_words(piece)
        if n != 3:  # the answer to pieces is more than that to the first
            assert ''.join(targets).removesuffix('</s>').replace('▁', ' ') == found[n - 1][0][1]
        assert weights.shape == (len(targets), len(sources))
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
        assert set(targets) <= set(words(workdir / 'explain' / f'{n:03d}_beam.svg'))
    assert len({targets[0] for _, _, targets, _ in drawn}) > 1


def test_pictures_open_and_a_model_without_attention_has_only_its_beam(run, folder):
    config, workdir, *_ = run
    assert list(translate_lines(config, workdir, LINES[:1], explain=True))
    assert image.imread(workdir / 'explain' / '001_alignment.png').ndim == 3
    config, workdir, *_ = make(folder, 'without', model=dict(context='last'))
    assert list(translate_lines(config, workdir, LINES[:1], explain=True))
    assert [path.name for path in (workdir / 'explain').iterdir()] == ['001_beam.svg']
    assert 'under a word: log P up to here' in words(workdir / 'explain' / '001_beam.svg')[-1]


def test_only_the_pictures_of_this_call_are_there_and_it_is_said_where(run, drawn, capsys):
    config, workdir, *_ = run
    directory = workdir / 'explain'
    assert list(translate_lines(config, workdir, LINES, explain=True))
    (directory / 'notes.txt').write_text('mine')
    (directory / '001_alignment.png').write_text('old')
    capsys.readouterr()
    assert list(translate_lines(config, workdir, ['', 'dcb'], explain=True))
    assert sorted(path.name for path in directory.iterdir()) == ['002_beam.svg', 'notes.txt']
    said = capsys.readouterr().err
    assert 'drawing how line 2 was translated\n' in said and said.endswith(f'pictures: {directory}\n')
    assert list(translate_lines(config, workdir, [''], explain=True)) == [[(0.0, '')]]
    assert [path.name for path in directory.iterdir()] == ['notes.txt']
    assert capsys.readouterr().err.endswith('no pictures: no line has an answer to explain\n')
    (directory / 'notes.txt').unlink()


def test_nothing_is_drawn_unless_it_is_asked_for(run, tmp_path, drawn):
    config, workdir, *_ = run
    before = sorted(workdir.rglob('*'))
    assert list(translate_lines(config, workdir, LINES[:1]))
    assert sorted(workdir.rglob('*')) == before and not drawn


def test_answers_come_before_pictures(run, monkeypatch):
    def fails(*_):
        raise OSError('no space left')

    config, workdir, *_ = run
    monkeypatch.setattr(translate, 'explain_row', fails)
    found = []
    with pytest.raises(OSError, match='no space left'):
        for answers in translate_lines(config, workdir, LINES, explain=True):
            found.append(answers)
    assert found == list(translate_lines(config, workdir, LINES))


def test_where_there_is_no_answer_there_is_no_picture(run, tmp_path, drawn):
    config, _, parts, params = run
    nothing = jax.tree.map(lambda x: np.full_like(x, np.nan), params)
    encoding = parts.dataset.codec
    explain.explain_row(decode.make_decoder(parts.task.model, nothing), encoding, encoding.source('ab'), configs.method(config),
                        configs.limits(config), tmp_path, 1)
    assert not drawn and not list(tmp_path.iterdir())


@pytest.mark.parametrize('options', [{}, dict(min_length=5), dict(average='log_probability')], ids=str)
def test_several_models_look_where_they_look_on_the_average(options, run, tmp_path, drawn):
    config, _, parts, params = run
    encoding, model, method = parts.dataset.codec, parts.task.model, configs.method(config)
    limits = dataclasses.replace(configs.limits(config), min_length=options.get('min_length', 0))
    others = jax.tree.map(lambda x: 0.5 * np.asarray(x)[::-1], params)
    row = encoding.source('abc')
    decoder = decode.make_decoder((model, model), (params, others), average=options.get('average', 'probability'))
    explain.explain_row(decoder, encoding, row, method, limits, tmp_path, 1)
    (_, _, targets, weights), = drawn
    inputs, lengths = np.pad(row, (0, 16 - len(row)))[None], np.array([len(row)], np.int32)
    best = decode.search(decoder, [row], method, limits=limits, batch_size=1, shapes=(16,))[0].texts[0]
    assert targets == encoding.target_words(best)
    align = jax.jit(lambda params: model.apply({'params': params}, inputs, lengths, best[None], method='align'))
    expected = (align(params) + align(others))[0, :, :len(row)] / 2
    np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5)
