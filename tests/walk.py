"""The walk of a training batch: the functions of seqjax that are entered between train(config, workdir) and the first update.

    python -m tests.walk         prints them in the order of their first call, and the counts that `test_walk` holds to their limits
"""

import os
import pathlib
import sys
import tempfile
import threading
from typing import Any, NamedTuple

from tests.house import Count

ROOT = pathlib.Path(__file__).parents[1] / 'seqjax'
OPTIMIZED = 0x1  # of the flags of a code object: a function, and no body of a module or a class


class Place(NamedTuple):
    """A function that was entered. file: below seqjax/."""

    file: str
    function: str


class Walk:
    """A context manager; afterwards `places` has the functions that were entered within, on all threads, each once.

    A function is what has a name: lambdas and comprehensions, which Python 3.12 no longer calls, belong to the one around them. What
    the import of a module calls is no part of a walk.
    """

    def __init__(self) -> None:
        self.places: list[Place] = []
        self._seen: set[Any] = set()

    def __enter__(self) -> 'Walk':
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def before(self, function: str) -> list[Place]:
        """The places that were entered before a function was."""
        return self.places[:[place.function for place in self.places].index(function)]

    def _look(self, frame, event, _):
        code = frame.f_code
        if event != 'call' or code in self._seen or not code.co_filename.startswith(str(ROOT)) or _imports(frame):
            return
        self._seen.add(code)
        place = Place(pathlib.Path(code.co_filename).relative_to(ROOT).as_posix(), code.co_qualname.replace('.<locals>', ''))
        if code.co_flags & OPTIMIZED and not code.co_name.startswith('<') and place not in self.places:
            self.places.append(place)


def _imports(frame):
    """Whether a module of seqjax is being imported by what is called."""
    while frame := frame.f_back:
        if frame.f_code.co_name == '<module>' and frame.f_code.co_filename.startswith(str(ROOT)):
            return True
    return False


def walk() -> Walk:
    """That of experiments/language/char_lstm.py with two steps, eight units and a short text, which is read for the first time."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ['SEQJAX_CACHE'] = f'{directory}/cache'
        from seqjax import config as configs
        from seqjax.modes.command import experiment_files
        from seqjax.train.loop import train
        from tests.tiny import write_text

        config = experiment_files.load(f'{ROOT.parent}/experiments/language/char_lstm.py')
        config = configs.for_another(config, {'data.source': f'file:{write_text(f"{directory}/text.txt")}'})
        config.model.width = 8
        config.train.update(steps=2, eval_batches=2)
        config.optimizer.warmup_steps = 1
        with Walk() as found:
            train(config, f'{directory}/run')
    return found


def counts(found: Walk) -> dict[str, Count]:
    """The limits are a little above what is reached. The targets, which are missed, are half of what a review counted in commit
    17184a0, 271 functions in 46 files to the first update; this tracer finds 256 in 47 there, and 312 in 54 to the end."""
    first, files = found.before('Recorder.push'), lambda places: sorted({place.file for place in places})
    return {
        'functions to the first update': Count(len(first), 320, 135),
        'files to the first update': Count(len(files(first)), 60, 23),
        'functions to the end': Count(len(found.places), 385, 135),
        'files to the end': Count(len(files(found.places)), 70, 23),
    }


def main() -> None:
    found = walk()
    first = len(found.before('Recorder.push'))
    for number, place in enumerate(found.places, 1):
        print('---- the first update\n' * (number == first + 1) + f'{number:4} {place.file:34} {place.function}')
    for name, count in counts(found).items():
        print(f'{count.value:7,}  at most {count.limit:6,}, aimed at {count.target:6,}  {name}')


if __name__ == '__main__':
    main()
