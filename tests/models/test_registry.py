"""Models by name: what is refused and in which words, the named axes and the number of their parameters."""

import math

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models, parallel
from seqjax.errors import FieldError

REFUSED = [
    ('gtp', {}, "name='gtp': no such model; did you mean 'gpt'?"),
    ('perceptron', {},
     f"name='perceptron': no such model; choose one of: {', '.join(sorted(models.MODELS))}"),
    ('gpt', dict(dept=2), "dept=2: 'gpt' has no such field; did you mean 'depth'?"),
    ('gpt', dict(tie=True), 'tie=True: is called tie_embeddings now'),
    ('recurrent', dict(cell='lstmm'), "cell='lstmm': no such cell; did you mean 'lstm'?"),
    ('recurrent', dict(tie_embeddings=True, one_hot=True),
     'tie_embeddings=True: one_hot inputs have no embedding to share; set one of the two to false'),
    ('recurrent', dict(tie_embeddings=True, cell='projected_lstm'),
     "tie_embeddings=True: cell 'projected_lstm' puts out 64 numbers and the embedding has width=256"),
    ('recurrent', dict(zoneout=1.0), 'zoneout=1.0: must be at least 0 and less than 1'),
    ('recurrent', dict(slowness_penalty=-1.0), 'slowness_penalty=-1.0: must be a positive number, or 0 for off'),
    ('recurrent', dict(activation_penalty=math.nan), 'activation_penalty=nan: must be a positive number, or 0 for off'),
    ('reader', dict(width=0), 'width=0: must be at least 1'),
    ('seq2seq', dict(dropout=1.0), 'dropout=1.0: must be at least 0 and less than 1'),
    ('gpt', dict(heads=5), 'heads=5: must divide width=128; 1, 2, 4, 8, 16 would'),
    ('gpt', dict(width=10, heads=4), 'heads=4: must divide width=10; 1, 2, 5, 10 would'),
    ('gpt', dict(width=0), 'width=0: must be at least 1'),
    ('gpt', dict(depth=-1), 'depth=-1: must be at least 1'),
    ('gpt', dict(heads=0), 'heads=0: must be at least 1'),
    ('recurrent', dict(width=-3), 'width=-3: must be at least 1'),
    ('recurrent', dict(depth=0), 'depth=0: must be at least 1'),
    ('gpt', dict(dropout=1.0), 'dropout=1.0: must be at least 0 and less than 1'),
    ('recurrent', dict(dropout=-0.1), 'dropout=-0.1: must be at least 0 and less than 1'),
    ('gpt', dict(dropout=math.nan), 'dropout=nan: must be at least 0 and less than 1'),
    ('gpt', dict(dtype='float16'), "dtype='float16': choose one of: float32, bfloat16"),
    ('mamba', dict(kernel_size=1), 'kernel_size=1: must be at least 2'),
    ('mamba', dict(depth=0), 'depth=0: must be at least 1'),
    ('rwkv', dict(feed_forward=-1), 'feed_forward=-1: must be at least 0'),
    ('recurrent', dict(dtype='int8'), "dtype='int8': choose one of: float32, bfloat16"),
]
VARIANTS = {
    'gpt': dict(width=8, depth=2, heads=2),
    'gpt with biases': dict(width=8, depth=2, heads=2, bias=True),
    'recurrent': dict(width=8, depth=2),
    'recurrent tied': dict(width=8, depth=2, tie_embeddings=True),
    'recurrent one-hot': dict(width=8, one_hot=True, learned_state=True),
    'mamba': dict(width=8, depth=2, bias=True, tie_embeddings=False),
    'rwkv': dict(width=8, depth=2),
    'rwkv scanned': dict(width=8, depth=2, scan_layers=True),
    'seq2seq': dict(width=8, depth=2, bidirectional=True, value_width=4),
    'seq2seq that copies': dict(width=8, copy=True, tie_embeddings=True, attention='bilinear', cell='lstm'),
    'seq2seq by its last state': dict(width=8, context='last'),
}
V, C = 13, 6


def parameters(name, **fields):
    model = models.build(name, vocabulary=V, context_length=C, **fields)
    return jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))['params']


