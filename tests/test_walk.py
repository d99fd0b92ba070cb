"""The walk of a training batch stays short: the counts of `tests.walk` are within their limits."""

import pathlib
import re
import subprocess
import sys

from tests import walk


def test_the_walk_of_a_batch_is_within_its_limits():
    """In a process of its own: here other tests have called what is called once."""
    run = subprocess.run([sys.executable, '-m', 'tests.walk'], capture_output=True, text=True, cwd=pathlib.Path(__file__).parents[1])
    assert run.returncode == 0, run.stderr
    rows = re.findall(r'^ *([\d,]+)  at most +([\d,]+), aimed at +([\d,]+)  (.+)$', run.stdout, re.MULTILINE)
    assert len(rows) == 4
    for *numbers, name in rows:
        value, limit, target = (int(number.replace(',', '')) for number in numbers)
        assert target <= limit and value <= limit, f'{value} {name}\n{run.stdout}'


def test_a_walk_has_functions_of_all_threads_once_and_no_import():
    import threading

    from seqjax import errors

    with walk.Walk() as found:
        thread = threading.Thread(target=errors.suggestion, args=('a', ['b']))
        thread.start()
        thread.join()
        errors.with_prefix('', lambda: [errors.suggestion('a', 'b') for _ in range(2)])
    assert found.places == [('errors.py', 'suggestion'), ('errors.py', 'with_prefix')]
    assert found.before('with_prefix') == [('errors.py', 'suggestion')]
