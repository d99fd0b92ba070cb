"""What is said where there is no terminal: where a bar begins, and how far it is now and then."""

import pytest

from seqjax.train.progress import ProgressBar


def test_the_first_update_is_said_at_once_and_the_next_after_a_while(capsys, monkeypatch):
    with ProgressBar('train', 20) as bar:
        bar.say('124 parameters')
        bar.update(0, 'compiling')
        bar.update(1, 'loss 2.0')
        monkeypatch.setattr(ProgressBar, 'SECONDS_BETWEEN_LINES', -1)
        bar.update(2, 'loss 1.0')
        bar.add(3)
    assert capsys.readouterr().err == '124 parameters\ntrain 0/20  compiling\ntrain 2/20  loss 1.0\ntrain 5/20\n'


@pytest.mark.parametrize('step, said', [(0, '0 lines'), (1, '1 line'), (2, '2 lines'), (1234, '1,234 lines')])
def test_what_has_no_total_is_counted_in_its_unit(step, said, capsys):
    with ProgressBar('predict', None, unit='line') as bar:
        bar.update(step)
    assert capsys.readouterr().err == f'predict {said}\n'


def test_a_quiet_bar_says_nothing(capsys):
    with ProgressBar('train', 20, quiet=True) as bar:
        bar.update(0, 'compiling')
        bar.say('124 parameters')
    assert capsys.readouterr().err == ''
