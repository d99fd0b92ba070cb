"""The standard library's own source, about 4 MB of text on any machine that runs Python."""

import pathlib
import sysconfig

from seqjax.data.readers.examples import Text


def python_text(task: str, *, held_out: float) -> Text:
    """Every top-level module that is pure ASCII, in the order of their names; the last `held_out` of the text is held out."""
    del task
    files = sorted(pathlib.Path(sysconfig.get_path('stdlib')).glob('*.py'))
    text = '\n'.join(path.read_text('ascii') for path in files if path.read_bytes().isascii())
    cut = round(len(text) * (1 - held_out))
    return Text(text[:cut], text[cut:])
