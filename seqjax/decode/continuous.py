"""Continues many prompts with few rows: a row that is done begins with the next prompt at once (Yu et al. 2022, section 3.1).

The texts are those of `Sample`. One compiled loop turns as long as there is work, and every turn

    gives prompts that wait to rows that are free, and pages to rows that have grown,
    lets one row read the next chunk of its prompt (Agrawal et al. 2023, section 4.2), so that the others need not wait for long,
    and lets every row that has read its text write a token.

A Transformer's keys and values lie in pages (Kwon et al. 2023): a store of `pages` pages of `page_size` steps, from which a row is
given as many as it needs now and not as many as the longest text may need once. When there are none left, the row whose
prompt came last gives its own back and waits: its text is kept, and read again. Recurrent states have one size, and need none.

Shapes: N prompts, S tokens of the longest text, B rows, P pages of a row, C tokens of a chunk, V vocabulary.
"""

from collections.abc import Callable, Sequence
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.decode.generate import is_end, padded_prompts, renew_rows
from seqjax.decode.hypotheses import Hypotheses, log_prob_of
from seqjax.errors import FieldError

TURNS = 64  # of the compiled loop, after which it is said how far it has come


class Facts(NamedTuple):
    """What it took: turns of the loop, chunks that were read, rows that had to give their pages back, and the mean share of the
    rows that wrote in a turn."""

    turns: int
    chunks: int
    evictions: int
    busy: float


class Sizes(NamedTuple):
    """How much is done at a time. context: steps that a row can look at; pages: 0 for a model that needs none."""

    rows: int
    chunk: int
    context: int
    pages: int
    page_size: int


class Asked(NamedTuple):
    """What does not change: lengths of the prompts [N], how many tokens each is continued by [N], a key."""

    lengths: jax.Array
    new: jax.Array
    key: jax.Array


class Queue(NamedTuple):
    """All that changes. Row b works on text work[b], N where it is free, and has read all before token read[b] of it."""

    text: jax.Array      # [N, S], prompts, and what was written after them
    grown: jax.Array     # [N], the tokens of a text now
    log_probs: jax.Array  # [N], log P of what was written
    first: jax.Array     # [N], the first one that is looked at
    waiting: jax.Array   # [N], whether it is neither done nor in a row
    work: jax.Array      # [B]
    read: jax.Array      # [B]
    table: jax.Array     # [B, P], the pages of a row, one after another; as many as there are where it has none
    memory: Any          # caches in pages, or the state of a model that has none
    turns: jax.Array
    chunks: jax.Array
    evictions: jax.Array
    written: jax.Array

    def of_row(self, of_text):
        """[B]: what is said of texts [N], of those that rows work on; 0 of a free one."""
        return of_text.at[self.work].get(mode='fill', fill_value=0)

    @property
    def busy(self):
        return self.work < len(self.text)

    @property
    def unread(self):
        """[B]: the tokens of its text that a row has not read."""
        return jnp.where(self.busy, self.of_row(self.grown) - self.read, 0)

    @property
    def position(self):
        """[B]: the tokens that a row remembers."""
        return jnp.where(self.busy, self.read - self.of_row(self.first), 0)


def serve(decoder: Any, prompts: Sequence, sampler: Any, *, key: jax.Array | None = None, max_new_tokens: Any, rows: int = 8,
          chunk: int = 64, page_size: int = 16, pages: int = 0,
          seen: Callable[[int], None] = lambda done: None) -> tuple[list[Hypotheses], Facts]:
    """Continuous batching: ([`Hypotheses` of every prompt], Facts); the texts are those of `search`, whatever the other rows do.

    max_new_tokens: a number, or one for every prompt. sampler: a `Sample`. rows: texts that are written together. chunk: tokens
    of a prompt that are read in a turn. pages: that rows share; 0: as many as rows of the greatest length need, so that none
    ever waits for one. seen: told now and then how many texts are done.
    """
    model, params, end = decoder.model, decoder.params, decoder.end
    key = jax.random.key(0) if key is None else key
    most = np.broadcast_to(np.asarray(max_new_tokens, np.int32), len(prompts))
    for field, value in (('max_new_tokens', most.min(initial=1)), ('rows', rows), ('chunk', chunk), ('page_size', page_size)):
        if value < 1:
            raise FieldError(field, int(value), 'must be at least 1')
    padded, lengths = padded_prompts(prompts, 1)
    sizes = _sizes(model, lengths, most, min(rows, len(prompts)), min(chunk, padded.shape[1]), page_size, pages)
    room = (1 << (len(prompts) - 1).bit_length()) - len(prompts)  # powers of two, so that few shapes are compiled
    asked = Asked(jnp.asarray(np.pad(lengths, (0, room))), jnp.asarray(np.pad(most, (0, room))), key)
    text = np.pad(padded, [(0, room), (0, int(most.max()))])
    queue, left = _begin(model, sizes, text, asked.lengths, len(prompts)), len(prompts)
    while left:
        queue, left = _turn(model, sizes, sampler, end, params, asked, queue)
        seen(len(prompts) - int(left))
    facts = Facts(int(queue.turns), int(queue.chunks), int(queue.evictions), float(queue.written / (queue.turns * sizes.rows)))
    text, grown, sums = map(np.asarray, (queue.text, queue.grown, queue.log_probs))
    return [Hypotheses(row[None, length:stop], np.array([stop - length]), sums[[n]], sums[[n]])
            for n, (row, length, stop) in enumerate(zip(text, lengths, grown))], facts


