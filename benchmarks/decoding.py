"""Beam search: seqjax beside transformers, and beside reading the prefix again at every step, in one run, as ratios.

    python benchmarks/decoding.py [--source=file:test.de.gz] [--rounds=3] [--batch=16,32,64,128] [--layers=2] [--clock=...] [--against=...]

`seqjax` is `decode.search` with a bidirectional GRU and attention, `transformers` is `generate` of a Marian Transformer
with as many parameters, three tables of the same size among them. `prefix`, `decoder` and `whole` are the model of seqjax
and its search, without a state from step to step: `prefix` reads the source once and the answer so far again at every step,
`decoder` runs all steps of the decoder with their scores again, as a model that is only ever called as a whole does when its
encoder's outputs are kept, and `whole` is the teacher-forced call, source and all. Their answers are compared with seqjax's.

Weights are random, so an answer would never end, or at any step. Here an answer has as many tokens as its source, in every
system: the end has a bias of -1e9 in both models, seqjax takes live hypotheses as they are at a limit of their own for
every row, and transformers is made to write the end as the last of these tokens.

Every round times each system once over all sentences, in turn, so that a busy machine slows all of them; the figure is the
median over the rounds. Both sides sort sentences by length and use the best of the batch sizes that are given, found in a
run before. What compiles is not counted, and reported by itself. Ratios above 1 mean that seqjax is faster.
Needs the extras test and benchmark. Measured: docs/translation.md.
"""

import argparse
import dataclasses
import gzip
import json
import os
import statistics
import time
from typing import Any

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import torch
import transformers

from seqjax import decode, models
from seqjax.data.text import tokenizers
from seqjax.special_tokens import END, PADDING, START

OWN = 4  # the first token that is text
NEVER = -1e9


def read_rows(source, count, V):
    """Sentences as tokens, their end last; byte pairs are learned from the file. Without one: lengths of such a file."""
    if source == 'generated':  # log-normal lengths as those of the 1,000 German sentences of Multi30k's test_2016_flickr
        rng = np.random.default_rng(0)
        lengths = np.exp(rng.normal(2.54, 0.29, count)).round().astype(int).clip(6, 36)
        return [np.append(rng.integers(OWN, V, length - 1), END).astype(np.int32) for length in lengths]
    path = source.removeprefix('file:')
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8') as file:
        lines = [' ' + line.strip() for line in file][:count]
    tokenizer = tokenizers.train('bpe', '\n'.join(lines), V - OWN)
    return [np.append(OWN + tokenizer.encode(line), END).astype(np.int32) for line in lines]


# ------------------------------------------------------------------------------------------------ seqjax

