"""The compiled loop with its memory against reading everything again for every token."""

import functools

import jax
import numpy as np
import pytest

from seqjax import models
from seqjax.decode import Limits, Sample, make_decoder, search
from seqjax.decode.generate import _continue
from seqjax.errors import FieldError
from tests.reference import generation as reference
from tests.reference.parameters import random_parameters

V, C, NEW = 13, 8, 29
FIELDS = {'gpt': dict(width=8, depth=1, heads=2, bias=False), 'recurrent': dict(width=8, depth=1),
          'mamba': dict(width=8, depth=1), 'rwkv': dict(width=8, depth=2, scan_layers=True)}
SAMPLERS = {'greedy': Sample(0), 'sampled': Sample(8.0, top_k=11, top_p=0.98)}
SEEDS = {'gpt': 3, 'recurrent': 39, 'mamba': 0, 'rwkv': 1}
KEY = jax.random.key(5)
both_models = pytest.mark.parametrize('name', FIELDS)
both_samplers = pytest.mark.parametrize('sampler', SAMPLERS.values(), ids=SAMPLERS)


def prompts(seed=0, lengths=(1, 5, 13)):
    """Shorter than the context, and longer."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, V, length) for length in lengths]


@functools.cache
def make(name, context_length=C):
    """A model whose next token depends strongly on all that it remembers."""
    model = models.build(name, vocabulary=V, context_length=context_length, **FIELDS[name])
    return model, random_parameters(model, np.zeros((1, 1), np.int32), seed=SEEDS[name], scale=3)


def run(name, some, sampler=SAMPLERS['sampled'], key=KEY, max_new_tokens=NEW, **options):
    return generate(*make(name), some, key=key, max_new_tokens=max_new_tokens, sampler=sampler, **options)


def generate(model, params, some, *, key, max_new_tokens, sampler, end=None):
    found = search(make_decoder(model, params, end=end), some, sampler, limits=Limits(max_new_tokens), key=key)
    return [text for one in found for text in one.texts]


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)


@both_models
@both_samplers
def test_every_token_equals_that_of_reading_everything_again(name, sampler):
    actual = run(name, prompts(), sampler)
    assert [len(row) for row in actual] == [NEW] * 3
    assert len({tuple(row) for row in actual}) == 3 and min(len(set(row.tolist())) for row in actual) > 3
    assert_same(actual, reference.generate(*make(name), prompts(), key=KEY, max_new_tokens=NEW, sampler=sampler))


def test_the_window_rule_holds_for_an_odd_context():
    model, params = make('gpt', 3)
    options = dict(key=KEY, max_new_tokens=NEW, sampler=SAMPLERS['sampled'])
    assert_same(generate(model, params, prompts(), **options), reference.generate(model, params, prompts(), **options))


@both_models
def test_what_a_row_becomes_does_not_depend_on_the_rows_beside_it(name):
    together = run(name, prompts())
    for row in range(3):
        others = prompts(seed=1, lengths=(9, 2, 6))
        others[row] = prompts()[row]
        changed = run(name, others)
        np.testing.assert_array_equal(changed[row], together[row])
        assert all(np.any(changed[other] != together[other]) for other in range(3) if other != row)


@both_models
def test_the_same_prompt_in_two_rows_is_continued_in_two_ways(name):
    first, second, _ = run(name, [prompts()[1]] * 3)
    assert np.any(first != second)


@both_models
def test_the_same_key_gives_the_same_text_and_another_key_another(name):
    first, again, other = (run(name, prompts(), key=jax.random.key(seed)) for seed in (1, 1, 2))
    assert_same(again, first)
    assert all(np.any(a != b) for a, b in zip(first, other))


def test_the_end_token_is_kept_and_stops_its_row_only():
    free = run('gpt', prompts())
    end = int(free[1][NEW // 2])
    expected = [row[:list(row).index(end) + 1] if end in row else row for row in free]
    assert 1 <= len(expected[1]) < NEW
    assert len({len(row) for row in expected}) > 1
    assert_same(run('gpt', prompts(), end=end), expected)
    assert_same(expected, reference.generate(*make('gpt'), prompts(), key=KEY, max_new_tokens=NEW,
                                             sampler=SAMPLERS['sampled'], end=end))


@both_models
def test_another_prompt_of_the_same_padded_size_compiles_nothing(name):
    run(name, prompts())
    before = _continue._cache_size()
    run(name, prompts(seed=3, lengths=(16, 2, 7)), key=jax.random.key(9))
    assert _continue._cache_size() == before


def test_a_single_token_is_the_first_of_many_and_another_number_of_them_compiles_once():
    expected = [row[:1] for row in run('recurrent', prompts())]
    before = _continue._cache_size()
    assert_same(run('recurrent', prompts(), max_new_tokens=1), expected)
    assert _continue._cache_size() == before + 1


@both_models
def test_plain_lists_of_tokens_are_prompts_too(name):
    assert_same(run(name, [prompt.tolist() for prompt in prompts()]), run(name, prompts()))


def test_impossible_requests_are_refused():
    with pytest.raises(FieldError, match='^max_length=0: must be at least 1$'):
        run('recurrent', prompts(), max_new_tokens=0)
    for none in ([], [np.array([], np.int32)], [np.array([1]), np.array([], np.int32)]):
        with pytest.raises(ValueError, match='every prompt needs at least one token to continue from'):
            run('recurrent', none)
