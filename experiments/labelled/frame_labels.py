r"""Which digit is in the frame? An answer for every frame of a clip, from the frames before and after it.

What it shows: many to many over video. A clip shows one digit after another, each for three to six frames.

    python launch.py --config=experiments/labelled/frame_labels.py --workdir=runs/frames

Data: scikit-learn's handwritten digits, moved; no image is in two parts. Measured with seed 0 on 2 CPU cores that did other work too
(Python 3.11, jax 0.10.2), on the test part:

| accuracy | macro-F1 | most frequent class | minutes |
|---|---|---|---|
| 0.742 | 0.729 | 0.079 | 1.0 |
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader', task='tagging', source='moving_digits')
    config.data.update(batch_size=32, num_buckets=2)
    config.model.update(encoder='gru', width=128, depth=2, bidirectional=True, dropout=0.3)
    config.train.update(steps=1500, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
