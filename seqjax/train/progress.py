"""What a person sees while a run goes on: a live bar in a terminal, a line now and then elsewhere."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from seqjax.data.readers.lines import plural


class ProgressBar:
    """A context manager; `update(step, text)` moves the bar, `say(text)` prints a line above it.

    steps: None where nobody knows how many there are. unit: what is counted then, as in '3 lines'. Where there is no terminal
    the first update is said at once: often it is 'compiling', with nothing to see for a while.
    """

    SECONDS_BETWEEN_LINES = 10

    def __init__(self, title, steps, *, start=0, quiet=False, unit='step'):
        self._console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not quiet
        self._quiet, self._title, self._steps, self._unit = quiet, title, steps, unit
        self._last_line, self._begun = time.monotonic(), False
        self._bar = Progress(TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                             TextColumn('{task.fields[text]}'), console=self._console, disable=not self._live)
        self._task = self._bar.add_task(title, total=steps, completed=start, text='')

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def update(self, step, text=''):
        reached = f'{step}/{self._steps}' if self._steps else plural(step, self._unit)
        self._bar.update(self._task, completed=step, text=text or ('' if self._steps else reached))
        due = not self._begun or time.monotonic() - self._last_line > self.SECONDS_BETWEEN_LINES
        if due and not self._live:
            self.say(f'{self._title} {reached}  {text}'.rstrip())
        self._begun = True

    def add(self, count):
        """Moves the bar by so many steps."""
        self.update(self._bar.tasks[self._task].completed + count)

    def say(self, text):
        self._last_line = time.monotonic()
        if not self._quiet:
            self._console.print(text, markup=False)
