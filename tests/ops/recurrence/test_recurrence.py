"""Every cell x every property: a new row of `ops.CELLS` earns all of these tests.

Compiling is what they cost. So `compiled` makes one function of a cell that computes results and gradients with ragged rows,
segments, hold and state mask all at once, and most properties are statements about what it returns for related arguments.
"""

import dataclasses
import functools

from hypothesis import example, given, settings
from hypothesis import strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import recurrence as reference

B, T, D, N = 4, 7, 2, 3
RAGGED = np.array([7, 4, 0, 1])
SEGMENTS = np.array([[5, 5, 5, 2, 2, 9, 9], [1, 1, 3, 3, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7], [8, 0, 0, 0, 0, 0, 0]])
CELLS = {name: dataclasses.replace(cell, width=2) if name == 'projected_lstm' else cell for name, cell in ops.CELLS.items()}
every_cell = pytest.mark.parametrize('name', CELLS)
both_directions = pytest.mark.parametrize('reverse', [False, True], ids=['forward', 'reverse'])


@dataclasses.dataclass(frozen=True)
class Case:
    """Arguments of `ops.recur`, those with a gradient apart, and gradients of what it returns."""

    arguments: dict
    options: dict
    cotangents: tuple

    def but(self, **new):
        """The same case with some arguments or options exchanged."""
        pick = lambda old: {name: new.get(name, value) for name, value in old.items()}
        return dataclasses.replace(self, arguments=pick(self.arguments), options=pick(self.options))


def draw(name, seed=0, shape=(B, T, D, N), lengths=RAGGED, segments=SEGMENTS):
    """A random case for a cell, all numbers exact in float32."""
    rng, cell, (B, T, D, N) = np.random.default_rng(seed), CELLS[name], shape
    normal = lambda *shape: np.float64(np.float32(rng.standard_normal(shape)))
    complex_or_real = lambda *shape: normal(*shape) + (1j * normal(*shape) if name == 'lru' else 0)
    parts = [part.shape for part in cell.state(N).values()]
    state = lambda: tuple(complex_or_real(B, *shape) for shape in parts)
    arguments = dict(weights={key: 0.7 * normal(*shape) for key, shape in cell.weight_shapes(D, N).items()},
                     inputs=normal(B, T, D), state=state(), fresh=state())
    hold = tuple(0.7 * rng.random((B, T, *shape)) for shape in parts)
    mask = None if cell.linear else 1.5 * rng.integers(0, 2, (B, cell.output_width(N)))
    options = dict(lengths=lengths, segments=segments, hold=hold, state_mask=mask)
    return Case(arguments, options, (normal(B, T, cell.output_width(N)), state()))


def without(case, *names):
    """The case with some options such that they change nothing, and the others as they were."""
    hold, mask = case.options['hold'], case.options['state_mask']
    nothing = dict(lengths=np.full_like(case.options['lengths'], case.arguments['inputs'].shape[1]),
                   segments=np.zeros_like(case.options['segments']), hold=jax.tree.map(np.zeros_like, hold),
                   state_mask=None if mask is None else np.ones_like(mask))
    return case.but(**{name: nothing[name] for name in names})


def pull(run, arguments, options, cotangents):
    """(outputs, final state) and the gradients of the arguments."""
    results, backward = jax.vjp(lambda arguments: run(**arguments, **options), arguments)
    return results, backward(cotangents)[0]


@functools.cache
def compiled(run, cell, wrap=lambda function: function, **static):
    return jax.jit(wrap(functools.partial(pull, functools.partial(run, cell, **static))))


def cast(case, dtype):
    """float32 or float64, complex where it was."""
    to = lambda array: array.astype({'c': np.result_type(dtype, np.complex64)}.get(array.dtype.kind, dtype))
    cast = lambda tree: jax.tree.map(lambda array: to(array) if array.dtype.kind in 'fc' else array, tree)
    return Case(cast(case.arguments), cast(case.options), cast(case.cotangents))


