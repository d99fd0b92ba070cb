r"""Few labelled clothes: from scratch, frozen SimCLR features, and fine-tuned at a lower rate.

What it shows: features that SimCLR has learned without labels, a new head on top of them, and what
unfreezing the body at a tenth of the rate adds. The three are the same network on the same examples:
1, 3, 10, 30 and 100 labels per class, three draws of each. by_labels.png is the accuracy on the test
part against labels per class, a line for each of the three.

    python launch.py --config=experiments/vision/simclr_fashion.py \
        --workdir=runs/simclr_fashion --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/transfer_fashion.py \
        --workdir=runs/transfer_fashion --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/transfer_fashion.py:frozen_10_0 \
        --workdir=runs/frozen --config.init_from=DIR    # frozen, 10 labels per class, draw 0

Data: without --config.data.source the embedded digits. A variant is KIND_LABELS_DRAW; the draw is
config.data.split_seed and config.seed. The test part of files is the same for all draws; the validation
part is drawn, too, and so is the test part of the embedded digits. SimCLR saw no image of the test part
of files; it did see those that draws 1 and 2 validate on, without their labels.

Measured with 10 labels per class, draws 0, 1 and 2 (the third command, SimCLR with seed 0), on one core of an AMD EPYC (Zen 5) whose
other core did the same (Python 3.11, jax 0.10.2), accuracy on the test part:

| | draws | mean | seconds |
|---|---|---|---|
| scratch | 0.701, 0.667, 0.691 | 0.686 | 44 to 54 |
| frozen | 0.740, 0.737, 0.756 | 0.744 | 22 to 27 |
| fine_tuned | 0.736, 0.742, 0.742 | 0.740 | 41 to 43 |

Other numbers of labels were not measured yet, and the steps and rates are a first guess.
"""

from seqjax import config as configs

VARIANTS = (
    'scratch_1_0', 'scratch_3_0', 'scratch_10_0', 'scratch_30_0', 'scratch_100_0',
    'scratch_1_1', 'scratch_3_1', 'scratch_10_1', 'scratch_30_1', 'scratch_100_1',
    'scratch_1_2', 'scratch_3_2', 'scratch_10_2', 'scratch_30_2', 'scratch_100_2',
    'frozen_1_0', 'frozen_3_0', 'frozen_10_0', 'frozen_30_0', 'frozen_100_0',
    'frozen_1_1', 'frozen_3_1', 'frozen_10_1', 'frozen_30_1', 'frozen_100_1',
    'frozen_1_2', 'frozen_3_2', 'frozen_10_2', 'frozen_30_2', 'frozen_100_2',
    'fine_tuned_1_0', 'fine_tuned_3_0', 'fine_tuned_10_0', 'fine_tuned_30_0', 'fine_tuned_100_0',
    'fine_tuned_1_1', 'fine_tuned_3_1', 'fine_tuned_10_1', 'fine_tuned_30_1', 'fine_tuned_100_1',
    'fine_tuned_1_2', 'fine_tuned_3_2', 'fine_tuned_10_2', 'fine_tuned_30_2', 'fine_tuned_100_2',
)


def get_config(variant='fine_tuned_10_0'):
    kind, labels, draw = variant.rsplit('_', 2)
    config = configs.defaults(model='resnet', task='classification', source='digits')
    config.seed = int(draw)
    config.init_from = '' if kind == 'scratch' else 'runs/simclr_fashion'
    config.data.update(batch_size=50, augment='crop(padding=2), flip', normalise=True,
                       held_out=0.02, split_seed=int(draw))
    config.data.examples_per_class = int(labels)
    config.model.update(depth=8, width=32, channels=(32, 64, 256), downsample_first_stage=True)
    config.train.update(steps=400, eval_every=100, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=40,
                            final_rate=0.0, weight_decay=1e-2)
    if kind == 'frozen':
        config.optimizer.freeze = '*,!output/*'
    if kind == 'fine_tuned':
        config.optimizer.layerwise_rates = '*=0.1,output/*=1'
    return config
