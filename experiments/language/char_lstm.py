"""A character LSTM that learns to write Python, or anything else, in two minutes.

What it shows: one recurrent layer of 256 units, fed one character at a time, picks up words, indentation and brackets.

    python launch.py --config=experiments/language/char_lstm.py --workdir=runs/char_lstm
    python launch.py --workdir=runs/char_lstm --mode=generate --config.decode.prompt="def " --config.decode.temperature=0.5

Measured with seed 0 on 2 CPU cores (Python 3.11, jax 0.10.2), held-out loss in nats per character at step 1,600:

| data | held out | loss | minutes | tokens/s |
|---|---|---|---|---|
| the source of Python 3.11's standard library (default) | first 122,880 characters of its last 10 % | 1.702 | 2.3 | 13,400 |
| tiny Shakespeare, --config.data.source=file:PATH/input.txt | all of its last 10 % | 1.712 | 2.0 | 15,400 |

Over the whole last 10 % of the Python text the same checkpoint has 1.592:

    python launch.py --workdir=runs/char_lstm --mode=eval --config.train.eval_batches=0

Every row starts from a zero state, in training and in evaluation.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='recurrent')
    config.data.update(batch_size=16, sequence_length=64)
    config.model.update(cell='lstm', depth=1, width=256, dropout=0.0)
    config.train.update(steps=1600, eval_every=400, eval_batches=120, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=4e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            weight_decay=0.0, clip_norm=1.0)
    return config