def _sizes(model, lengths, most, rows, chunk, page_size, pages):
    longest = int((lengths + most).max())
    context = min(model.context_length or longest, longest)
    if not getattr(model, 'rewinds', False):
        return Sizes(rows, chunk, context, 0, 1)
    of_row = -(-context // page_size)
    if 0 < pages < of_row:
        raise FieldError('pages', pages, f'one text may need {of_row} pages of {page_size} tokens; have at least as many, or 0 '
                         'for enough')
    return Sizes(rows, chunk, context, min(pages, rows * of_row) or rows * of_row, page_size)


def _begin(model, sizes, text, lengths, prompts):
    N, B = len(text), sizes.rows
    memory, table = model.initial_state(B, sizes.context) if not sizes.pages else None, jnp.zeros((B, 0), jnp.int32)
    if sizes.pages:
        memory, _, table = model.paged_state(B, sizes.context, sizes.pages, sizes.page_size)
    queue = Queue(text, lengths, jnp.zeros(N), lengths - jnp.minimum(lengths, sizes.context), jnp.arange(N) < prompts, jnp.full(B, N, jnp.int32),
                  jnp.zeros(B, jnp.int32), table, memory, *(jnp.int32(0) for _ in range(4)))
    return jax.tree.map(jnp.copy, queue)  # each has memory of its own, which the loop writes to


# -------------------------------------------------------------------------------------------------------- the compiled loop

@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3), donate_argnums=6)
def _turn(model, sizes, sampler, end, params, asked, queue):
    """(the Queue after TURNS turns, or when all is done, how many texts are not done)."""
    extend = functools.partial(model.apply, {'params': params}, method='extend')
    stop = queue.turns + TURNS
    left = lambda queue: queue.waiting.sum() + queue.busy.sum()

    def advance(queue):
        queue = _give_rows(_make_room(queue, sizes, model), sizes, model)
        chosen = queue.unread > 1  # of them one row is the reader, that with the earliest text
        reader = jnp.argmin(jnp.where(chosen, queue.work, len(queue.text)))
        reads = chosen & (jnp.arange(sizes.rows) == reader)
        steps = queue.unread == 1
        if sizes.pages:
            counts = jnp.where(reads, jnp.minimum(queue.unread, sizes.chunk), steps.astype(jnp.int32))
            queue, kept = _give_pages(queue, counts, sizes)
            reads, steps = reads & kept, steps & kept
        queue, after_chunk = _read_chunk(extend, queue, reads, reader, sizes)
        queue, logits = _step(extend, queue, steps, sizes)
        logits = jnp.where(reads[:, None], after_chunk, logits)
        return _write(queue, logits, (reads | steps) & (queue.unread == 0), asked, sizes, sampler, end)

    queue = jax.lax.while_loop(lambda queue: (queue.turns < stop) & (left(queue) > 0), advance, queue)
    return queue, left(queue)


