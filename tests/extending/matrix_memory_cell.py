"""A recurrent cell from outside: a matrix-valued memory with a learned time constant for every row of it.

The mLSTM of Beck et al. 2024 (section 2.3) without its normaliser, with sigmoid gates, one of each for every row, and with
keys and queries that are mapped from N to K by a matrix that they share:

    q, k = P^T q~, P^T k~                           q~, k~, v, i~, f~, o~ = W x + b
    C' = sigmoid(f~)^(1 / tau) C + sigmoid(i~) v k^T        C [N, K]
    h' = sigmoid(o~) tanh(C' q)

It has no recurrent matrix, weights of its own (P and tau), and a state of which one part is a matrix.

    python launch.py --config=tests/extending/matrix_memory_cell.py --workdir=runs/matrix_memory
    python launch.py --config=tests/extending/matrix_memory_cell.py --workdir=runs/matrix_memory --mode=xray
"""

import dataclasses

import jax
import jax.numpy as jnp

from seqjax import config as configs
from seqjax import ops


@ops.CELLS.register('matrix_memory')
@dataclasses.dataclass(frozen=True)
class MatrixMemory(ops.Cell):
    """See above. keys: K."""

    keys: int = 3

    gate_kinds = dict(q='identity', k='identity', v='identity', i='sigmoid', f='sigmoid', o='sigmoid')
    memory = ('C', 'f')

    def weights(self, D, N):
        weights = super().weights(D, N)
        del weights['recurrent_kernel']
        return {**weights, 'key_kernel': ops.Weight((N, self.keys), jax.nn.initializers.lecun_normal(), ('hidden', None)),
                'log_tau': ops.Weight((N,), jax.nn.initializers.uniform(2.0), ('hidden',))}

    def state(self, N):
        return dict(h=ops.part(N), C=ops.part(N, self.keys))

    def activations(self, weights, x, r, state, dot):
        q, k, v, i, f, o = x                              # [N, B] each
        f = jax.nn.sigmoid(f) ** jnp.exp(-weights['log_tau'])[:, None]
        return q, k, v, jax.nn.sigmoid(i), f, jax.nn.sigmoid(o)

    def update(self, weights, gates, state, dot):
        (q, k, v, i, f, o), (_, C) = gates, state
        keys = lambda z: jnp.einsum('nk,nb->kb', weights['key_kernel'], z)
        C = f[:, None] * C + (i * v)[:, None] * keys(k)   # [N, K, B]
        return o * jnp.tanh(jnp.einsum('nkb,kb->nb', C, keys(q))), C


def get_config():
    config = configs.defaults(model='recurrent')
    config.data.update(batch_size=8, sequence_length=16)
    config.model.update(cell='matrix_memory', width=12)
    config.train.update(steps=4, eval_every=2, eval_batches=2, save_every=4)
    config.optimizer.update(warmup_steps=1)
    return config
