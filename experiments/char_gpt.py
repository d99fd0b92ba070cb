"""A small character GPT, at nanoGPT's CPU settings."""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='gpt')
    config.data.update(batch_size=12, sequence_length=64)
    config.model.update(depth=4, heads=4, width=128, dropout=0.0)
    config.train.update(steps=2000, eval_every=250, save_every=250)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.1,
                            b2=0.99, weight_decay=0.1, clip_norm=1.0)
    return config
