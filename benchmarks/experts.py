"""A mixture of experts, all of them and only the chosen, beside torch with a loop over experts, in one run, as ratios.

    python benchmarks/experts.py [--rounds=15] [--threads=1] [--clock=cpu] [--experts=8,32] [--parts=training,writing]

`training` is forward and backward through one layer, with the gradients of what it reads and of every kernel: 8 rows of 256
steps, width 256, inner width 1024, SiLU, not gated, 2 experts chosen. `writing` is forward alone, for one new step of 1
row and of 8 rows. The choices are random and the same for all.

`seqjax` is `ops.mix_experts` as it is by default. `all` is its method that weighs what was not chosen with 0, `ragged` the one
by jax.lax.ragged_dot. `torch` looks up the steps of an expert, multiplies them, and adds what came out to its place, expert by
expert, as the Mixtral of transformers does.

Every round times each once, in turn, so that a busy machine slows all of them; the figure is the median over the rounds.
--clock=cpu counts the seconds of the processor and takes the least of them: for a machine that others use too. Freed memory is
kept, for all of them, as launch.py does. What compiles is not counted. Ratios above 1 mean that seqjax is faster. Needs the
extras test and benchmark. Measured: docs/transformers.md.
"""

import argparse
import functools
import json
import os
import sys

from in_turn import machine, measure
import jax
import numpy as np
import torch

from seqjax import ops, parallel

D, F, CHOSEN = 256, 1024, 2
ROWS = {'training': ((8, 256),), 'writing': ((1, 1), (8, 1))}  # B, T


def draw(B, T, E):
    """x, kernels, which, weights."""
    rng = np.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    kernels = dict(in_kernel=normal(E, D, F) / D ** 0.5, out_kernel=normal(E, F, D) / F ** 0.5)
    which = np.argsort(rng.random((B, T, E)), axis=-1)[..., :CHOSEN].astype(np.int32)
    weights = rng.random((B, T, CHOSEN)).astype(np.float32)
    return normal(B, T, D), kernels, which, weights / weights.sum(axis=-1, keepdims=True)


def seqjax_run(method, training, inputs):
    mix = functools.partial(ops.mix_experts, activation=jax.nn.silu, method=method)
    loss = lambda x, kernels, which, weights: (mix(x, kernels, which, weights) ** 2).sum()
    compiled = jax.jit(jax.grad(loss, (0, 1, 3)) if training else mix)
    inputs = jax.device_put(inputs)
    return lambda: jax.block_until_ready(compiled(*inputs))


def torch_mix(x, kernels, which, weights):
    """x: [n, D]; which, weights: [n, k]."""
    out = torch.zeros_like(x)
    for e in torch.unique(which):
        steps, place = torch.where(which == e)
        y = torch.nn.functional.silu(x[steps] @ kernels['in_kernel'][e]) @ kernels['out_kernel'][e]
        out.index_add_(0, steps, y * weights[steps, place, None])
    return out


def torch_run(training, inputs):
    x, kernels, which, weights = jax.tree.map(torch.from_numpy, inputs)
    x, which, weights = x.view(-1, D), which.view(-1, CHOSEN).long(), weights.view(-1, CHOSEN)
    leaves = [x, weights, *kernels.values()]
    for leaf in leaves:
        leaf.requires_grad_(training)

    def run():
        y = torch_mix(x, kernels, which, weights)
        if not training:
            return y
        d_x, d_weights, *d_kernels = torch.autograd.grad((y ** 2).sum(), leaves)
        return d_x, dict(zip(kernels, d_kernels)), d_weights

    return run if training else torch.inference_mode()(run)


def check(last):
    """All of them have computed the same."""
    expected = jax.tree.leaves(last['seqjax'])
    for system, found in last.items():
        for a, b in zip(jax.tree.leaves(found), expected, strict=True):
            if not np.allclose(np.ravel(a), np.ravel(b), rtol=1e-3, atol=1e-3):
                raise SystemExit(f'{system} computes something else')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(',')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--clock', choices=['wall', 'cpu'], default='wall')
    parser.add_argument('--experts', type=names, default=['8', '32'])
    parser.add_argument('--parts', type=names, default=list(ROWS))
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])  # XLA has a thread for every core it may use
    torch.set_num_threads(options.threads)
    parallel.keep_freed_memory()

    report = dict(machine(jax, torch), clock=options.clock)
    for part in options.parts:
        for B, T in ROWS[part]:
            for E in map(int, options.experts):
                inputs, training = draw(B, T, E), part == 'training'
                runs = {'seqjax': seqjax_run(None, training, inputs), 'all': seqjax_run('all', training, inputs),
                        'ragged': seqjax_run('ragged', training, inputs), 'torch': torch_run(training, inputs)}
                seconds, last = measure(runs, options.rounds, cpu=options.clock == 'cpu')
                check(last)
                name = f'{part}_{B}x{T}_of_{E}'
                report[name] = dict(milliseconds={system: round(1e3 * taken, 2) for system, taken in seconds.items()},
                                    **{f'times_{system}': round(taken / seconds['seqjax'], 2)
                                       for system, taken in seconds.items() if system != 'seqjax'})
                print(name, json.dumps(report[name]), file=sys.stderr, flush=True)
    print(json.dumps(report, indent=1))


if __name__ == '__main__':
    main()
