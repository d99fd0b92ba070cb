r"""A string of 30 letters backwards, with attention and without.

What it shows: the bottleneck. Without attention all 30 letters have to go through one state of 256 numbers; with attention the decoder
looks each of them up.

    python launch.py --config=experiments/translation/reverse.py --workdir=runs/reverse       # both, and comparison.png, by_length.png

Data: random strings of 1 to 30 letters; all of the 1,000 that are tested have 30.

Measured with seed 0 (Python 3.11, jax 0.10.2) on one of 2 CPU cores that did other work too, on 1,000 strings of 30 letters:

| context | exact match | right letters | minutes |
|---|---|---|---|
| attention | 1.000 | 1.000 | 12.4 |
| mapped | 0.000 | 0.662 | 6.8 |

With 50,000 training strings in the place of 200,000 one of the 1,000 was wrong, with attention: it had one letter too few, of four that
are the same and next to each other.
"""

from seqjax import config as configs

VARIANTS = ('attention', 'mapped')


def get_config(variant='attention'):
    config = configs.defaults(model='seq2seq', task='translation', source='reverse')
    config.data.update(sequence_length=30, batch_size=64, num_buckets=3)
    config.model.update(cell='lstm', width=128, embedding=64, bidirectional=True, context=variant)
    config.train.update(steps=3000, eval_every=750, save_every=1500)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            clip_norm=1.0)
    return config
