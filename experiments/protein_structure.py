r"""Helix, strand or coil? A label for every residue of a protein.

    python launch.py --config=experiments/protein_structure.py --workdir=runs/protein_structure
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader')
    config.task = 'tagging'
    config.data.update(source='peptides', tokenizer='char', batch_size=16, shapes=4, max_length=500)
    config.model.update(encoder='conv', width=96, depth=4, bidirectional=True, embedding=32, kernel_size=7, dilated=True,
                        dropout=0.1)
    config.train.update(steps=1000, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
