r"""Many prompts of different lengths, continued by different numbers of tokens: rows that are refilled beside batches that wait.

    python benchmarks/continuous.py [--rounds=3] [--prompts=64] [--rows=8]

A GPT of 6 layers and width 384 with random weights, greedy. Prompts have 4 to 60 tokens, and each is continued by 8 to 128 that are
drawn evenly, so that half of a batch is done long before its last row.

`rows` is `decode.serve`: a row that is done begins with the next prompt. `batches` is `decode.search`, so many prompts at a
time, until the last of them is done. `transformers` is `generate` of its GPT-2 of the same size, with a cache, in such batches too,
padded on the left. The figure is the tokens that were asked for in a second, the median over the rounds, in each of which every
system runs once, in turn; what compiles is not counted. Needs the extras test and benchmark. Measured: docs/transformers.md.
"""

import argparse
import json

from flax.core import meta
from in_turn import machine, measure
import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

from seqjax import decode, models, parallel

V, FIELDS = 65, dict(depth=6, width=384, heads=6)
LONGEST, MOST = 60, 128
GREEDY = decode.Sample(temperature=0.0)


def seqjax_systems(prompts, new, rows):
    model = models.build('gpt', vocabulary=V, context_length=256, **FIELDS)
    params = jax.jit(lambda: meta.unbox(model.init(jax.random.key(0), jnp.zeros((1, 1), jnp.int32)))['params'])()

    decoder = decode.make_decoder(model, params)

    def in_rows():
        found, facts = decode.serve(decoder, prompts, GREEDY, max_new_tokens=new, rows=rows)
        return sum(int(one.lengths[0]) for one in found), facts

    def in_batches():
        made = 0
        for start in range(0, len(prompts), rows):
            limits = decode.Limits(int(new[start:start + rows].max()))
            some = decode.search(decoder, prompts[start:start + rows], GREEDY, limits=limits)
            made += sum(min(int(one.lengths[0]), most) for one, most in zip(some, new[start:start + rows]))
        return made, None

    return dict(rows=in_rows, batches=in_batches)


def transformers_system(prompts, new, rows):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=V, n_positions=256, n_embd=FIELDS['width'], n_layer=FIELDS['depth'], n_head=FIELDS['heads'],
        attn_implementation='sdpa', bos_token_id=0, eos_token_id=None, pad_token_id=0)).eval()

    @torch.inference_mode()
    def run():
        made = 0
        for start in range(0, len(prompts), rows):
            some, most = prompts[start:start + rows], new[start:start + rows]
            width = max(map(len, some))
            pad = lambda row, value: np.concatenate([np.full(width - len(row), value), row])
            inputs = torch.tensor(np.stack([pad(row, 0) for row in some]))
            mask = torch.tensor(np.stack([pad(np.ones(len(row), int), 0) for row in some]))
            texts = model.generate(inputs, attention_mask=mask, max_new_tokens=int(most.max()), do_sample=False)[:, width:]
            made += sum(min(len(text), n) for text, n in zip(texts, most))
        return made, None

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--prompts', type=int, default=64)
    parser.add_argument('--rows', type=int, default=8)
    options = parser.parse_args()
    parallel.keep_freed_memory()
    rng = np.random.default_rng(0)
    prompts = [rng.integers(V, size=rng.integers(4, LONGEST + 1)).astype(np.int32) for _ in range(options.prompts)]
    new = rng.integers(8, MOST + 1, options.prompts)
    runs = seqjax_systems(prompts, new, options.rows) | dict(transformers=transformers_system(prompts, new, options.rows))
    seconds, last = measure(runs, options.rounds, warm_up=1)
    for name, (made, _) in last.items():
        if made != new.sum():
            raise SystemExit(f'{name} wrote {made} tokens, and {new.sum()} were asked for')
    rate = {name: int(new.sum()) / taken for name, taken in seconds.items()}
    print(json.dumps(dict(
        machine(jax, torch, transformers), tokens=int(new.sum()), tokens_per_second={name: round(x) for name, x in rate.items()},
        rows_faster={name: round(rate['rows'] / x, 2) for name, x in rate.items()}, rows=last['rows'][1]._asdict())))


if __name__ == '__main__':
    main()