def results(name, case, run=ops.recur, dtype=np.float64, **static):
    """Results and gradients, as numpy arrays."""
    case = cast(case, dtype)
    with jax.enable_x64(dtype == np.float64):
        function = compiled(run, CELLS.get(name, name), **static)
        return jax.device_get(function(case.arguments, case.options, case.cotangents))


def plain_scan(cell, weights, inputs, state, lengths, *, segments, fresh, hold, state_mask, reverse=False):
    """ops.recur as the shortest loop over `ops.advance`, left to autodiff. The state mask is not for it."""
    new_segment = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))

    def step(state, now):
        t, i, new, hold = now
        begin = tuple(jnp.where(new[:, None], f, s) for f, s in zip(fresh, state))
        after = ops.advance(cell, weights, i, begin)
        after = tuple(h.astype(b.dtype) * b + (1 - h).astype(b.dtype) * a for h, b, a in zip(hold, begin, after))
        state = tuple(jnp.where((t < lengths)[:, None], a, s) for a, s in zip(after, state))
        output = cell.outputs(weights, state[0][:, None], i[:, None])[:, 0] if cell.linear else state[0]
        return state, jnp.where((t < lengths)[:, None], output, 0)

    steps_first = lambda tree: jax.tree.map(lambda array: jnp.moveaxis(array, 1, 0), tree)
    now = jnp.arange(inputs.shape[1]), *steps_first((inputs, new_segment, hold))
    final, outputs = jax.lax.scan(step, state, now)
    return jnp.moveaxis(outputs, 0, 1), final


def assert_close(actual, expected, tolerance):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance), actual, expected)


def assert_same(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def flipped(lengths, array):
    """The real part of every row turned round."""
    array = array.copy()
    for b, length in enumerate(lengths):
        array[b, :length] = array[b, :length][::-1]
    return array


def test_every_cell_has_its_numpy_loop():
    assert set(reference.CELLS) == set(ops.CELLS)


@every_cell
@both_directions
@pytest.mark.parametrize('options', ['', 'lengths', 'segments', 'hold', 'state_mask', 'lengths segments hold state_mask'])
def test_the_scan_equals_the_loop(name, reverse, options):
    case = draw(name, 1)
    case = without(case, *set(case.options) - set(options.split()))
    outputs, final = reference.recur(name, **case.arguments, **case.options, reverse=reverse)
    assert_close(results(name, case, reverse=reverse)[0], (outputs, final), 1e-10)


@every_cell
def test_gradients_equal_autodiff_of_a_plain_scan(name):
    case = without(draw(name, 2), 'state_mask')
    actual, expected = results(name, case, reverse=False), results(name, case, plain_scan)
    assert all(np.abs(leaf).max() > 0.1 for leaf in jax.tree.leaves(expected))
    assert_close(actual, expected, 1e-10)


@every_cell
def test_gradients_of_a_bare_float32_run_equal_autodiff_of_a_plain_scan(name):
    case = without(draw(name, 3), 'lengths', 'segments', 'hold', 'state_mask')
    bare = dataclasses.replace(case, options={})
    actual, expected = results(name, bare, dtype=np.float32), results(name, case, plain_scan)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(actual)} <= {'float32', 'complex64'}
    assert_close(actual, expected, 1e-5)


@pytest.mark.parametrize('name', [name for name, cell in CELLS.items() if 'recurrent_kernel' in cell.weight_shapes(D, N)])
@both_directions
def test_a_state_mask_is_a_mask_of_the_rows_of_the_recurrent_matrix(name, reverse):
    case = draw(name, 4)
    mask = np.array([1.5, 0, 2])[:CELLS[name].output_width(N)]
    masked = lambda weights: {**weights, 'recurrent_kernel': weights['recurrent_kernel'] * mask[:, None, None]}
    found, gradients = results(name, case.but(state_mask=np.tile(mask, (B, 1))), reverse=reverse)
    folded = without(case, 'state_mask').but(weights=masked(case.arguments['weights']))
    expected, d_expected = results(name, folded, reverse=reverse)
    assert_close((found, gradients), (expected, {**d_expected, 'weights': masked(d_expected['weights'])}), 1e-10)


