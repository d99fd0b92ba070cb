"""Recurrent layers: seqjax beside flax.linen.RNN and torch, in one run on the same cores, as ratios.

    python benchmarks/recurrent.py [--seconds=8] [--out=recurrent.json] [--cells=lstm,gru] [--batch=1,32] [--steps=128] [--width=256]

Every round times each system once, in turn, so that a busy machine slows all of them; the figure of a point is the median
over the rounds, three at least and more where they fit into --seconds. `matmuls` is the time of the layer's matrix products alone, of the same shapes and number, in the best
orientation found: the bound that no implementation on this machine beats. Ratios above 1 mean that seqjax is faster.
Needs the test extra. Measured: docs/recurrent.md.
"""

import argparse
import itertools
import json
import math
import statistics
import time

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import torch

from seqjax import nn

LAYERS = {  # name: (ours, flax's cell, torch's class, gates, layers, directions)
    'elman': (nn.RNN, linen.SimpleCell, torch.nn.RNN, 1, 1, 1),
    'gru': (nn.GRU, linen.GRUCell, torch.nn.GRU, 3, 1, 1),
    'lstm': (nn.LSTM, linen.OptimizedLSTMCell, torch.nn.LSTM, 4, 1, 1),
    'bilstm2': (nn.LSTM, linen.OptimizedLSTMCell, torch.nn.LSTM, 4, 2, 2),
}


class FlaxStack(linen.Module):
    """The same stack from flax's parts."""

    cell: type
    features: int
    num_layers: int
    directions: int

    @linen.compact
    def __call__(self, x):
        for _ in range(self.num_layers):
            one = linen.RNN(self.cell(self.features))
            x = one(x) if self.directions == 1 else linen.Bidirectional(one, linen.RNN(self.cell(self.features)))(x)
        return x


def jax_runs(model, inputs, weights):
    """(forward, forward and backward) as functions of nothing that wait for their result."""
    variables = jax.jit(model.init)(jax.random.key(0), inputs)
    take = lambda result: result[0] if isinstance(result, tuple) else result
    forward = jax.jit(lambda variables, inputs: take(model.apply(variables, inputs)))
    both = jax.jit(jax.grad(lambda variables, inputs: (take(model.apply(variables, inputs)) * weights).sum(), argnums=(0, 1)))
    return (lambda: jax.block_until_ready(forward(variables, inputs)),
            lambda: jax.block_until_ready(both(variables, inputs)))


def torch_runs(model, inputs, weights):
    inputs, weights = torch.tensor(inputs, requires_grad=True), torch.tensor(weights)

    def forward():
        with torch.no_grad():
            model(inputs)

    def both():
        model.zero_grad()
        inputs.grad = None
        (model(inputs)[0] * weights).sum().backward()

    return forward, both


def matmul_runs(B, T, N, gates, layers, directions):
    """The products of a layer alone: W i and U h forward, and the four of the backward pass, chained only where they must be."""
    rng = np.random.default_rng(0)
    array = lambda *shape: jnp.asarray(rng.standard_normal(shape) / math.sqrt(N), jnp.float32)

    def layer(D):
        W, U, i, g = array(gates * N, D), array(gates * N, N), array(D, T * B), array(gates * N, T * B)
        h, dz = array(N, B), array(gates * N, B)
        loop = lambda kernel, x, width: jax.lax.scan(lambda x, _: (jnp.resize((kernel @ x)[:width], x.shape), None), x,
                                                     None, length=T)[0]
        forward = lambda W, U, i, g, h, dz: (W @ i, loop(U, h, N))
        # dh = U^T dz in the loop, then dU = h dz^T, dW = i dz^T, di = W^T dz
        backward = lambda W, U, i, g, h, dz: (loop(U.T, dz, N), i[:N] @ g.T, i @ g.T, W.T @ g)
        return forward, backward, (W, U, i, g, h, dz)

    widths = [N] + [directions * N] * (layers - 1)
    parts = [(jax.jit(forward), jax.jit(backward), arrays) for forward, backward, arrays in map(layer, widths)]

    def forward():
        for _ in range(directions):
            jax.block_until_ready([run(*arrays) for run, _, arrays in parts])

    def both():
        forward()
        for _ in range(directions):
            jax.block_until_ready([run(*arrays) for _, run, arrays in parts])

    return forward, both