def count(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize('name, fields, sentence', REFUSED, ids=[sentence.split(':')[0] for *_, sentence in REFUSED])
def test_an_impossible_field_is_refused_by_name_value_and_way_out(name, fields, sentence):
    with pytest.raises(FieldError) as error:
        models.build(name, vocabulary=V, context_length=C, **fields)
    assert str(error.value) == sentence


def test_a_built_model_holds_what_was_chosen_and_defaults_for_the_rest():
    model = models.build('gpt', vocabulary=V, context_length=C, width=64, dtype='bfloat16')
    assert model == models.GPT(vocabulary=V, context_length=C, width=64, depth=4, heads=4, dtype='bfloat16')
    assert models.build('recurrent', vocabulary=V, context_length=C, tie_embeddings=True) == models.RecurrentLanguageModel(V, tie_embeddings=True)
    assert models.build('recurrent', vocabulary=V, context_length=C).context_length is None
    reader = models.build('reader', vocabulary=V, context_length=C, outputs=3, per_step=True, characters=5, crf=True)
    assert reader == models.Reader(V, 3, per_step=True, characters=5, crf=True)
    translator = models.build('seq2seq', vocabulary=V, target_vocabulary=C, shared=True, copy=True)
    assert translator == models.Seq2Seq(V, C, True, copy=True) and models.is_recurrent('seq2seq', {})


@pytest.mark.parametrize('name', models.MODELS)
def test_the_fields_of_a_model_are_its_own_with_their_defaults_and_without_what_the_data_decides(name):
    fields = models.fields(name)
    assert {'width', 'depth', 'dropout', 'dtype'} <= set(fields)
    assert not {*models.FROM_DATA, 'name', 'parent'} & set(fields)
    assert models.build(name, vocabulary=V, context_length=C, **fields) == models.build(name, vocabulary=V, context_length=C)


@pytest.mark.parametrize('variant', VARIANTS)
def test_every_parameter_names_each_of_its_axes_with_a_name_that_the_table_knows(variant):
    boxes = jax.tree.leaves(parameters(variant.split()[0], **VARIANTS[variant]),
                            is_leaf=lambda leaf: isinstance(leaf, linen.LogicallyPartitioned))
    assert boxes
    for box in boxes:
        assert isinstance(box, linen.LogicallyPartitioned)
        assert len(box.names) == box.value.ndim
        assert all(name is None or name in parallel.RULES for name in box.names)
        places = [parallel.RULES[name] for name in box.names if name is not None and parallel.RULES[name]]
        assert len(set(places)) == len(places), f'{box.names} asks for one axis of the mesh twice'


@pytest.mark.parametrize('bias', [False, True])
@pytest.mark.parametrize('D, L', [(8, 1), (12, 3)])
def test_the_size_of_a_gpt_is_the_closed_form(D, L, bias):
    expected = V * D + C * D + L * (12 * D ** 2 + 2 * D) + D
    if bias:
        expected += L * (9 * D + 2 * D) + D
    assert count(parameters('gpt', width=D, depth=L, heads=2, bias=bias)) == expected


def test_the_smallest_gpt_2_has_its_published_size():
    model = models.build('gpt', vocabulary=50257, context_length=1024, width=768, depth=12, heads=12, bias=True)
    assert count(jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))) == 124_439_808


@pytest.mark.parametrize('tie', [False, True])
@pytest.mark.parametrize('N, L', [(8, 1), (6, 3)])
def test_the_size_of_an_lstm_is_the_closed_form(N, L, tie):
    expected = V * N + L * (8 * N ** 2 + 4 * N) + (not tie) * (N * V + V)
    assert count(parameters('recurrent', width=N, depth=L, tie_embeddings=tie)) == expected


def test_residual_projections_start_smaller_the_deeper_the_model():
    model = models.build('gpt', vocabulary=V, context_length=C, width=32, depth=2, heads=2)
    params = jax.device_get(linen.unbox(jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 2), jnp.int32))['params']))
    for layer in range(2):
        block = params['decoder'][f'block_{layer}']
        for part, first in (('attention', 'key'), ('feed_forward', 'in')):
            np.testing.assert_allclose(np.std(block[part][first]['kernel']), 0.02, rtol=0.1)
            np.testing.assert_allclose(np.std(block[part]['out']['kernel']), 0.02 / 2, rtol=0.1)
