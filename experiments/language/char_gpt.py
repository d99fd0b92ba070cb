r"""A small character GPT at nanoGPT's CPU sizes: 4 layers, 4 heads, width 128, block 64, batch 12, 2,000 steps.

What it shows: the smallest Transformer recipe that people know by heart, so that its number can be compared.

    python launch.py --config=experiments/language/char_gpt.py --workdir=runs/char_gpt \
        --config.data.source=file:PATH/tiny_shakespeare/input.txt

Measured with seed 0 on one of 2 CPU cores, the other doing other work (Python 3.11, jax 0.10.2), held-out loss in nats per character at
step 2,000, over all of the last 10 % of the text:

| data | loss | minutes |
|---|---|---|
| tiny Shakespeare (nanoGPT's README states 1.88) | 1.771 | 2.9 |
| the source of Python 3.11's standard library (default) | 1.631 | 3.8 |

On 2 cores of another CPU (AMD EPYC, Zen 5), which rounds sums otherwise: 1.766 in 1.1 minutes, and 1.636 in 1.6.

Of nanoGPT's settings the learning rate is changed: 3e-3, falling to a tenth, instead of 1e-3. With 1e-3 an earlier
version had 1.889 on Shakespeare (--config.optimizer.learning_rate=1e-3); a model this small, trained this briefly, can take more.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='gpt')
    config.data.update(batch_size=12, sequence_length=64)
    config.model.update(depth=4, heads=4, width=128, dropout=0.0)
    config.train.update(steps=2000, eval_every=250, save_every=250)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, clip_norm=1.0)
    return config
