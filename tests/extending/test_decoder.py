"""A decoding method from outside (`typical_decoding`): through `decode.search` and, named by a config, through launch.py."""

import importlib
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from seqjax import decode
from seqjax.errors import FieldError
from seqjax.models import build

ROOT = pathlib.Path(__file__).parents[2]
FILE = pathlib.Path(__file__).with_name('typical_decoding.py')


@pytest.fixture(scope='module')
def typical():
    """The module of the method, which is registered while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode.METHODS, '_things', dict(decode.METHODS))
        yield importlib.import_module('tests.extending.typical_decoding')


def kept_by_hand(p, mass):
    """The tokens that may be drawn, by a loop."""
    entropy, kept, total = -sum(x * np.log(x) for x in p), [], 0.0
    for token in sorted(range(len(p)), key=lambda v: abs(-np.log(p[v]) - entropy)):
        if total >= mass:
            break
        kept.append(token)
        total += p[token]
    return kept


@pytest.mark.parametrize('mass', [0.05, 0.5, 0.9])
def test_draws_are_of_the_typical_tokens_as_frequently_as_they_are_likely(typical, mass):
    p = np.random.default_rng(0).dirichlet(np.full(8, 0.7))
    method = typical.Typical(mass=mass)
    keys = jax.random.split(jax.random.key(0), 20_000)
    drawn = np.bincount(jax.vmap(lambda key: method.choose(key, np.log(p).astype(np.float32)))(keys), minlength=8)
    kept = kept_by_hand(p, mass)
    assert set(np.flatnonzero(drawn)) <= set(kept)
    np.testing.assert_allclose(drawn[kept] / len(keys), p[kept] / p[kept].sum(), atol=0.015)


@pytest.mark.parametrize('name', ['recurrent', 'seq2seq'])
def test_it_decodes_with_language_models_and_encoder_decoders(typical, name):
    model = build(name, vocabulary=9, target_vocabulary=9, width=8)
    tokens = np.ones((1, 3), np.int32)
    params = jax.tree.map(lambda x: np.random.default_rng(1).normal(size=x.shape).astype(x.dtype),
                          jax.eval_shape(lambda: nn_unbox(model.init(jax.random.key(0), tokens, *(() if name == 'recurrent' else
                                                                     (np.int32([3]), tokens))))))
    decoder, rows = decode.make_decoder(model, params), [np.int32([4, 5, 6]), np.int32([7])]
    search = lambda method, key: decode.search(decoder, rows, method, limits=decode.Limits(6, length_margin=6),
                                               key=jax.random.key(key))
    found, again, other = (search(typical.Typical(), key) for key in (0, 0, 1))
    assert [one.texts[0].tolist() for one in found] == [one.texts[0].tolist() for one in again]
    assert [one.texts[0].tolist() for one in found] != [one.texts[0].tolist() for one in other]
    everything = search(typical.Typical(mass=1.0), 0)  # nothing is left out: an ordinary draw, which has limits as this one has
    drawn = decode.search(decoder, rows, decode.Sample(), limits=decode.Limits(6, length_margin=6, min_length=1),
                          key=jax.random.key(0))
    assert [one.texts[0].tolist() for one in everything] == [one.texts[0].tolist() for one in drawn]
    with pytest.raises(ValueError, match='a sampler draws: give a key'):
        decode.search(decoder, rows, typical.Typical())


def nn_unbox(variables):
    from flax.core import meta
    return meta.unbox(variables)['params']


def test_a_config_names_it_and_its_fields_come_from_the_config(typical):
    from seqjax import config as configs
    config = typical.get_config()
    assert configs.method(config) == typical.Typical(temperature=0.7)
    config.decode.method = 'typicl'
    with pytest.raises(FieldError, match="^config.decode.method='typicl': no such method; did you mean 'typical'?"):
        configs.validate(config)


def test_the_launcher_trains_and_writes_with_it(tmp_path):
    launch = lambda *flags: subprocess.run([sys.executable, ROOT / 'launch.py', f'--config={FILE}', f'--workdir={tmp_path / "run"}',
                                            *flags], capture_output=True, text=True, timeout=300)
    trained = launch()
    assert trained.returncode == 0, trained.stderr
    (tmp_path / 'lines.txt').write_text('def a\nclass B\n')
    texts = launch('--mode=generate', '--config.decode.samples=2')
    assert texts.returncode == 0, texts.stderr
    assert texts.stdout.count('def ') >= 2
    lines = launch('--mode=generate', f'--input={tmp_path / "lines.txt"}', '--config.decode.prompt=\n')
    assert lines.returncode == 0, lines.stderr
    assert lines.stdout.count('"texts": ["') == 2