def measure(runs, seconds):
    """{system: (median seconds forward, median seconds forward and backward)}, all systems in turn in every round."""
    times = {(system, kind): [] for system in runs for kind in (0, 1)}
    for system, kind in times:  # compiles and warms up
        runs[system][kind]()
    begin, rounds = time.perf_counter(), 0
    while rounds < 3 or rounds < 25 and time.perf_counter() < begin + seconds:
        rounds += 1
        for (system, kind), taken in times.items():
            start = time.perf_counter()
            runs[system][kind]()
            taken.append(time.perf_counter() - start)
    return {system: tuple(statistics.median(times[system, kind]) for kind in (0, 1)) for system in runs}


def point(name, B, T, N, seconds):
    ours, flax_cell, torch_class, gates, layers, directions = LAYERS[name]
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((B, T, N)).astype(np.float32)
    weights = rng.standard_normal((B, T, directions * N)).astype(np.float32)
    runs = {
        'seqjax': jax_runs(ours(N, layers, bidirectional=directions == 2), inputs, weights),
        'flax': jax_runs(FlaxStack(flax_cell, N, layers, directions), inputs, weights),
        'torch': torch_runs(torch_class(N, N, layers, batch_first=True, bidirectional=directions == 2), inputs, weights),
        'matmuls': matmul_runs(B, T, N, gates, layers, directions),
    }
    medians = measure(runs, seconds)
    row = dict(layer=name, B=B, T=T, N=N)
    for kind, label in enumerate(('forward', 'both')):
        ms = {system: round(1e3 * medians[system][kind], 3) for system in runs}
        row[label] = dict(ms=ms, **{f'times_{peer}': round(ms[peer] / ms['seqjax'], 3) for peer in ('flax', 'torch')},
                          of_bound=round(ms['matmuls'] / ms['seqjax'], 3))
    return row


def mean(rows, label, peer):
    return math.exp(statistics.mean(math.log(row[label][f'times_{peer}']) for row in rows))


def summary(rows):
    """Geometric means over the grid, by layer and over all, and the worst point."""
    groups = {name: [row for row in rows if row['layer'] == name] for name in dict.fromkeys(row['layer'] for row in rows)}
    groups['all'] = rows
    return {group: {f'{label}_times_{peer}': round(mean(some, label, peer), 3) for label in ('both', 'forward')
                    for peer in ('torch', 'flax')} | {'worst_both_times_torch': min(r['both']['times_torch'] for r in some)}
            for group, some in groups.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(number) for number in text.split(',')]
    parser.add_argument('--seconds', type=float, default=8, help='of one point of the grid, after compiling')
    parser.add_argument('--out', default='recurrent.json')
    parser.add_argument('--cells', type=lambda text: text.split(','), default=list(LAYERS))
    parser.add_argument('--batch', type=numbers, default=[1, 32, 64])
    parser.add_argument('--steps', type=numbers, default=[128, 512])
    parser.add_argument('--width', type=numbers, default=[128, 256, 512])
    options = parser.parse_args()
    rows = []
    print(f'{"layer":8} {"B":>3} {"T":>4} {"N":>4} | forward+backward: {"ms":>8} {"x torch":>8} {"x flax":>8} {"of bound":>8} | '
          f'forward: {"ms":>8} {"x torch":>8} {"x flax":>8}')
    for T, name, B, N in itertools.product(options.steps, options.cells, options.batch, options.width):
        row = point(name, B, T, N, options.seconds)
        rows.append(row)
        both, forward = row['both'], row['forward']
        print(f'{name:8} {B:3} {T:4} {N:4} | {both["ms"]["seqjax"]:26.2f} {both["times_torch"]:8.2f} {both["times_flax"]:8.2f} '
              f'{both["of_bound"]:8.2f} | {forward["ms"]["seqjax"]:17.2f} {forward["times_torch"]:8.2f} '
              f'{forward["times_flax"]:8.2f}', flush=True)
        jax.clear_caches()
        report = dict(summary=summary(rows), jax=jax.__version__, torch=torch.__version__, threads=torch.get_num_threads(),
                      rows=rows)
        with open(options.out, 'w', encoding='utf-8') as file:  # after every point: a run that is stopped leaves what it has
            json.dump(report, file, indent=1)
    print(json.dumps(report['summary'], indent=1))


if __name__ == '__main__':
    main()
