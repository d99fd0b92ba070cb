r"""Three ways to read a sequence: the same network at every step, another at every step, one with a memory.

What it shows: why recurrent networks were invented. All three predict the next character of Python's own source.

    per_step     p_t = f(x_t; W)                   few parameters; knows the present character only
    unshared     p_t = f(x_t; W_t)                 64 times the parameters; knows where it stands, and no more of the past
    recurrent    p_t, h_t = f(x_t, h_{t-1}; W)     few parameters; knows what came before, and takes rows of any length

    python launch.py --config=experiments/recurrence/receptive_ladder.py --workdir=runs/ladder      # all three, and comparison.png
    python launch.py --workdir=runs/ladder/recurrent --mode=generate --config.decode.prompt="def "

Measured with seed 0 on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2), held-out loss at step 1,000, over
122,880 characters of the last 10 % of the text:

| variant | nats per character | parameters | minutes |
|---|---|---|---|
| per_step | 2.409 | 41,184 | 0.4 |
| unshared | 2.453 | 2,635,776 | 1.7 |
| recurrent | 1.912 | 156,256 | 1.2 |

Weights for every step of their own do not help: where a window starts says nothing about the text, and each of the 64
networks sees a 64th of the characters.
"""

from seqjax import config as configs

VARIANTS = ('per_step', 'unshared', 'recurrent')


def get_config(variant='recurrent'):
    config = configs.defaults(model=variant)
    config.data.update(batch_size=32, sequence_length=64)
    config.model.update(width=128, depth=1)
    config.train.update(steps=1000, eval_every=100, eval_batches=60, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            clip_norm=1.0)
    return config
