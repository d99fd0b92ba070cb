r"""Three ways to read a sequence, side by side: recurrence, convolution and self-attention.

What it shows: the three on one task, with the same number of parameters and the same compute. `config.parameters` chooses each
one's width; at 21 words a row the operations of a training step then differ by less than 2 %, so that as many steps are as much
compute.

    python launch.py --config=experiments/labelled/three_ways.py --workdir=runs/three_ways      # all three, and comparison.png

Data: sentences of a small grammar of opinions, positive or negative; counting words hardly helps. Measured with seed 0 on 2 CPU
cores that did other work too (Python 3.11, jax 0.10.2), on the test part:

| variant | accuracy | naive Bayes on words | parameters | operations of a step | minutes |
|---|---|---|---|---|---|
| gru | 0.9985 | 0.560 | 99,494 | 378 million | 1.3 |
| conv | 1.000 | 0.560 | 100,048 | 380 million | 0.6 |
| attention | 0.997 | 0.560 | 96,774 | 384 million | 0.6 |

What decides here is words next to each other, which a convolution sees at once, while attention has to learn from its positions what a
neighbour is: it comes last to the same end (docs/images/three_ways.png).

Operations are those of matrix products and convolutions, counted from the program (flops_per_step in result.json).
"""

from seqjax import config as configs

VARIANTS = ('gru', 'conv', 'attention')


def get_config(variant='gru'):
    config = configs.defaults(model='reader', task='classification', source='reviews')
    config.parameters = 100_000
    config.data.update(tokenizer='word', vocabulary=1000, batch_size=32, batching='pad')
    config.model.update(encoder=variant, depth=2, bidirectional=True, embedding=64, pooling='mean')
    config.train.update(steps=1000, eval_every=100, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=1e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            clip_norm=1.0)
    return config
