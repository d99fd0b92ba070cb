"""What counting and a linear map get right: the scores that a network has to beat, from the same rows, by scikit-learn.

    class    always the most frequent class; multinomial naive Bayes on how often each token occurs
    labels   always the most frequent label; the most frequent label of each token
    number   ridge regression on one-hot features, a feature for every token at every place; none where training rows have
             more than MOST_FEATURES, for which it takes too long

All are fitted to the training rows. The strength of the ridge is the one with the best Spearman correlation on the
validation rows. Rows: what `codec.row` returns; frames have no tokens to count, and get the most frequent class only.
"""

from collections.abc import Callable, Sequence

import numpy as np

from seqjax.metrics.correlation import spearman

BASELINES = 'majority_accuracy', 'naive_bayes_accuracy', 'most_frequent_label_accuracy', 'ridge_spearman'
STRENGTHS = 10.0 ** np.arange(-3, 5)
MOST_FEATURES = 5000


def baseline_scores(target: str, rows: dict[str, Sequence[dict]], report: Callable[[str], None] = lambda text: None
                    ) -> dict[str, float]:
    """{'eval/majority_accuracy': ..., 'test/ridge_spearman': ...} for the rows {'train': [...], 'validation': [...], ...}.

    target: what the rows have, 'class', 'labels' or 'number'; '' for no baseline. report: told of what takes a while before
    it begins.
    """
    if not target:
        return {}
    splits = {name: part for name, part in (('eval', rows['validation']), ('test', rows['test'])) if part}
    if target == 'number':
        return _ridge(rows['train'], rows['validation'], splits, report)
    fit = _of_labels if target == 'labels' else _of_classes
    return {f'{name}/{score}': value for name, split in splits.items() for score, value in fit(rows['train'], split).items()}


def unbeaten(numbers: dict[str, float | None]) -> list[str]:
    """A sentence for every baseline that is at least as good as the model. numbers: scores of both by name; None: undefined."""
    found = []
    for name, baseline in numbers.items():
        split, _, score = name.rpartition('/')
        ours = f'{split}/{score.rpartition("_")[2]}'
        if score in BASELINES and None not in (baseline, numbers.get(ours)) and numbers[ours] <= baseline:
            found.append(f'a baseline is not beaten: {name} {baseline:.4f}, {ours} {numbers[ours]:.4f}')
    return found


def _of_classes(train, rows):
    targets, truth = _targets(train), _targets(rows)
    counts = np.bincount(targets)
    found = dict(majority_accuracy=float(np.mean(truth == counts.argmax())))
    if _tokens(train[0]) is not None:
        from sklearn.naive_bayes import MultinomialNB

        vocabulary = 1 + max(int(_tokens(row).max(initial=0)) for row in (*train, *rows))
        model = MultinomialNB(class_prior=(counts + 1) / (counts + 1).sum())  # every class and token was seen once more
        model.partial_fit(_token_counts(train, vocabulary), targets, classes=np.arange(len(counts)))
        found['naive_bayes_accuracy'] = float(np.mean(truth == model.predict(_token_counts(rows, vocabulary))))
    return found


def _of_labels(train, rows):
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


def _ridge(train, validation, splits, report):
    if _tokens(train[0]) is None:
        return {}
    report(f'baseline: ridge regression on {len(train):,} rows, a feature for every token at every place')
    placed = {name: _placed(rows) for name, rows in {'train': train, **splits}.items()}
    vocabulary = 1 + max(int(tokens.max(initial=0)) for *_, tokens in placed.values())
    features = {name: places * vocabulary + tokens for name, (_, places, tokens) in placed.items()}
    seen = np.unique(features['train'])
    if len(seen) > MOST_FEATURES:
        return {}
    from sklearn.linear_model import Ridge

    one_hot = lambda name, rows: _one_hot(placed[name][0], features[name], seen, len(rows))
    X = one_hot('train', train)
    usual = np.asarray(X.mean(axis=0)).ravel() > 0.5
    design = lambda X: _rare(X, usual)
    fitted = [Ridge(strength, solver='sparse_cg', tol=1e-10).fit(design(X), _targets(train).astype(np.float64))
              for strength in STRENGTHS]
    known = {name: (design(one_hot(name, split)), _targets(split)) for name, split in splits.items()}
    score = lambda model, name: spearman(model.predict(known[name][0]), known[name][1])
    best = max(fitted, key=lambda model: np.nan_to_num(score(model, 'eval'), nan=-1)) if validation else fitted[0]
    return {f'{name}/ridge_spearman': score(best, name) for name in splits}


def _targets(rows):
    return np.array([row['targets'] for row in rows])


def _steps(rows, part):
    """`part` of all positions that have a label, one after another."""
    return np.concatenate([part(row)[row['weights'] > 0] for row in rows])


def _tokens(row):
    """[T], or None where the inputs are frames."""
    inputs = row['inputs']['words'] if isinstance(row['inputs'], dict) else row['inputs']
    return inputs if inputs.ndim == 1 else None


def _placed(rows):
    """(row, place in it, token) of every token, three arrays [n]."""
    tokens = [_tokens(row) for row in rows]
    lengths = np.array([len(row) for row in tokens])
    places = np.concatenate([np.arange(length) for length in lengths])
    return np.repeat(np.arange(len(rows)), lengths), places, np.concatenate(tokens)


def _token_counts(rows, vocabulary):
    """Sparse [rows, vocabulary]: how often each token occurs."""
    numbers, _, tokens = _placed(rows)
    return _sparse(numbers, tokens, (len(rows), vocabulary))


def _one_hot(numbers, features, seen, count):
    """Sparse [rows, features], of the features that were seen in training, which are sorted. numbers: of their rows."""
    at = np.searchsorted(seen, features).clip(max=len(seen) - 1)
    known = seen[at] == features
    return _sparse(numbers[known], at[known], (count, len(seen)))


def _sparse(rows, columns, shape):
    """Ones at these places; where one is named several times they add up."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows)), (rows, columns)), shape)


def _rare(X, usual):
    """The same with 1 - x for the features that most rows have: as good for a ridge with an intercept, and far sparser where
    sequences are aligned."""
    from scipy.sparse import csr_array, hstack

    return hstack([X[:, ~usual], csr_array(1 - X[:, usual].toarray())]).tocsr()
