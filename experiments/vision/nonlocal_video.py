r"""Which digit moves through the clip? Frames read one by one, with and without non-local blocks, recurrence and attention.

What it shows: four ways to put the frames of a clip together behind the same small residual network: their mean, a non-local block over all
places of all frames (Wang et al. 2018) and then the mean, a bidirectional GRU over frames, self-attention over frames.

    python launch.py --config=experiments/vision/nonlocal_video.py --workdir=runs/video                    # all four, and comparison.png
    python launch.py --config=experiments/vision/nonlocal_video.py:non_local --workdir=runs/non_local

Data: scikit-learn's handwritten digits, moved behind a bar, as videos of 8 to 16 frames of 16 x 16 pixels; no image is in two parts.

Not measured: no run of it was trained to its end.
"""

from seqjax import config as configs

VARIANTS = ('mean', 'non_local', 'gru', 'attention')
FIELDS = {'mean': dict(encoder='', non_local=0), 'non_local': dict(encoder='', non_local=1),
          'gru': dict(encoder='gru', encoder_width=32), 'attention': dict(encoder='attention', encoder_width=64)}


def get_config(variant='non_local'):
    config = configs.defaults(model='video', task='classification', source='moving_digit_videos')
    config.data.update(batch_size=32, num_buckets=2, normalise=True)
    config.model.update(width=16, depth=1, pooling='mean', **FIELDS[variant])
    config.train.update(steps=1500, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
