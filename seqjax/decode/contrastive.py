"""Contrastive search: of the likeliest tokens, one whose hidden state is unlike those of the text before it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from seqjax.decode.generate import cut, is_end, last_tokens, padded_prompts, renew_rows, tokens_from
from seqjax.decode.hypotheses import Hypotheses, log_prob_of
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Contrastive:
    """Contrastive search: continues every prompt, always in the same way.

        x_t = argmax over the k likeliest tokens v of (1 - alpha) p(v | x_<t) - alpha max_{j < t} cos(h_v, h_{x_j})

    (Su et al. 2022, equation 5.) h_v is the last hidden state when v is read after x_<t. k is top_k. alpha is penalty_alpha, the degeneration penalty: 0
    is greedy, and 1 asks for nothing but novelty. The window moves over long texts as that of `Sample` does. A token keeps
    the h that it had when it was read first; tokens of a prompt that the window does not reach have none.

    A model takes part by `context_length`, `initial_state`, `extend_hidden(state, tokens, lengths)` -> (state, h [B, T, D])
    and `score(h)` -> logits [B, T, V]. The leaves of its state have B rows.
    """

    top_k: int = 5
    penalty_alpha: float = 0.6

    def __post_init__(self):
        if not 0 <= self.penalty_alpha <= 1:
            raise FieldError('penalty_alpha', self.penalty_alpha, 'must be at least 0 and at most 1 (0 is greedy)')
        if self.top_k < 1:
            raise FieldError('top_k', self.top_k, 'must be at least 1, as 5')

    def write(self, decoder, prompts, *, max_new_tokens, key=None, report=None) -> list[Hypotheses]:
        """One hypothesis for every prompt, its score the log P under the model."""
        if not hasattr(decoder.model, 'extend_hidden'):
            raise FieldError('model', type(decoder.model).__name__,
                             'has no extend_hidden, which contrastive search compares tokens by')
        padded, lengths = padded_prompts(prompts, max_new_tokens)
        return cut(*_search(decoder.model, max_new_tokens, self.top_k, decoder.end, decoder.params, padded, lengths,
                            jnp.float32(self.penalty_alpha)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _search(model, max_new_tokens, k, end, params, prompts, lengths, alpha):
    """(new tokens [B, max_new_tokens], how many of them count [B], their log P [B])."""
    B, P = prompts.shape
    total = P + max_new_tokens
    context = min(model.context_length or total, total)
    rows, apply = jnp.arange(B), functools.partial(model.apply, {'params': params})

    def read(text, lengths, window):
        """(state, h [B, window, D], how many steps of it count) after the last `window` of the first lengths[b] tokens."""
        tokens, keep = last_tokens(text, lengths, window)
        state, h = apply(model.initial_state(B, context), tokens, keep, method='extend_hidden')
        return state, h, keep

    def make_room(made, text, state, used):
        """Where the cache is full its row keeps so many tokens that they are half a context with the next one."""
        def reread():
            state, _, used = read(text, lengths + made, max(1, context // 2) - 1)
            return state, used

        return renew_rows(used >= context, reread, (state, used))

    def advance(carry):
        n, text, made, sums, used, state, logits, past, known, running = carry
        if total > context:
            state, used = make_room(made, text, state, used)
        p, candidates = jax.lax.top_k(jax.nn.softmax(logits.astype(jnp.float32)), min(k, logits.shape[-1]))  # [B, k]
        forks = jax.tree.map(lambda x: jnp.repeat(x, candidates.shape[1], axis=0), state)  # [B k, ...]
        forks, h = apply(forks, candidates.reshape(-1, 1), method='extend_hidden')
        h = h.reshape(*candidates.shape, -1)  # [B, k, D]
        cosines = jnp.einsum('bkd,bsd->bks', _unit(h), past)
        likeness = jnp.where(jnp.arange(past.shape[1]) < known[:, None, None], cosines, -jnp.inf).max(axis=-1)  # [B, k]
        best = jnp.argmax((1 - alpha) * p - alpha * likeness, axis=-1)  # [B]
        tokens, h = candidates[rows, best], h[rows, best]
        sums += jnp.where(running, log_prob_of(tokens, logits), 0)
        state = jax.tree.map(lambda x: x[rows * candidates.shape[1] + best], forks)
        logits = apply(h[:, None], method='score')[:, 0]
        text = text.at[rows, jnp.where(running, lengths + made, total)].set(tokens, mode='drop')
        past = past.at[rows, known].set(_unit(h))
        made += running.astype(jnp.int32)
        running = running & ~is_end(tokens, end)
        return n + 1, text, made, sums, used + 1, state, logits, past, known + 1, running

    def unfinished(carry):
        n, *_, running = carry
        return (n < max_new_tokens) & running.any()

    text = jnp.concatenate([prompts, jnp.zeros((B, max_new_tokens), jnp.int32)], axis=1)  # [B, P + new]
    state, h, used = read(text, lengths, min(context, P))
    logits = apply(h[rows, used - 1][:, None], method='score')[:, 0]
    past = jnp.pad(_unit(h), ((0, 0), (0, max_new_tokens), (0, 0)))  # [B, S, D], of which row b knows the first known[b]
    start = (jnp.int32(0), text, jnp.zeros_like(lengths), jnp.zeros(B), used, state, logits, past, used, jnp.ones(B, bool))
    _, text, made, sums, *_ = jax.lax.while_loop(unfinished, advance, start)
    return tokens_from(text, lengths, max_new_tokens), made, sums


def _unit(h):
    """Vectors of length 1 with the direction of h [..., D]; a vector of zeros stays one."""
    h = h.astype(jnp.float32)
    return h / jnp.maximum(jnp.linalg.norm(h, axis=-1, keepdims=True), 1e-12)
