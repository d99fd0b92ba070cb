r"""Which language is a name from? A recurrent network that reads it letter by letter.

    python launch.py --config=experiments/language_id.py --workdir=runs/language_id
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader')
    config.task = 'classification'
    config.data.update(source='cldr', tokenizer='char', batch_size=64, shapes=3)
    config.model.update(encoder='gru', width=160, depth=1, bidirectional=True, embedding=48, pooling='max', dropout=0.3)
    config.train.update(steps=2500, eval_every=500, save_every=1250)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
