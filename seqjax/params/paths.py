"""Parameters by name: 'decoder/block_0/attention/query/kernel', and glob patterns over such paths: '*/block_0/*', '*bias'."""

import collections
import fnmatch

from flax import linen
import jax


def parameter_paths(params):
    """The paths of all leaves, in the order of `jax.tree.leaves`."""
    return list(by_path(params))


def by_path(params):
    """{path: leaf} of a tree of parameters."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {_name(path): leaf for path, leaf in leaves}


def map_paths(function, tree):
    """function('decoder/block_0/attention/query/kernel', leaf) over the leaves of a tree of parameters."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: function(_name(path), leaf), tree)


def of_modules(init, describe):
    """(what init() returns, as shapes; {path: what describe(module) says of the parameter}) of the modules that init calls.

    describe(module) returns {name of a parameter: anything}.
    """
    found = {}

    def listen(call, arguments, options, context):
        if context.method_name == '__call__':
            found.update({'/'.join((*context.module.path, name)): said for name, said in describe(context.module).items()})
        return call(*arguments, **options)

    with linen.intercept_methods(listen):
        return jax.eval_shape(lambda: init()), found  # a function of its own: jax would not call the same one again


def parse(text):
    """'a/*, b' -> ['a/*', 'b']"""
    return [pattern.strip() for pattern in text.split(',') if pattern.strip()]


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def matches_any(paths, pattern):
    return any(fnmatch.fnmatchcase(path, pattern) for path in paths)


def condensed(chosen, paths):
    """The paths `chosen` out of all `paths`, for a reader: a part of the tree that was chosen as a whole is one 'part/*'."""
    inside = lambda paths: collections.Counter(prefix for path in paths for prefix in _parents(path))
    chosen = set(chosen)
    all_inside, chosen_inside = inside(paths), inside(chosen)
    names = ((path, *(parent for parent in _parents(path) if chosen_inside[parent] == all_inside[parent]))
             for path in paths if path in chosen)
    return list(dict.fromkeys(f'{name[1]}/*' if len(name) > 1 else name[0] for name in names))


def _parents(path):
    """'a/b/c' -> ['a', 'a/b']"""
    parts = path.split('/')
    return ['/'.join(parts[:length]) for length in range(1, len(parts))]


def _name(path):
    return jax.tree_util.keystr(path, simple=True, separator='/')
