"""Starting launch.py as a user does: in a process of its own, without the settings that this one tests with."""

import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
CACHE = ROOT / '.pytest_cache' / 'xla'


def start(*arguments, cache=CACHE, quick=False):
    """launch.py with these arguments, its error output on a pipe. quick: see `plain_environment`."""
    environment = {**plain_environment(quick), 'SEQJAX_CACHE': str(cache), 'PYTHONPATH': str(ROOT / 'tests' / 'without_torch')}
    return subprocess.Popen([sys.executable, 'launch.py', *map(str, arguments)], cwd=ROOT, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def plain_environment(quick=False):
    """The environment without what tests/conftest.py adds to it.

    quick: programs are compiled with its XLA_FLAGS, in half the time; for processes that compile more than they compute.
    """
    return {name: value for name, value in os.environ.items() if name not in (('NPROC',) if quick else ('NPROC', 'XLA_FLAGS'))}


def finish(process, timeout=240):
    """(exit code, output, error output). One that hangs is ended, and the stacks of its threads stand in the error output."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # launch.py has faulthandler write them
        output, errors = process.communicate()
        errors += f'\nended after {timeout} seconds'
    return process.returncode, output, errors
