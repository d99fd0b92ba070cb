"""What counting and a linear map get right: the scores that a network has to beat, from the same rows.

    class     always the most frequent class; multinomial naive Bayes on how often each token occurs
    labels    always the most frequent label; the most frequent label of each token
    number    ridge regression on one-hot features, a feature for every token at every place; none where training rows have
              more than MOST_FEATURES, for which it takes too long

All are fitted to the training rows. The strength of the ridge is the one with the best Spearman correlation on the
validation rows. Rows: what `data.LabelledCodec.row` returns; frames have no tokens to count, and get the most frequent class
only.
"""

import numpy as np

from seqjax.metrics import classification

STRENGTHS = 10.0 ** np.arange(-3, 5)
MOST_FEATURES = 5000


def baseline_scores(target, rows):
    """{'eval/majority_accuracy': ..., 'test/ridge_spearman': ...} for the rows {'train': [...], 'validation': [...], ...}.

    target: of a row, a 'class', 'labels' or a 'number'; '' for no baseline.
    """
    if not target:
        return {}
    fit = {'class': _classification, 'labels': _tagging, 'number': _regression}[target]
    splits = dict(eval=rows['validation'], test=rows['test'])
    return {f'{name}/{score}': value for name, split in splits.items() if split
            for score, value in fit(rows['train'], rows['validation'], split).items()}


def _classification(train, _, rows):
    targets, truth = _targets(train), _targets(rows)
    counts = np.bincount(targets)
    found = dict(majority_accuracy=float(np.mean(truth == counts.argmax())))
    if _tokens(train[0]) is not None:
        vocabulary = 1 + max(int(_tokens(row).max(initial=0)) for row in (*train, *rows))
        of_class = np.ones((len(counts), vocabulary))  # Laplace: every token was seen once more
        for row, target in zip(train, targets):
            np.add.at(of_class[target], _tokens(row), 1)
        logs = np.log(of_class / of_class.sum(axis=1, keepdims=True))
        prior = np.log((counts + 1) / (counts + 1).sum())
        answers = [(prior + logs[:, _tokens(row)].sum(axis=1)).argmax() for row in rows]
        found['naive_bayes_accuracy'] = float(np.mean(truth == answers))
    return found


def _tagging(train, _, rows):
    targets, truth = _steps(train, lambda row: row['targets']), _steps(rows, lambda row: row['targets'])
    majority = np.bincount(targets).argmax()
    found = dict(majority_accuracy=float(np.mean(truth == majority)))
    if _tokens(train[0]) is not None:
        seen, asked = _steps(train, _tokens), _steps(rows, _tokens)
        counts = np.zeros((1 + max(seen.max(), asked.max()), targets.max() + 1))
        np.add.at(counts, (seen, targets), 1)
        best = np.where(counts.any(axis=1), counts.argmax(axis=1), majority)
        found['most_frequent_label_accuracy'] = float(np.mean(truth == best[asked]))
    return found


def _regression(train, validation, rows):
    if _tokens(train[0]) is None:
        return {}
    vocabulary = 1 + max(int(_tokens(row).max(initial=0)) for row in (*train, *validation, *rows))
    seen = np.unique(np.concatenate([_features(row, vocabulary) for row in train]))
    if len(seen) > MOST_FEATURES:
        return {}
    X, X_validation, X_rows = (_one_hot(split, vocabulary, seen) for split in (train, validation, rows))
    centre, y = X.mean(axis=0), _targets(train).astype(np.float64)
    values, vectors = np.linalg.eigh((X - centre).T @ (X - centre))
    projected = vectors.T @ ((X - centre).T @ (y - y.mean()))
    weights = [vectors @ (projected / (values + strength)) for strength in STRENGTHS]
    best = max(weights, key=lambda w: np.nan_to_num(classification.spearman(X_validation @ w, _targets(validation)), nan=-1))
    return dict(ridge_spearman=classification.spearman(X_rows @ best, _targets(rows)))


def _targets(rows):
    return np.array([row['targets'] for row in rows])


def _steps(rows, part):
    """`part` of all steps that have a label, one after another."""
    return np.concatenate([part(row)[row['weights'] > 0] for row in rows])


def _tokens(row):
    """[T], or None where the inputs are frames."""
    inputs = row['inputs']['words'] if isinstance(row['inputs'], dict) else row['inputs']
    return inputs if inputs.ndim == 1 else None


def _features(row, vocabulary):
    """A number for every (place, token) of a row."""
    tokens = _tokens(row)
    return np.arange(len(tokens)) * vocabulary + tokens


def _one_hot(rows, vocabulary, seen):
    """[rows, features], of the features that were seen in training, which are sorted."""
    made = np.zeros((len(rows), len(seen)))
    for row, place in zip(rows, made):
        features = _features(row, vocabulary)
        at = np.searchsorted(seen, features).clip(max=len(seen) - 1)
        place[at[seen[at] == features]] = 1
    return made
