"""Gradient of a language model's loss: seqjax beside torch (and flax's own RNN), in one run, as ratios.

    python benchmarks/language_models.py [--rounds=15]

Every round times each system once, in turn, so that a busy machine slows all of them; the figure is the median over
the rounds. Needs the test extra. Higher ratios are better: 1.5x means that seqjax takes two thirds of the peer's time.

Measured with --rounds=9 on 2 cores (jax 0.10.2, torch 2.13.0): the LSTM's gradient at 0.57 times torch's speed and 1.47 times
flax's, the GPT's at 0.53 times torch's. There is work to do.
"""

import argparse
import json
import statistics
import time

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import torch

from seqjax import models, ops, tasks

V = 65
SIZES = {  # B, T, and the model: the two sizes that experiments/char_lstm.py and experiments/char_gpt.py train
    'lstm': (16, 64, dict(width=256, depth=1)),
    'gpt': (12, 64, dict(width=128, depth=4, heads=4)),
}


def seqjax_gradient(name, batch, B, T, fields):
    task = tasks.LanguageModel(models.build(dict(lstm='recurrent').get(name, name), vocabulary=V, context_length=T, **fields))
    params = task.plain_init(jax.random.key(0), batch)
    gradient = jax.jit(jax.grad(lambda params, batch: task(params, batch).loss))
    return lambda: jax.block_until_ready(gradient(params, batch))


class FlaxLSTM(linen.Module):
    """The same network from flax's parts."""

    width: int

    @linen.compact
    def __call__(self, tokens):
        x = linen.Embed(V, self.width)(tokens)
        x = linen.RNN(linen.OptimizedLSTMCell(self.width))(x)
        return linen.Dense(V)(x)


def flax_gradient(name, batch, B, T, fields):
    if name != 'lstm':
        return None
    model = FlaxLSTM(fields['width'])
    variables = model.init(jax.random.key(0), batch['inputs'])

    def loss(variables):
        return ops.cross_entropy(model.apply(variables, batch['inputs']), batch['targets']).sum()

    gradient = jax.jit(jax.grad(loss))
    return lambda: jax.block_until_ready(gradient(variables))


class TorchLSTM(torch.nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embedding, self.output = torch.nn.Embedding(V, width), torch.nn.Linear(width, V)
        self.lstm = torch.nn.LSTM(width, width, depth, batch_first=True)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


class TorchBlock(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width, bias=False), torch.nn.Linear(width, width, bias=False)
        self.feed = torch.nn.Sequential(torch.nn.Linear(width, 4 * width, bias=False), torch.nn.GELU(),
                                        torch.nn.Linear(4 * width, width, bias=False))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norms[0](x)).split(D, dim=2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        return x + self.feed(self.norms[1](x))


class TorchGPT(torch.nn.Module):
    def __init__(self, width, depth, heads, T):
        super().__init__()
        self.embedding, self.positions = torch.nn.Embedding(V, width), torch.nn.Embedding(T, width)
        self.blocks = torch.nn.Sequential(*(TorchBlock(width, heads) for _ in range(depth)))
        self.norm = torch.nn.LayerNorm(width, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight
        return self.norm(self.blocks(x)) @ self.embedding.weight.T


def torch_gradient(name, batch, B, T, fields):
    model = TorchLSTM(**fields) if name == 'lstm' else TorchGPT(**fields, T=T)
    inputs, targets = (torch.from_numpy(batch[key]).long() for key in ('inputs', 'targets'))

    def gradient():
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs).view(-1, V), targets.view(-1), reduction='sum').backward()

    return gradient


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=15)
    rounds = parser.parse_args().rounds
    systems = {'seqjax': seqjax_gradient, 'torch': torch_gradient, 'flax': flax_gradient}
    rng, report = np.random.default_rng(0), {}
    for name, (B, T, fields) in SIZES.items():
        batch = dict(inputs=rng.integers(V, size=(B, T)).astype(np.int32), targets=rng.integers(V, size=(B, T)).astype(np.int32),
                     weights=jnp.ones((B, T)))
        runs = {system: make(name, batch, B, T, fields) for system, make in systems.items()}
        runs = {system: run for system, run in runs.items() if run}
        times = {system: [] for system in runs}
        for number in range(rounds + 2):  # the first two warm up
            for system, run in runs.items():
                start = time.perf_counter()
                run()
                if number >= 2:
                    times[system].append(time.perf_counter() - start)
        medians = {system: statistics.median(seconds) for system, seconds in times.items()}
        report[name] = {f'{system}_ms': round(1e3 * seconds, 2) for system, seconds in medians.items()}
        report[name].update({f'times_{system}': round(medians[system] / medians['seqjax'], 2)
                             for system in medians if system != 'seqjax'})
    print(json.dumps(report, indent=2))


if __name__ == '__main__':
    main()
