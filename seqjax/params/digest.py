"""One name for all bits of a tree of parameters: proof that what was frozen has not moved."""

import hashlib
from typing import Any

import jax
import numpy as np

from seqjax.params.paths import by_path


def digest(tree: Any) -> str:
    """SHA-256 over path, dtype, shape and bytes of every leaf, in the order of the paths, as 64 hexadecimal digits.

    Arrays are read from the devices; two trees have one digest where they are the same bit for bit, also -0.0 and NaN.
    """
    found = hashlib.sha256()
    for path, leaf in sorted(by_path(tree).items()):
        array = np.ascontiguousarray(jax.device_get(leaf))
        found.update(f'{path} {array.dtype} {array.shape}\n'.encode())
        found.update(array.tobytes())
    return found.hexdigest()
