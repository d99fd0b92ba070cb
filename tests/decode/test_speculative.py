"""Speculative sampling: what it writes is what the model alone would, whatever drafts for it."""

import functools
import itertools
import random
import re

import jax
import numpy as np
import pytest

from seqjax import data, models
from seqjax.decode import Limits, Sample, Speculative, make_decoder, search
from seqjax.decode.speculative import accept
from seqjax.errors import FieldError
from seqjax.modes.continue_text import generate_text as write
from seqjax.runs import RunDirectory
from tests.decode.test_generate import generate
from tests.decode.test_sampling import probabilities
from tests.labelled_files import untrained_run
from tests.reference.parameters import random_parameters
from tests.tiny import tiny_config

V, NEW = 7, 27
PROMPTS = [np.random.default_rng(length).integers(0, V, length) for length in (1, 5, 13)]
KEY = jax.random.key(3)
GREEDY = Sample(0)


@functools.cache
def make(name='gpt', seed=0, scale=1.0, vocabulary=V, context_length=8, **fields):
    model = models.build(name, vocabulary=vocabulary, context_length=context_length, width=8, **fields)
    return model, random_parameters(model, np.zeros((1, 1), np.int32), seed=seed, scale=scale)


TARGET = functools.partial(make, depth=1, heads=2)
DRAFT = functools.partial(make, 'llama', seed=1, depth=1, heads=1)


def near(model, params):
    """The same model with other parameters, which mostly agrees with it."""
    rng = np.random.default_rng(5)
    return model, jax.tree.map(lambda x: x + (0.03 * rng.standard_normal(x.shape)).astype(x.dtype), params)


def run(target, draft, prompts=PROMPTS, sampler=GREEDY, max_new_tokens=NEW, **options):
    return speculate(*target, *draft, prompts, key=KEY, max_new_tokens=max_new_tokens, sampler=sampler, **options)


def speculate(model, params, draft, draft_params, prompts, *, key, max_new_tokens, sampler, num_draft_tokens=4, end=None):
    facts = {}
    found = search(make_decoder(model, params, end=end), prompts,
                   Speculative(make_decoder(draft, draft_params), num_draft_tokens, sampler), limits=Limits(max_new_tokens), key=key,
                   report=facts.update)
    return [one.texts[0] for one in found], facts['accepted']


def alone(target, sampler=GREEDY, **options):
    return generate(*target, PROMPTS, key=KEY, max_new_tokens=NEW, sampler=sampler, **options)


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)


# ------------------------------------------------------------------------------------------------ greedy

@pytest.mark.parametrize('context, draft_context, num_draft_tokens', [(8, 5, 2), (7, 64, 3), (64, 64, 1)])
def test_greedy_texts_are_those_of_the_model_alone(context, draft_context, num_draft_tokens):
    """Windows that move at different times, or not at all; those below move at the same time."""
    target = TARGET(context_length=context)
    written, share = run(target, DRAFT(context_length=draft_context), num_draft_tokens=num_draft_tokens)
    assert_same(written, alone(target))
    assert 0 < share < 1


