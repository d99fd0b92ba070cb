r"""A GPT, trained and asked to write: seqjax beside a torch GPT and beside transformers' GPT-2, in one run, as ratios.

    python benchmarks/transformer.py [--rounds=15] [--threads=2] [--clock=wall] [--sizes=small,large] \
        [--parts=training,products,writing]

`training` is the whole step that `launch.py` runs: loss, gradient, clipping, AdamW, and for seqjax also its checks that the
numbers are finite. `torch` is the model that nanoGPT trains, written here once more: fused attention, no bias, one table for
tokens in and out; `transformers` is `GPT2LMHeadModel` with the same sizes, activation and attention. Both use torch's fused
AdamW. All three see the same batch again and again; their last losses are in the report.

`products` are the products of matrices of such a step and nothing else, by XLA and by torch: forwards, and backwards for what
each reads and for its kernel. What is left of a step is everything else.

`writing` is greedy: `decode.search` beside `generate` of transformers, one text of 16 tokens continued by 128, both with a
cache of keys and values. Weights are random.

Every round times each system once, in turn, so that a busy machine slows all of them; the figure is the median over the
rounds. --clock=cpu counts the seconds of the processor and takes the least of them: for a machine that others use too,
best with --threads=1. Freed memory is kept, for all of them, as launch.py does. What compiles is not counted. Ratios above 1 mean that seqjax is faster.
Needs the extras test and benchmark. Measured: docs/transformers.md.
"""

import argparse
import functools
import json
import math
import os
import sys

from in_turn import machine, measure
import jax
import numpy as np
import optax
import torch
import transformers

from seqjax import decode, models, parallel, tasks
from seqjax.train import create_state, make_optimizer, make_train_step

V = 65
SIZES = {  # B, T and the model; the first is the one that experiments/language/char_gpt.py trains
    'small': (12, 64, dict(depth=4, width=128, heads=4)),
    'large': (4, 256, dict(depth=6, width=384, heads=6)),
}
RATE, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0
PROMPT, NEW = 16, 128


# ------------------------------------------------------------------------------------------------ seqjax

def seqjax_model(T, fields):
    return models.build('gpt', vocabulary=V, context_length=T, **fields)


def seqjax_training(batch, T, fields):
    task = tasks.LanguageModel(seqjax_model(T, fields))
    schedule = optax.constant_schedule(RATE)
    optimizer = make_optimizer('adamw', schedule, b1=BETAS[0], b2=BETAS[1], weight_decay=DECAY, clip_norm=CLIP)
    state = jax.jit(functools.partial(create_state, task, optimizer))(jax.random.key(0), batch)
    step = jax.jit(make_train_step(task, optimizer, schedule, seed=0), donate_argnums=0)

    def run():
        nonlocal state
        state, facts = step(state, batch)
        return float(facts['sums'].loss / facts['sums'].weight)

    return run


def seqjax_writing(prompt, T, fields):
    model = seqjax_model(T, fields)
    params = tasks.LanguageModel(model).plain_init(jax.random.key(0), dict(inputs=prompt[None]))
    decoder, limits = decode.make_decoder(model, params), decode.Limits(NEW)
    return lambda: decode.search(decoder, [prompt], decode.Greedy(), limits=limits)[0].texts[0]


# ------------------------------------------------------------------------------------------------ torch

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
    def __init__(self, T, depth, width, heads):
        super().__init__()
        self.embedding, self.positions = torch.nn.Embedding(V, width), torch.nn.Embedding(T, width)
        self.blocks = torch.nn.Sequential(*(TorchBlock(width, heads) for _ in range(depth)))
        self.norm = torch.nn.LayerNorm(width, bias=False)
        for kernel in self.parameters():
            if kernel.ndim == 2:
                torch.nn.init.normal_(kernel, std=0.02)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight
        return self.norm(self.blocks(x)) @ self.embedding.weight.T


def gpt2(T, fields):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=V, n_positions=T, n_embd=fields['width'], n_layer=fields['depth'], n_head=fields['heads'],
        activation_function='gelu', resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation='sdpa',
        bos_token_id=0, eos_token_id=None, pad_token_id=0))


