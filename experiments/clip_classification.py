r"""Which digit moves through the clip? One answer after all frames.

    python launch.py --config=experiments/clip_classification.py --workdir=runs/clips
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader')
    config.task = 'classification'
    config.data.update(source='moving_digits', batch_size=32, shapes=2)
    config.model.update(encoder='gru', width=128, depth=1, bidirectional=True, embedding=128, pooling='attention', dropout=0.5)
    config.train.update(steps=1000, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
