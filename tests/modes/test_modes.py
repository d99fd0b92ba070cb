"""Which checkpoint a run is evaluated with, which run can write, and what its beam finds."""

import itertools
import os
import random
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.data import CharTokenizer, LabelledCodec
from seqjax.errors import FieldError, UserError
from seqjax.modes.continue_text import generate_text
from seqjax.runs import find_checkpoint
from seqjax.runs import Checkpoints, RunDirectory
from tests.labelled_files import untrained_run
from tests.runs.test_checkpoints import save
from tests.tiny import tiny_config


@pytest.fixture
def run(tmp_path):
    """A run whose best checkpoint, step 1, is not its newest, step 3."""
    checkpoints = Checkpoints(tmp_path / 'checkpoints', keep_latest=3)
    for step, score in ((1, 0.5), (2, 2.0), (3, 1.0)):
        save(checkpoints, step, score)
    return RunDirectory(tmp_path)


@pytest.mark.parametrize('which, step', [('latest', 3), ('best', 1), ('2', 2)])
def test_latest_best_or_a_step(run, which, step):
    assert find_checkpoint(run, which)[0] == step


@pytest.mark.parametrize('which', ['newest', '7', '-1'])
def test_what_is_not_there_is_refused(run, which):
    with pytest.raises(UserError, match=f"--checkpoint={which}: write 'latest', 'best' or a step; there are: 1, 2, 3"):
        find_checkpoint(run, which)


def damage(run, step):
    os.truncate(run.checkpoints / f'{step:08d}' / 'arrays' / '_METADATA', 5)


def test_a_damaged_newest_one_is_passed_over_and_reported_apart_from_the_output(run, capsys):
    damage(run, 3)
    assert find_checkpoint(run, 'latest')[0] == 2
    output, errors = capsys.readouterr()
    assert output == '' and 'checkpoint 3 is damaged' in errors


def test_a_damaged_one_that_was_asked_for_is_refused(run):
    damage(run, 1)
    with pytest.raises(UserError, match='--checkpoint=best: step 1 is damaged .*; choose another of: 1, 2, 3'):
        find_checkpoint(run, 'best')


def test_no_checkpoint_yet(tmp_path):
    with pytest.raises(UserError, match='no checkpoint yet; train first'):
        find_checkpoint(RunDirectory(tmp_path), 'latest')


@pytest.mark.parametrize('model, source, sentence', [
    ('recurrent', 'copy', 'the run was not trained on text, so there is no text to continue'),
    ('reader', 'reviews', "--mode=generate: 'reader' cannot continue a text; models that can: gpt, llama, recurrent, mamba, "
     "rwkv"),
])
def test_a_run_that_cannot_continue_a_text_says_why(model, source, sentence, tmp_path):
    config = tiny_config(model, data=dict(source=source))
    RunDirectory(tmp_path).claim(config, types.SimpleNamespace(files=dict, facts=dict))
    with pytest.raises(UserError) as caught:
        generate_text(config, tmp_path)
    assert sentence in str(caught.value)


def test_a_run_that_labels_names_the_mode_that_does(tmp_path):
    config = tiny_config('reader', data=dict(source='reviews'))
    files = {'codec.json': LabelledCodec('classification', CharTokenizer('ab'), classes=('0', '1')).dumps()}
    RunDirectory(tmp_path).claim(config, types.SimpleNamespace(files=lambda: files, facts=dict))
    with pytest.raises(UserError) as caught:
        generate_text(config, tmp_path)
    assert str(caught.value) == (f'--workdir={tmp_path}: the run has not learned to continue a text; use --mode=predict '
                                 '--input=FILE')


# ------------------------------------------------------------------------------------------------ a beam

LETTERS = 'abcd'


@pytest.fixture(scope='module', params=['recurrent', 'gpt'])
def writer(request, tmp_path_factory):
    """(config, workdir, log P of [N, T] tokens after their first two) of a model with four tokens."""
    folder = tmp_path_factory.mktemp('writer')
    (folder / 'text.txt').write_text(''.join(random.Random(0).choices(LETTERS, k=3000)))
    config = tiny_config(request.param, data=dict(source=f'file:{folder / "text.txt"}'), parallel=dict(data=1),
                         decode=dict(prompt='ab', max_new_tokens=3))
    parts, params = untrained_run(config, folder / 'run')

    @jax.jit
    def log_p(tokens):
        scores = jax.nn.log_softmax(parts.task.model.apply({'params': params}, tokens[:, :-1]))
        return jnp.take_along_axis(scores, tokens[:, 1:, None], axis=2)[:, 1:, 0].sum(axis=1)

    return config, folder / 'run', log_p