def _make_room(queue, sizes, model):
    """A row that can look at no more tokens goes on with the last half of them, as `Sample` does."""
    full = (queue.unread > 0) & (queue.position >= sizes.context)
    start = queue.of_row(queue.grown) - max(1, sizes.context // 2)
    text = jnp.where(full, queue.work, len(queue.text))
    queue = queue._replace(first=queue.first.at[text].set(start, mode='drop'))
    return _anew(queue, full, sizes, model)


def _give_rows(queue, sizes, model):
    """Free rows begin with the texts that wait, the first ones first, as far as there are pages for what they have to read."""
    N, free = len(queue.text), ~queue.busy
    next_ones = jnp.nonzero(queue.waiting, size=sizes.rows, fill_value=N)[0].astype(jnp.int32)
    if sizes.pages:
        steps = (queue.grown - queue.first).at[next_ones].get(mode='fill', fill_value=0) + 1
        needed = -(-jnp.minimum(steps, sizes.context) // sizes.page_size)
        left = sizes.pages - (queue.table < sizes.pages).sum()
        next_ones = jnp.where(needed.cumsum() <= left, next_ones, N)
    place = jnp.where(free, free.cumsum() - 1, sizes.rows)  # of the text that a free row takes, among the next ones
    taken = next_ones.at[place].get(mode='fill', fill_value=N)
    queue = queue._replace(waiting=queue.waiting.at[taken].set(False, mode='drop'), work=jnp.where(taken < N, taken, queue.work))
    return _anew(queue, taken < N, sizes, model)


def _anew(queue, rows, sizes, model):
    """The same with rows [B] that have read nothing yet, and remember nothing."""
    memory = queue.memory
    if not sizes.pages:
        memory = renew_rows(rows, lambda: model.initial_state(sizes.rows, sizes.context), memory)
    return queue._replace(read=jnp.where(rows, queue.of_row(queue.first), queue.read), memory=memory,
                          table=jnp.where(rows[:, None], sizes.pages, queue.table))


def _give_pages(queue, counts, sizes):
    """(Queue, rows that stay [B]): those have the pages for the counts[b] tokens that they are about to read.

    In the order of their texts rows have what they need; the first one that cannot, and all after it, give back what they have.
    """
    (B, P), N = queue.table.shape, len(queue.text)
    needed = jnp.where(queue.busy, -(-(queue.position + counts) // sizes.page_size), 0)
    order = jnp.argsort(queue.work)
    stays = queue.busy & jnp.zeros(B, bool).at[order].set(needed[order].cumsum() <= sizes.pages)
    table = jnp.where(stays[:, None], queue.table, sizes.pages)
    has = (table < sizes.pages).sum(axis=1)[:, None]  # [B, 1]
    most = jnp.arange(min(P, -(-sizes.chunk // sizes.page_size) + 1))  # that a row can need at once
    wanted = stays[:, None] & (has + most < needed[:, None])  # [B, most]
    used = jnp.zeros(sizes.pages, bool).at[table].set(True, mode='drop')
    unused = jnp.nonzero(~used, size=wanted.size, fill_value=sizes.pages)[0].astype(jnp.int32)
    new = unused[jnp.maximum(wanted.ravel().cumsum().reshape(wanted.shape) - 1, 0)]
    table = table.at[jnp.arange(B)[:, None], jnp.where(wanted, has + most, P)].set(new, mode='drop')
    leaves = queue.busy & ~stays
    waiting = queue.waiting.at[jnp.where(leaves, queue.work, N)].set(True, mode='drop')
    return queue._replace(waiting=waiting, table=table, work=jnp.where(leaves, N, queue.work),
                          evictions=queue.evictions + leaves.sum()), stays


def _read_chunk(extend, queue, reads, reader, sizes):
    """(Queue in which the reader, if it reads, has read its next tokens, logits [V] after them)."""
    one = lambda x: jax.lax.dynamic_slice_in_dim(x, reader, 1)
    count = jnp.minimum(queue.unread[reader], sizes.chunk)

    def read(memory):
        tokens = queue.text.at[queue.work[reader], queue.read[reader] + jnp.arange(sizes.chunk)].get(mode='clip')[None]
        if sizes.pages:
            (memory, *_), logits = extend((memory, one(queue.position), one(queue.table)), tokens, count[None])
        else:
            state, logits = extend(jax.tree.map(one, memory), tokens, count[None])
            memory = jax.tree.map(lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, reader, 0), memory, state)
        return memory, logits[0, count - 1]

    memory, logits = jax.lax.cond(reads.any(), read, _nothing(read), queue.memory)
    return queue._replace(memory=memory, read=queue.read + jnp.where(reads, count, 0), chunks=queue.chunks + reads.sum()), logits


def _step(extend, queue, steps, sizes):
    """(Queue in which the rows of `steps` have read a token, logits [B, V] after it)."""
    def read(memory):
        tokens = queue.text.at[queue.work, queue.read].get(mode='clip')[:, None]
        state = (memory, queue.position, queue.table) if sizes.pages else memory
        state, logits = extend(state, tokens, steps.astype(jnp.int32))
        return state[0] if sizes.pages else state, logits[:, 0]

    memory, logits = jax.lax.cond(steps.any(), read, _nothing(read), queue.memory)
    return queue._replace(memory=memory, read=queue.read + steps.astype(jnp.int32)), logits


def _nothing(read):
    """What is done in the place of read(memory) -> (memory, logits)."""
    return lambda memory: (memory, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(read, memory)[1]))


def _write(queue, logits, ready, asked, sizes, sampler, end):
    """Every row that is ready writes a token; a row that is done is free."""
    N = len(queue.text)
    made = queue.of_row(queue.grown) - queue.of_row(asked.lengths)

    def draw(text, made, logits):
        return sampler(jax.random.fold_in(jax.random.fold_in(asked.key, text), made), logits)

    tokens = jax.vmap(draw)(queue.work, made, logits)
    done = ready & (is_end(tokens, end) | (made + 1 >= queue.of_row(asked.new)))
    text = jnp.where(ready, queue.work, N)
    return queue._replace(
        text=queue.text.at[text, queue.of_row(queue.grown)].set(tokens, mode='drop'),
        grown=queue.grown.at[text].add(1, mode='drop'),
        log_probs=queue.log_probs.at[text].add(log_prob_of(tokens, logits), mode='drop'), work=jnp.where(done, N, queue.work),
        table=jnp.where(done[:, None], sizes.pages, queue.table), turns=queue.turns + 1, written=queue.written + ready.sum())
