r"""A label for every step: a bidirectional LSTM, with and without a random field over its labels.

    python launch.py --config=experiments/tagging.py --workdir=runs/tagging
"""

from seqjax import config as configs

VARIANTS = ('softmax', 'crf')


def get_config(variant='softmax'):
    config = configs.defaults(model='reader')
    config.task = 'tagging'
    config.data.update(source='python_tokens', tokenizer='char', vocabulary=20000, batching='pack', batch_size=8)
    config.model.update(encoder='lstm', width=150, depth=1, bidirectional=True, embedding=100, dropout=0.4, crf=variant == 'crf')
    config.train.update(steps=1200, eval_every=300, save_every=600)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
