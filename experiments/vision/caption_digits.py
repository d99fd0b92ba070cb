r"""Captions of scenes of handwritten digits: "a three left of a seven".

What it shows: one to many. A ResNet of eight layers reads the scene, and a decoder names what stands where: told of the image by its first
state alone, at every step, by attention over 8 x 8 places, or a Transformer decoder with cross-attention.

    python launch.py --config=experiments/vision/caption_digits.py:attention --workdir=runs/caption_digits

    python launch.py --workdir=runs/caption_digits --mode=generate --input=DIR --explain

Data: 20,000 scenes of one or two digits, 1,000 for validation and 1,000 for testing, which are made of other images of digits; half of those with
two digits show a pair that training never does. Measured with seed 0 on 2 CPU cores that did much
other work too (Python 3.11, jax 0.10.2), greedy search, on the test part:

| variant | exact match | BLEU-4 | METEOR | ROUGE-L | CIDEr-D | parameters | minutes |
|---|---|---|---|---|---|---|---|
| attention | 98.7 % | 99.3 | 98.2 | 99.6 | 904 | 155,203 | 7.9 |

Signatures: docs/captioning.md. One seed, by a copy of this file with the same
values; first, every and transformer were not measured.
"""

from seqjax import config as configs

VARIANTS = ('first', 'every', 'attention', 'transformer')


def get_config(variant='attention'):
    model = 'transformer_captioner' if variant == 'transformer' else 'captioner'
    config = configs.defaults(model=model, task='captioning', source='digit_scenes')
    config.data.update(tokenizer='word', batch_size=64)
    config.model.update(width=64, encoder_width=16)
    config.model.update(dict(depth=2) if variant == 'transformer' else dict(context=variant))
    config.train.update(steps=1500, eval_every=250, save_every=250, decode_rows=200)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.0, weight_decay=1e-2)
    return config
