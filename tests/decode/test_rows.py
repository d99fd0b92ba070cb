"""Many rows at a time against each row by itself."""

import functools

import jax
import numpy as np
import pytest

from seqjax import models
from seqjax.decode import Beam, Exact, Greedy, Limits, Sample, exact, make_decoder, score_pairs, search
from seqjax.decode.batches import solve_batch
from seqjax.errors import FieldError
from tests.reference.parameters import random_parameters

V, END, SHAPES = 7, 3, (4, 8)
RNG = np.random.default_rng(0)
ROWS = [RNG.integers(4, V, length).astype(np.int32) for length in (3, 8, 1, 4, 0, 5, 2, 7, 3, 6, 4)]
BEAM = Beam(3, length_penalty=0.6, coverage_penalty=0.3, n_best=2)
LIMITS = Limits(length_margin=1, max_length=12)


@functools.cache
def make(seed=0):
    model = models.build('seq2seq', vocabulary=V, target_vocabulary=V, width=8)
    return model, random_parameters(model, np.zeros((1, 4), np.int32), seed=seed, scale=1.5)


def run(rows=ROWS, method=BEAM, limits=LIMITS, batch_size=4, shapes=SHAPES, **options):
    return translate(*make(), rows, method, limits=limits, batch_size=batch_size, shapes=shapes, **options)


def translate(model, params, rows, method, end=None, **options):
    return [list(zip(found.texts, found.scores, found.log_probs))
            for found in search(make_decoder(model, params, end=end), rows, method, **options)]


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for answers, others in zip(actual, expected):
        assert [one[0].tolist() for one in answers] == [one[0].tolist() for one in others]
        np.testing.assert_allclose([one[1:] for one in answers], [one[1:] for one in others], rtol=1e-4)


def test_rows_come_back_in_their_order_whatever_the_batch_and_the_shapes():
    together = run()
    assert [len(answers) for answers in together] == [2 if len(row) else 0 for row in ROWS]
    assert len({tuple(answers[0][0].tolist()) for answers in together if answers}) > 4
    assert_same([run([row], batch_size=1, shapes=(8,))[0] for row in ROWS], together)
    assert run([]) == []


def test_few_programs_are_compiled_and_none_again():
    run()
    before = solve_batch._cache_size()
    counts = []
    run(ROWS[::-1] * 2, seen=counts.append)
    assert solve_batch._cache_size() == before
    assert sum(counts) == 2 * sum(len(row) > 0 for row in ROWS) and max(counts) <= 4
    run(limits=Limits(length_margin=2))
    assert solve_batch._cache_size() == before + len(SHAPES)


def test_scores_are_those_of_the_tokens_and_lengths_keep_to_the_limit():
    for row, answers in zip(ROWS, run()):
        for tokens, score, log_prob in answers:
            assert tokens.dtype == np.int32 and len(tokens) <= min(12, 2 * len(row) + 1) and END not in tokens[:-1]
            assert len(tokens) == min(12, 2 * len(row) + 1) or tokens[-1] == END
            inputs, targets = np.zeros((1, 8), np.int32), np.zeros((1, 12), np.int32)
            inputs[0, :len(row)], targets[0, :len(tokens)] = row, tokens
            expected, _ = teacher_forced(dict(inputs=inputs, lengths=np.int32([len(row)]), targets=targets,
                                              weights=(np.arange(12) < len(tokens))[None].astype(np.float32)))
            np.testing.assert_allclose(log_prob, expected[0], rtol=1e-4)
            assert score <= log_prob / ((5 + len(tokens)) / 6) ** 0.6 + 1e-5  # the coverage takes away


@jax.jit
def teacher_forced(batch):
    return score_pairs(*make(), batch)


def test_a_list_of_models_is_an_ensemble():
    model, params = make()
    options = dict(limits=LIMITS, batch_size=4, shapes=(8,))
    assert_same(translate([model] * 2, [params] * 2, ROWS, BEAM, **options), run())
    mixed = translate([model] * 2, [params, make(1)[1]], ROWS[:4], BEAM, **options)
    assert any(a[0][0].tolist() != b[0][0].tolist() for a, b in zip(mixed, run(ROWS[:4])))


def test_a_sampler_draws_by_the_key_and_the_number_of_the_row():
    options = dict(method=Sample(1.5, min_p=0.01), limits=Limits(12, length_margin=1, no_repeat_ngram_size=2), shapes=(8,))
    found = run(key=jax.random.key(0), **options)
    assert_same(run(key=jax.random.key(0), batch_size=2, **options), found)
    others = run(key=jax.random.key(1), **options)
    assert any(a[0][0].tolist() != b[0][0].tolist() for a, b in zip(others, found) if a)
    for answers in found:
        for tokens, _, _ in answers:
            pairs = list(zip(tokens[:-1].tolist(), tokens[1:].tolist()))
            assert len(set(pairs)) == len(pairs)
    with pytest.raises(ValueError, match='a sampler draws: give a key'):
        run(**options)


