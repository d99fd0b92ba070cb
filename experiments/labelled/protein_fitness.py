r"""One number for a protein: a recurrent network, a convolution and self-attention with as many parameters each.

What it shows: many to one, a number. The same embedding, pooling and output around three encoders of about 40,000 parameters, beside
a ridge regression on one-hot features, a feature for every residue at every place, which every such run computes from the same
rows (its strength is chosen on the validation part).

    python launch.py --config=experiments/labelled/protein_fitness.py --workdir=runs/fitness     # all three, and comparison.png
    python launch.py --config=experiments/labelled/protein_fitness.py --workdir=runs/gb1 \
        --config.data.source=file:PATH/flip_gb1/sampled.csv.gz
    python launch.py --config=experiments/labelled/protein_fitness.py --workdir=runs/gb1_two --config.train.steps=300 \
        --config.data.source=file:PATH/flip_gb1/two_vs_rest.csv.gz

Data: generated peptides and their largest hydrophobic moment (Eisenberg et al. 1982); or the fitness of variants of protein GB1, as
split by FLIP (Dallago et al. 2021): `sampled` (6,289 for training), and `two_vs_rest`, where 381 variants with at most two mutations
are to tell about those with more.

Measured on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2): Spearman correlation on the test part, mean and standard
deviation over seeds 0, 1 and 2 where there are two numbers:

| data | ridge | gru | conv | attention |
|---|---|---|---|---|
| peptides (default), seed 0 | 0.669 | 0.963 | 0.943 | 0.700 |
| GB1 sampled | 0.788 | 0.822 +- 0.005 | 0.868 +- 0.004 | 0.787 +- 0.025 |
| GB1 two_vs_rest | 0.563 | 0.285 +- 0.069 | 0.568 +- 0.107 | 0.242 +- 0.026 |
| minutes, peptides | | 1.5 | 1.5 | 0.5 |
| minutes, GB1 sampled | | 4.0 to 4.6 | 1.9 to 2.7 | 4.1 to 6.6 (one core) |

Convolution and recurrence beat the ridge where there is enough to learn from. From 381 variants they learn little that the ridge
does not, and how much depends on the seed. Attention is on par with the ridge on GB1 `sampled` in 800 steps: 0.767, 0.780 and 0.814.
"""

from seqjax import config as configs

VARIANTS = ('gru', 'conv', 'attention')


def get_config(variant='conv'):
    config = configs.defaults(model='reader', task='regression', source='peptides')
    config.parameters = 40_000
    config.data.update(tokenizer='char', batch_size=32, num_buckets=2)
    config.model.update(encoder=variant, depth=1 if variant == 'gru' else 2, bidirectional=True, pooling='attention')
    config.train.update(steps=800, eval_every=200, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
