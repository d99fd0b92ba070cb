"""Images and texts in one space: retrieval in both directions, and classification by prompts alone.

images, texts: [N, E], embeddings of length 1; image n belongs to text n.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from seqjax.errors import FieldError

ROWS = 1000  # queries whose ranks are looked for at a time


def ranks(queries: ArrayLike, keys: ArrayLike) -> np.ndarray:
    """[N], how many keys are nearer to query n than key n is; of those that are as near, half count.

    So embeddings that are all alike have the rank of guessing and not the best one.
    """
    queries, keys, found = np.asarray(queries, np.float32), np.asarray(keys, np.float32), []
    for start in range(0, len(queries), ROWS):
        scores = queries[start:start + ROWS] @ keys.T
        own = scores[np.arange(len(scores)), start + np.arange(len(scores))][:, None]
        found.append((scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2)
    return np.concatenate(found)


def retrieval(images: ArrayLike, texts: ArrayLike, ks: Sequence[int] = (1, 5, 10)) -> dict[str, float]:
    """Recall@k both ways: {'image_to_text@1': ..., 'text_to_image@10': ...}.

    recall@k is the share of queries whose own key is among the k nearest; guessing has k / N.
    """
    both = dict(image_to_text=ranks(images, texts), text_to_image=ranks(texts, images))
    return {f'{name}@{k}': float(np.mean(rank < k)) for name, rank in both.items() for k in ks if k < len(rank)}


def class_embeddings(embed: Callable[[list[str]], np.ndarray], classes: Sequence[str], templates: Sequence[str]) -> np.ndarray:
    """[C, E] of length 1: of every class the mean over its prompts, an ensemble in embedding space.

        w_c = unit(mean over templates t of unit(embed(t with the class in the place of {})))

    Radford et al. 2021, section 3.1.4.

    Args:
        embed: n texts -> [n, E].
        templates: 'a photo of a {}', each with one {}.
    """
    for template in templates:
        if template.count('{}') != 1:
            raise FieldError('templates', template, "must have {} once, where the class goes, as in 'a photo of a {}'")
    prompts = np.asarray(embed([template.replace('{}', name) for name in classes for template in templates]), np.float64)
    means = _unit(prompts).reshape(len(classes), len(templates), -1).mean(axis=1)
    return _unit(means).astype(np.float32)


def zero_shot(images: ArrayLike, class_texts: ArrayLike) -> np.ndarray:
    """[N], the class whose embedding is nearest to each image. class_texts: of `class_embeddings`."""
    return (np.asarray(images, np.float32) @ np.asarray(class_texts, np.float32).T).argmax(axis=1)


def _unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
