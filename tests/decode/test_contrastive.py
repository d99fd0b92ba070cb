"""Contrastive search against a plain loop that reads everything again for every candidate."""

import functools
import random

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import models
from seqjax.decode import Contrastive, LanguageModelDecoder, Limits, Sample
from seqjax.decode import search as decode_search
from seqjax.errors import FieldError
from seqjax.modes.continue_text import generate_text as write
from tests.decode.test_generate import generate
from tests.labelled_files import untrained_run
from tests.reference.parameters import random_parameters
from tests.tiny import tiny_config

V, C, NEW, K = 13, 8, 19, 4
FIELDS = {'gpt': dict(width=8, depth=1, heads=2), 'recurrent': dict(width=8, cell='gru'), 'mamba': dict(width=8, depth=1),
          'rwkv': dict(width=8, depth=1)}
SEEDS = {'gpt': 2, 'recurrent': 2, 'mamba': 2, 'rwkv': 16}
PROMPTS = [np.random.default_rng(length).integers(0, V, length) for length in (1, 5, 13)]  # shorter than the context, and longer
both_models = pytest.mark.parametrize('name', FIELDS)


@functools.cache
def make(name):
    model = models.build(name, vocabulary=V, context_length=C, **FIELDS[name])
    return model, random_parameters(model, np.zeros((1, 1), np.int32), seed=SEEDS[name], scale=1)


def search(name, prompts=PROMPTS, k=K, alpha=0.6, max_new_tokens=NEW, **options):
    return contrastive_search(*make(name), prompts, k=k, alpha=alpha, max_new_tokens=max_new_tokens, **options)


def contrastive_search(model, params, prompts, *, k, alpha, max_new_tokens, end=None):
    method, limits = Contrastive(k, alpha), Limits(max_new_tokens)
    return [one.texts[0] for one in decode_search(LanguageModelDecoder(model, params, end), prompts, method, limits=limits)]


# ------------------------------------------------------------------------------------------------ the stupid way

@functools.partial(jax.jit, static_argnums=0)
def _read(model, params, tokens):
    """h [N, T, D] and logits [N, T, V] of rows that are read from their first token on."""
    _, h = model.apply({'params': params}, model.initial_state(*tokens.shape), tokens, method='extend_hidden')
    return h, model.apply({'params': params}, tokens)