@every_cell
@both_directions
def test_padding_changes_nothing_whatever_it_holds(name, reverse):
    case = draw(name, 5)
    clean = results(name, case, reverse=reverse)
    padding = np.arange(T) >= RAGGED[:, None]
    for garbage in (1e30, np.inf, np.nan):
        inputs, segments = case.arguments['inputs'].copy(), case.options['segments'].copy()
        inputs[padding], segments[padding] = garbage, 77
        assert_same(results(name, case.but(inputs=inputs, segments=segments), reverse=reverse), clean)
    d_inputs = clean[1]['inputs']
    assert not np.any(d_inputs[padding])
    assert name == 'relu' or np.all(d_inputs[~padding])


@every_cell
@both_directions
def test_outputs_past_the_end_are_zero_and_the_final_state_is_the_one_at_each_rows_end(name, reverse):
    case = draw(name, 6)
    (outputs, final), _ = results(name, case, reverse=reverse)
    for b, length in enumerate(RAGGED):
        assert not np.any(outputs[b, length:])
        if not length:
            assert_same([part[b] for part in final], [part[b] for part in case.arguments['state']])
        elif name != 'lru':  # whose outputs are not its state
            assert_same(final[0][b], outputs[b, 0 if reverse else length - 1])


@every_cell
def test_reverse_is_forward_over_each_rows_flipped_real_part(name):
    case, flip = draw(name, 7), functools.partial(flipped, RAGGED)
    (outputs, final), gradients = results(name, case, reverse=True)
    turned = case.but(inputs=flip(case.arguments['inputs']), segments=flip(case.options['segments']),
                      hold=tuple(flip(part) for part in case.options['hold']))
    turned = dataclasses.replace(turned, cotangents=(flip(case.cotangents[0]), case.cotangents[1]))
    (expected, expected_final), d_expected = results(name, turned, reverse=False)
    d_expected = {**d_expected, 'inputs': flip(d_expected['inputs'])}
    assert_close(((outputs, final), gradients), ((flip(expected), expected_final), d_expected), 1e-10)


@every_cell
@both_directions
def test_sequences_packed_into_one_row_equal_the_same_sequences_in_rows_of_their_own(name, reverse):
    lengths = np.array([3, 2, 1, 1])
    first, last = (3, 0) if reverse else (0, 3)
    segments = np.tile(np.repeat([4, 1, 4, 2], lengths), (B, 1))
    packed = without(draw(name, 8, lengths=np.array([T, 0, 0, 0]), segments=segments), 'state_mask')

    def spread(array):
        """Row 0 cut into its sequences."""
        rows = np.zeros_like(array)
        for row, (end, length) in enumerate(zip(np.cumsum(lengths), lengths)):
            rows[row, :length] = array[0, end - length:end]
        return rows

    def gather(rows):
        return np.concatenate([rows[row, :length] for row, length in enumerate(lengths)])

    # The first sequence to be read starts from the given state, the others from `fresh`.
    only = lambda row, part, others: np.where(np.arange(B)[:, None] == row, part[:1], others)
    state = tuple(only(first, s, f[:1]) for s, f in zip(packed.arguments['state'], packed.arguments['fresh']))
    d_outputs, d_final = packed.cotangents
    alone = packed.but(inputs=spread(packed.arguments['inputs']), state=state, lengths=lengths,
                       segments=np.zeros_like(packed.options['segments']), hold=tuple(map(spread, packed.options['hold'])))
    alone = dataclasses.replace(alone, cotangents=(spread(d_outputs), tuple(only(last, part, 0) for part in d_final)))
    packed = dataclasses.replace(packed, cotangents=(d_outputs, tuple(only(0, part, 0) for part in d_final)))

    (outputs, final), gradients = results(name, packed, reverse=reverse)
    (own_outputs, own_final), own_gradients = results(name, alone, reverse=reverse)
    assert_close(outputs[0], gather(own_outputs), 1e-10)
    assert_close([part[0] for part in final], [part[last] for part in own_final], 1e-10)
    assert_close(gradients['weights'], own_gradients['weights'], 1e-10)
    assert_close(gradients['inputs'][0], gather(own_gradients['inputs']), 1e-10)
    assert_close([part[0] for part in gradients['state']], [part[first] for part in own_gradients['state']], 1e-10)
    others = [part.sum(0) - part[first] for part in own_gradients['state']]
    assert_close([part[0] for part in gradients['fresh']], others, 1e-10)


