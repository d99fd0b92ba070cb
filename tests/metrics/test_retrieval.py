"""Recall in both directions and zero-shot classification against loops."""

import numpy as np
import pytest

from seqjax.errors import FieldError
from seqjax.metrics.retrieval import class_embeddings, ranks, retrieval, zero_shot

N, E = 30, 6


def draw(seed, rows=N):
    x = np.random.default_rng(seed).normal(size=(rows, E)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_recall_is_that_of_a_loop():
    images, texts = draw(0), draw(1) + 0.5 * draw(0)
    expected = {}
    for name, queries, keys in (('image_to_text', images, texts), ('text_to_image', texts, images)):
        for k in (1, 5, 10):
            found = [n in sorted(range(N), key=lambda m: -queries[n] @ keys[m])[:k] for n in range(N)]
            expected[f'{name}@{k}'] = np.mean(found)
    assert retrieval(images, texts) == pytest.approx(expected) and 0.1 < expected['image_to_text@5'] < 1


def test_embeddings_that_are_all_alike_are_guesses():
    same = np.ones((N, E), np.float32)
    np.testing.assert_array_equal(ranks(same, same), (N - 1) / 2)
    assert set(retrieval(same, same).values()) == {0.0}


def test_a_k_that_every_row_would_pass_is_not_reported():
    assert list(retrieval(draw(0, 6), draw(1, 6))) == ['image_to_text@1', 'image_to_text@5', 'text_to_image@1', 'text_to_image@5']


def test_prompts_of_a_class_are_averaged_as_unit_vectors():
    vectors = {f'{prefix} {name}': np.random.default_rng(i).normal(size=E) * (1 + i)
               for i, (prefix, name) in enumerate((prefix, name) for name in ('cat', 'dog') for prefix in ('a', 'the', 'one'))}
    found = class_embeddings(lambda texts: np.stack([vectors[text] for text in texts]), ['cat', 'dog'], ['a {}', 'the {}', 'one {}'])
    for c, name in enumerate(('cat', 'dog')):
        mean = sum(vectors[f'{prefix} {name}'] / np.linalg.norm(vectors[f'{prefix} {name}']) for prefix in ('a', 'the', 'one')) / 3
        np.testing.assert_allclose(found[c], mean / np.linalg.norm(mean), rtol=1e-5)
    np.testing.assert_array_equal(zero_shot(found, found), [0, 1])


def test_a_template_without_a_place_for_the_class_is_refused():
    with pytest.raises(FieldError, match="templates='a photo': must have {} once"):
        class_embeddings(None, ['cat'], ['a photo'])
