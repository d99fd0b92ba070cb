"""A random language model without parameters: what comes next is looked up under a number that the whole prefix gives.

A row is told apart by a seed. `step` is the model for the searches, `log_probs` and `weights` the same for one prefix.
"""

import jax
import jax.numpy as jnp
import numpy as np

M, V, S, END = 4099, 5, 4, 3
FIRST = 2
_RNG = np.random.default_rng(0)
LOGITS = (1.5 * _RNG.standard_normal((M, V))).astype(np.float32)
LOOKS = (2 * _RNG.standard_normal((M, S))).astype(np.float32)


def begin(seeds):
    """(state, first tokens) of rows with these seeds. State: (number of the prefix, weights of the last step, length)."""
    seeds = jnp.asarray(seeds, jnp.int32)
    return (seeds, jnp.zeros((len(seeds), S)), source_length(seeds)), jnp.full(len(seeds), FIRST)


def source_length(seed):
    return 1 + seed % S


def step(state, tokens):
    number, _, lengths = state
    number = _next(number, tokens)
    looks = jnp.where(jnp.arange(S) < lengths[:, None], jnp.asarray(LOOKS)[number], -jnp.inf)
    return (number, jax.nn.softmax(looks), lengths), jnp.asarray(LOGITS)[number]


def attention(state):
    return state[1]


def log_probs(seed, prefix):
    """[V] in float64, after the tokens of prefix."""
    logits = np.float64(LOGITS[_number(seed, prefix)])
    return logits - np.log(np.exp(logits).sum())


def weights(seed, prefix):
    """[S of the row], where the step looks that writes what comes after prefix."""
    looks = np.exp(np.float64(LOOKS[_number(seed, prefix), :source_length(seed)]))
    return looks / looks.sum()


def _number(seed, prefix):
    for token in (FIRST, *prefix):
        seed = _next(seed, token)
    return seed


def _next(number, token):
    return (31 * number + 7 * token + 3) % M