@dataclasses.dataclass(frozen=True)
class Prefix:
    """A model that keeps the tokens it has written and nothing else; the source is read once.

    A state is (tokens [N, T], how many there are [N]); T is the length of the source, which no answer exceeds.
    """

    model: Any

    def apply(self, variables, *arguments, method):
        return getattr(self, method)(variables, *arguments)

    def begin(self, variables, inputs, lengths, max_length):
        memory = self.model.apply(variables, inputs, lengths, max_length, method='begin')
        return memory, (jnp.zeros(inputs.shape, jnp.int32), jnp.zeros(len(inputs), jnp.int32))

    def step(self, variables, memory, state, tokens):
        prefix, written = state
        N, t = len(tokens), written[0]
        prefix = prefix.at[:, t].set(tokens)
        memory, first = memory
        step = lambda state, t: self.model.apply(variables, memory, state, prefix[:, t], method='step')
        first = jax.tree.map(lambda leaf: jnp.repeat(leaf, N // len(leaf), axis=0), first)
        before = jax.lax.fori_loop(0, t, lambda t, state: step(state, t)[0], first)
        return (prefix, written + 1), step(before, t)[1]

    def attended(self, state):
        return None


class DecoderAgain(Prefix):
    """The same with all T steps of the decoder and the scores of each, of which one is used."""

    def step(self, variables, memory, state, tokens):
        prefix, written = state
        N, t = len(tokens), written[0]
        prefix = prefix.at[:, t].set(tokens)
        memory, first = memory
        first = jax.tree.map(lambda leaf: jnp.repeat(leaf, N // len(leaf), axis=0), first)
        step = lambda state, tokens: self.model.apply(variables, memory, state, tokens, method='step')
        _, logits = jax.lax.scan(step, first, prefix.T)  # [T, N, V]
        return (prefix, written + 1), logits[t]


class Whole(Prefix):
    """The same with the source read again, and scores of all T steps: the call that training uses."""

    def begin(self, variables, inputs, lengths, max_length):
        return (inputs, lengths), super().begin(variables, inputs, lengths, max_length)[1]

    def step(self, variables, memory, state, tokens):
        prefix, written = state
        N, t = len(tokens), written[0]
        prefix = prefix.at[:, t].set(tokens)
        inputs, lengths = (jnp.repeat(part, N // len(part), axis=0) for part in memory)
        logits = self.model.apply(variables, inputs, lengths, previous=prefix)  # [N, T, V]
        return (prefix, written + 1), logits[:, t]


def seqjax_model(V, width):
    """(model, parameters) that never write the end by themselves."""
    model = models.build('seq2seq', vocabulary=V, target_vocabulary=V, width=width, bidirectional=True)
    tokens = jnp.ones((1, 2), jnp.int32)
    params = linen.meta.unbox(jax.jit(model.init)(jax.random.key(0), tokens, None, tokens)['params'])
    params['output']['bias'] = params['output']['bias'].at[END].set(NEVER)
    return model, params


def seqjax_run(model, params, beam):
    decoder, options = decode.make_decoder(model, params), dict(limits=decode.Limits(length_factor=1.0, length_margin=0))
    return lambda rows, B: decode.search(decoder, rows, decode.Beam(beam, n_best=1), batch_size=B, **options)


# ------------------------------------------------------------------------------------------------ transformers

class EndAt(transformers.LogitsProcessor):
    """The end is all that is possible for the last of so many tokens; lengths: [N]. Other steps cost nothing."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __call__(self, written, scores):
        now = self.lengths == written.shape[1]  # the start counts for the token that is chosen here
        if now.any():
            scores[now] = -torch.inf
            scores[now, END] = 0
        return scores


def marian(V, width, layers, parameters):
    """A Marian Transformer with so many parameters: the width of its feed-forward layers is what makes it so."""
    def build(inner):
        return transformers.MarianMTModel(transformers.MarianConfig(
            vocab_size=V, decoder_vocab_size=V, share_encoder_decoder_embeddings=False, tie_word_embeddings=False,
            d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_ffn_dim=inner, decoder_ffn_dim=inner,
            encoder_attention_heads=width // 64, decoder_attention_heads=width // 64, max_position_embeddings=512,
            pad_token_id=PADDING, decoder_start_token_id=START, eos_token_id=END, forced_eos_token_id=None)).eval()

    small, more = count(build(8)), count(build(16))
    model = build(max(8, 8 + round((parameters - small) / (more - small)) * 8))
    if abs(count(model) / parameters - 1) > 0.05:
        raise SystemExit(f'with --layers={layers} the Transformer has {count(model)} parameters, and the other model '
                         f'{parameters}; ask for another number of layers')
    model.final_logits_bias[0, END] = NEVER
    return model


def count(model):
    return sum(part.numel() for part in model.parameters() if part.requires_grad)  # without the table of sines


def transformers_run(model, beam):
    @torch.inference_mode()
    def run(rows, B):
        order, answers = np.argsort([len(row) for row in rows], kind='stable'), [None] * len(rows)
        for begin in range(0, len(rows), B):
            places = order[begin:begin + B]
            lengths = torch.tensor([len(rows[place]) for place in places])
            sources = [torch.from_numpy(rows[place]).long() for place in places]
            inputs = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True, padding_value=PADDING)
            found = model.generate(inputs, attention_mask=torch.arange(inputs.shape[1]) < lengths[:, None], num_beams=beam,
                                   do_sample=False, length_penalty=0.0, early_stopping=True, max_new_tokens=inputs.shape[1],
                                   logits_processor=[EndAt(lengths.repeat_interleave(beam))])
            for place, tokens in zip(places, found[:, 1:].numpy()):
                answers[place] = tokens[:np.argmax(tokens == END) + 1]
        return answers
    return run


# ------------------------------------------------------------------------------------------------ times

CLOCKS = dict(wall=time.perf_counter, processor=time.process_time)


def timed(clock, run, *arguments):
    begin = clock()
    found = run(*arguments)
    return clock() - begin, found


def best_batch(clock, run, rows, sizes):
    """The fastest of the batch sizes, and the seconds that a first run with it takes longer than a second: to compile."""
    taken = {B: [timed(clock, run, rows, B)[0] for _ in range(2)] for B in sizes}
    best = min(taken, key=lambda B: taken[B][1])
    return best, taken[best][0] - taken[best][1]


def compare(rows, answers):
    """How many answers of those without a state are those of seqjax. Raises where one is not as long or not as good."""
    same, mine = {}, answers['seqjax']
    for system, theirs in answers.items():
        lengths = [len(answer if system == 'transformers' else answer.texts[0]) for answer in theirs]
        if lengths != [len(row) for row in rows]:
            raise SystemExit(f'{system} wrote answers of other lengths than were asked for')
        if system not in ('seqjax', 'transformers'):
            np.testing.assert_allclose([one.score for one in theirs], [one.score for one in mine], rtol=1e-4)
            same[system] = sum(np.array_equal(one.texts[0], two.texts[0]) for one, two in zip(theirs, mine))
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    strings, numbers = lambda text: text.split(','), lambda text: [int(number) for number in text.split(',')]
    parser.add_argument('--source', default='generated', help='file:PATH of sentences, one a line, or generated')
    parser.add_argument('--sentences', type=int, default=1000, help='at most so many')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--batch', type=numbers, default=[16, 32, 64, 128])
    parser.add_argument('--beam', type=int, default=5)
    parser.add_argument('--vocabulary', type=int, default=8000)
    parser.add_argument('--width', type=int, default=256)
    parser.add_argument('--layers', type=int, default=2, help='of the encoder and of the decoder of transformers')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--clock', choices=CLOCKS, default='wall', help='processor: for a machine that does other work too')
    parser.add_argument('--against', type=strings, default=['transformers', 'prefix', 'decoder', 'whole'])
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])  # XLA has a thread for every core it may use
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)

    rows = read_rows(options.source, options.sentences, options.vocabulary)
    model, params = seqjax_model(options.vocabulary, options.width)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(params))
    peer = marian(options.vocabulary, options.width, options.layers, parameters)
    ours = {'seqjax': model, 'prefix': Prefix(model), 'decoder': DecoderAgain(model), 'whole': Whole(model)}
    clock = CLOCKS[options.clock]
    runs = {system: seqjax_run(mine, params, options.beam) for system, mine in ours.items()}
    runs['transformers'] = transformers_run(peer, options.beam)
    runs = {system: runs[system] for system in ('seqjax', *options.against)}
    report = dict(jax=jax.__version__, torch=torch.__version__, transformers=transformers.__version__,
                  threads=(torch.get_num_threads(), len(os.sched_getaffinity(0))), load_before=os.getloadavg()[0],
                  parameters=dict(seqjax=parameters, transformers=count(peer)), sentences=len(rows),
                  tokens=sum(map(len, rows)), beam=options.beam, clock=options.clock)

    batches, compiling = {}, {}
    for system, run in runs.items():  # what reads the prefix again does so with the batches of seqjax
        batches[system], compiling[system] = best_batch(clock, run, rows, [batches['seqjax']] if batches and system in ours
                                                        else options.batch)
    times, answers = {system: [] for system in runs}, {}
    for _ in range(options.rounds):
        for system, run in runs.items():
            seconds, answers[system] = timed(clock, run, rows, batches[system])
            times[system].append(seconds)
    medians = {system: statistics.median(taken) for system, taken in times.items()}
    report.update(batch=batches, compile_seconds={system: round(compiling[system], 1) for system in runs if system in ours},
                  sentences_per_second={system: round(len(rows) / seconds, 1) for system, seconds in medians.items()},
                  slowest_to_fastest={system: round(max(taken) / min(taken), 2) for system, taken in times.items()},
                  same_answers=compare(rows, answers), load_after=os.getloadavg()[0],
                  **{f'times_{system}': round(seconds / medians['seqjax'], 2) for system, seconds in medians.items()
                     if system != 'seqjax'})
    print(json.dumps(report, indent=1))


if __name__ == '__main__':
    main()
