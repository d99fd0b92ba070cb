"""Readers: a table of encoders x poolings and what holds for all; answers against numpy; what is refused."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, nn, ops, parallel
from seqjax.analysis.recurrent.layers import recurrent_layers
from seqjax.errors import FieldError
from tests.reference import recurrence as reference
from tests.reference.parameters import random_parameters

B, T, V, D, N, C, A = 4, 6, 9, 2, 8, 3, 5
LENGTHS = np.array([6, 3, 0, 4], np.int32)
RNG = np.random.default_rng(0)
FRAMES = RNG.standard_normal((B, T, D)).astype(np.float32)
TOKENS = RNG.integers(1, V, (B, T)).astype(np.int32)
SPELLED = dict(words=TOKENS, characters=RNG.integers(0, A, (B, T, 4)).astype(np.int32))
ENCODERS = {  # as small as can be: what they compute is tested in tests/nn
    'lstm': {},
    'elman': dict(bidirectional=True),
    'conv': dict(kernel_size=3, bidirectional=True),
    'attention': dict(heads=2),
}
POOLINGS = {'last': {}, 'mean': {}, 'max': {}, 'attention': dict(queries=2)}
TABLE = [(encoder, pooling) for encoder in ENCODERS for pooling in POOLINGS]


@functools.cache
def make(encoder, pooling='last', **fields):
    chosen = dict(vocabulary=V, outputs=C, width=N, encoder=encoder, pooling=pooling, **ENCODERS.get(encoder, {}),
                  **POOLINGS[pooling])
    model = models.build('reader', **{**chosen, **fields})
    inputs = FRAMES if model.vocabulary is None else SPELLED if model.character_encoder else TOKENS
    return model, random_parameters(model, inputs, scale=0.4), inputs


@functools.partial(jax.jit, static_argnums=0)
def run(model, params, inputs, lengths=None):
    return model.apply({'params': params}, inputs, lengths)


@functools.partial(jax.jit, static_argnums=0)
def answers_and_gradients(model, params, inputs, lengths):
    def score(params):
        answers = model.apply({'params': params}, inputs, lengths)
        return (answers ** 2).sum(), answers

    return jax.grad(score, has_aux=True)(params)


# ------------------------------------------------------------------------------------------------ what holds for all

@pytest.mark.parametrize('encoder, pooling', TABLE)
def test_padding_changes_no_answer_and_no_gradient(encoder, pooling):
    model, params, tokens = make(encoder, pooling)
    longer = np.concatenate([tokens, np.random.default_rng(1).integers(0, V, (B, 50)).astype(np.int32)], axis=1)
    gradient, answers = jax.device_get(answers_and_gradients(model, params, tokens, LENGTHS))
    gradient2, answers2 = jax.device_get(answers_and_gradients(model, params, longer, LENGTHS))
    assert answers.shape == (B, C) and answers.dtype == np.float32
    np.testing.assert_allclose(answers, answers2, atol=1e-6)
    size = np.sqrt(sum((leaf ** 2).sum() for leaf in jax.tree.leaves(gradient)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * size), gradient, gradient2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    np.testing.assert_allclose(answers[2], params['output']['bias'], atol=1e-6)  # of a row of no steps nothing is known


@pytest.mark.parametrize('encoder', ENCODERS)
def test_a_row_alone_equals_the_row_in_a_batch(encoder):
    model, params, tokens = make(encoder, 'attention')
    answers, alone = run(model, params, tokens, LENGTHS), run(model, params, tokens[3:, :4])
    np.testing.assert_allclose(answers[3:], alone, atol=1e-5)


@pytest.mark.parametrize('encoder', ENCODERS)
def test_a_label_for_every_step(encoder):
    model, params, tokens = make(encoder, per_step=True)
    found, longer = (run(model, params, np.pad(tokens, ((0, 0), (0, more))), LENGTHS) for more in (0, 50))
    assert found.shape == (B, T, C)
    np.testing.assert_allclose(found, longer[:, :T], atol=1e-6)


@pytest.mark.parametrize('encoder, pooling', [*zip(ENCODERS, POOLINGS)])
def test_bfloat16_answers_in_float32_and_comes_close(encoder, pooling):
    model, params, tokens = make(encoder, pooling, dtype='bfloat16', dropout=0.2)
    answers = run(model, params, tokens, LENGTHS)
    exact = run(make(encoder, pooling)[0], params, tokens, LENGTHS)
    assert answers.dtype == jnp.float32
    assert 0 < np.linalg.norm(answers - exact) < 3e-2 * np.linalg.norm(exact)
    train = jax.jit(lambda params, seed: model.apply({'params': params}, tokens, LENGTHS, train=True,
                                                     rngs={'dropout': jax.random.key(seed)}))
    draws = [np.asarray(train(params, seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


VARIANTS = {
    **{f'{encoder} {pooling}': (encoder, pooling, {}) for encoder, pooling in TABLE},
    'frames': ('lstm', 'last', dict(vocabulary=None, embedding=4)),
    'frames conv': ('conv', 'last', dict(vocabulary=None)),
    'one-hot': ('gru', 'last', dict(one_hot=True, learned_state=True)),
    'random field': ('lstm', 'last', dict(per_step=True, crf=True)),
    'spelled by lstm': ('gru', 'last', dict(characters=A, character_encoder='lstm', character_width=4, embedding=5)),
    'spelled by conv': ('conv', 'last', dict(characters=A, character_encoder='conv')),
}


@pytest.mark.parametrize('variant', VARIANTS)
def test_every_parameter_names_each_of_its_axes_with_a_name_that_the_table_knows(variant):
    encoder, pooling, fields = VARIANTS[variant]
    model, _, inputs = make(encoder, pooling, **fields)
    boxes = jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0), inputs)['params'],
                            is_leaf=lambda leaf: isinstance(leaf, linen.LogicallyPartitioned))
    for box in boxes:
        assert isinstance(box, linen.LogicallyPartitioned) and len(box.names) == box.value.ndim
        places = [parallel.RULES[name] for name in box.names if name is not None and parallel.RULES[name]]
        assert len(set(places)) == len(places), f'{box.names} asks for one axis of the mesh twice'


# ------------------------------------------------------------------------------------------------ against numpy

@pytest.mark.parametrize('lengths', [None, LENGTHS], ids=['whole', 'ragged'])
def test_a_number_is_read_off_the_last_output(lengths):
    model, params, _ = make('lstm', vocabulary=None, outputs=1)
    assert sorted(params) == ['output', 'recurrent']
    outputs, (h, _) = reference.recur('lstm', params['recurrent']['layer_0'], FRAMES, None, lengths)
    expected = h @ params['output']['kernel'] + params['output']['bias']
    np.testing.assert_allclose(run(model, params, FRAMES, lengths), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('cell', ops.CELLS)
def test_every_cell_makes_a_reader_in_one_direction_and_in_both(cell):
    for bidirectional in (False, True):
        model = models.build('reader', vocabulary=None, outputs=1, width=N, encoder=cell, bidirectional=bidirectional)
        answers, _ = jax.eval_shape(lambda key: model.init_with_output(key, FRAMES, LENGTHS), jax.random.key(0))
        assert answers.shape == (B, 1)


def test_embedded_tokens_and_one_hot_tokens_and_projected_frames():
    for fields, inputs in ((dict(embedding=5), lambda params: params['embedding']['words']['table'][TOKENS]),
                           (dict(one_hot=True), lambda params: np.eye(V)[TOKENS]),
                           (dict(vocabulary=None, embedding=5),
                            lambda params: FRAMES @ params['embedding']['kernel'] + params['embedding']['bias'])):
        model, params, given = make('lstm', per_step=True, **fields)
        states, _ = reference.recur('lstm', params['recurrent']['layer_0'], inputs(params), None, LENGTHS)
        expected = states @ params['output']['kernel'] + params['output']['bias']
        np.testing.assert_allclose(run(model, params, given, LENGTHS), expected, rtol=1e-5, atol=1e-5)


def test_words_bring_their_spelling_and_start_from_pretrained_vectors():
    vectors = np.random.default_rng(2).standard_normal((V, 7)).astype(np.float32)
    model = models.build('reader', vocabulary=V, outputs=C, per_step=True, characters=A, table=vectors, width=N,
                         character_encoder='conv', character_width=4)
    embedding = jax.jit(lambda key: linen.unbox(model.init(key, SPELLED)['params'])['embedding'])(jax.random.key(0))
    np.testing.assert_array_equal(embedding['words']['table'], vectors)
    params = random_parameters(model, SPELLED)
    assert params['recurrent']['layer_0']['input_kernel'].shape == (7 + 4, 4, N)
    other = {**SPELLED, 'characters': SPELLED['characters'][:, ::-1]}
    assert (run(model, params, SPELLED) != run(model, params, other)).any() and hash(model)


def test_a_random_field_comes_with_its_transitions():
    model, params, tokens = make('lstm', per_step=True, crf=True)
    scores, transitions = run(model, params, tokens, LENGTHS)
    assert isinstance(transitions, ops.Transitions) and scores.shape == (B, T, C)
    for part, value in transitions._asdict().items():
        np.testing.assert_array_equal(value, params[f'transitions_{part}'])


# ------------------------------------------------------------------------------------------------ dropout

@pytest.mark.parametrize('variational', [False, True])
def test_dropout_acts_on_embedded_inputs_and_on_what_the_output_sees(variational):
    model, params, tokens = make('gru', per_step=True, dropout=0.5, variational=variational)
    masks = []

    def record(run, args, kwargs, context):
        result = run(*args, **kwargs)
        if isinstance(context.module, linen.Dropout):
            masks.append(np.asarray(result != 0))
        return result

    with linen.intercept_methods(record):
        model.apply({'params': jax.tree.map(jnp.asarray, params)}, tokens, train=True, rngs={'dropout': jax.random.key(0)})
    assert [mask.shape for mask in masks] == [(B, T, N)] * 2
    for mask in masks:
        assert (mask == mask[:, :1]).all() == variational and not (mask == mask[:1]).all()


# ------------------------------------------------------------------------------------------------ for other parts

def test_the_recurrent_layers_are_found_by_their_paths():
    model, params, tokens = make('elman')
    calls = jax.eval_shape(lambda params: recurrent_layers(model.apply, {'params': params}, tokens, LENGTHS), params)
    assert list(calls) == ['recurrent/layer_0', 'recurrent/layer_0_reverse']


def test_which_models_are_recurrent():
    found = [models.is_recurrent(*case) for case in (
        ('gpt', {}), ('mamba', {}), ('recurrent', {}), ('reader', {}), ('reader', dict(encoder='lru')),
        ('reader', dict(encoder='conv')), ('reader', dict(encoder='attention')))]
    assert found == [False, False, True, True, True, False, False]


# ------------------------------------------------------------------------------------------------ what is refused

FRAME, STEPS = dict(vocabulary=None), dict(per_step=True)
REFUSED = [
    (dict(encoder='lstmm'), "encoder='lstmm': no such encoder; did you mean 'lstm'?"),
    (dict(width=0), 'width=0: must be at least 1'),
    (dict(depth=0), 'depth=0: must be at least 1'),
    (dict(embedding=-1), 'embedding=-1: must be at least 0'),
    (dict(zoneout=1.0), 'zoneout=1.0: must be at least 0 and less than 1'),
    (dict(encoder='lru', weight_drop=0.5), "weight_drop=0.5: cell 'lru' has no recurrent matrix of free weights"),
    (dict(encoder='conv', kernel_size=0), 'kernel_size=0: must be at least 1'),
    (dict(encoder='attention', heads=3), 'heads=3: must divide width=128; 1, 2, 4, 8 would'),
    (dict(encoder='attention', width=9, heads=3),
     'width=9: must be even for attention: positions are pairs of a sine and a cosine'),
    (dict(heads=2), "heads=2: is for attention encoders, and encoder='lstm'; leave it at 4"),
    (dict(kernel_size=3), "kernel_size=3: is for conv encoders, and encoder='lstm'; leave it at 5"),
    (dict(encoder='attention', dilated=True),
     "dilated=True: is for conv encoders, and encoder='attention'; leave it at False"),
    *((dict(encoder='conv', **{field: value}),
       f"{field}={value!r}: is for recurrent encoders, and encoder='conv'; leave it at {type(value)()!r}")
      for field, value in dict(variational=True, recurrent_dropout=0.1, zoneout=0.1, weight_drop=0.1,
                               learned_state=True).items()),
    (dict(pooling='min'), "pooling='min': choose one of: last, mean, max, attention"),
    (dict(queries=2), "queries=2: is for pooling='attention' over a row; leave it at 1"),
    (dict(pooling='attention', queries=0), 'queries=0: must be at least 1'),
    (dict(pooling='mean', **STEPS),
     "pooling='mean': makes one answer of a row, and the data has a label for every step; leave it at 'last'"),
    (dict(crf=True), 'crf=True: is for labels of every step, and the data has one answer a row; leave it at False'),
    (dict(one_hot=True, **FRAME), 'one_hot=True: is for tokens, and the inputs are frames; leave it at False'),
    (dict(one_hot=True, embedding=4), 'embedding=4: is the width of an embedding, and one_hot=True has none; leave it at 0'),
    (dict(one_hot=True, table=np.zeros((V, 3))),
     'one_hot=True: leaves no place for the word vectors of the data; leave it at False'),
    (dict(word_dropout=0.1, **FRAME), 'word_dropout=0.1: is for an embedding of tokens; leave it at 0.0'),
    (dict(word_dropout=1.5), 'word_dropout=1.5: must be at least 0 and less than 1'),
    (dict(character_encoder='lstm'),
     "character_encoder='lstm': reads characters of words, and the data has none; leave it at ''"),
    (dict(characters=A, character_encoder='gru'), "character_encoder='gru': choose one of: lstm, conv"),
    (dict(characters=A, character_encoder='lstm', one_hot=True),
     "character_encoder='lstm': goes with an embedding of words, and one_hot=True has none; leave it at ''"),
    (dict(characters=A, character_width=8), "character_width=8: is for a character_encoder, and it is ''; leave it at 32"),
    (dict(table=np.zeros((V, 3)), embedding=4), 'embedding=4: the word vectors have width 3; leave it at 0'),
    (dict(table=np.zeros((V + 1, 3))), 'table=(10, 3): the word vectors do not have the shape (vocabulary, width) = (9, 3)'),
]


@pytest.mark.parametrize('fields, sentence', REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_what_cannot_be_or_would_do_nothing_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        models.build('reader', **{'vocabulary': V, **fields})
    assert str(caught.value) == sentence
