"""What the launcher says about words it does not understand."""

import pytest

from seqjax import config as configs
from seqjax.errors import UserError
from seqjax.modes.command import command_line
from seqjax.modes.command.mode import Words


@pytest.mark.parametrize('path, sentence', [
    ('train.stesp', "no field 'stesp' in config.train; did you mean 'steps'?"),
    ('model.widht', "no field 'widht' in config.model (gpt); did you mean 'width'?"),
    ('trian.steps', "no section 'trian' in config; did you mean 'train'?"),
    ('learning_rate', "no field 'learning_rate' in config; did you mean 'optimizer.learning_rate'?"),
    ('sed', "no field 'sed' in config; did you mean 'seed'?"),
    ('zzzz', "no field 'zzzz' in config; choose one of: cost, data, decode, init_fresh, init_from, init_map, lora, model, "
     'optimizer, parallel, parameters, quantise, seed, task, train, vocabulary'),
    ('seed.x', "no section 'seed' in config; choose one of: cost, data, decode, lora, model, optimizer, "
     'parallel, quantise, train'),
])
def test_the_sentence_for_an_unknown_field_says_what_was_meant(path, sentence):
    assert command_line.unknown_field(path, configs.defaults('gpt')) == sentence


@pytest.mark.parametrize('words', [
    [], ['--mode=eval', '--workdir=x'], ['--config.seed=1', '--config.seed=1'], ['--config.data.source={a,b}.tsv'],
    ['--config.seed=1', '--config.seed=2'], ['train', 'train'],
])
def test_one_source_and_other_fields_twice_are_fine(words):
    command_line.check_one_source(words)


def test_two_sources_are_refused():
    with pytest.raises(UserError) as caught:
        command_line.check_one_source(['--config.data.source=file:a.tsv', '--mode=train', '--config.data.source=file:b.tsv'])
    assert str(caught.value) == ('--config.data.source is given twice, as file:a.tsv and file:b.tsv; give it once, and put '
                                 'quotes around a value with braces')


def test_changes_of_the_command_line_reach_a_variant():
    config = command_line.changed(configs.defaults('gpt'), {'train.steps': 5, 'seed': 2, 'optimizer.b2': None}, 'gru')
    assert (config.train.steps, config.seed, config.optimizer.b2) == (5, 2, None)


def test_a_change_that_a_variant_does_not_have_is_refused_with_its_name():
    with pytest.raises(UserError) as caught:
        command_line.changed(configs.defaults('recurrent'), {'model.heads': 2}, 'elman')
    assert str(caught.value).startswith("elman: no field 'heads' in config.model (recurrent); ")


@pytest.mark.parametrize('text, value', [('32,64,256', (32, 64, 256)), ('(32, 64, 256)', (32, 64, 256)), ('', ())])
def test_several_numbers_of_one_field_have_commas_between_them(text, value):
    config = configs.defaults('resnet', source='digits')
    words = Words([f'--config.model.channels={text}'])
    assert command_line.take_changes(words, config) == {'model.channels': value}
    with pytest.raises(UserError, match='--config.model.channels=32,x: must be whole numbers with commas between them'):
        command_line.take_changes(Words(['--config.model.channels=32,x']), config)