def torch_training(model, logits, batch):
    inputs, targets = (torch.from_numpy(batch[key]).long() for key in ('inputs', 'targets'))
    kernels, others = ([p for p in model.parameters() if (p.ndim > 1) == large] for large in (True, False))
    groups = [dict(params=kernels, weight_decay=DECAY), dict(params=others, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, fused=True)

    def run():
        loss = torch.nn.functional.cross_entropy(logits(model, inputs).view(-1, V), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return run


def transformers_writing(prompt, T, fields):
    model, inputs = gpt2(T, fields).eval(), torch.from_numpy(prompt).long()[None]

    @torch.inference_mode()
    def run():
        mask = torch.ones_like(inputs)
        return model.generate(inputs, attention_mask=mask, max_new_tokens=NEW, do_sample=False, use_cache=True)[0, PROMPT:].numpy()

    return run


# ------------------------------------------------------------------------------------------------ times

def training(B, T, fields):
    """{system: run}, the units of work in a run, and a check of what the last runs returned."""
    rng = np.random.default_rng(0)
    text = rng.integers(V, size=(B, T + 1)).astype(np.int32)
    batch = dict(inputs=text[:, :-1], targets=text[:, 1:], weights=np.ones((B, T), np.float32))
    runs = {'seqjax': seqjax_training(batch, T, fields),
            'torch': torch_training(TorchGPT(T, **fields), lambda model, x: model(x), batch),
            'transformers': torch_training(gpt2(T, fields), lambda model, x: model(x).logits, batch)}

    def check(losses):
        if max(losses.values()) > math.log(V):
            raise SystemExit(f'not all of them have learned: {losses}')
        return {system: round(loss, 3) for system, loss in losses.items()}

    return runs, B * T, check


def products(B, T, fields):
    rng, D = np.random.default_rng(0), fields['width']
    shapes = fields['depth'] * [(D, D), (D, D), (D, D), (D, D), (D, 4 * D), (4 * D, D)] + [(D, V)]
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    arrays = [(draw(B * T, inner), draw(inner, outer), draw(B * T, outer)) for inner, outer in shapes]
    all_three = lambda arrays: [(x @ kernel, d_y @ kernel.T, x.T @ d_y) for x, kernel, d_y in arrays]
    on_device, tensors = jax.device_put(arrays), [[torch.from_numpy(x) for x in three] for three in arrays]
    compiled = jax.jit(all_three)
    runs = {'seqjax': lambda: jax.block_until_ready(compiled(on_device)), 'torch': lambda: all_three(tensors)}
    operations = sum(6 * B * T * inner * outer for inner, outer in shapes)
    return runs, B * T, lambda last: dict(operations=operations)


def writing(B, T, fields):
    del B, T  # one text, as long as it takes
    prompt = np.random.default_rng(0).integers(V, size=PROMPT).astype(np.int32)
    runs = {'seqjax': seqjax_writing(prompt, PROMPT + NEW, fields),
            'transformers': transformers_writing(prompt, PROMPT + NEW, fields)}

    def check(texts):
        return {system: len(text) for system, text in texts.items()}

    return runs, NEW, check


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(',')
    parser.add_argument('--rounds', type=int, default=15)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--clock', choices=['wall', 'cpu'], default='wall')
    parser.add_argument('--sizes', type=names, default=list(SIZES))
    parser.add_argument('--parts', type=names, default=['training', 'products', 'writing'])
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])  # XLA has a thread for every core it may use
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    parallel.keep_freed_memory()

    report = dict(machine(jax, torch, transformers), clock=options.clock)
    for part in options.parts:
        for size in options.sizes:
            runs, tokens, check = dict(training=training, products=products, writing=writing)[part](*SIZES[size])
            seconds, last = measure(runs, options.rounds, cpu=options.clock == 'cpu')
            report[f'{part}_{size}'] = dict(
                milliseconds={system: round(1e3 * taken, 1) for system, taken in seconds.items()},
                tokens_per_second={system: round(tokens / taken) for system, taken in seconds.items()},
                **{f'times_{system}': round(taken / seconds['seqjax'], 2) for system, taken in seconds.items()
                   if system != 'seqjax'}, last=check(last))
            print(f'{part}_{size}', json.dumps(report[f'{part}_{size}']), file=sys.stderr, flush=True)
    print(json.dumps(report, indent=1))


if __name__ == '__main__':
    main()
