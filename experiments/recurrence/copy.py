r"""The copy task: which recurrent cells recall ten symbols after a hundred blanks.

What it shows: ten letters out of eight kinds, then T blanks, then a delimiter, at which the ten are to be written down again
(Arjovsky et al. 2016, section 5.1). The loss counts those ten only, so a network without memory has log 8 = 2.079 nats a
letter, whatever T; the paper, which counts the blanks too, states the same as 10 log(8) / (T + 20) a step.

    python launch.py --config=experiments/recurrence/copy.py --workdir=runs/copy              # all five, and comparison.png
    python launch.py --config=experiments/recurrence/copy.py:lru --workdir=runs/copy_lru --config.data.sequence_length=500

Data: generated, 1,000 rows held out; nothing is downloaded. Scores: not measured yet, beyond Elman's network, which was
still at log 8 after 1,250 steps.
"""

from seqjax import config as configs

VARIANTS = ('elman', 'lstm', 'gru', 'orthogonal', 'lru')


def get_config(variant='lstm'):
    config = configs.defaults(model='recurrent', source='copy')
    config.data.update(batch_size=32, sequence_length=100, held_out_rows=1000)
    config.model.update(cell=variant, width=128, depth=1, one_hot=True)
    config.train.update(steps=3000, eval_every=250, save_every=1000)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            clip_norm=1.0)
    return config
