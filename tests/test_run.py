"""The library door: a run that is opened answers as the modes of launch.py do, and a config trains from a program."""

import jax
import numpy as np
import pytest

import seqjax
from seqjax import params as trees
from seqjax.errors import FieldError
from seqjax.modes.continue_text import generate_text
from seqjax.modes.predict import predict_lines
from seqjax.modes.translate import score_lines, translate_lines
from tests.labelled_files import labelled_config, untrained_run, write_labelled
from tests.pair_files import pair_config, untrained_translator, write_pairs
from tests.tiny import tiny_config

ONE = dict(parallel=dict(data=1))


@pytest.fixture(scope='module')
def writer(tmp_path_factory):
    """(config, workdir) of a language model that was trained from here."""
    workdir = tmp_path_factory.mktemp('writer') / 'run'
    config = tiny_config('gpt', decode=dict(max_new_tokens=6), **ONE)
    result = seqjax.train(config, workdir)
    assert np.isfinite(result['eval/loss']) and seqjax.train.train is seqjax.train.loop.train
    return config, workdir


def test_a_language_model_generates_scores_and_is_evaluated(writer):
    config, workdir = writer
    run = seqjax.open_run(workdir)
    assert repr(run) == f'<run {workdir}: gpt, step {config.train.steps}>'
    config = config.copy_and_resolve_references()
    config.decode.prompt = 'def '
    assert run.generate('def ') == generate_text(config, workdir)[0] != run.generate('def ', seed=3)
    assert len(run.generate('def ', samples=3)) == 3
    with pytest.raises(FieldError, match="^temprature=1: no such field of config.decode; did you mean 'temperature'?"):
        run.generate('def ', temprature=1)
    with pytest.raises(FieldError, match='^beam=2: is called num_beams now$'):
        run.generate('def ', beam=2)
    tokens = run.codec.inputs('def x():')
    logits = run.model.apply({'params': run.params}, tokens[None])
    by_hand = [float(jax.nn.log_softmax(logits[0, t])[token]) for t, token in enumerate(tokens[1:])]
    found, other = run.score(['def x():', 'a'])
    np.testing.assert_allclose(found['log_probs'], by_hand, rtol=1e-4)
    assert found['log_prob'] == pytest.approx(sum(by_hand), rel=1e-4) and ''.join(found['tokens']) == 'ef x():'
    assert other['log_probs'] == []
    assert run.evaluate()['eval/loss'] == pytest.approx(seqjax.modes.eval.evaluate(config, workdir)['eval/loss'])


def test_it_opens_in_eight_bits(writer):
    assert trees.size_in_bytes(seqjax.open_run(writer[1], weights='int8').params) < trees.size_in_bytes(
        seqjax.open_run(writer[1]).params) / 2


def test_a_translator_translates_and_scores(tmp_path):
    config = pair_config(write_pairs(tmp_path / 'pairs.tsv'), **ONE)
    untrained_translator(config, tmp_path / 'run')
    run = seqjax.open_run(tmp_path / 'run')
    lines = ['ab', '', 'cd a']
    found = [answers[0][1] for answers in translate_lines(config, tmp_path / 'run', lines)]
    assert run.translate(lines) == found
    assert [len(answers) for answers in run.translate(lines, num_beams=3, n_best=2)] == [2, 1, 2]
    assert run.score([('ab', 'wx')]) == list(score_lines(config, tmp_path / 'run', ['ab\twx']))


def test_a_classifier_predicts(tmp_path):
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification', 'conv')
    untrained_run(config, tmp_path / 'run')
    run = seqjax.open_run(tmp_path / 'run')
    assert run.predict(['abc', 'h']) == list(predict_lines(config, tmp_path / 'run', ['abc', 'h']))
    assert run.codec.classes


def test_a_run_over_generated_numbers_has_a_model_and_no_codec(tmp_path):
    parts, params = untrained_run(tiny_config('reader', data=dict(source='adding'), **ONE), tmp_path / 'run')
    run = seqjax.open_run(tmp_path / 'run')
    assert run.codec is None and run.model == parts.task.model
    jax.tree.map(np.testing.assert_array_equal, run.params, jax.device_get(params))
