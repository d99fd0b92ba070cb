"""The house stays small and open: the counts of `tests.house` are within their limits."""

import pytest

from tests import house

COUNTS = house.counts()


@pytest.mark.parametrize('name', COUNTS)
def test_a_count_is_within_its_limit(name):
    count = COUNTS[name]
    assert count.value <= count.limit, count.where
    assert count.target <= count.limit


def test_a_task_that_is_spelled_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(house, 'ROOT', tmp_path)
    (tmp_path / 'a.py').write_text("x = dict(tagging=1)\ny = \"regression\"  # or 'masked_lm'\nfrom seqjax.metrics import classification\n"
                                   "z = record[key]['translation']\n")
    assert house.task_names(tmp_path / 'a.py') == ['a.py:1: tagging', 'a.py:2: masked_lm', 'a.py:2: regression']
