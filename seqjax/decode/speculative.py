"""Speculative sampling: a small model drafts some tokens, and the large one reads all of them at once."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from seqjax.decode.decoder import LanguageModelDecoder
from seqjax.decode.generate import cut, is_end, last_tokens, padded_prompts, renew_rows, tokens_from
from seqjax.decode.hypotheses import Hypotheses, log_prob_of
from seqjax.decode.sampling import Sample
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True, eq=False)
class Speculative:
    """Speculative sampling: texts distributed as those that `sample` draws from the model, whatever the draft is, and greedy
    ones are the same.

    The draft only decides how many tokens a reading of the model yields, from 1 to num_draft_tokens + 1; `accept` says how. Reading
    several tokens at once rounds otherwise than one by one, so greedy texts can differ where two tokens are equal but for that.

    Args:
        draft_model: the `LanguageModelDecoder` of a smaller model. The models share their tokens, and can take some back: `rewinds`,
            and `rewind(state, position [B])`. num_draft_tokens: drafted at a time. sample: how tokens are drawn.
    """

    draft_model: LanguageModelDecoder
    num_draft_tokens: int = 4
    sample: Sample = Sample()

    def __post_init__(self):
        if not getattr(self.draft_model.model, 'rewinds', False):
            raise _cannot('draft_model', self.draft_model.model)
        if self.num_draft_tokens < 1:
            raise FieldError('num_draft_tokens', self.num_draft_tokens, 'must be at least 1')
        most = max(1, (self.draft_model.model.context_length or 2 * self.num_draft_tokens) // 2)
        if self.num_draft_tokens > most:
            raise FieldError('num_draft_tokens', self.num_draft_tokens, f'must be at most {most}, half of what the draft can look at')

    @property
    def draws(self) -> bool:
        return self.sample.draws

    def write(self, decoder, prompts, *, max_new_tokens, key=None, report=None) -> list[Hypotheses]:
        """One hypothesis for every prompt. report: told {'accepted': the share of the drafted tokens that was}."""
        model, draft = decoder.model, self.draft_model.model
        if not getattr(model, 'rewinds', False):
            raise _cannot('model', model)
        if model.vocabulary != draft.vocabulary:
            raise FieldError('draft_model', type(draft).__name__, f'has {draft.vocabulary} tokens, and the model has '
                             f'{model.vocabulary}; they must have the same')
        padded, lengths = padded_prompts(prompts, max_new_tokens)
        *written, accepted, drafted = _continue(
            model, draft, max_new_tokens, self.num_draft_tokens, self.sample, decoder.end, decoder.params, self.draft_model.params, padded,
            lengths, jax.random.key(0) if key is None else key)
        if report is not None:
            report(dict(accepted=int(accepted) / int(drafted)))
        return cut(*written)


def _cannot(name, model):
    return FieldError(name, type(model).__name__, 'cannot take back tokens that it has read; speculative sampling is for '
                      "decoder-only Transformers with attention='softmax'")


def accept(key, drafted, q, p):
    """(tokens [M + 1], how many of the M drafted ones are accepted): the first so many, and one more.

        drafted x_m ~ q_m is accepted with probability min(1, p_m(x_m) / q_m(x_m)), if those before it are;
        in the place of the first that is not, one is drawn from max(p_m - q_m, 0), normalised; after all of them, from p_M

    (Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.) So each is distributed as p. drafted: [M]; q: [M, V] and
    p: [M + 1, V], probabilities.
    """
    M, (threshold_key, rest_key) = len(drafted), jax.random.split(key)
    of_drafted = lambda x: jnp.take_along_axis(x, drafted[:, None], axis=1)[:, 0]  # [M]
    taken = jax.random.uniform(threshold_key, (M,)) * of_drafted(q) < of_drafted(p[:M])
    accepted = jnp.cumprod(taken.astype(jnp.int32)).sum()
    rest = jnp.maximum(p - jnp.pad(q, ((0, 1), (0, 0))), 0)[accepted]  # [V]
    rest = jnp.where(rest.sum() > 0, rest, p[accepted])  # p = q but for rounding, and that has refused a token
    last = jax.random.categorical(rest_key, jnp.log(rest)).astype(jnp.int32)
    return jnp.pad(drafted, (0, 1)).at[accepted].set(last), accepted


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4, 5))
def _continue(model, draft, max_new_tokens, M, sampler, end, params, draft_params, prompts, lengths, key):
    """(new tokens [B, max_new_tokens], how many of them count [B], their log P [B], drafted tokens that were accepted, and all that could be).

    The last token of a text is read by neither model before the next round. `before` [B]: tokens in a model's window before it;
    the model has read them all, and the draft all but `behind` [B], which is 1 after a round that has accepted everything.
    """
    B, P = prompts.shape
    total = P + max_new_tokens
    rows = jnp.arange(B)
    context, draft_context = (min(given.context_length or total, total) for given in (model, draft))
    extend = functools.partial(model.apply, {'params': params}, method='extend')
    extend_draft = functools.partial(draft.apply, {'params': draft_params}, method='extend')
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)

    def read(extend, given, slots, text, lengths, window):
        """(state, before) where a window, whose last token is not read yet, ends with the text."""
        tokens, before = last_tokens(text, lengths - 1, window - 1)
        return extend(given.initial_state(B, slots), tokens, before)[0], before

    def make_room(full, extend, given, slots, text, lengths, state, before):
        """Where the cache is full its row is cut to half a context and read again."""
        return renew_rows(full, lambda: read(extend, given, slots, text, lengths, max(1, slots // 2)), (state, before))

    def choose(keys, logits):
        return jax.vmap(sampler)(keys, logits), jax.vmap(sampler.probabilities)(logits)  # [B], [B, V]

    def write_draft(keys, text, lengths, state, before, behind):
        """(state, M tokens that go on with the text [M, B], their q [M, B, V])."""
        unread = tokens_from(text, lengths - 1 - behind, 2)
        state, logits = extend_draft(draft.rewind(state, before - behind), unread, behind + 1)
        tokens, q = choose(keys[0], logits[rows, behind])

        def step(carry, keys):
            state, tokens = carry
            state, logits = extend_draft(state, tokens[:, None])
            tokens, q = choose(keys, logits[:, 0])
            return (state, tokens), (tokens, q)

        (state, _), more = jax.lax.scan(step, (state, tokens), keys[1:])
        return state, *jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), (tokens, q), more)

    def advance(carry):
        n, text, lengths, sums, left, (state, before), (draft_state, draft_before), behind, running, accepted, drafted = carry
        round_keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, n), M + 1), out_axes=1)(keys)  # [M + 1, B]
        if total > context:
            state, before = make_room(running & (before >= context), extend, model, context, text, lengths, state, before)
        room = jnp.minimum(left, context - before)  # so many tokens can be accepted or drawn before the window moves
        useful = jnp.minimum(room, M)
        if total > draft_context:
            full = running & (draft_before + useful > draft_context)
            draft_state, draft_before = make_room(full, extend_draft, draft, draft_context, text, lengths, draft_state,
                                                  draft_before)
            behind = jnp.where(full, 0, behind)

        draft_state, ahead, q = write_draft(round_keys[:M], text, lengths, draft_state, draft_before, behind)
        # What lies past the cache is dropped, and what is then said of it is past the room too.
        state, logits = extend(model.rewind(state, before), jnp.concatenate([tokens_from(text, lengths - 1, 1), ahead.T], axis=1))
        p = jax.vmap(jax.vmap(sampler.probabilities))(logits)  # [B, M + 1, V]
        tokens, kept = jax.vmap(accept)(round_keys[M], ahead.T, q.swapaxes(0, 1), p)  # [B, M + 1], [B]

        new = jnp.where(running, jnp.minimum(kept + 1, room), 0)
        accepted += jnp.where(running, jnp.minimum(kept, useful), 0).sum()
        drafted += jnp.where(running, useful, 0).sum()
        if end is not None:
            ends = is_end(tokens, end) & (jnp.arange(M + 1) < new[:, None])
            new = jnp.where(ends.any(axis=1), jnp.argmax(ends, axis=1).astype(jnp.int32) + 1, new)
            running &= ~ends.any(axis=1)
        places = jnp.where(jnp.arange(M + 1) < new[:, None], lengths[:, None] + jnp.arange(M + 1), total)
        text = text.at[rows[:, None], places].set(tokens, mode='drop')
        gained = jnp.where(jnp.arange(M + 1) < new[:, None], log_prob_of(tokens, logits), 0).sum(axis=1)
        left = left - new
        return (n + 1, text, lengths + new, sums + gained, left, (state, before + new), (draft_state, draft_before + new),
                (new > M).astype(jnp.int32), running & (left > 0), accepted, drafted)

    def unfinished(carry):
        *_, running, accepted, drafted = carry
        return running.any()

    text = jnp.concatenate([prompts, jnp.zeros((B, max_new_tokens), jnp.int32)], axis=1)  # [B, P + new]
    first = (read(extend, model, context, text, lengths, min(context, P)),
             read(extend_draft, draft, draft_context, text, lengths, min(draft_context, P)))
    start = (jnp.int32(0), text, lengths, jnp.zeros(B), jnp.full(B, max_new_tokens, jnp.int32), *first, jnp.zeros(B, jnp.int32),
             jnp.ones(B, bool), jnp.int32(0), jnp.int32(0))
    _, text, grown, sums, *_, accepted, drafted = jax.lax.while_loop(unfinished, advance, start)
    return tokens_from(text, lengths, max_new_tokens), grown - lengths, sums, accepted, drafted
