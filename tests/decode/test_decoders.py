"""Models behind the step interface: a beam with their states against a beam that reads everything again for every token."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models
from seqjax.decode import Beam, Ensemble, Problem, make_decoder, score, score_pairs
from seqjax.errors import FieldError
from tests.reference.beam import beam as reference_beam
from tests.reference.parameters import random_parameters

B, S, T, V, K, END = 4, 5, 4, 6, 3, 3
RNG = np.random.default_rng(0)
LENGTHS = np.int32([5, 1, 3, 2])
INPUTS = np.where(np.arange(S) < LENGTHS[:, None], RNG.integers(1, V, (B, S)), 0).astype(np.int32)
FIELDS = {'gpt': dict(width=8, depth=1, heads=2), 'recurrent': dict(width=8), 'mamba': dict(width=8, depth=1),
          'rwkv': dict(width=8, depth=2, scan_layers=True), 'seq2seq': dict(width=8)}
SEEDS = {'gpt': 0, 'recurrent': 0, 'mamba': 0, 'rwkv': 0, 'seq2seq': 1}
every_model = pytest.mark.parametrize('name', FIELDS)


@functools.cache
def make(name):
    """A model whose next token depends strongly on all that came before."""
    model = models.build(name, vocabulary=V, context_length=S + T, target_vocabulary=V, **FIELDS[name])
    params = random_parameters(model, np.zeros((1, S), np.int32), seed=SEEDS[name], scale=1.5)
    return model, jax.tree.map(jnp.asarray, params)


@functools.partial(jax.jit, static_argnums=0)
def after(model, params, inputs, length, tokens, t):
    """log P [V] of what follows tokens[:t] [T], which follow inputs[:length] [S]; all is read from its beginning."""
    if hasattr(model, 'begin'):
        logits = model.apply({'params': params}, inputs[None], length[None], tokens[None])[0, t]
    else:
        row = jnp.zeros(S + T, jnp.int32).at[:S].set(inputs).at[length + jnp.arange(T)].set(tokens, mode='drop')
        logits = model.apply({'params': params}, row[None])[0, length + t - 1]
    return jax.nn.log_softmax(logits)


def whole(name, b, tokens):
    padded = np.zeros(T + 1, np.int32)
    padded[:len(tokens)] = tokens
    return np.float64(after(*make(name), INPUTS[b], LENGTHS[b], padded[:T], len(tokens)))


def write(writer):
    """`Hypotheses`, and the log P that going through their tokens again gives."""
    @jax.jit
    def run(inputs, lengths):
        memory, state = writer.begin(inputs, lengths, T)
        step, first = functools.partial(writer.step, memory), writer.first(inputs, lengths)
        found = Beam(K, length_penalty=0.5).solve(Problem(step, state, first, T, END))
        repeated, firsts = jax.tree.map(lambda leaf: jnp.repeat(leaf, K, axis=0), (state, first))
        return found, score(step, repeated, firsts, found.tokens.reshape(-1, T), found.lengths.reshape(-1))[0].reshape(-1, K)

    return jax.device_get(run(INPUTS, LENGTHS))


def assert_found(found, log_probs):
    """log_probs(b, tokens): what the reference takes for the model."""
    for b in range(B):
        best, _ = reference_beam(functools.partial(log_probs, b), num_beams=K, max_length=T, end=END, length_penalty=0.5)
        assert [tuple(row[:n].tolist()) for row, n in zip(found.tokens[b], found.lengths[b])] == [one[0] for one in best]
        np.testing.assert_allclose(found.scores[b], [one[1] for one in best], rtol=1e-4)


@every_model
def test_a_beam_with_states_finds_what_one_finds_that_reads_everything_again(name):
    found, again = write(make_decoder(*make(name)))
    assert_found(found, lambda b, tokens: whole(name, b, tokens))
    np.testing.assert_allclose(again, found.log_probs, rtol=1e-4)
    assert len({tuple(row) for row in found.tokens[:, 0].tolist()}) > 1


@pytest.mark.parametrize('average', ['probability', 'log_probability'])
def test_an_ensemble_writes_by_the_mean_of_its_members(average):
    def log_probs(b, tokens):
        members = [whole('recurrent', b, tokens), whole('gpt', b, tokens)]
        if average == 'probability':
            return np.log(np.mean(np.exp(members), axis=0))
        return np.mean(members, axis=0) - np.log(np.exp(np.mean(members, axis=0)).sum())

    chosen, params = zip(make('recurrent'), make('gpt'))
    found, again = write(make_decoder(chosen, params, average=average))
    assert_found(found, log_probs)
    np.testing.assert_allclose(again, found.log_probs, rtol=1e-4)


def test_a_model_twice_is_the_model():
    model, params = make('seq2seq')
    once, _ = write(make_decoder(model, params))
    twice, _ = write(make_decoder([model] * 2, [params] * 2))
    np.testing.assert_array_equal(once.tokens, twice.tokens)
    np.testing.assert_allclose(once.scores, twice.scores, rtol=1e-5)


def test_pairs_have_the_score_of_going_through_their_targets_step_by_step():
    model, params = make('seq2seq')
    target_lengths = np.int32([4, 1, 0, 3])
    weights = (np.arange(T) < target_lengths[:, None]).astype(np.float32)
    targets = np.where(weights > 0, RNG.integers(1, V, (B, T)), 0).astype(np.int32)
    batch = dict(inputs=INPUTS, lengths=LENGTHS, targets=targets, weights=weights)
    sums, by_token = jax.jit(functools.partial(score_pairs, model))(params, batch)

    @jax.jit
    def by_steps(inputs, lengths):
        writer = make_decoder(model, params)
        memory, state = writer.begin(inputs, lengths, T)
        return score(functools.partial(writer.step, memory), state, writer.first(inputs, lengths), targets, target_lengths)

    for actual, expected in zip((sums, by_token), by_steps(INPUTS, LENGTHS)):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)
    for b, n in enumerate(target_lengths):
        by_hand = [whole('seq2seq', b, targets[b, :t])[targets[b, t]] for t in range(n)]
        np.testing.assert_allclose(by_token[b], by_hand + [0] * (T - n), rtol=1e-4)


def test_where_an_ensemble_looks_is_the_mean_over_those_that_look():
    looks, does_not = (SimpleNamespace(attention=attention) for attention in (lambda state: state, lambda state: None))
    states = RNG.random((3, B, S)).astype(np.float32)
    actual = Ensemble((looks, does_not, looks)).attention(tuple(states))
    np.testing.assert_allclose(actual, states[[0, 2]].mean(axis=0), rtol=1e-6)
    assert Ensemble((does_not,)).attention(tuple(states[:1])) is None


@pytest.mark.parametrize('make_writer', [make_decoder, lambda model, params: Ensemble((make_decoder(model, params),))],
                         ids=['decoder', 'ensemble'])
def test_how_long_an_answer_may_be_is_always_said(make_writer):
    """A Transformer's state has room for it."""
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'max_length'"):
        make_writer(*make('seq2seq')).begin(INPUTS, LENGTHS)


def test_what_cannot_be_decoded_is_refused():
    model, params = make('gpt')
    with pytest.raises(FieldError, match='^context_length=9: is too short for a prompt of 5, its padding counted, and 5'):
        make_decoder(model, params).begin(INPUTS, LENGTHS, T + 1)
    with pytest.raises(FieldError, match="^model='Reader': writes no tokens: it has neither begin and step nor extend$"):
        make_decoder(models.build('reader', vocabulary=V), {})
    with pytest.raises(ValueError, match='2 models and 1 trees of parameters; give one tree for every model'):
        make_decoder([model, model], [params])
    with pytest.raises(FieldError, match="^average='probabilty': no such average; did you mean 'probability'"):
        make_decoder([model] * 2, [params] * 2, average='probabilty')
    small, large = (SimpleNamespace(step=lambda *_, size=size: ((), jnp.zeros((B, size)))) for size in (6, 8))
    with pytest.raises(ValueError, match='models with vocabularies of 6, 8 tokens cannot write together'):
        Ensemble((small, large)).step(((), ()), ((), ()), INPUTS[:, 0])
