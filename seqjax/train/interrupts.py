"""Leaving cleanly: SIGTERM and Ctrl-C are noticed at once, even while XLA compiles in C++ and no Python runs."""

import contextlib
import os
import signal
import sys
import threading

import jax
from jax.experimental import multihost_utils

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupts:
    """A context manager; inside it `requested(step)` says whether the run should save and leave.

    Python runs signal handlers between two bytecodes of the main thread, which may be minutes away inside a compilation.
    The interpreter's wake-up pipe is written at once, so a thread that reads it can act: where nothing would be lost
    (`expendable`), or at a second signal, it ends the process there and then.

    saved: () -> whether there is a checkpoint to go on from, for what is said then.
    """

    def __init__(self, saved=lambda: True):
        self._saved = saved
        self.signal = None
        self._expendable = False

    def __enter__(self):
        self._many = jax.process_count() > 1
        # With several processes jax.distributed owns SIGTERM: it tells all of them, and they agree on a step.
        self._caught = (signal.SIGINT,) if self._many else SIGNALS
        self._old = {number: signal.signal(number, lambda *_: None) for number in self._caught}
        self._reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self._old_fd, self._writer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False), writer
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_):
        signal.set_wakeup_fd(self._old_fd)
        for number, handler in self._old.items():
            signal.signal(number, handler)
        os.close(self._writer)

    @contextlib.contextmanager
    def expendable(self):
        """While inside, everything worth keeping is on disk: a signal ends the process at once."""
        self._expendable = True
        try:
            if self.signal:
                self._leave()
            yield
        finally:
            self._expendable = False

    def requested(self, step):
        """Whether to save and leave at `step`; every process gets the same answer."""
        if self._many:
            return multihost_utils.reached_preemption_sync_point(step)
        return self.signal is not None

    @property
    def exit_code(self):
        return 128 + (self.signal or signal.SIGTERM)

    def _watch(self):
        while received := os.read(self._reader, 1):
            if received[0] not in self._caught:
                continue
            if self._many:
                os.kill(os.getpid(), signal.SIGTERM)
                continue
            again, self.signal = self.signal is not None, signal.Signals(received[0])
            if self._expendable or again:
                self._leave()
        os.close(self._reader)

    def _leave(self):
        left = 'what was saved before is untouched' if self._saved() else 'nothing was saved yet; the same command starts again'
        print(f'\n{self.signal.name}: stopped; {left}', file=sys.stderr, flush=True)
        os._exit(self.exit_code)
