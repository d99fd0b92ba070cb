"""Parameters that are not trained. The step gives them no gradient, no moments, no decay and no average of their own:
they go past it, and are afterwards what they were, bit for bit.

`config.optimizer.freeze` names them by patterns over their paths. Of the patterns that match a path the last one decides,
and one that begins with '!' takes out what those before it have frozen: '*,!classifier/*' trains the classifier alone.
"""

import fnmatch

import jax

from seqjax.errors import FieldError
from seqjax.params import paths


def is_frozen(path, patterns):
    """Whether the last of the patterns that match `path` freezes it."""
    decisions = [not pattern.startswith('!') for pattern in patterns if fnmatch.fnmatchcase(path, pattern.removeprefix('!'))]
    return bool(decisions) and decisions[-1]


def split(params, patterns):
    """(what is trained, what is frozen): the tree twice, with None where the other one has the leaf."""
    frozen = paths.map_paths(lambda path, _: is_frozen(path, patterns), params)
    return tuple(jax.tree.map(lambda x, is_frozen: x if is_frozen == wanted else None, params, frozen)
                 for wanted in (False, True))


def join(trained, frozen):
    """The tree that `split` took apart."""
    return jax.tree.map(lambda x, other: other if x is None else x, trained, frozen, is_leaf=lambda x: x is None)


def check(text, patterns, params):
    """Refuses what `config.optimizer.freeze` can only say by mistake. text: the field; patterns: those that are used."""
    known = paths.parameter_paths(params)
    for pattern in paths.parse(text):
        if not paths.matches_any(known, pattern.removeprefix('!')):
            raise FieldError('freeze', pattern, f'matches no parameter; there are: {", ".join(known)}')
    if patterns and patterns[0].startswith('!'):
        raise FieldError('freeze', text, f'nothing is frozen that {patterns[0]!r} could take out; to train nothing '
                         f"else, write '*,{text}'")
    if known and all(is_frozen(path, patterns) for path in known):
        raise FieldError('freeze', text, 'freezes every parameter; nothing is left to train')
