r"""'123+45' -> '168': the shortest of problems where what is written is not what was read.

What it shows: an encoder-decoder with attention learns to add. It looks at the digits it needs, hundreds first and units last, and has
to know a carry before it sees it (docs/images/addition_alignment.png).

    python launch.py --config=experiments/addition.py --workdir=runs/addition
    echo '123+45' | python launch.py --workdir=runs/addition --mode=generate --input=- --explain

Data: 50,000 sums of two numbers of up to three digits; of the 1,000 that are tested neither the sum nor its mirror image was trained on.

Measured with seed 0 (Python 3.11, jax 0.10.2), exact match of 1,000 held-out sums, and seconds of training:

| steps | exact match | seconds |
|---|---|---|
| 1,800 | 0.999 | 216 on one CPU core |
| 2,500 | 0.999 | 238 on 2 CPU cores |
| 3,000 (default) | 1.000 | 639, beside other work |
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='seq2seq')
    config.task = 'translation'
    config.data.update(source='addition', batch_size=256, batching='pad')
    config.model.update(cell='gru', width=128, embedding=32, bidirectional=True, context='attention')
    config.train.update(steps=3000, eval_every=500, save_every=1000)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            clip_norm=1.0)
    return config