@every_cell
@both_directions
def test_storing_fewer_states_changes_nothing(name, reverse):
    case = draw(name, 9)  # T = 7: the last piece is not full
    assert_close(results(name, case, reverse=reverse, checkpoint_every=3), results(name, case, reverse=reverse), 1e-10)


@every_cell
def test_unrolled_and_inside_a_checkpoint_it_is_the_same(name):
    case = draw(name, 10)
    assert_close(results(name, case, checkpointed, unroll=2), results(name, case, reverse=False), 1e-10)


def checkpointed(cell, unroll, **arguments):
    return jax.checkpoint(functools.partial(ops.recur, cell, unroll=unroll))(**arguments)


@every_cell
def test_vmapped_it_equals_a_loop(name):
    cases = [without(draw(name, seed, lengths=RAGGED[order]), 'segments', 'hold', 'state_mask')
             for seed, order in ((10, [0, 1, 2, 3]), (11, [3, 2, 1, 0]))]
    stack = lambda trees: jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    many = Case(*(stack([getattr(case, field.name) for case in cases]) for field in dataclasses.fields(Case)))
    many = dataclasses.replace(many, options=dict(lengths=many.options['lengths']))
    expected = stack([results(name, case, reverse=False) for case in cases])
    assert_close(results(name, many, dtype=np.float32, wrap=jax.vmap), expected, 1e-5)


@every_cell
def test_eager_equals_compiled(name):
    case = draw(name, 12)
    with jax.enable_x64(True):
        eager = ops.recur(CELLS[name], **case.arguments, **case.options)
    assert_close(eager, results(name, case, reverse=False)[0], 1e-10)


@every_cell
def test_bfloat16_kernels_come_close_with_a_float32_state(name):
    case = cast(dataclasses.replace(draw(name, 13), options=dict(lengths=RAGGED)), np.float32)
    low = {key: jnp.asarray(array, jnp.bfloat16) if key.endswith('kernel') else array
           for key, array in case.arguments['weights'].items()}
    function = compiled(ops.recur, CELLS[name])
    arguments = {**case.arguments, 'weights': low}
    (outputs, final), gradients = jax.device_get(function(arguments, case.options, case.cotangents))
    exact = without(draw(name, 13), 'segments', 'hold', 'state_mask')
    (expected, expected_final), d_expected = results(name, exact, reverse=False)
    assert {leaf.dtype.name for leaf in (outputs, *final)} <= {'float32', 'complex64'}
    assert jax.tree.map(lambda leaf: leaf.dtype, gradients) == jax.tree.map(lambda leaf: leaf.dtype, arguments)
    assert np.any(outputs != np.float32(expected))
    for a, e in zip(jax.tree.leaves((outputs, final, gradients)), jax.tree.leaves((expected, expected_final, d_expected))):
        assert np.linalg.norm(a.astype(e.dtype) - e) <= 3e-2 * np.linalg.norm(e)


@every_cell
@settings(max_examples=1, deadline=None, derandomize=True)
@given(shape=st.tuples(*(st.integers(1, high) for high in (3, 6, 3, 4))), seed=st.integers(0, 99), data=st.data())
@example(shape=(2, 1, 1, 1), seed=0, data=None)
def test_any_shape_and_any_lengths_equal_the_loop(name, shape, seed, data):
    B, T, _, N = shape
    lengths = np.array(data.draw(st.lists(st.integers(0, T), min_size=B, max_size=B))) if data else np.array([1, 0])
    case = draw(name, seed, shape, lengths, np.zeros((B, T), np.int32))
    expected = reference.recur(name, **case.arguments, **case.options)
    case = cast(case, np.float32)
    assert_close(jax.jit(functools.partial(ops.recur, CELLS[name]))(**case.arguments, **case.options), expected, 1e-5)
