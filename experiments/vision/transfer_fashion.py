r"""Few labelled clothes: a network from scratch, one with a frozen pretrained body, and one whose body is trained on at a lower rate.

What it shows: features that SimCLR has learned without labels, a new head on top of them, and what unfreezing the body at a tenth of the rate
adds. The three are the same network on the same examples.

    python launch.py --config=experiments/vision/simclr_fashion.py --workdir=runs/simclr_fashion \
        --config.data.source=file:../shared/data/fashion_mnist
    python launch.py --config=experiments/vision/transfer_fashion.py --workdir=runs/transfer_fashion \
        --config.data.source=file:../shared/data/fashion_mnist                             # all three, and a picture that compares them
    python launch.py --config=experiments/vision/transfer_fashion.py:frozen --workdir=runs/frozen --config.init_from=DIR

Data: without the last line of a command the embedded digits, after the same pre-training; 100 labelled images, about ten a class, of
--config.data.train_examples; another draw has --config.data.split_seed.

Not measured yet: no score is claimed, and the steps and rates below are a first guess. tests/experiments/test_features_without_labels.py runs
two steps of it.
"""

from seqjax import config as configs

VARIANTS = ('scratch', 'frozen', 'fine_tuned')


def get_config(variant='fine_tuned'):
    config = configs.defaults(model='resnet', task='classification', source='digits')
    config.init_from = '' if variant == 'scratch' else 'runs/simclr_fashion'
    config.data.update(batch_size=50, augment='crop(padding=2), flip', normalise=True, held_out=0.02, train_examples=100)
    config.model.update(depth=8, width=32, downsample_first_stage=True)
    config.train.update(steps=400, eval_every=100, save_every=400)
    config.optimizer.update(name='adamw', learning_rate=2e-3, schedule='cosine', warmup_steps=40, final_rate=0.0, weight_decay=1e-2)
    if variant == 'frozen':
        config.optimizer.freeze = '*,!output/*'
    if variant == 'fine_tuned':
        config.optimizer.layerwise_rates = '*=0.1,output/*=1'
    return config
