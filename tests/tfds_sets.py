"""Tiny TFDS sets made on the spot: from the moment it is made, a set is known to TFDS by its name."""

import numpy as np
import tensorflow_datasets as tfds

CLASSES = tfds.features.ClassLabel(names=['bad', 'good'])
NUMBERS = tfds.features.Scalar(np.float32)


def make_set(title, splits, *, features=('text',), target=None, error=None):
    """A set with these {split: [text, ...]}, each text in every one of `features`; building it raises `error` if given.

    target: a feature beside the text, CLASSES or NUMBERS; splits are then {split: [(text, value), ...]}.
    """
    class Lines(tfds.core.GeneratorBasedBuilder):
        """A few lines."""

        name = title
        VERSION = tfds.core.Version('1.0.0')

        def _info(self):
            targets = {} if target is None else {'target': target}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(
                {**{feature: tfds.features.Text() for feature in features}, **targets,
                 'number': tfds.features.Scalar(np.int32)}))

        def _split_generators(self, dl_manager):
            if error:
                raise error
            return {split: self._generate_examples(records) for split, records in splits.items()}

        def _generate_examples(self, records):
            for number, record in enumerate(records):
                text, targets = (record, {}) if target is None else (record[0], {'target': record[1]})
                yield number, {**dict.fromkeys(features, text), **targets, 'number': number}

    return Lines
