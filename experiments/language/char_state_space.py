r"""Mamba and RWKV at the size of char_gpt.py: networks without attention, one character after another.

What it shows: a selective state space (Gu & Dao 2023) and a mean of the past with falling weights (RWKV-4, Peng et al. 2023), on
the rows of char_gpt.py, for as many steps, with its optimizer. Mamba has 7 layers, which are about as many parameters as 4 of the
others; what decides how long a state remembers has no weight decay.

    python launch.py --config=experiments/language/char_state_space.py:mamba --workdir=runs/mamba \
        --config.data.source=file:PATH/tiny_shakespeare/input.txt
    python launch.py --workdir=runs/mamba --mode=generate --config.decode.prompt='ROMEO:'

Without a source they learn the source of Python's standard library, which was not measured.

Measured with seed 0 on 2 cores of an AMD EPYC (Zen 5; Python 3.11, jax 0.10.2), held-out loss in nats per character at step
2,000, over all of the last 10 % of tiny Shakespeare, and char_gpt.py on the same cores:

| variant | parameters | loss | minutes | tokens/s |
|---|---|---|---|---|
| mamba | 824,704 | 1.544 | 5.2 | 5,667 |
| rwkv | 874,752 | 1.544 | 1.5 | 21,540 |
| char_gpt | 804,096 | 1.766 | 1.1 | 30,354 |

Rows have 64 characters and start from an empty state, in training and in evaluation.
"""

from seqjax import config as configs

VARIANTS = ('mamba', 'rwkv')


def get_config(variant='mamba'):
    config = configs.defaults(model=variant)
    config.data.update(batch_size=12, sequence_length=64)
    config.model.update(**dict(mamba=dict(width=128, depth=7), rwkv=dict(width=128, depth=4))[variant])
    config.train.update(steps=2000, eval_every=250, save_every=250)
    # What decides how long a state remembers is not drawn towards 0.
    no_decay = '*bias,*scale,' + dict(mamba='*/A_log,*/D', rwkv='*_mix,*/decay,*/bonus')[variant]
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, no_decay=no_decay, clip_norm=1.0)
    return config
