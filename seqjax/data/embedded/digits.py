"""Handwritten digits, 1,797 images of 8 x 8 pixels: which one is it?

The set that scikit-learn carries (Alpaydin & Kaynak 1998), 43 people's handwriting in 16 levels of grey. A fifth of it is the
test part; `held_out` of the rest is the validation part. Every part has the same share of every class.
"""

import numpy as np

from seqjax.data.readers.examples import Example, Examples
from seqjax.data.readers.splits import hold_out

TEST = 0.2


def digit_examples(task, *, held_out, seed):
    """Images uint8 [8, 8, 1] and their digits; `seed` deals them out."""
    images, names = digit_images()
    rest, test = hold_out([Example(image, name) for image, name in zip(images, names)], task, part=TEST, seed=seed)
    train, validation = hold_out(rest, task, part=held_out, seed=seed + 1)
    return Examples(train, validation, test, f'{len(images):,} handwritten digits')


def digit_images():
    """(images [1797, 8, 8, 1] of uint8, their digits as texts)."""
    from sklearn.datasets import load_digits  # here, because it takes a second to import and few runs need it

    digits = load_digits()
    return np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None], digits.target.astype(str).tolist()
