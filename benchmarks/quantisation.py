r"""A GPT that writes with 8-bit parameters: tokens a second beside the same model as it was trained, in one run, as ratios.

    python benchmarks/quantisation.py [--rounds=9] [--sizes=large,gpt2] [--rows=1,8]

`decode.search`, greedy, 16 tokens continued by 64, weights random. `float32` is the model as ever; `int8` has 8-bit weights
(`ops.quantise`), `int8 both` 8-bit activations too; `bfloat16` is a model of that type with parameters of that type. Every round
times each once, in turn, so that a busy machine slows all of them; the figure is the median over the rounds, and what compiles is
not counted. Ratios above 1 are faster than float32. Measured: docs/quantisation.md.
"""

import argparse
import json

from flax.core import meta
from in_turn import machine, measure
import jax
import jax.numpy as jnp
import numpy as np

from seqjax import decode, models, parallel
from seqjax.params import quantise, size_in_bytes

SIZES = {  # the first is the larger one of benchmarks/transformer.py
    'large': dict(vocabulary=65, depth=6, width=384, heads=6),
    'gpt2': dict(vocabulary=50257, depth=12, width=768, heads=12),
}
PROMPT, NEW = 16, 64


def systems(fields, rows):
    """({name: run}, {name: bytes of parameters})."""
    rng, limits = np.random.default_rng(0), decode.Limits(NEW)
    prompts = list(rng.integers(fields['vocabulary'], size=(rows, PROMPT)).astype(np.int32))
    build = lambda **changed: models.build('gpt', context_length=PROMPT + NEW, **fields, **changed)
    model = build()
    init = lambda: model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))
    params = jax.jit(lambda: meta.unbox(init())['params'])()
    trees = {'float32': params, 'int8': quantise(params, init), 'int8 both': quantise(params, init, activations=True),
             'bfloat16': jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)}

    def run(name):
        used = build(dtype='bfloat16') if name == 'bfloat16' else model
        decoder = decode.make_decoder(used, trees[name])
        return lambda: decode.search(decoder, prompts, decode.Greedy(), limits=limits)

    return {name: run(name) for name in trees}, {name: size_in_bytes(tree) for name, tree in trees.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--sizes', default=','.join(SIZES))
    parser.add_argument('--rows', default='1,8')
    options = parser.parse_args()
    parallel.keep_freed_memory()
    for size in options.sizes.split(','):
        for rows in map(int, options.rows.split(',')):
            runs, sizes = systems(SIZES[size], rows)
            seconds, _ = measure(runs, options.rounds)
            print(json.dumps(dict(
                machine(jax), size=size, rows=rows, tokens_per_second={name: round(rows * NEW / s) for name, s in seconds.items()},
                faster={name: round(seconds['float32'] / s, 2) for name, s in seconds.items()},
                megabytes={name: round(number / 1e6) for name, number in sizes.items()})))


if __name__ == '__main__':
    main()
