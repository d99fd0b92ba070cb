"""What a function cannot do at once: the longest chain of operations of which each needs the result of the one before."""

import jax
from jax.extend import core
import jax.numpy as jnp

from seqjax.errors import UserError

# They move, cast or choose numbers and compute none.
_MOVES = ('bitcast_convert_type', 'broadcast_in_dim', 'concatenate', 'convert_element_type', 'copy', 'copy_p', 'dynamic_slice',
          'dynamic_update_slice', 'expand_dims', 'gather', 'name', 'optimization_barrier', 'pad', 'pvary', 'reduce_precision',
          'reshape', 'rev', 'scatter', 'select_n', 'sharding_constraint', 'slice', 'split', 'squeeze', 'stack', 'stop_gradient',
          'tile', 'transpose', 'unstack')
_CALLS = ('jit', 'pjit', 'closed_call', 'core_call', 'remat2', 'checkpoint', 'custom_jvp_call', 'custom_vjp_call', 'shard_map')
_OPAQUE = ('pallas_call', 'rnn_fwd', 'rnn_bwd', 'call_hi_primitive', 'custom_linear_solve')  # have loops of their own


def sequential_depth(function, *arguments):
    """The operations that function(*arguments) has to do one after another, however many processors there are.

        depth = sequential_depth(model.apply, variables, jax.ShapeDtypeStruct((1, 128), jnp.int32))

    The depth of the work-depth model (Blelloch 1996), counted from the jaxpr: nothing is run and nothing compiled. One
    operation is one on whole arrays, a product, a sum over an axis or a tanh alike, that computes floating-point numbers.
    A scan adds up over its turns only what one turn needs of the turn before: rows that a `lax.map` does in turn are no
    chain, the states of a recurrent layer are. A `while` loop that makes its chain longer is refused: nobody knows how often
    it runs.

    arguments: arrays or jax.ShapeDtypeStruct.
    """
    return jaxpr_depth(jax.make_jaxpr(function)(*arguments))


def jaxpr_depth(jaxpr):
    """The same of a function that is traced already."""
    return max(_run(jaxpr, [0] * len(_plain(jaxpr).invars)), default=0)


def _run(jaxpr, depths):
    """How deep every output of a jaxpr lies, for inputs that lie at `depths`."""
    jaxpr = _plain(jaxpr)
    known = dict(zip(jaxpr.invars, depths, strict=True))
    depth = lambda variable: 0 if isinstance(variable, core.Literal) else known.get(variable, 0)
    for equation in jaxpr.eqns:
        known.update(zip(equation.outvars, _through(equation, [depth(variable) for variable in equation.invars])))
    return [depth(variable) for variable in jaxpr.outvars]


def _through(equation, depths):
    """How deep the outputs of one equation lie."""
    name, params = equation.primitive.name, equation.params
    if name == 'scan':
        return _through_scan(params, depths)
    if name == 'while':
        return _through_while(params, depths)
    if name == 'cond':
        chosen = params['branches'][-1:] if params.get('branches_platforms') else params['branches']  # see `matmul_flops`
        branches = [_run(branch, depths[1:]) for branch in chosen]
        return [max(depths[0], *found) for found in zip(*branches)]
    if name in _CALLS:
        return _run(params['call_jaxpr'] if 'call_jaxpr' in params else params['jaxpr'], depths)
    if name in _OPAQUE:
        raise UserError(f"what happens inside of '{name}' cannot be seen; count the function without it")
    deepest = max(depths, default=0)
    return [deepest + _computes(name, variable.aval) for variable in equation.outvars]


def _computes(name, result):
    return int(name not in _MOVES and jnp.issubdtype(result.dtype, jnp.inexact))


def _through_scan(params, depths):
    """The carry goes round until it has gone round so often, or no longer gets deeper."""
    constants, carried = _scan_counts(params)
    first, last = constants, constants + carried
    carry, found = depths[first:last], [0] * (len(_plain(params['jaxpr']).outvars) - carried)
    for _ in range(params['length']):
        outputs = _run(params['jaxpr'], [*depths[:first], *carry, *depths[last:]])
        before, carry = carry, outputs[:last - first]
        found = [max(pair) for pair in zip(found, outputs[last - first:])]
        if carry == before:
            break
    return carry + found


def _scan_counts(params):
    """How many inputs of a scan are constants, and how many are carried."""
    if 'ft_in' in params:  # since jax 0.12: constants, carried and scanned inputs, as a tree
        constants, carried, _ = (len(list(part)) for part in params['ft_in'].unpack())
        return constants, carried
    return params['num_consts'], params['num_carry']


def _through_while(params, depths):
    """A loop of unknown length may not make its carry deeper."""
    skip, consts = params['cond_nconsts'], params['cond_nconsts'] + params['body_nconsts']
    carry = depths[consts:]
    for _ in carry:
        after = _run(params['body_jaxpr'], [*depths[skip:consts], *carry])
        if after == carry:
            return carry
        carry = [max(pair) for pair in zip(carry, after)]
    raise UserError('a while loop whose turns need each other: how many turns is not known before it runs; write it as '
                    'jax.lax.scan')


def _plain(jaxpr):
    return jaxpr.jaxpr if isinstance(jaxpr, core.ClosedJaxpr) else jaxpr