def read(name, texts):
    """Of texts of one length, which is padded: h [N, T, D] and the logits after each [N, V]."""
    model, params = make(name)
    T = len(texts[0])
    padded = np.zeros((K, model.context_length or len(PROMPTS[-1]) + NEW), np.int32)
    padded[:len(texts), :T] = texts
    h, logits = _read(model, params, padded)
    return np.float64(h)[:len(texts), :T], np.float64(logits)[:len(texts), T - 1]


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def plain_search(name, prompt, alpha):
    """What `Contrastive` must write."""
    room = make(name)[0].context_length or len(prompt) + NEW
    text, window = list(prompt), list(prompt)[-room:]
    (past,), (logits,) = read(name, [window])
    past = list(past)
    for _ in range(NEW):
        if len(window) == room:
            window = text[len(text) - (room // 2 - 1):]
        p = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        likeliest = sorted(range(V), key=lambda v: -p[v])[:K]
        h, after = read(name, [window + [v] for v in likeliest])
        scores = [(1 - alpha) * p[v] - alpha * max(cosine(h_v, h_j) for h_j in past) for v, h_v in zip(likeliest, h[:, -1])]
        best = int(np.argmax(scores))
        text, window, logits = text + [likeliest[best]], window + [likeliest[best]], after[best]
        past.append(h[best, -1])
    return text[len(prompt):]


@both_models
def test_every_token_is_that_of_reading_everything_again(name):
    for prompt, written in zip(PROMPTS, search(name)):
        assert written.tolist() == plain_search(name, prompt, 0.6)


# ------------------------------------------------------------------------------------------------ what follows from the equation

@both_models
def test_alpha_0_is_greedy_and_another_alpha_is_not(name):
    greedy = generate(*make(name), PROMPTS, key=jax.random.key(0), max_new_tokens=NEW, sampler=Sample(0))
    for written, other, expected in zip(search(name, alpha=0.0), search(name), greedy):
        np.testing.assert_array_equal(written, expected)
        assert np.any(other != expected)


def test_what_follows_the_end_is_not_written():
    free = search('recurrent')
    end = int(free[1][NEW // 2])
    for written, row in zip(search('recurrent', end=end), free):
        np.testing.assert_array_equal(written, row[:list(row).index(end) + 1] if end in row else row)


@pytest.mark.parametrize('fields, sentence', [
    (dict(k=0), 'top_k=0: must be at least 1, as 5'),
    (dict(alpha=1.5), 'penalty_alpha=1.5: must be at least 0 and at most 1 (0 is greedy)'),
    (dict(alpha=float('nan')), 'penalty_alpha=nan: must be at least 0 and at most 1 (0 is greedy)'),
    (dict(max_new_tokens=0), 'max_length=0: must be at least 1'),
])
def test_impossible_requests_are_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        search('gpt', **fields)
    assert str(caught.value) == sentence


def test_a_model_without_hidden_vectors_is_refused():
    model = models.build('bert', vocabulary=V, context_length=C, width=4)
    with pytest.raises(FieldError, match='^model=.*: has no extend_hidden, which contrastive search compares tokens by$'):
        contrastive_search(model, {}, PROMPTS, k=K, alpha=0.6, max_new_tokens=NEW)


# ------------------------------------------------------------------------------------------------ from a run

@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, workdir, model, parameters) of a model with four tokens."""
    folder = tmp_path_factory.mktemp('writer')
    (folder / 'text.txt').write_text(''.join(random.Random(0).choices('abcd', k=3000)))
    config = tiny_config('gpt', data=dict(source=f'file:{folder / "text.txt"}'), parallel=dict(data=1),
                         decode=dict(prompt='ab', max_new_tokens=20))
    parts, params = untrained_run(config, folder / 'run')
    return config, folder / 'run', parts.task.model, params


def with_decode(config, **fields):
    config = config.copy_and_resolve_references()
    config.decode.update(fields)
    return config


def test_a_run_writes_what_the_search_finds_among_the_four_tokens_that_there_are(run):
    config, workdir, model, params = run
    expected, = contrastive_search(model, params, [np.array([0, 1])], k=4, alpha=0.5, max_new_tokens=20)
    assert write(with_decode(config, penalty_alpha=0.5, top_k=9), workdir) == ['ab' + ''.join('abcd'[token] for token in expected)]


DRAWN = 'is for a text that is drawn, and config.decode.penalty_alpha=0.5 searches for one; set that to 0, or write'


@pytest.mark.parametrize('fields, sentence', [
    (dict(), 'config.decode.top_k=0: config.decode.penalty_alpha=0.5 chooses among so many of the likeliest tokens; set it to 5, or '
             'to another number'),
    (dict(top_k=5, samples=2), f'config.decode.samples=2: {DRAWN} 1'),
    (dict(top_k=5, temperature=0.5), f'config.decode.temperature=0.5: {DRAWN} 0.8'),
    (dict(top_k=5, top_p=0.5), f'config.decode.top_p=0.5: {DRAWN} 1.0'),
    (dict(top_k=5, draft_model='there'), f"config.decode.draft_model='there': {DRAWN} ''"),
    (dict(penalty_alpha=1.5), 'config.decode.penalty_alpha=1.5: must be at least 0 and at most 1 (0 is off)'),
    (dict(penalty_alpha=float('nan')), 'config.decode.penalty_alpha=nan: must be at least 0 and at most 1 (0 is off)'),
])
def test_what_contrastive_search_does_not_do_is_refused(run, fields, sentence):
    config, workdir, *_ = run
    with pytest.raises(FieldError) as caught:
        write(with_decode(config, **{'penalty_alpha': 0.5, **fields}), workdir)
    assert str(caught.value) == sentence


def test_a_beam_is_another_way(run):
    config, workdir, *_ = run
    with pytest.raises(FieldError, match='is (another way to write a text than config.decode.num_beams=2|for a text that is drawn)'):
        write(with_decode(config, penalty_alpha=0.5, top_k=5, num_beams=2), workdir)


def test_a_translation_is_not_searched_for_by_contrast():
    config = tiny_config('seq2seq', data=dict(source='reverse'), decode=dict(penalty_alpha=0.5, top_k=5))
    with pytest.raises(FieldError) as caught:
        configs.validate(config)
    assert str(caught.value) == "config.decode.penalty_alpha=0.5: is for language models; this run is for translation on 'reverse'; leave it out"
