r"""Plain or residual, 20 or 56 layers, with and without batch norm: which networks train, and the gradient by depth that says why.

What it shows: 36 more layers make a plain network worse in training, not only in its test scores, and a residual network not (He et al.
2016a, figures 1 and 6). Before the first step the X-ray by depth has the reason.

    python launch.py --config=experiments/vision/plain_or_residual.py --workdir=runs/plain_or_residual     # all eight

    python launch.py --config=experiments/vision/plain_or_residual.py --workdir=runs/first --config.train.steps=1 \
        --config.optimizer.warmup_steps=0 --config.optimizer.learning_rate=1e-6
    python launch.py --workdir=runs/first --mode=xray                                                      # runs/first/xray_by_depth.png

Data: scikit-learn's 1,797 handwritten digits, 8 x 8 pixels. Measured with seed 0 on 2 CPU cores that did much other work too (Python
3.11, jax 0.10.2); the first command took 4 minutes, the second 7, the third 1.4. Training loss: the mean over the last 10 of 120 steps;
guessing has log 10 = 2.303. Gradient: of the loss with respect to the output of the first layer, as part of that of the last one.

| variant | training loss | accuracy, test | gradient, first layer / last |
|---|---|---|---|
| plain_20 | 0.039 | 0.967 | 10^1.8 |
| plain_56 | 2.259 | 0.145 | 10^4.3 |
| residual_20 | 0.003 | 0.994 | 10^1.5 |
| residual_56 | 0.004 | 0.981 | 10^2.0 |
| plain_20_no_norm | 2.219 | 0.178 | 10^-2.2 |
| plain_56_no_norm | 2.302 | 0.103 | 10^-5.4 |
| residual_20_no_norm | 0.025 | 0.983 | 10^0.0 |
| residual_56_no_norm | 0.154 | 0.925 | 10^1.9 |

Picture: docs/images/plain_or_residual.png. Without a norm the gradient of a plain network is gone before it reaches the first layers, and
so is the signal before it reaches the last ones. Batch norm keeps the signal, and the gradient then grows with every layer on its way back (Yang
et al. 2019): at 56 layers the first ones are thrown about by what the last ones hardly notice. Along the shortcuts it comes back as it is;
without a norm each unit adds its own to the signal, which grows from 0.2 to about 50, and the network trains all the same.

One learning rate for all, 0.1, and 120 steps: a plain network of 56 layers may train with more care. Of test scores there are 359 images.
"""

from seqjax import config as configs

VARIANTS = ('plain_20', 'plain_56', 'residual_56', 'plain_56_no_norm', 'residual_56_no_norm', 'plain_20_no_norm',
            'residual_20', 'residual_20_no_norm')


def get_config(variant='residual_20'):
    kind, depth, *no_norm = variant.split('_', 2)
    config = configs.defaults(model='resnet', task='classification', source='digits')
    config.data.batch_size = 64
    config.model.update(depth=int(depth), width=16, residual=kind == 'residual', norm='none' if no_norm else 'batch')
    config.train.update(steps=120, eval_every=0, save_every=0)
    config.optimizer.update(name='sgd', momentum=0.9, learning_rate=0.1, schedule='cosine', warmup_steps=20, final_rate=0.0,
                            weight_decay=1e-4, clip_norm=1.0)
    return config
