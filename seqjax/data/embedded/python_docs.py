"""Functions of the standard library and sentences of its documentation: does the sentence describe the function?

    def rmtree(path, ignore_errors=False, onerror=None)    Recursively delete a directory tree.                         yes
    def rmtree(path, ignore_errors=False, onerror=None)    Recursively move a file or directory to another location.    no

A pair of texts is judged, as paraphrases and entailments are (Dolan & Brockett 2005; Bowman et al. 2015). The sentence that
does not fit is the one of another function of the same module, so that it is about the same things. Every function is there with
both, and every sentence with a function that it describes and with one that it does not: neither text alone tells the answer.
What helps is to find words of one text in the other, as that of `is_multicast` in 'reserved for multicast use', and to know what
words have to do with each other.

Training takes the modules that are the text `python`, and the others the modules inside packages (asyncio, email, ...): a model
that was pretrained on that text has not read a line of what it is measured on. The library changes a little from one version
of Python to the next, and the set with it.
"""

import ast
import functools
import pathlib
import platform
import random
import sysconfig
import warnings

from seqjax.data.readers.examples import Example, Examples, TextPair

LONGEST = 160  # characters of either text
PACKAGES = ('asyncio', 'collections', 'concurrent', 'ctypes', 'email', 'html', 'http', 'importlib', 'json', 'logging',
            'multiprocessing', 'unittest', 'urllib', 'wsgiref', 'xml', 'xmlrpc', 'zoneinfo')  # in every version of Python


def python_doc_examples(task, *, seed):
    """Pairs of a function and a sentence, 'yes' or 'no'; `seed` mixes the sentences and deals out the modules of packages."""
    del task  # one task, and the parts are what they are
    rng, root = random.Random(seed), pathlib.Path(sysconfig.get_path('stdlib'))
    inside = [path for package in PACKAGES for path in sorted((root / package).rglob('*.py'))
              if 'test' not in path.relative_to(root).parts]
    rng.shuffle(inside)
    seen = set()  # a text that two modules share is kept where it comes first, so that no part has one of another's
    parts = [[example for path in paths for example in _pairs(_described(path, seen), rng)]
             for paths in (sorted(root.glob('*.py')), inside[::2], inside[1::2])]
    for part in parts:
        rng.shuffle(part)
    functions = sum(map(len, parts)) // 2
    return Examples(*parts, f'{functions:,} functions of Python {platform.python_version()}, each with a sentence that describes '
                    'it and with one that does not')


def described_functions(source):
    """(header, first sentence of the documentation) of every function and method of a module."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of its strings
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            paragraph = ' '.join(ast.get_docstring(node).split('\n\n')[0].split())
            sentence, stop, _ = paragraph.partition('. ')
            yield f'def {node.name}({ast.unparse(node.args)})', sentence + stop.strip()


@functools.cache  # to parse the library takes seconds
def _of_file(path):
    text = path.read_bytes()
    return tuple(described_functions(text.decode('ascii'))) if text.isascii() else ()


def _described(path, seen):
    """Those of a file in ASCII that are short and not seen before."""
    found = []
    for header, sentence in _of_file(path):
        if max(len(header), len(sentence)) <= LONGEST and not {header, sentence} & seen:
            seen.update((header, sentence))
            found.append((header, sentence))
    return found


def _pairs(functions, rng):
    """Every function with its own sentence and with that of another one; a module with one function has none."""
    rng.shuffle(functions)
    for (header, own), (_, other) in zip(functions, functions[1:] + functions[:1]):
        if own != other:
            yield Example(TextPair(header, own), 'yes')
            yield Example(TextPair(header, other), 'no')
