r"""Few labelled clothes: from scratch, frozen SimCLR features, and fine-tuned at a lower rate.

What it shows: features that SimCLR has learned without labels, a new head on top of them, and what
unfreezing the body at a tenth of the rate adds. The three are the same network on the same examples:
1, 10, 100 and all labels a class, three draws of each. by_labels.png is the accuracy on the test part
against labels a class, a line for each of the three.

    python launch.py --config=experiments/vision/simclr_fashion.py \
        --workdir=runs/simclr_fashion --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/transfer_fashion.py \
        --workdir=runs/transfer_fashion --config.data.source=few_fashion    # all 36, by_labels.png
    python launch.py --config=experiments/vision/transfer_fashion.py:frozen_10_0 \
        --workdir=runs/frozen --config.init_from=DIR    # frozen, 10 labels a class, draw 0

Data: without --config.data.source the embedded digits. `few_digits` and `few_fashion`, registered
here, are those digits and the idx files in ../shared/data/fashion_mnist with the same number of
training rows of every class: config.data.train_examples in all, drawn by config.data.split_seed;
validation and test part are the same for all draws. A variant is KIND_LABELS_DRAW. SimCLR was
pretrained on the same training rows, and on no row of the test part.

Not measured yet: no score is claimed, and the steps and rates below are a first guess.
tests/experiments/test_features_without_labels.py runs two steps of it.
"""

import dataclasses

from seqjax import config as configs
from seqjax import data
from seqjax.errors import FieldError
from seqjax.metrics.probes import few_rows

VARIANTS = (
    'scratch_1_0', 'scratch_10_0', 'scratch_100_0', 'scratch_all_0',
    'scratch_1_1', 'scratch_10_1', 'scratch_100_1', 'scratch_all_1',
    'scratch_1_2', 'scratch_10_2', 'scratch_100_2', 'scratch_all_2',
    'frozen_1_0', 'frozen_10_0', 'frozen_100_0', 'frozen_all_0',
    'frozen_1_1', 'frozen_10_1', 'frozen_100_1', 'frozen_all_1',
    'frozen_1_2', 'frozen_10_2', 'frozen_100_2', 'frozen_all_2',
    'fine_tuned_1_0', 'fine_tuned_10_0', 'fine_tuned_100_0', 'fine_tuned_all_0',
    'fine_tuned_1_1', 'fine_tuned_10_1', 'fine_tuned_100_1', 'fine_tuned_all_1',
    'fine_tuned_1_2', 'fine_tuned_10_2', 'fine_tuned_100_2', 'fine_tuned_all_2',
)
CLASSES = 10


def few_labels(source):
    """The set `source`, with as many training rows of every class as of any other."""
    @data.made_for('class', of_images=True, train_examples='count', split_seed='seed',
                   held_out='held_out')
    def make(task, count, seed, held_out):
        options = configs.defaults(model='resnet', task=task, source=source).data
        options.held_out = held_out
        examples = data.load_examples(options, task)
        if not count:
            return examples
        chosen = few_rows([example.target for example in examples.train], count // CLASSES, seed)
        if len(chosen) != count:
            raise FieldError('data.train_examples', count, f'must be a multiple of {CLASSES}, and of each '
                             'class at most as many as there are; set it lower, or to 0 for all')
        return dataclasses.replace(examples, train=[examples.train[i] for i in chosen])

    return make


data.SOURCES.register('few_digits')(few_labels('digits'))
data.SOURCES.register('few_fashion')(few_labels('file:../shared/data/fashion_mnist'))


def get_config(variant='fine_tuned_10_0'):
    kind, labels, draw = variant.rsplit('_', 2)
    config = configs.defaults(model='resnet', task='classification', source='few_digits')
    config.seed = int(draw)
    config.init_from = '' if kind == 'scratch' else 'runs/simclr_fashion'
    config.data.update(batch_size=50, augment='crop(padding=2), flip', normalise=True,
                       held_out=0.02, split_seed=int(draw))
    config.data.train_examples = 0 if labels == 'all' else CLASSES * int(labels)
    config.model.update(depth=8, width=32, downsample_first_stage=True)
    config.train.update(steps=400, eval_every=100, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=40,
                            final_rate=0.0, weight_decay=1e-2)
    if kind == 'frozen':
        config.optimizer.freeze = '*,!output/*'
    if kind == 'fine_tuned':
        config.optimizer.layerwise_rates = '*=0.1,output/*=1'
    return config
