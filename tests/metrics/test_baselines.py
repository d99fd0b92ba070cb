"""Simple baselines against counting by hand, plain loops and a direct solution."""

import collections
import math

import numpy as np
import pytest
import scipy.stats

from seqjax.metrics import baselines
from seqjax.metrics.baselines import baseline_scores


def classified(*pairs):
    return [dict(inputs=np.array(tokens, np.int32), targets=np.int32(target), weights=np.float32(1))
            for tokens, target in pairs]


def tagged(*pairs):
    """Of (tokens, labels); a label of None is a step that does not count."""
    return [dict(inputs=np.array(tokens, np.int32), targets=np.array([label or 0 for label in labels], np.int32),
                 weights=np.array([label is not None for label in labels], np.float32)) for tokens, labels in pairs]


def test_naive_bayes_by_hand():
    """Four training texts over the tokens 2, 3 and 4; class 0 has three of them.

    Tokens of class 0: 2 2 2 3, of class 1: 4 4 3. With one more of each of the five numbers 0 to 4:
    P(2 | 0) = 4 / 9, P(3 | 0) = 2 / 9, P(4 | 0) = 1 / 9;  P(2 | 1) = 1 / 8, P(3 | 1) = 2 / 8, P(4 | 1) = 3 / 8;
    P(0) = (3 + 1) / 6, P(1) = (1 + 1) / 6.
    """
    train = classified(([2, 2], 0), ([2], 0), ([3], 0), ([4, 4, 3], 1))
    # [3]: 0 with 4/6 2/9 = 0.148 over 2/6 2/8 = 0.083. [3, 4]: 1 with 0.031 over 0.016. [4]: 1 with 0.125 over 0.074.
    # Nothing at all: the prior, 0. Five times 3: 0 with 3.6e-4 over 3.3e-4; six times: 1 with 8.14e-5 over 8.03e-5.
    rows = classified(([3], 0), ([3, 4], 1), ([4], 0), ([], 0), ([3] * 5, 0), ([3] * 6, 1))
    found = baseline_scores('class', dict(train=train, validation=rows, test=[]))
    assert found == {'eval/majority_accuracy': 4 / 6, 'eval/naive_bayes_accuracy': 5 / 6}


def test_naive_bayes_is_a_loop_over_tokens():
    rng = np.random.default_rng(0)
    draw = lambda count: classified(*((rng.integers(2 + target, 9 + target, rng.integers(0, 6)), target)
                                      for target in rng.choice(3, count, p=(0.5, 0.3, 0.2))))
    rows = dict(train=draw(40), validation=draw(30), test=draw(20))
    found = baseline_scores('class', rows)
    V = 1 + max(int(token) for split in rows.values() for row in split for token in row['inputs'])
    for name, split in (('eval', rows['validation']), ('test', rows['test'])):
        seen = 1 + max(int(token) for row in (*rows['train'], *split) for token in row['inputs'])
        assert seen == V  # otherwise the tokens that are counted once more would not be the same
        right = 0
        for row in split:
            scores = []
            for target in range(3):
                of_class = [other['inputs'] for other in rows['train'] if other['targets'] == target]
                counts = collections.Counter(int(t) for tokens in of_class for t in tokens)
                scores.append(math.log((len(of_class) + 1) / (len(rows['train']) + 3))
                              + sum(math.log((counts[int(t)] + 1) / (counts.total() + V)) for t in row['inputs']))
            right += scores.index(max(scores)) == row['targets']
        assert found[f'{name}/naive_bayes_accuracy'] == right / len(split)
        most = collections.Counter(int(row['targets']) for row in rows['train']).most_common(1)[0][0]
        assert found[f'{name}/majority_accuracy'] == np.mean([row['targets'] == most for row in split])


def test_the_most_frequent_label_of_a_token_and_of_all():
    train = tagged(([2, 3, 4], [1, 0, 1]), ([2, 3], [2, 0]), ([2, 4, 3], [2, 1, None]), ([5, 5, 5], [None, 2, 2]))
    # Labels: 0 twice, 1 three times, 2 four times. Of token 2: 2, of 3: 0, of 4: 1, of 5: 2, of any other: 2.
    rows = tagged(([2, 3, 4], [2, 0, 0]), ([7, 4, 5], [2, None, 0]))
    found = baseline_scores('labels', dict(train=train, validation=train, test=rows))
    assert found['test/majority_accuracy'] == 2 / 5
    assert found['test/most_frequent_label_accuracy'] == 3 / 5
    assert found['eval/most_frequent_label_accuracy'] == 8 / 9


def test_words_are_counted_where_they_are_spelled_too():
    spelling = lambda words: dict(words=words, characters=np.zeros((len(words), 3), np.int32))
    train, rows = classified(([2, 2], 0), ([3], 1), ([3, 4], 1)), classified(([2], 0), ([4], 1), ([3], 0))
    plain = dict(train=train, validation=rows, test=rows)
    spelled = {split: [{**row, 'inputs': spelling(row['inputs'])} for row in rows] for split, rows in plain.items()}
    assert baseline_scores('class', spelled) == baseline_scores('class', plain)


