"""Checkpoints of older runs must open: paths, shapes and initial values of parameters are those that were recorded.

`python -m tests.models.test_recorded_parameters` records them anew.
"""

import json
import pathlib

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models

RECORDED = pathlib.Path(__file__).with_name('recorded_parameters.json')
V, W = 13, 11
CASES = {
    'gpt': dict(heads=2),
    'gpt, bias, rms, scanned': dict(heads=2, bias=True, norm='rms', scan_layers=True, remat=True),
    'gpt, linear, untied': dict(heads=2, attention='linear', tie_embeddings=False, positions='sinusoidal', init_scale=0.0),
    'gpt, experts, post': dict(heads=2, experts=3, experts_per_token=1, norm_position='post', positions='alibi', gated=True),
    'llama': dict(heads=4, kv_heads=2, head_width=4, attention_bias=True),
    'bert': dict(heads=2, outputs=0),
    'bert, untied, scanned': dict(heads=2, outputs=0, tie_embeddings=False, typed=0, scan_layers=True),
    'bert, labels': dict(heads=2, outputs=3, per_step=True),
    'transformer': dict(heads=2, decoder_depth=1, target_vocabulary=W),
    'transformer, shared, scanned': dict(heads=2, shared=True, norm_position='pre', scan_layers=True),
    't5': dict(heads=2, shared=True),
    't5, untied': dict(heads=2, target_vocabulary=W, tie_embeddings=False, gated=True, scan_layers=True),
    'recurrent': dict(),
    'recurrent, gru, tied': dict(cell='gru', tie_embeddings=True, learned_state=True),
    'recurrent, lru, one-hot': dict(cell='lru', one_hot=True),
    'mamba': dict(),
    'mamba, scanned, untied': dict(scan_layers=True, tie_embeddings=False, bias=True, conv_bias=False, state_size=3),
    'rwkv': dict(feed_forward=12),
    'rwkv, scanned': dict(scan_layers=True, tie_embeddings=True),
    'reader': dict(outputs=3),
    'reader, frames': dict(vocabulary=None, outputs=3, embedding=4, bidirectional=True, pooling='attention', queries=2),
    'reader, conv': dict(encoder='conv', outputs=3, dilated=True, pooling='mean'),
    'reader, attention, crf': dict(encoder='attention', heads=2, outputs=3, per_step=True, crf=True),
    'reader, one-hot': dict(encoder='gru', one_hot=True, outputs=1, learned_state=True),
    'reader, spelled': dict(outputs=3, per_step=True, characters=7, character_encoder='lstm', character_width=4,
                            bidirectional=True),
    'reader, spelled by conv': dict(outputs=3, characters=7, character_encoder='conv', character_width=4),
    'seq2seq': dict(target_vocabulary=W),
    'seq2seq, copy': dict(copy=True, tie_embeddings=True, attention='bilinear', cell='lstm', shared=True, bidirectional=True),
    'seq2seq, last': dict(context='last', target_vocabulary=W),
    'seq2seq, mean': dict(context='mean_each', feed='output', encoder_width=6, embedding=4, bidirectional=True),
    'seq2seq, input': dict(feed='input', value_width=4, hard_attention=False, target_vocabulary=W),
}


def initial(case):
    """{path: (shape, checksum)} of the parameters of a case."""
    fields = dict(vocabulary=V, context_length=6, width=8, depth=2) | CASES.get(case, {})
    model = models.build(case.split(',')[0], **fields)
    tokens = jnp.asarray(np.random.default_rng(0).integers(1, 7, (2, 5)), jnp.int32)
    inputs = tokens
    if fields['vocabulary'] is None:
        inputs = jnp.ones((2, 5, 3))
    if fields.get('character_encoder'):
        inputs = dict(words=tokens, characters=jnp.stack([tokens] * 3, axis=-1))
    params = linen.unbox(jax.jit(model.init)(jax.random.key(0), inputs))['params']
    found = {'/'.join(key.key for key in path): np.asarray(leaf, np.float64)
             for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]}
    return {path: (list(leaf.shape), float(leaf.ravel() @ np.cos(np.arange(leaf.size)))) for path, leaf in found.items()}


@pytest.mark.parametrize('case', CASES)
def test_paths_shapes_and_initial_values_are_the_recorded_ones(case):
    expected, found = json.loads(RECORDED.read_text())[case], initial(case)
    assert list(found) == list(expected)
    for path, (shape, checksum) in expected.items():
        assert found[path][0] == shape, path
        np.testing.assert_allclose(found[path][1], checksum, rtol=1e-5, atol=1e-6, err_msg=path)


if __name__ == '__main__':
    rows = {case: initial(case) for case in CASES}
    RECORDED.write_text('{' + ',\n'.join(
        f'"{case}": {{' + ',\n '.join(f'"{path}": {json.dumps(value)}' for path, value in table.items()) + '}'
        for case, table in rows.items()) + '}\n')
