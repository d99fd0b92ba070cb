r"""A small BERT that fills in the masked characters of Python's own source (Devlin et al. 2019).

What it shows: masked language modelling. The held-out loss is still 2.84, hardly better than the most frequent characters, after 300 steps, until
attention has found out what a neighbour is; it is 2.40 at step 600 and 1.78 at the end. What is known then is worth something elsewhere:
bert_finetune.py.

    python launch.py --config=experiments/pretraining/bert_mlm.py --workdir=runs/bert_mlm
    echo 'def __init__(se<mask>f, name):' | python launch.py --workdir=runs/bert_mlm --mode=predict --input=-

Data: the source of Python's standard library, in rows of 62 characters with a mark on either side; 15 % of them are to be found.

Measured with seed 0 on one of 2 CPU cores that did other work too (Python 3.11, jax 0.10.2): 54.2 % of the hidden characters of 640 held-out
rows are found, 1.785 nats each; 452,071 parameters, 7.0 minutes. On 2 cores of another CPU (AMD EPYC, Zen 5): 54.3 %, 1.785 nats, 1.1 minutes.

Blocks are pre-norm and start with weights that keep the variance (init_scale=0), where BERT's are post-norm and start with 0.02, for widths of
about a thousand.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='bert', task='masked_lm')
    config.data.update(tokenizer='char', batch_size=32, sequence_length=64, mask_probability=0.15)
    config.model.update(width=128, depth=2, heads=4, feed_forward=512, norm_position='pre', init_scale=0.0)
    config.train.update(steps=1500, eval_every=300, eval_batches=20, save_every=300)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='linear', warmup_steps=200, final_rate=0.05,
                            b2=0.98, weight_decay=0.01, clip_norm=1.0)
    return config
