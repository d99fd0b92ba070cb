"""What a run reads with when it starts from another one: the tokens of that run, so that its parameters mean the same."""

from seqjax.data.text.labelled_codec import LabelledCodec
from seqjax.errors import FieldError, UserError
from seqjax.tasks import TASKS

READ_BY = {'text': ('text',), 'labelled': ('masked', 'labelled'), 'pairs': ('spans', 'pairs'), 'captions': ('captions',), 'series': ('series',)}  # kind of codec: kinds of data


def inherited(codec, task):
    """The codec of a run for `task` that begins with the parameters of another; None where that has none.

        the codec of the other run is   a new run may be for
        labelled                        masked text, classes, numbers and labels: the same tokens and special tokens, and
                                        targets of its own, which are learned from its training part
        pairs                           missing spans and pairs: the same vocabularies, sentinels and tags included
        captions                        captions: the same vocabulary; classes and numbers of images
        labelled, of images             any task; mean and deviation by which pixels are normalised are kept
                                        where it learns classes or numbers
        text                            a language model: the same tokenizer

    It is for `data.load`, where the codec of the new run itself comes first. A UserError says what the other run was for,
    where that does not go with the task.
    """
    if codec is None:
        return None
    kinds, kind = READ_BY[codec.kind], TASKS[task].data
    if kind not in kinds and codec.of_images:
        normal = dict(mean=codec.mean, deviation=codec.deviation)
        return LabelledCodec('', **normal) if kind == 'labelled' else None
    if kind not in kinds:
        able = [name for name, other in TASKS.items() if other.data in kinds]
        raise UserError(f'is a run for {" or ".join(able)}, and its tokens are of no use for {task}; start from another run')
    return codec.without_answers()


def check_inherited(saved, options, decided=()):
    """The options of a run must say of its tokens what is so. saved: its codec, its own or inherited.

    decided: options that the task decides, whatever they say.
    """
    for field, theirs in saved.as_options().items():
        ours = getattr(options, field)
        if ours != theirs and field not in decided:
            raise FieldError(f'data.{field}', ours, f'the run that this one starts from has {theirs!r}; write that')
