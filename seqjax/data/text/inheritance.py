"""What a run reads with when it starts from another one: the tokens of that run, so that its parameters mean the same."""

import json

from seqjax.errors import FieldError, UserError
from seqjax.tasks import TASKS

ANSWERING, WRITING = ('masked', 'labelled'), ('spans', 'pairs')  # kinds of data whose tokens are of use for one another


def inherited(read, task):
    """How a run for `task` reads that begins with the parameters of another: a function, name -> text or None.

    read(name): the text of a file of the other run, or None. What is returned is for `data.load`, where the files of the
    new run itself come first:

        theirs = data.inherited(other.read, task)
        data.load(options, task, lambda name: run.read(name) or theirs(name))

        the other run is for                              a new run may be for
        masked_lm, classification, regression, tagging    any of them: the same tokens and marks, and answers of its own,
                                                          which are learned from its training part
        span_corruption, translation                      either: the same vocabularies, sentinels and tags included
        language_model                                    language_model: the same tokenizer

    A directory without such files, as weights from elsewhere have none, gives None for every name: then tokens are learned
    anew. A UserError says what the other run was for, where that does not go with the task.
    """
    text = read('encoding.json')
    if text is not None:
        saved = json.loads(text)
        theirs = WRITING if saved['task'] == 'translation' else ANSWERING
        _check_task(theirs, task)
        return {'encoding.json': text if theirs is WRITING else json.dumps({**saved, 'task': '', 'classes': []})}.get
    text = read('tokenizer.json')
    if text is None or 'kind' not in json.loads(text):  # a file of that name is a matter of other libraries too
        return {}.get
    _check_task(('text',), task)
    return {'tokenizer.json': text}.get


def check_inherited(saved, options, decided=()):
    """The options of a run must say of its tokens what is so. saved: an Encoding or a PairEncoding, its own or inherited.

    decided: options that the task decides, whatever they say.
    """
    for field, theirs in saved.as_options().items():
        ours = getattr(options, field)
        if ours != theirs and field not in decided:
            raise FieldError(f'data.{field}', ours, f'the run that this one starts from has {theirs!r}; write that')


def _check_task(kinds, task):
    if TASKS[task].data not in kinds:
        able = [name for name, other in TASKS.items() if other.data in kinds]
        raise UserError(f'is a run for {" or ".join(able)}, and its tokens are of no use for {task}; start from another run')
