"""Gradient of an LSTM language model's loss: seqjax beside torch and flax's own RNN, in one run, as ratios.

    python benchmarks/lstm_language_model.py [--rounds=15]

Every round times each system once, in turn, so that a busy machine slows all of them; the figure is the median over
the rounds. Needs the test extra. Higher ratios are better: 1.5x means that seqjax takes two thirds of the peer's time.

Measured with --rounds=9 on 2 cores of an AMD EPYC (Zen 5; jax 0.10.2, torch 2.13.0): 0.61 times torch's speed and 1.71 times flax's.
There is work to do.
"""

import argparse
import json

from flax import linen
from in_turn import machine, measure
import jax
import jax.numpy as jnp
import numpy as np
import torch

from seqjax import models, ops, tasks

V = 65
B, T, WIDTH = 16, 64, 256  # those of experiments/language/char_lstm.py


def seqjax_gradient(batch):
    task = tasks.LanguageModel(models.build('recurrent', vocabulary=V, width=WIDTH, depth=1))
    params = task.plain_init(jax.random.key(0), batch)
    gradient = jax.jit(jax.grad(lambda params, batch: task(params, batch).loss))
    return lambda: jax.block_until_ready(gradient(params, batch))


class FlaxLSTM(linen.Module):
    """The same network from flax's parts."""

    @linen.compact
    def __call__(self, tokens):
        x = linen.Embed(V, WIDTH)(tokens)
        x = linen.RNN(linen.OptimizedLSTMCell(WIDTH))(x)
        return linen.Dense(V)(x)


def flax_gradient(batch):
    model = FlaxLSTM()
    variables = model.init(jax.random.key(0), batch['inputs'])

    def loss(variables):
        return ops.cross_entropy(model.apply(variables, batch['inputs']), batch['targets']).sum()

    gradient = jax.jit(jax.grad(loss))
    return lambda: jax.block_until_ready(gradient(variables))


class TorchLSTM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.output = torch.nn.Embedding(V, WIDTH), torch.nn.Linear(WIDTH, V)
        self.lstm = torch.nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


def torch_gradient(batch):
    model = TorchLSTM()
    inputs, targets = (torch.from_numpy(batch[key]).long() for key in ('inputs', 'targets'))

    def gradient():
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs).view(-1, V), targets.view(-1), reduction='sum').backward()

    return gradient


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=15)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    inputs, targets = (rng.integers(V, size=(B, T)).astype(np.int32) for _ in range(2))
    batch = dict(inputs=inputs, targets=targets, weights=jnp.ones((B, T)))
    runs = {'seqjax': seqjax_gradient(batch), 'torch': torch_gradient(batch), 'flax': flax_gradient(batch)}
    medians, _ = measure(runs, rounds)
    report = machine(jax, torch) | {f'{system}_ms': round(1e3 * seconds, 2) for system, seconds in medians.items()}
    report.update({f'times_{system}': round(medians[system] / medians['seqjax'], 2) for system in ('torch', 'flax')})
    print(json.dumps(report, indent=2))


if __name__ == '__main__':
    main()
