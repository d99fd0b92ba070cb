"""Times systems in turn: every round times each once, so that a busy machine slows all of them. And says what machine it was."""

import os
import pathlib
import re
import statistics
import sys
import time


def measure(runs, rounds, *, cpu=False, warm_up=2):
    """({system: seconds}, {system: what it returned last}) of runs {system: function}, after rounds that are not counted.

    The median over the rounds; with cpu the least seconds of the processor, for a machine that others use too.
    """
    clock, best = (time.process_time, min) if cpu else (time.perf_counter, statistics.median)
    times, last = {system: [] for system in runs}, {}
    for number in range(rounds + warm_up):
        for system, run in runs.items():
            start = clock()
            last[system] = run()
            times[system].append(clock() - start)
        print(f'\rround {number + 1} of {rounds + warm_up}', end='', file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {system: best(taken[warm_up:]) for system, taken in times.items()}, last


def machine(*modules):
    """What a figure depends on: the processor, how many cores of it may be used, the versions of modules, and the load."""
    told = pathlib.Path('/proc/cpuinfo')
    named = re.search(r'model name\s*: (.*)', told.read_text()) if told.exists() else None
    return dict(processor=named[1] if named else 'unknown', cores=len(os.sched_getaffinity(0)), load=round(os.getloadavg()[0], 2),
                **{module.__name__: module.__version__ for module in modules})
