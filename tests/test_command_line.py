"""What the launcher says about words it does not understand."""

import pytest

from seqjax import command_line
from seqjax import config as configs


@pytest.mark.parametrize('path, sentence', [
    ('train.stesp', "no field 'stesp' in config.train; did you mean 'steps'?"),
    ('model.widht', "no field 'widht' in config.model (gpt); did you mean 'width'?"),
    ('trian.steps', "no section 'trian' in config; did you mean 'train'?"),
    ('learning_rate', "no field 'learning_rate' in config; did you mean 'optimizer.learning_rate'?"),
    ('sed', "no field 'sed' in config; did you mean 'seed'?"),
    ('zzzz', "no field 'zzzz' in config; choose one of: data, decode, model, optimizer, parallel, seed, train"),
    ('seed.x', "no section 'seed' in config; choose one of: data, decode, model, optimizer, parallel, train"),
])
def test_the_sentence_for_an_unknown_field_says_what_was_meant(path, sentence):
    assert command_line.unknown_field(path, configs.defaults('gpt')) == sentence
