"""Generation without a memory: for every new token the model reads its whole context again."""

import functools

import jax
import numpy as np


def generate(model, params, prompts, *, key, max_new_tokens, sampler, end=None):
    """What `decode.search` must return of a `decode.Sample`.

    A prompt is read from its last `context_length` tokens. When a new token does not fit any more, the context becomes
    the last half of a context of the text so far, that token included.
    """
    room = model.context_length or max(map(len, prompts)) + max_new_tokens
    rows = []
    for row, prompt in enumerate(prompts):
        text, window = list(prompt), list(prompt)[-room:]
        for n in range(max_new_tokens):
            if len(window) > room:
                window = text[-max(1, room // 2):]
            padded = np.zeros((1, room), np.int32)
            padded[0, :len(window)] = window
            logits = _logits(model, params, padded)[0, len(window) - 1]
            token = int(_draw(sampler, jax.random.fold_in(jax.random.fold_in(key, row), n), logits))
            text.append(token)
            window.append(token)
            if token == end:
                break
        rows.append(np.array(text[len(prompt):]))
    return rows


@functools.partial(jax.jit, static_argnums=0)
def _logits(model, params, tokens):
    return model.apply({'params': params}, tokens)


@functools.partial(jax.jit, static_argnums=0)
def _draw(sampler, key, logits):
    return sampler(key, logits)
