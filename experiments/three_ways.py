r"""Three ways to read a sequence, side by side: recurrence, convolution and self-attention.

    python launch.py --config=experiments/three_ways.py --workdir=runs/three_ways
"""

from seqjax import config as configs

VARIANTS = ('gru', 'conv', 'attention')
STEPS = dict(gru=1000, conv=1000, attention=1000)


def get_config(variant='gru'):
    config = configs.defaults(model='reader')
    config.task = 'classification'
    config.parameters = 100_000
    config.data.update(source='reviews', tokenizer='word', vocabulary=1000, batch_size=32, batching='pad')
    config.model.update(encoder=variant, depth=2, bidirectional=True, embedding=64, pooling='mean')
    config.train.update(steps=STEPS[variant], eval_every=100, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=1e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            clip_norm=1.0)
    return config
