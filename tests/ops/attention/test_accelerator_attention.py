"""Splash attention run without a TPU, cuDNN's replaced by XLA's own, and which of them a program for a platform contains."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.ops.attention import accelerator
from seqjax.parallel import use_mesh
from tests.reference import attention as reference

B, T, H, G, K = 2, 150, 2, 1, 8  # two blocks of 128, the second mostly padding
CASES = {'causal': dict(causal=True), 'window, segments': dict(window=40, segments=[[0] * 90 + [1] * 60, [2] * 10 + [1] * 140]),
         'causal window': dict(causal=True, window=30), 'lengths': dict(lengths=[0, 131])}


def draw(dtype=np.float32):
    rng = np.random.default_rng(0)
    shapes = (B, T, H, K), (B, T, G, K), (B, T, G, K), (B, T, H, K)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def make_mask(facts):
    return ops.Mask(**{name: np.array(value, np.int32) if isinstance(value, list) else value for name, value in facts.items()})


def compare(attend, facts, atol):
    query, key, value, d_out = draw()
    mask = make_mask(facts)
    assert accelerator.splash_can(query, key, value, mask, None, 0.0)
    out, back = jax.vjp(lambda *arrays: attend(*arrays, mask, scale=K ** -0.5), query, key, value)
    expected = reference.attend_and_gradients(query, key, value, reference.seen(B, H, T, T, **facts), d_out)
    for here, there in zip((out, *back(d_out)), expected):
        np.testing.assert_allclose(here, there, atol=atol)


@pytest.mark.parametrize('case', CASES)
def test_splash_attention_equals_loops(case):
    compare(functools.partial(accelerator.splash, interpret=True), CASES[case], atol=2e-5)


def test_on_a_mesh_every_device_computes_its_rows_and_heads():
    query, key, value, _ = draw()
    mesh = jax.make_mesh((2, 1, 2), ('data', 'fsdp', 'tensor'), axis_types=(jax.sharding.AxisType.Auto,) * 3)
    keys, values = (np.repeat(x, H, axis=2) for x in (key, value))
    whole = functools.partial(accelerator.splash, mask=ops.Mask(causal=True), scale=1.0, interpret=True)
    with use_mesh(mesh):
        traced = jax.jit(whole).trace(query, keys, values)
    assert 'shard_map' in str(traced.jaxpr) and f'f32[1,1,{256},{K}]' in str(traced.jaxpr).replace(' ', '')
    np.testing.assert_allclose(traced.lower().compile()(query, keys, values), whole(query, keys, values), atol=1e-6)
    assert 'shard_map' not in str(jax.jit(whole).trace(query, keys, values).jaxpr)


@pytest.mark.parametrize('case', ['causal', 'causal window', 'lengths'])
def test_what_cudnn_is_asked_for_equals_loops(case, monkeypatch):
    def as_cudnn_would(*arrays, implementation, **options):
        assert implementation == 'cudnn'
        return dot_product_attention(*arrays, implementation='xla', **options)

    dot_product_attention = jax.nn.dot_product_attention
    monkeypatch.setattr(jax.nn, 'dot_product_attention', as_cudnn_would)
    compare(accelerator.cudnn, CASES[case], atol=2e-5)


NOT_SPLASH = [dict(bias=np.zeros((H, 2 * T - 1), np.float32)), dict(dropout=0.1), dict(mask=ops.Mask(prefix=np.ones(B, int))),
              dict(mask=ops.Mask(start=np.ones(B, int))), dict(mask=np.ones((T, T), bool)),
              dict(mask=ops.Mask(causal=True, window=3, lengths=np.ones(B, int))),
              dict(mask=ops.Mask(segments=np.ones((B, T), int), lengths=np.ones(B, int)))]
NOT_CUDNN = [dict(mask=ops.Mask(window=3)), dict(mask=ops.Mask(segments=np.ones((B, T), int))),
             dict(query=np.zeros((B, T, H, K), np.float32)), dict(value=np.zeros((B, T, G, 2 * K), np.float16))]


@pytest.mark.parametrize('change', [*NOT_SPLASH, *NOT_CUDNN], ids=lambda change: ' '.join(change))
def test_what_a_kernel_does_not_know_is_left_to_others(change, monkeypatch):
    query, key, value, _ = draw(np.float16)
    monkeypatch.setattr(accelerator, 'on_nvidia', lambda: True)
    case = dict(query=query, key=key, value=value, mask=ops.Mask(causal=True), bias=None, dropout=0.0)
    assert accelerator.cudnn_can(**case) and accelerator.splash_can(**case)
    assert not accelerator.cudnn_can(**case | change)
    assert accelerator.splash_can(**case | change) == any(change is other for other in NOT_CUDNN)


def test_a_cpu_has_no_cudnn():
    query, key, value, _ = draw(np.float16)
    with pytest.raises(FieldError, match="implementation='cudnn': cannot do this .*; take 'auto'"):
        ops.attend(query, key, value, implementation='cudnn')


def test_an_unknown_implementation_is_refused_by_name():
    query, key, value, _ = draw()
    with pytest.raises(FieldError, match="implementation='blockwize': did you mean 'blockwise'?"):
        ops.attend(query, key, value, implementation='blockwize')


@pytest.mark.parametrize('options, kernels', [(dict(), 3), (dict(dropout=0.1), 0)], ids=['kernel', 'dropout'])
def test_a_program_for_a_tpu_has_the_kernel_where_it_can(options, kernels):
    """One forward and two backward: for the queries, and for the keys and values."""
    def loss(query, key, value):
        attend = functools.partial(ops.attend, mask=ops.Mask(causal=True), dropout_key=jax.random.key(0), **options)
        return attend(query, key, value).astype(jnp.float32).sum()

    shapes = [jax.ShapeDtypeStruct(x.shape, jnp.bfloat16) for x in draw()[:3]]
    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    for platform, expected in dict(tpu=kernels, cuda=0, cpu=0).items():
        exported = jax.export.export(step, platforms=[platform])(*shapes)
        assert exported.mlir_module().count('@tpu_custom_call') == expected
