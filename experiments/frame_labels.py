r"""Which digit is in the frame? An answer for every frame of a clip, from the frames before and after it.

    python launch.py --config=experiments/frame_labels.py --workdir=runs/frames
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='reader')
    config.task = 'tagging'
    config.data.update(source='moving_digits', batch_size=32, shapes=2)
    config.model.update(encoder='gru', width=128, depth=1, bidirectional=True, embedding=128, dropout=0.5)
    config.train.update(steps=1000, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=100, final_rate=0.02,
                            weight_decay=1e-2, clip_norm=1.0)
    return config
