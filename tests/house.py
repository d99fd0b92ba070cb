"""Counts that the house keeps small: `python -m tests.house` prints them, and `test_house` holds them to their limits."""

import ast
import pathlib
import re
from typing import NamedTuple

from seqjax import models, tasks

ROOT = pathlib.Path(__file__).parents[1]
OF_TFDS = "record[key]['translation']"  # the name of a feature of theirs, and no task of ours


class Count(NamedTuple):
    """A number with the largest that it may be now, and the largest that was aimed at. where: what was counted."""

    value: int
    limit: int
    target: int
    where: list[str] = []


def library() -> list[pathlib.Path]:
    return sorted(ROOT.glob('seqjax/**/*.py'))


def lines(*paths: pathlib.Path) -> int:
    return sum(len(path.read_text('utf-8').splitlines()) for path in paths)


def task_names(path: pathlib.Path) -> list[str]:
    """'file:line: name' of every name of a task that a file spells, also in a comment or as a keyword: dict(tagging=...)."""
    text, ours = path.read_text('utf-8'), [name for name in tasks.TASKS if name not in models.MODELS]  # 'clip' is a model, too
    names = '|'.join(ours)
    found = {(number, name) for number, line in enumerate(text.replace(OF_TFDS, '').splitlines(), 1)
             for name in re.findall(rf"""['"]({names})['"]""", line)}
    found |= {(node.value.lineno, node.arg) for node in ast.walk(ast.parse(text))
              if isinstance(node, ast.keyword) and node.arg in ours}
    return [f'{path.relative_to(ROOT)}:{number}: {name}' for number, name in sorted(found)]


def counts() -> dict[str, Count]:
    rooms = {room: len([*room.glob('*.py')]) for room in {path.parent for path in library()}}
    largest = max(rooms, key=rooms.get)
    outside = [path for path in (*library(), ROOT / 'launch.py') if ROOT / 'seqjax' / 'tasks' not in path.parents]
    spelled = [place for path in outside for place in task_names(path)]
    longest = max(library(), key=lines)
    config = [path for path in (ROOT / 'seqjax' / 'config.py', ROOT / 'seqjax' / 'config_fields.py') if path.exists()]
    return {
        'task names spelled outside tasks/, experiments/ and tests/': Count(len(spelled), 0, 0, spelled),
        'files of the largest room at one level': Count(rooms[largest], 20, 20, [str(largest.relative_to(ROOT))]),
        'lines of launch.py': Count(lines(ROOT / 'launch.py'), 150, 150),
        'lines of config.py and config_fields.py': Count(lines(*config), 273, 273),
        'lines of the longest file': Count(lines(longest), 400, 400, [str(longest.relative_to(ROOT))]),
        'lines of seqjax/': Count(lines(*library()), 36_000, 21_778),
    }


def main() -> None:
    for name, count in counts().items():
        where = f'   {"; ".join(count.where)}' if count.where else ''
        print(f'{count.value:7,}  at most {count.limit:6,}, aimed at {count.target:6,}  {name}{where}')


if __name__ == '__main__':
    main()
