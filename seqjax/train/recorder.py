"""Logging without waiting: the host runs a few steps ahead of the device and writes each step down when it is done."""

import collections
import contextlib
import time

from seqjax.errors import UserError

STEPS_IN_FLIGHT = 16  # enough to keep a device busy; a bound, because steps that are never waited for can deadlock


class Recorder:
    """Takes what every step returned, in order; writes it to the metrics log and the progress bar a little later.

    read: turns device values into numbers (`strategy.read`). log: a MetricsLog, or None on processes that do not write.
    seconds: how long the run had taken before this process.
    """

    def __init__(self, log, bar, read, *, tokens_per_step, max_skipped, seconds=0.0):
        self._log, self._bar, self._read = log, bar, read
        self._tokens_per_step, self._max_skipped = tokens_per_step, max_skipped
        self._pending = collections.deque()
        self._begin, self._seconds_before = time.monotonic(), seconds
        self._pauses, self._done = 0.0, 0

    def push(self, step, facts):
        """Takes the facts of a step that has been started, and waits for the oldest if too many are under way."""
        self._pending.append((step, facts))
        self.drain(STEPS_IN_FLIGHT)

    def drain(self, leave=0):
        """Waits until at most `leave` steps are under way and writes down the ones that are done."""
        while len(self._pending) > leave:
            step, facts = self._pending.popleft()
            facts = self._read(facts)
            self._done += 1
            means = {name: float(value) for name, value in facts['sums'].means().items()}
            self._bar.update(step, f'loss {means["loss"]:.4f}  {self.tokens_per_second():,.0f} tokens/s')
            in_row = int(facts['skipped_in_row'])
            self.write(step, {**{f'train/{name}': value for name, value in means.items()},
                              'train/gradient_norm': float(facts['gradient_norm']),
                              'train/learning_rate': float(facts['learning_rate']),
                              'skipped': in_row > 0, 'batch': '{:08x}{:08x}'.format(*map(int, facts['batch']))})
            if in_row >= self._max_skipped:
                raise UserError(f'step {step}: loss or gradient was not finite {in_row} times in a row '
                                f'(config.train.max_skipped={self._max_skipped}); no such update was applied and the '
                                'checkpoints are good; lower config.optimizer.learning_rate or config.optimizer.clip_norm')

    def write(self, step, values):
        if self._log:
            self._log.write(step, values)

    def sync(self):
        """After this every step that was started is in the log, and the log is on disk."""
        self.drain()
        if self._log:
            self._log.sync()

    @contextlib.contextmanager
    def paused(self):
        """Time that does not count as training: evaluating, saving."""
        self.drain()
        start = time.monotonic()
        yield
        self._pauses += time.monotonic() - start

    def seconds(self):
        """How long the run has taken, evaluations, saves and earlier processes included."""
        return self._seconds_before + time.monotonic() - self._begin

    def tokens_per_second(self):
        """Over the training steps of this process."""
        return self._done * self._tokens_per_step / max(time.monotonic() - self._begin - self._pauses, 1e-9)
