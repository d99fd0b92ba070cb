r"""Positive or negative? A bidirectional LSTM that weighs its words by attention.

    python launch.py --config=experiments/sentiment.py --workdir=runs/sentiment
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader')
    config.task = 'classification'
    config.data.update(source='reviews', tokenizer='word', vocabulary=20000, lowercase=True, batch_size=32, shapes=4)
    config.model.update(encoder='lstm', width=128, depth=1, bidirectional=True, embedding=128, pooling='attention',
                        dropout=0.5, word_dropout=0.2)
    config.train.update(steps=1300, eval_every=325, save_every=650)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=5e-2, clip_norm=1.0)
    return config
