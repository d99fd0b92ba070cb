"""A metric from outside: the expected calibration error of a classifier (Guo et al. 2017, equation 3).

    ECE = sum_m |B_m| / n  |accuracy(B_m) - confidence(B_m)|        B_m: the predictions whose confidence is in the m-th bin

    python launch.py --config=tests/extending/calibration_metric.py --workdir=runs/calibrated
    python launch.py --config=tests/extending/calibration_metric.py --workdir=runs/calibrated --mode=eval

It is registered under a name, and every evaluation that has its arguments (class probabilities [N, C] and targets [N], which
classifications compute because it asks for them) reports it: 'eval/calibration_error'.
"""

import numpy as np

from seqjax import config as configs
from seqjax import metrics


@metrics.register('calibration_error')
def calibration_error(probabilities, targets, bins=10):
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == targets
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(right[place == m].mean() - confidence[place == m].mean()) * np.mean(place == m) for m in np.unique(place)]
    return float(np.sum(gaps))


def get_config():
    config = configs.defaults(model='reader', task='classification', source='cldr')
    config.data.update(tokenizer='char', batch_size=64, num_buckets=1)
    config.model.update(encoder='elman', width=8)
    config.train.update(steps=2, eval_every=1, eval_batches=2, save_every=2, baselines=False,
                        stop_metric='eval/calibration_error', patience=5)
    config.optimizer.update(warmup_steps=1)
    return config