def test_temperature_0_is_a_beam_of_one_and_answers_have_a_least_length():
    options = dict(limits=Limits(length_margin=1, max_length=12, min_length=3), shapes=(8,))
    greedy = run(method=Sample(0), **options)
    assert_same(greedy, run(method=Beam(1), **options))
    assert_same(greedy, run(method=Greedy(), **options))
    assert {len(answers[0][0]) >= 3 for answers in greedy if answers} == {True}


def test_a_language_model_goes_on_with_its_rows():
    model = models.build('recurrent', vocabulary=V, width=8)
    params = random_parameters(model, np.zeros((1, 4), np.int32), scale=1.5)
    found = translate(model, params, ROWS[:4], Beam(1), limits=Limits(5), batch_size=4, shapes=(8,), end=END)
    for row, answers in zip(ROWS, found):
        tokens = row.tolist()
        for token in answers[0][0]:
            padded = np.zeros((1, 16), np.int32)
            padded[0, :len(tokens)] = tokens
            assert token == whole(model, params, padded)[0, len(tokens) - 1].argmax()
            tokens.append(int(token))


@functools.partial(jax.jit, static_argnums=0)
def whole(model, params, tokens):
    return model.apply({'params': params}, tokens)


def test_rows_that_are_too_long_are_refused():
    with pytest.raises(ValueError, match='row 1 has 8 tokens, and the longest of shapes is 4; split the row, or declare'):
        run(shapes=(4,))


@pytest.mark.parametrize('fields, sentence', [
    (dict(num_beams=0), 'num_beams=0: must be at least 1'),
    (dict(num_beams=4, num_beam_groups=3), 'num_beam_groups=3: must divide num_beams=4'),
    (dict(num_beams=2, n_best=3), 'n_best=3: must be at least 1 and at most num_beams=2'),
    (dict(num_beams=4, diversity_penalty=0.5), 'diversity_penalty=0.5: is between groups, and there is one; write 0, or more groups'),
    (dict(max_length=0), 'max_length=0: must be at least 1'),
    (dict(length_penalty=-1.0), 'length_penalty=-1.0: must be at least 0'),
    (dict(length_factor=0.5, length_margin=0),
     'length_margin=0: with length_factor=0.5 a source of one token has no answer; write 1'),
], ids=str)
def test_impossible_searches_are_refused(fields, sentence):
    with pytest.raises(FieldError) as error:
        (Limits if any('length_' in field or field == 'max_length' for field in fields) and 'length_penalty' not in fields
         else Beam)(**fields)
    assert str(error.value) == sentence


# ------------------------------------------------------------------------------------------------ prefixes, exact search

PREFIXES = [np.int32(prefix) for prefix in ([5], [], [4, 6, 4], [6], [4], [], [6, 6], [5], [], [4, 4, 5], [6])]


@pytest.mark.parametrize('method', [Beam(2), Sample(top_k=2)], ids=['beam', 'drawn'])
def test_every_answer_begins_with_the_prefix_of_its_row(method):
    limits, n_best = Limits(length_margin=1), getattr(method, 'num_beams', 1)
    options = dict(method=method, limits=limits, key=jax.random.key(0), shapes=(8,))
    found, free = run(prefixes=PREFIXES, **options), run(**options)
    for row, prefix, answers in zip(ROWS, PREFIXES, found):
        assert len(answers) == (n_best if len(row) else 0)
        for answer in answers:
            assert answer[0][:len(prefix)].tolist() == prefix.tolist()
            assert len(answer[0]) <= limits.of(None, len(row)) + len(prefix)
    same = [n for n, prefix in enumerate(PREFIXES) if not len(prefix)]
    assert_same([found[n] for n in same], [free[n] for n in same])
    assert sum(answers[0][0].tolist() != others[0][0].tolist() for answers, others in zip(found, free) if others) > 2


def test_a_prefix_that_leaves_no_room_is_refused():
    with pytest.raises(ValueError, match='^a prefix has 3 tokens, and an answer at most 3; raise max_length$'):
        run(limits=Limits(3), prefixes=PREFIXES)


def test_an_exact_search_finds_what_a_beam_of_everything_finds():
    models, params = zip(make(), make(1))
    found, everything = (translate(models, params, ROWS[:4], method, limits=Limits(3, no_repeat_ngram_size=1), shapes=(8,),
                                   prefixes=PREFIXES[4:8], batch_size=4)
                         for method in (Exact(0.6, n_best=3), Beam(V ** 2, 0.6, n_best=3)))
    assert_same(found, everything)
    assert len({tuple(answers[0][0].tolist()) for answers in found}) > 2


def test_where_there_is_too_much_to_search_it_is_said(monkeypatch):
    monkeypatch.setattr(exact, 'STEPS', 3)
    with pytest.raises(FieldError) as caught:
        run(ROWS[:1], Exact(expansions=0), Limits(9))
    assert str(caught.value) == (
        'exact=True: there is too much to search: 3 beginnings of answers to a row of 3 tokens do not show the best one, of up '
        'to 9 tokens out of 7; write false and search with a beam, or make it easier with length_penalty=0 or a smaller '
        'max_new_tokens')
    monkeypatch.setattr(exact, 'WAYS', 2 * V)  # what is kept is bounded, too
    with pytest.raises(FieldError, match='^exact=True: there is too much to search: 2 beginnings of '):
        run(ROWS[:1], Exact(expansions=0), Limits(9))
