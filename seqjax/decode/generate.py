"""Continuing text, token by token, in one compiled loop that knows no model.

A model takes part by three names:

    model.context_length                      how many tokens it can look at; None: any number
    model.initial_state(batch, max_length)    its memory before the first token
    model.extend(state, tokens, lengths)      reads tokens [B, T] and returns (state, logits [B, T, V])

A recurrent model's state is its hidden vectors, a Transformer's is its cache of keys and values. When a cache is full,
that row's context is cut to its last half and read again: memory stays bounded and most steps still cost one token.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from seqjax import ops
from seqjax.decode.hypotheses import Hypotheses, log_prob_of
from seqjax.decode.lengths import padded_length
from seqjax.errors import FieldError


def continue_prompts(sampler, decoder, prompts, *, key=None, max_new_tokens, report=None) -> list[Hypotheses]:
    """Continues every prompt as the sampler draws: one hypothesis each, its score the log P under the model.

    prompts: list of non-empty 1-D integer arrays, of any lengths. A text stops after an end token, which is kept.
    What a row becomes depends on the key, its own number and its own prompt, not on the rows beside it.
    """
    padded, lengths = padded_prompts(prompts, max_new_tokens)
    key = jax.random.key(0) if key is None else key
    return cut(*_continue(decoder.model, max_new_tokens, sampler, decoder.end, decoder.params, padded, lengths, key))


def padded_prompts(prompts, max_new_tokens):
    """(prompts [B, P], padded, lengths [B]); refuses what cannot be continued."""
    if max_new_tokens < 1:
        raise FieldError('max_new_tokens', max_new_tokens, 'must be at least 1')
    lengths = np.array([len(prompt) for prompt in prompts], np.int32)
    if not len(prompts) or not lengths.min():
        raise ValueError('every prompt needs at least one token to continue from')
    padded = np.zeros((len(prompts), padded_length(lengths.max())), np.int32)
    for row, prompt in zip(padded, prompts):
        row[:len(prompt)] = prompt
    return padded, lengths


def cut(tokens, made, log_probs) -> list[Hypotheses]:
    """Of every row of tokens [B, T] one hypothesis, its first made[b] tokens with that log P."""
    sums = np.asarray(log_probs)[:, None]
    return Hypotheses(np.asarray(tokens)[:, None], np.asarray(made)[:, None], sums, sums).rows()


def is_end(tokens, end):
    """Whether each of the tokens is an end: None, a token, or a tuple of them."""
    return jnp.isin(tokens, jnp.array(() if end is None else end, tokens.dtype))


def last_tokens(text, lengths, window):
    """(tokens [B, window], how many of them count [B]): the last `window` of the first lengths[b] tokens of every row.

    Of a window of 0 there is one column, of which nothing counts: models read no row without steps.
    """
    keep = jnp.minimum(lengths, window)
    return tokens_from(text, lengths - keep, max(window, 1)), keep


def tokens_from(text, first, count):
    """[B, count]: of every row the tokens from place first[b] on."""
    return jnp.take_along_axis(text, first[:, None] + jnp.arange(count), axis=1, mode='clip')


def renew_rows(rows, make, old):
    """Trees of arrays with B rows: those of make() where rows [B] is true, and those of `old` elsewhere; nothing is made for none."""
    return jax.lax.cond(rows.any(), lambda: ops.select_rows(rows, make(), old), lambda: old)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _continue(model, max_new_tokens, sampler, end, params, prompts, lengths, key):
    """(new tokens [B, max_new_tokens], how many of them count [B], their log P [B])."""
    B, P = prompts.shape
    total = P + max_new_tokens
    context = min(model.context_length or total, total)
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(jnp.arange(B))
    text = jnp.concatenate([prompts, jnp.zeros((B, max_new_tokens), jnp.int32)], axis=1)  # [B, P + new]

    def read(text, lengths, window):
        """State and next logits after the last `window` of the first `lengths[b]` tokens of every row."""
        tokens, keep = last_tokens(text, lengths, window)
        state, logits = model.apply({'params': params}, model.initial_state(B, context), tokens, keep, method='extend')
        return state, logits[jnp.arange(B), keep - 1], keep

    def choose(n, text, lengths, sums, logits, running):
        tokens = jax.vmap(lambda key, row: sampler(jax.random.fold_in(key, n), row))(keys, logits)  # [B]
        text = text.at[jnp.arange(B), jnp.where(running, lengths, total)].set(tokens, mode='drop')
        lengths, sums = lengths + running.astype(jnp.int32), sums + jnp.where(running, log_prob_of(tokens, logits), 0)
        return text, lengths, sums, tokens, running & ~is_end(tokens, end)

    def advance(carry):
        n, text, lengths, sums, used, state, logits, running = carry
        text, lengths, sums, tokens, running = choose(n, text, lengths, sums, logits, running)
        full = used >= context
        # A full row's step writes outside its cache and is dropped; what it returns is replaced below.
        state, logits = model.apply({'params': params}, state, tokens[:, None], method='extend')
        logits, used = logits[:, 0], used + 1
        if model.context_length is not None and total > context:
            reread = lambda: read(text, lengths, max(1, context // 2))
            state, logits, used = renew_rows(full, reread, (state, logits, used))
        return n + 1, text, lengths, sums, used, state, logits, running

    def unfinished(carry):
        n, *_, running = carry
        return (n < max_new_tokens - 1) & running.any()

    state, logits, used = read(text, lengths, min(context, P))
    start = (jnp.int32(0), text, lengths, jnp.zeros(B), used, state, logits, jnp.ones(B, bool))
    n, text, grown, sums, _, _, logits, running = jax.lax.while_loop(unfinished, advance, start)
    text, grown, sums, _, _ = choose(n, text, grown, sums, logits, running)  # the last token is not read again
    return tokens_from(text, lengths, max_new_tokens), grown - lengths, sums
