r"""A Llama in the size of a toy: RMSNorm, rotary positions, SwiGLU and grouped queries, one character after another.

What it shows: the parts of Llama (Touvron et al. 2023) at the size of char_gpt.py, on the same rows and for half as many steps, with two
heads of keys for four of queries, and a feed-forward network that is narrower by what its gate costs.

    python launch.py --config=experiments/language/tiny_llama.py --workdir=runs/tiny_llama
    python launch.py --workdir=runs/tiny_llama --mode=generate --config.decode.prompt='class '

Data: the source of Python's standard library.

Measured with seed 0 on one of 2 CPU cores, the other doing other work (Python 3.11, jax 0.10.2): 1.832 nats per character over the first 40
batches of held-out text, 750,720 parameters, 1.5 minutes.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='llama')
    config.data.update(batch_size=12, sequence_length=64)
    config.model.update(width=128, depth=4, heads=4, kv_heads=2, feed_forward=344)
    config.train.update(steps=1000, eval_every=500, eval_batches=40, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, clip_norm=1.0)
    return config