def test_frames_have_no_tokens_to_count():
    rng = np.random.default_rng(0)
    frames = lambda rows: [{**row, 'inputs': rng.normal(size=(len(row['inputs']), 3))} for row in rows]
    rows = frames(classified(([2, 2], 0), ([3], 1), ([3, 4], 1)))
    assert baseline_scores('class', dict(train=rows, validation=rows, test=[])) == {'eval/majority_accuracy': 2 / 3}
    rows = frames(tagged(([2, 2], [0, 1]), ([3], [1])))
    assert baseline_scores('labels', dict(train=rows, validation=rows, test=[])) == {'eval/majority_accuracy': 2 / 3}
    assert baseline_scores('number', dict(train=rows, validation=rows, test=[])) == {}


# ------------------------------------------------------------------------------------------------ ridge

LENGTH, VOCABULARY = 5, 6


def measured(count, seed, noise=0.3):
    """Ragged rows whose target is the sum of a number for every token at every place, and noise."""
    rng, weights = np.random.default_rng(seed), np.random.default_rng(9).normal(size=(LENGTH, VOCABULARY))
    rows = []
    for _ in range(count):
        tokens = rng.integers(1, VOCABULARY, rng.integers(2, LENGTH + 1)).astype(np.int32)
        target = 5 + sum(weights[place, token] for place, token in enumerate(tokens)) + noise * rng.normal()
        rows.append(dict(inputs=tokens, targets=np.float32(target), weights=np.float32(1)))
    return rows


def one_hot(rows):
    features = np.zeros((len(rows), LENGTH, VOCABULARY))
    for row, place in zip(rows, features):
        for step, token in enumerate(row['inputs']):
            place[step, token] = 1
    return features.reshape(len(rows), -1)


def answers_of_ridge(train, rows, strength):
    """min_w |y - X w - b|^2 + strength |w|^2, solved as it stands: the bias is not shrunk."""
    X, y = one_hot(train), np.array([row['targets'] for row in train], np.float64)
    X = np.hstack([X, np.ones((len(X), 1))])
    shrunk = np.diag([strength] * (X.shape[1] - 1) + [0.0])
    solution = np.linalg.lstsq(X.T @ X + shrunk, X.T @ y, rcond=None)[0]
    return np.hstack([one_hot(rows), np.ones((len(rows), 1))]) @ solution


@pytest.mark.parametrize('strength', [0.1, 10.0])
def test_ridge_is_the_direct_solution_and_that_of_sklearn(strength, monkeypatch):
    linear_model = pytest.importorskip('sklearn.linear_model')
    train, validation, test = measured(60, 0), measured(20, 1), measured(25, 2)
    monkeypatch.setattr(baselines, 'STRENGTHS', [strength])
    found = baseline_scores('number', dict(train=train, validation=validation, test=test))
    for name, rows in (('eval', validation), ('test', test)):
        truth = [row['targets'] for row in rows]
        direct = answers_of_ridge(train, rows, strength)
        theirs = linear_model.Ridge(alpha=strength).fit(one_hot(train), [row['targets'] for row in train])
        np.testing.assert_allclose(direct, theirs.predict(one_hot(rows)), rtol=1e-6)
        assert found[f'{name}/ridge_spearman'] == pytest.approx(scipy.stats.spearmanr(direct, truth).statistic, rel=1e-9)
    assert found['test/ridge_spearman'] > 0.5


def test_the_strength_is_the_best_one_on_the_validation_rows(monkeypatch):
    train, validation, test = measured(25, 0, noise=2), measured(40, 1, noise=2), measured(40, 2, noise=2)
    found = baseline_scores('number', dict(train=train, validation=validation, test=test))
    score = lambda rows, strength: scipy.stats.spearmanr(answers_of_ridge(train, rows, strength),
                                                         [row['targets'] for row in rows]).statistic
    on_validation = [score(validation, strength) for strength in baselines.STRENGTHS]
    assert len({round(value, 6) for value in on_validation}) > 2  # the strength matters
    best = baselines.STRENGTHS[int(np.argmax(on_validation))]
    assert found['eval/ridge_spearman'] == pytest.approx(max(on_validation), rel=1e-9)
    assert found['test/ridge_spearman'] == pytest.approx(score(test, best), rel=1e-9)


def test_a_baseline_that_wins_is_remarked_on():
    numbers = {'eval/accuracy': 0.5, 'eval/majority_accuracy': 0.4, 'eval/naive_bayes_accuracy': 0.5, 'test/spearman': None,
               'test/ridge_spearman': 0.1, 'eval/spearman': 0.3, 'eval/ridge_spearman': None}
    assert baselines.unbeaten(numbers) == ['a baseline is not beaten: eval/naive_bayes_accuracy 0.5000, eval/accuracy 0.5000']


def test_too_many_features_are_not_waited_for(monkeypatch):
    rows = measured(30, 0)
    monkeypatch.setattr(baselines, 'MOST_FEATURES', 10)
    assert baseline_scores('number', dict(train=rows, validation=rows, test=rows)) == {}
