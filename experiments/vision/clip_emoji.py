r"""CLIP on emoji: 3,786 pictures of 64 x 64 pixels and their English names, from nothing, with a fifth held out.

What it shows: recall in both directions among pictures and names that were never trained on, beside the level of guessing.

    python launch.py --config=experiments/vision/clip_emoji.py --workdir=runs/clip_emoji \
        --config.data.source=file:../shared/data/emoji/emoji64_rgb.npz --config.data.label_file=../shared/data/emoji/captions.jsonl.gz \
        --config.data.target_column=caption.en

Data: an .npz with images and a file of JSON lines with a caption for each; without the last two lines the embedded scenes of digits.

Not measured yet: no score is claimed, and the steps and rates below are a first guess. tests/experiments/test_features_without_labels.py runs
two steps of it.
"""

from seqjax import config as configs


def get_config():
    config = configs.defaults(model='clip', task='clip', source='digit_scenes')
    config.data.update(batch_size=128, tokenizer='word', lowercase=True, normalise=True, held_out=0.2, augment='crop(padding=4)')
    config.model.update(width=128, depth=4, heads=4, patch_size=8, text_width=96, text_depth=2, text_heads=4, projection_width=64,
                        dropout=0.1)
    config.train.update(steps=2000, eval_every=250, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=1e-3, schedule='cosine', warmup_steps=100, weight_decay=0.1)
    return config
