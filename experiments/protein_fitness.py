r"""One number for a protein: a recurrent network, a convolution and self-attention with as many parameters each.

    python launch.py --config=experiments/protein_fitness.py --workdir=runs/protein_fitness
"""

from seqjax import config as configs

VARIANTS = ('gru', 'conv', 'attention')


def get_config(variant='conv'):
    config = configs.defaults(model='reader')
    config.task = 'regression'
    config.parameters = 40_000
    config.data.update(source='peptides', tokenizer='char', batch_size=32, shapes=2)
    config.model.update(encoder=variant, depth=1 if variant == 'gru' else 2, bidirectional=True, pooling='attention')
    config.train.update(steps=800, eval_every=200, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
