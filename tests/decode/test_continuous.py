"""Texts written by few rows, one after another, with few pages, are those that `generate` writes for all of them at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models
from seqjax.decode import Sample, continuous, make_decoder, serve
from seqjax.decode.continuous import _turn
from seqjax.errors import FieldError
from tests.decode.test_generate import generate
from tests.reference.parameters import random_parameters

V, C = 13, 16
KEY = jax.random.key(5)
MODELS = {
    'gpt': ('gpt', dict(width=8, depth=1, heads=2)),
    'llama': ('llama', dict(width=8, depth=2, heads=2, kv_heads=1, scan_layers=True)),
    'relative': ('gpt', dict(width=8, depth=1, heads=2, positions='relative', sliding_window=5)),
    'linear': ('gpt', dict(width=8, depth=1, heads=2, attention='linear')),
    'lstm': ('recurrent', dict(width=8, depth=1)),
}


@functools.cache
def make(name):
    model, fields = MODELS[name]
    model = models.build(model, vocabulary=V, context_length=C, **fields)
    return model, random_parameters(model, np.zeros((1, 1), np.int32), seed=3, scale=2)


def prompts(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, V, length) for length in lengths]


NEW = 11
LENGTHS = (3, 1, 9, 2, 14, 25, 5)  # shorter than the context, and longer
SAMPLER = Sample(2.0, top_k=9)


@functools.cache
def expected(name, max_new_tokens=NEW):
    return generate(*make(name), prompts(LENGTHS), key=KEY, max_new_tokens=max_new_tokens, sampler=SAMPLER)


def generate_many(model, params, prompts, *, sampler=SAMPLER, end=None, **options):
    found, facts = serve(make_decoder(model, params, end=end), prompts, sampler, **options)
    return [one.texts[0] for one in found], facts


def run(name, max_new_tokens=NEW, **options):
    return generate_many(*make(name), prompts(LENGTHS), max_new_tokens=max_new_tokens, key=KEY, sampler=SAMPLER, **options)


def assert_same(texts, expected):
    assert [text.tolist() for text in texts] == [text.tolist() for text in expected]


def ended(text, end):
    """The text up to the first of some tokens."""
    places = [place for place, token in enumerate(text.tolist()) if token in end]
    return text[:places[0] + 1] if places else text


@pytest.mark.parametrize('name', MODELS)
def test_texts_are_those_of_generate(name):
    end = int(expected(name)[0][4]), int(expected(name)[3][7])
    texts, facts = run(name, end=end, rows=3, chunk=4, page_size=4)
    assert_same(texts, [ended(text, end) for text in expected(name)])
    assert len({len(text) for text in texts}) > 2 and facts.evictions == 0  # they end at different steps
    assert facts.turns < NEW * len(LENGTHS) / 2  # rows wrote side by side, and began while others went on


def test_with_few_pages_rows_wait_and_nothing_is_lost():
    """Also where a row has to wait after its window has moved: it goes on with what it looked at."""
    texts, facts = run('gpt', max_new_tokens=40, rows=4, chunk=3, page_size=3, pages=9)
    assert_same(texts, expected('gpt', 40))
    assert facts.evictions > 0


@pytest.mark.parametrize('options', [dict(rows=1, chunk=1000, page_size=100), dict(rows=64, chunk=1, page_size=1)], ids=str)
def test_sizes_change_nothing(options):
    assert_same(run('gpt', **options)[0], expected('gpt'))


def test_every_prompt_has_a_length_of_its_own():
    most = [1, 7, 3, 11, 2, 5, 1]
    texts, facts = run('gpt', max_new_tokens=most, rows=3, chunk=4, page_size=4)
    assert_same(texts, [text[:n] for text, n in zip(expected('gpt'), most)])
    assert 0 < facts.busy <= 1


def test_a_free_row_begins_at_once_and_others_compile_nothing():
    """Texts of 40 tokens with 2 rows: in each one after another, and the turn that reads a prompt writes its first token."""
    programs = set()
    for count in (5, 7, 8):
        seen = []
        _, facts = generate_many(*make('gpt'), prompts((3,) * count), key=KEY, max_new_tokens=40, rows=2, chunk=4, seen=seen.append)
        assert facts.chunks >= count and 40 * count / 2 <= facts.turns <= 40 * ((count + 1) // 2) + 12 * count
        assert seen[-1] == count and sorted(seen) == seen and len(seen) > 1
        programs.add(_turn._cache_size())
    assert len(programs) == 1


def test_the_store_is_never_copied():
    """A loop that copied its caches would need the memory of two."""
    model, params = make('gpt')
    sizes = continuous.Sizes(rows=2, chunk=4, context=16, pages=2 ** 12, page_size=64)
    lengths = jnp.full(4, 3)
    queue = jax.eval_shape(lambda: continuous._begin(model, sizes, jnp.zeros((4, 16), jnp.int32), lengths, 4))
    asked = continuous.Asked(lengths, lengths, KEY)
    compiled = _turn.lower(model, sizes, Sample(0), None, params, asked, queue).compile()
    store = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(queue.memory))
    assert compiled.memory_analysis().temp_size_in_bytes < store / 4


@pytest.mark.parametrize('options, message', [
    (dict(rows=0), 'rows=0: must be at least 1'), (dict(chunk=0), 'chunk=0'), (dict(page_size=0), 'page_size=0'),
    (dict(max_new_tokens=[3, 0]), 'max_new_tokens=0'), (dict(pages=1, page_size=2), 'pages=1: one text may need 3 pages of 2')])
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(FieldError, match=message):
        generate_many(*make('gpt'), prompts((2, 3)), **dict(key=KEY, max_new_tokens=3) | options)
