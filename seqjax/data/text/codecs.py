"""All kinds of codecs, and how one is read back from a run."""

from collections.abc import Callable
import json

from seqjax.data.series import SeriesCodec
from seqjax.data.text import tokenizers
from seqjax.data.text.caption_codec import CaptionCodec
from seqjax.data.text.codec import FILE, Codec, TextCodec
from seqjax.data.text.labelled_codec import LabelledCodec
from seqjax.data.text.pair_codec import PairCodec
from seqjax.registry import Registry

CODECS = Registry('codec', {cls.kind: cls for cls in (TextCodec, LabelledCodec, PairCodec, CaptionCodec, SeriesCodec)})
FILES = (FILE, 'encoding.json', 'tokenizer.json')  # the last two: of runs that began before all kinds had one file


def load_codec(text: str) -> Codec | None:
    """The codec that `Codec.dumps` wrote, or an older run as encoding.json or tokenizer.json; None for files of others."""
    saved = json.loads(text)
    if 'kind' not in saved and 'task' in saved:
        return (PairCodec if 'source' in saved else LabelledCodec).from_state(saved)
    if saved.get('kind') in tokenizers.STATES:
        return TextCodec(tokenizers.loads(text))
    return CODECS[saved['kind']].from_state(saved) if 'kind' in saved else None


def saved_codec(read: Callable[[str], str | None]) -> Codec | None:
    """The codec of a run, or None. read: the text of one of its files by name, or None where it has no such file."""
    return next((load_codec(text) for text in map(read, FILES) if text is not None), None)
