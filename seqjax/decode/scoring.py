"""What log P a model gives to sequences that are there already."""

import jax
import jax.numpy as jnp

from seqjax.decode.hypotheses import log_prob_of


def score(step, state, first, targets, lengths):
    """(sums of log P [B], log P of every token [B, T], 0 after lengths[b]) of targets [B, T], step by step.

    step, state, first: as of `decode.sample`, and so it also works where there is nothing but the step interface.
    """
    def read(state, pair):
        before, token = pair
        state, logits = step(state, before)
        return state, log_prob_of(token, logits)

    before = jnp.concatenate([first[:, None].astype(targets.dtype), targets[:, :-1]], axis=1)  # [B, T]
    _, log_probs = jax.lax.scan(read, state, (before.T, targets.T))  # [T, B]
    counted = jnp.arange(targets.shape[1]) < lengths[:, None]
    return _summed(log_probs.T, counted)


def score_pairs(model, params, batch):
    """The same of the targets of a batch of pairs, given their sources, by one teacher-forced call of an encoder-decoder.

    batch: inputs [B, S] with lengths [B], or images, targets [B, T], weights [B, T], where 0 is padding.
    """
    logits = model.apply({'params': params}, batch['inputs'], batch.get('lengths'), batch['targets'])
    return _summed(log_prob_of(batch['targets'], logits), batch['weights'] > 0)


def score_texts(model, params, tokens):
    """log P [B, T - 1] of every token of texts [B, T] but the first, under a language model."""
    return log_prob_of(tokens[:, 1:], model.apply({'params': params}, tokens)[:, :-1])


def _summed(log_probs, counted):
    log_probs = jnp.where(counted, log_probs, 0)
    return log_probs.sum(axis=-1), log_probs