def with_decode(config, **fields):
    config = config.copy_and_resolve_references()
    config.decode.update(fields)
    return config


def numbers(texts):
    return np.array([[LETTERS.index(letter) for letter in text] for text in texts], np.int32)


def test_a_wide_beam_finds_the_likeliest_of_all_texts(writer):
    config, workdir, log_p = writer
    texts = ['ab' + ''.join(letters) for letters in itertools.product(LETTERS, repeat=3)]
    order = np.argsort(-np.asarray(log_p(numbers(texts))))
    assert generate_text(with_decode(config, num_beams=16, samples=5), workdir) == [texts[i] for i in order[:5]]


def test_a_beam_is_no_worse_than_the_greedy_text(writer):
    config, workdir, log_p = writer
    greedy, = generate_text(with_decode(config, max_new_tokens=12, temperature=0.0), workdir)
    best = generate_text(with_decode(config, max_new_tokens=12, num_beams=4, samples=4), workdir)
    scores = np.asarray(log_p(numbers([greedy, *best])))
    assert scores[1] > scores[0] - 1e-4 and (np.diff(scores[1:]) <= 1e-4).all() and len(set(best)) == 4


@pytest.mark.parametrize('writer', ['gpt'], indirect=True)
@pytest.mark.parametrize('fields, sentence', [
    (dict(num_beams=4, samples=5),
     'config.decode.samples=5: a beam finds config.decode.num_beams=4 texts; ask for fewer, or widen it'),
    (dict(num_beams=4, max_new_tokens=15), 'config.decode.max_new_tokens=15: a beam looks at all of its text, 17 tokens with the '
                                      'prompt, and the model can look at 16; ask for fewer, or set config.decode.num_beams=1'),
])
def test_a_beam_that_cannot_be_is_refused(writer, fields, sentence):
    config, workdir, _ = writer
    with pytest.raises(FieldError) as caught:
        generate_text(with_decode(config, **fields), workdir)
    assert str(caught.value) == sentence


OF_A_TEXT = 'this run is for language_model on {!r}; leave it out'


@pytest.mark.parametrize('writer', ['recurrent'], indirect=True)
@pytest.mark.parametrize('fields, sentence', [
    (dict(no_repeat_ngram_size=2), 'config.decode.no_repeat_ngram_size=2: is for a beam, and config.decode.num_beams=1 draws the text; write 0, or widen '
                        'the beam'),
    (dict(num_beams=4, n_best=2), 'config.decode.n_best=2: is for translations; ' + OF_A_TEXT),
    (dict(min_length=2), 'config.decode.min_length=2: is for translations; ' + OF_A_TEXT),
    (dict(length_penalty=0.5), 'config.decode.length_penalty=0.5: is for translations; ' + OF_A_TEXT),
    (dict(num_beams=4, length_factor=3.0), 'config.decode.length_factor=3.0: is for translations and span corruption; ' + OF_A_TEXT),
    (dict(num_beam_groups=2, diversity_penalty=1.0), 'config.decode.num_beam_groups=2: must divide num_beams=1'),
    (dict(diversity_penalty=1.0), 'config.decode.diversity_penalty=1.0: is between groups, and there is one; write 0, or more groups'),
    (dict(coverage_penalty=1.0), 'config.decode.coverage_penalty=1.0: is for translations; ' + OF_A_TEXT),
    (dict(num_beams=4, temperature=0.5), 'config.decode.temperature=0.5: is for a text that is drawn, and config.decode.num_beams=4 '
                                    'searches for it; set that to 1, or write 0.8'),
])
def test_what_writing_does_not_do_is_refused(writer, fields, sentence):
    config, workdir, _ = writer
    with pytest.raises(FieldError) as caught:
        generate_text(with_decode(config, **fields), workdir)
    assert str(caught.value) == sentence.format(config.data.source)


@pytest.mark.parametrize('writer', ['recurrent'], indirect=True)
def test_compiling_is_said_at_once_where_there_is_no_terminal(writer, capsys):
    config, workdir, _ = writer
    generate_text(config, workdir)
    assert capsys.readouterr().err == 'generate 0/1  compiling and writing\n'


@pytest.mark.parametrize('writer', ['recurrent'], indirect=True)
def test_a_beam_repeats_nothing_where_that_is_asked_for(writer):
    config, workdir, _ = writer
    text, = generate_text(with_decode(config, num_beams=4, max_new_tokens=4, no_repeat_ngram_size=1), workdir)
    assert sorted(text.removeprefix('ab')) == list(LETTERS)