def test_of_a_draft_that_is_often_right_nothing_is_written_after_the_end():
    target = TARGET()
    free = alone(target)
    end = int(free[1][NEW // 2])
    expected = [row[:list(row).index(end) + 1] if end in row else row for row in free]
    assert len({len(row) for row in expected}) > 1
    written, share = run(target, near(*target), num_draft_tokens=4, end=end)
    assert_same(written, expected)
    assert 0.3 < share < 1


@pytest.mark.parametrize('new', [1, 7])  # fewer than are drafted, and not a multiple of what a round writes
def test_no_more_tokens_are_written_than_are_asked_for(new):
    target = TARGET()
    written, share = run(target, target, max_new_tokens=new, num_draft_tokens=4)
    assert_same(written, [row[:new] for row in alone(target)])
    assert share == 1


def test_caches_of_another_form_are_taken_back_too():
    target, draft = (TARGET(seed=seed, positions='relative', sliding_window=3, scan_layers=True, kv_heads=1) for seed in (0, 1))
    written, share = run(target, draft, num_draft_tokens=3)
    assert_same(written, alone(target))
    assert share < 1


# ------------------------------------------------------------------------------------------------ drawn

DRAWN = dict(sampler=Sample(1.5, top_k=5, top_p=0.9), num_draft_tokens=3)


def test_a_draft_that_is_the_model_is_always_accepted():
    target = TARGET(scale=0.5)
    written, share = run(target, target, **DRAWN)
    assert share == 1 and [len(row) for row in written] == [NEW] * 3


def test_what_a_row_becomes_does_not_depend_on_the_rows_beside_it():
    target, draft = (TARGET(seed=seed, scale=0.5) for seed in (0, 1))
    together, share = run(target, draft, **DRAWN)
    changed, _ = run(target, draft, [PROMPTS[1], PROMPTS[1], PROMPTS[0]], **DRAWN)
    np.testing.assert_array_equal(changed[1], together[1])
    assert share < 1 and np.any(changed[0] != changed[1]) and np.any(changed[2] != together[2])


def chi_square_is_small(counts, expected):
    """Whether counts are as frequent as expected; what cannot be never is."""
    possible = expected > 0
    freedom = possible.sum() - 1
    chi_square = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    return not counts[~possible].any() and chi_square < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize('sampler, num_draft_tokens', [(Sample(), 2), (Sample(1.5, top_k=3, top_p=0.9), 1)], ids=str)
def test_texts_are_as_frequent_as_their_probabilities_under_the_model(sampler, num_draft_tokens):
    tokens, draws, prompt = 4, 20_000, np.array([2, 0])
    target, draft = (make(seed=seed, scale=0.7, vocabulary=tokens, depth=1, heads=1) for seed in (0, 1))
    texts = np.array(list(itertools.product(range(tokens), repeat=3)))
    rows = np.concatenate([np.broadcast_to(prompt, (len(texts), 2)), texts[:, :2]], axis=1)

    def exact(model, params):
        logits = jax.jit(lambda rows: model.apply({'params': params}, rows))(rows)  # [texts, 4, V]
        return np.array([np.prod([probabilities(logits[i, 1 + t], sampler)[text[t]] for t in range(3)])
                         for i, text in enumerate(texts)])

    written, share = run(target, draft, [prompt] * draws, sampler, max_new_tokens=3, num_draft_tokens=num_draft_tokens)
    counts = np.bincount(np.array(written) @ [tokens ** 2, tokens, 1], minlength=len(texts))
    assert 0.2 < share < 0.9
    assert chi_square_is_small(counts, draws * exact(*target))
    assert not chi_square_is_small(counts, draws * exact(*draft))


def test_of_equal_distributions_nothing_is_refused_and_of_disjoint_ones_everything():
    key, drafted = jax.random.key(0), np.array([0, 1], np.int32)
    one, other = np.float32([0.5, 0.5, 0, 0]), np.float32([0, 0, 0.25, 0.75])
    tokens, accepted = jax.jit(accept)(key, drafted, np.stack([one] * 2), np.stack([one] * 2 + [other]))
    assert accepted == 2 and tokens[:2].tolist() == [0, 1] and tokens[2] >= 2
    tokens, accepted = jax.jit(accept)(key, drafted, np.stack([one] * 2), np.stack([other] * 3))
    assert accepted == 0 and tokens[0] >= 2


# ------------------------------------------------------------------------------------------------ what cannot be

CANNOT = "cannot take back tokens that it has read; speculative sampling is for decoder-only Transformers with attention='softmax'"


@pytest.mark.parametrize('target, draft, options, sentence', [
    (lambda: make('recurrent'), DRAFT, {}, f"model='RecurrentLanguageModel': {CANNOT}"),
    (TARGET, lambda: make('mamba', depth=1), {}, f"draft_model='Mamba': {CANNOT}"),
    (TARGET, lambda: make(heads=2, depth=1, attention='linear'), {}, f"draft_model='GPT': {CANNOT}"),
    (TARGET, lambda: DRAFT(vocabulary=V + 1), {}, f"draft_model='Llama': has 8 tokens, and the model has {V}; they must have the same"),
    (TARGET, DRAFT, dict(num_draft_tokens=0), 'num_draft_tokens=0: must be at least 1'),
    (TARGET, DRAFT, dict(num_draft_tokens=5), 'num_draft_tokens=5: must be at most 4, half of what the draft can look at'),
])
def test_impossible_requests_are_refused(target, draft, options, sentence):
    with pytest.raises(FieldError) as caught:
        run(target(), draft(), **options)
    assert str(caught.value) == sentence


# ------------------------------------------------------------------------------------------------ from a run

@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(configs by name, where their runs are); those that cannot write with a draft have no checkpoint."""
    folder = tmp_path_factory.mktemp('writers')
    for letters in ('abcd', 'abcde'):
        (folder / f'{letters}.txt').write_text(''.join(random.Random(0).choices(letters, k=3000)))
    decode = dict(prompt='ab', max_new_tokens=30, temperature=0.0)
    make_config = lambda name, letters, **sections: tiny_config(
        name, data=dict(source=f'file:{folder / letters}.txt'), decode=decode, **sections)
    configs = dict(large=make_config('gpt', 'abcd', parallel=dict(data=1)), small=make_config('gpt', 'abcd', model=dict(width=8)),
                   other_tokens=make_config('gpt', 'abcde'), empty=make_config('gpt', 'abcd'),
                   recurrent=make_config('recurrent', 'abcd', parallel=dict(data=1)))
    for name, config in configs.items():
        if name in ('large', 'small'):
            untrained_run(config, folder / name)
        else:
            RunDirectory(folder / name).claim(config, data.load(config.data, 'language_model'))
    return configs, folder


def asked(runs, name='large', draft_model='small', **fields):
    configs, folder = runs
    config = configs[name].copy_and_resolve_references()
    config.decode.update(draft_model=str(folder / draft_model) if draft_model else '', **fields)
    return write(config, folder / name)


def test_a_run_with_a_draft_writes_the_same_and_says_how_much_was_accepted(runs, capsys):
    alone = asked(runs, draft_model='')
    assert asked(runs, num_draft_tokens=3) == alone
    output, errors = capsys.readouterr()
    assert output == '' and re.search(rf'accepted: \d+\.\d% of the tokens that {runs[1] / "small"} drafted', errors)


ABOUT = 'drafts are for Transformers with softmax attention, which can take back what they have read, and the model of '


@pytest.mark.parametrize('fields, sentence', [
    (dict(draft_model='nowhere'), 'no run is here (no config.json); train one first with --config=FILE'),
    (dict(draft_model='other_tokens'), 'the run there has learned other tokens, so it cannot draft for this one; train it on the same '
                                 'text with the same config.data'),
    (dict(draft_model='empty'), 'no checkpoint yet; train first'),
    (dict(draft_model='recurrent'), f"{ABOUT}the run there cannot; write '', or choose another run"),
    (dict(name='recurrent'), f"{ABOUT}this run cannot; write '', or choose another run"),
])
def test_a_run_that_cannot_draft_is_refused(runs, fields, sentence):
    with pytest.raises(FieldError) as caught:
        asked(runs, **fields)
    assert str(caught.value) == f"config.decode.draft_model='{runs[1] / fields.get('draft_model', 'small')}': {sentence}"


@pytest.mark.parametrize('fields, sentence', [
    (dict(num_draft_tokens=0), 'config.decode.num_draft_tokens=0: must be at least 1'),
    (dict(num_draft_tokens=9), 'config.decode.num_draft_tokens=9: must be at most 8, half of what the model that drafts can look at'),
    (dict(draft_model='', num_draft_tokens=3), 'config.decode.num_draft_tokens=3: is for config.decode.draft_model, and there is none; write 4'),
])
def test_numbers_of_drafted_tokens_that_cannot_be(runs, fields, sentence):
    with pytest.raises(FieldError) as caught:
        asked(runs, **fields)
    assert str(caught.value) == sentence
