"""A character LSTM."""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='lstm')
    config.data.update(batch_size=16, sequence_length=64)
    config.model.update(depth=1, width=256, dropout=0.0)
    config.train.update(steps=1600, eval_every=400, eval_batches=120, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=4e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            weight_decay=0.0, clip_norm=1.0)
    return config
