"""The config: its defaults are possible, impossible values are refused, and saving loses nothing."""

import dataclasses
import json
import math
import pathlib

from ml_collections import ConfigDict
import pytest

from seqjax import config as configs
from seqjax import decode, models
from seqjax.errors import FieldError, UserError
from seqjax.modes.command import experiment_files
from tests.tiny import first_task, loaded, tiny_config

EXPERIMENTS = sorted((pathlib.Path(__file__).parent.parent / 'experiments').glob('*/*.py'))
NAN, INF = math.nan, math.inf
BAD = {  # field: values that must be refused
    'data.num_buckets': [0],
    'data.max_length': [-1],
    'data.mask_probability': [0.0, 1.0, NAN],
    'data.span_length': [0.5, NAN],
    'data.train_examples': [-1],
    'data.examples_per_class': [-1],
    'data.batch_tokens': [-1],
    'data.characters_per_word': [-1],
    'data.image_size': [-1],
    'data.split_seed': [-1],
    'data.held_out': [0.0, 1.0, -0.1, NAN],
    'data.held_out_rows': [0],
    'data.vocabulary': [0, -1],
    'data.batch_size': [0, -8],
    'data.sequence_length': [1, 0],
    'train.steps': [0, -3, 2 ** 31],
    'train.eval_every': [-1],
    'train.eval_batches': [-1],
    'train.save_every': [-1],
    'train.xray_every': [-1],
    'train.label_smoothing': [-0.1, 1.0, NAN],
    'train.patience': [-1],
    'train.decode_rows': [-1],
    'train.keep_latest': [0],
    'train.keep_best': [-1],
    'train.gradient_accumulation_steps': [0, -1],
    'train.max_skipped': [0],
    'train.peak_flops': [-1.0, INF],
    'optimizer.learning_rate': [0.0, -1.0, NAN, INF],
    'optimizer.warmup_steps': [-1],
    'optimizer.final_rate': [-0.1, 1.1, NAN],
    'optimizer.clip_norm': [-1.0, NAN, INF],
    'optimizer.clip_value': [-1.0, NAN, INF],
    'optimizer.weight_decay': [-0.1, NAN, INF],
    'optimizer.ema_decay': [-0.1, 1.0, NAN],
    'optimizer.b1': [-0.1, 1.0, NAN],
    'optimizer.b2': [-0.1, 1.0, NAN],
    'optimizer.eps': [0.0, -1.0, NAN, INF],
    'optimizer.momentum': [-0.1, 1.0, NAN],
    'train.temperature': [0.0, -1.0, NAN],
    'train.projection_hidden': [0],
    'train.projection_width': [0],
    'train.prototypes': [1],
    'train.teacher_momentum': [-0.1, 1.0, NAN],
    'train.teacher_temperature': [0.0, NAN],
    'train.student_temperature': [0.0, NAN],
    'train.center_momentum': [-0.1, 1.0, NAN],
    'train.local_views': [-1],
    'lora.rank': [-1],
    'lora.alpha': [0.0, -1.0, NAN, INF],
    'parallel.deadline': [0],
    'decode.samples': [0],
    'decode.batch_size': [0],
    'decode.page_size': [0],
    'decode.pages': [-1],
    'decode.max_new_tokens': [0],
    'decode.seed': [-1, 2 ** 32],
    'decode.temperature': [-0.1, NAN, INF],
    'decode.top_k': [-1],
    'decode.top_p': [0.0, 1.1, -1.0, NAN],
    'decode.length_factor': [-1.0, INF],
    'decode.penalty_alpha': [-0.1, 1.1, NAN],
    'decode.num_draft_tokens': [0],
    'decode.num_beams': [0],
    'decode.length_penalty': [-0.5, NAN, INF],
    'decode.coverage_penalty': [-1.0, NAN],
    'decode.diversity_penalty': [-1.0, NAN],
    'decode.min_p': [-0.1, 1.1, NAN],
    'decode.no_repeat_ngram_size': [-1],
    'decode.min_length': [-1],
    'decode.stop': ['ab'],
    'cost.seconds': [0.0, -1.0, NAN, INF],
    'cost.largest': [0.0, -1.0, NAN, INF],
}
CHOICES = {'data.split', 'data.batching', 'data.on_error', 'data.images_as', 'data.augment', 'quantise.weights'}  # what is none of them is refused below

ANSWER_ROWS = ', '.join(name for name, model in models.MODELS.items() if 'row' in model.output_kinds)  # bert, reader, ...
RUNS = [  # of all kinds of data and of decoding
    ('gpt', '', 'python'), ('bert', 'masked_lm', 'python'), ('t5', 'span_corruption', 'python'), ('reader', '', 'reviews'),
    ('reader', 'classification', 'file:x.tsv'), ('seq2seq', 'translation', 'file:x.tsv'), ('seq2seq', '', 'reverse'),
    ('reader', '', 'adding'), ('vit', 'simclr', 'digits'), ('vit', 'dino', 'digits'), ('clip', 'clip', 'digit_scenes'),
    ('captioner', '', 'digit_scenes')]


def with_value(field, value, runs=RUNS):
    """The config of the first of the runs that has the field, with that value; of a GPT where none has."""
    kinds = [configs.defaults(model, task=task, source=source) for model, task, source in runs]
    config = next((config for config in kinds if field in configs.flatten(config)), configs.defaults('gpt'))
    section, _, name = field.rpartition('.')
    with config.unlocked():
        (config[section] if section else config)[name] = value
    return config


def check(config):
    configs.validate(config)
    configs.check_model(config)


@pytest.mark.parametrize('model', models.MODELS)
def test_the_defaults_of_every_model_are_possible(model):
    task = first_task(model)
    source = dict(language_model='python', masked_lm='python', translation='reverse', clip='digit_scenes', captioning='digit_scenes').get(task, 'adding')
    named = dict(task=task) if source != 'adding' else {}
    hidden = dict(**named, data=dict(source=source, **(dict(special_tokens=True) if task == 'masked_lm' else {})))
    check(tiny_config(model, **hidden))


def test_every_limit_has_a_value_that_breaks_it():
    limited = {f'{section}.{found.name}' for section in configs.OPTIONS
               for found in dataclasses.fields(configs.options_of(section)) if found.metadata['limit']}
    assert BAD.keys() | CHOICES == limited


@pytest.mark.parametrize('field, value', [(field, value) for field, values in BAD.items() for value in values])
def test_an_impossible_value_is_refused_by_name(field, value):
    with pytest.raises(FieldError) as caught:
        configs.validate(with_value(field, value))
    assert str(caught.value).startswith(f'config.{field}={value!r}: must be ')


@pytest.mark.parametrize('field, value, sentence', [
    ('seed', -1, 'config.seed=-1: must be at least 0 and less than 4294967296'),
    ('seed', 2 ** 32, 'config.seed=4294967296: must be at least 0 and less than 4294967296'),
    ('train.gradient_accumulation_steps', 5, 'config.train.gradient_accumulation_steps=5: must divide data.batch_size=32'),
    ('model.heads', 3, 'config.model.heads=3: must divide width=128; 1, 2, 4, 8 would'),
    ('model.dropout', 1.0, 'config.model.dropout=1.0: must be at least 0 and less than 1'),
    ('model.dropout', NAN, 'config.model.dropout=nan: must be at least 0 and less than 1'),
    ('model.dtype', 'float16', "config.model.dtype='float16': choose one of: float32, bfloat16"),
    ('model.name', 'gtp', "config.model.name='gtp': no such model; did you mean 'gpt'?"),
    ('model.name', 'reader', "config.model.name='reader': cannot learn 'language_model', which the data is for; models that "
                             'can: gpt, llama, recurrent, mamba, rwkv'),
    ('data.source', 'adding', "config.model.name='gpt': cannot learn 'regression', which the data is for; models that can: "
                              + ANSWER_ROWS),
    ('task', 'regresion', "config.task='regresion': no such task; did you mean 'regression'?"),
    ('task', 'regression', "config.task='regression': the set 'python' is for: language_model, masked_lm, span_corruption; embedded "
                           'sets for regression: peptides, adding'),
    ('data.stateful', True, "config.data.stateful=True: 'gpt' has no state to carry; set it to false, or use a model that has "
                         'one: recurrent, mamba, rwkv'),
    ('model.widht', 3, "config.model.widht=3: 'gpt' has no such field; did you mean 'width'?"),
    ('parameters', -1, 'config.parameters=-1: must be a positive number, or 0 for off'),
    ('data.split', 'tests', "config.data.split='tests': did you mean 'test'?"),
    ('data.split', 'train', "config.data.split='train': choose one of: test, validation"),
    ('data.batching', 'buckets', "config.data.batching='buckets': is for labelled sequences and translations; "
     "this run is for language_model on 'python'; leave it out"),
    ('data.on_error', 'ignore', "config.data.on_error='ignore': is for files of examples; this run is for "
     "language_model on 'python'; leave it out"),
    ('data.batching', 'pack', "config.data.batching='pack': is for labelled sequences and translations; this run is for "
     "language_model on 'python'; leave it out"),
    ('data.characters_per_word', 5, "config.data.characters_per_word=5: is for labelled sequences; "
     "this run is for language_model on 'python'; leave it out"),
    ('data.word_vectors', 'x', "config.data.word_vectors='x': is for labelled sequences; "
     "this run is for language_model on 'python'; leave it out"),
    ('data.shared_vocabulary', True, "config.data.shared_vocabulary=True: is for translations and span corruption; "
     "this run is for language_model on 'python'; leave it out"),
    ('data.lowercase', True, "config.data.lowercase=True: is for masked language models, span corruption, labelled sequences, translations and images with captions; "
     "this run is for language_model on 'python'; leave it out"),
    ('data.batch_tokens', 9, "config.data.batch_tokens=9: is for translations; "
     "this run is for language_model on 'python'; leave it out"),
    ('train.teacher_forcing', 'linear', "config.train.teacher_forcing='linear': is for translation, captioning; "
     "this run is for language_model on 'python'; leave it out"),
    ('train.decode_rows', 3, "config.train.decode_rows=3: is for translation, captioning; "
     "this run is for language_model on 'python'; leave it out"),
    ('data.max_length', 9, "config.data.max_length=9: is for labelled sequences, translations and images with captions; "
     "this run is for language_model on 'python'; leave it out"),
    ('decode.num_beams', 0, 'config.decode.num_beams=0: must be at least 1'),
    ('decode.prefix', 'The', "config.decode.prefix='The': is for translations; "
     "this run is for language_model on 'python'; leave it out"),
    ('decode.exact', True, "config.decode.exact=True: is for translations; "
     "this run is for language_model on 'python'; leave it out"),
    ('decode.n_best', 2, "config.decode.n_best=2: is for translations; "
     "this run is for language_model on 'python'; leave it out"),
    ('decode.num_beam_groups', 0, 'config.decode.num_beam_groups=0: must divide num_beams=1'),
    ('decode.num_beam_groups', 2, 'config.decode.num_beam_groups=2: must divide num_beams=1'),
    ('decode.min_p', -0.1, 'config.decode.min_p=-0.1: must be at least 0 and at most 1 (0 keeps all tokens)'),
    ('decode.min_p', NAN, 'config.decode.min_p=nan: must be at least 0 and at most 1 (0 keeps all tokens)'),
    ('decode.coverage_penalty', 0.2, "config.decode.coverage_penalty=0.2: is for translations; "
     "this run is for language_model on 'python'; leave it out"),
])
def test_what_no_single_limit_can_say_is_refused_too(field, value, sentence):
    with pytest.raises(FieldError) as caught:
        check(with_value(field, value, RUNS[:1]))
    assert str(caught.value) == sentence


@pytest.mark.parametrize('field, value, sentence', [
    ('train.teacher_forcing', 'linaer', "config.train.teacher_forcing='linaer': no such schedule; did you mean 'linear'?"),
    ('train.teacher_forcing_steps', 0, 'config.train.teacher_forcing_steps=0: must be at least 1'),
    ('train.teacher_forcing_floor', 2.0, 'config.train.teacher_forcing_floor=2.0: must be at least 0 and at most 1'),
    ('decode.n_best', 0, 'config.decode.n_best=0: must be at least 1 and at most num_beams=1'),
    ('data.batching', 'buckets', "config.data.batching='buckets': did you mean 'bucket'?"),
    ('data.on_error', 'ignore', "config.data.on_error='ignore': choose one of: skip, stop"),
    ('data.batching', 'pack', "config.data.batching='pack': puts several sequences in a row, which is for tagging, and the "
     "task is classification; write 'bucket'"),
    ('decode.n_best', 2, 'config.decode.n_best=2: must be at least 1 and at most num_beams=1'),
    *[(f'decode.{field}', value, f'config.decode.{field}={value}: must be at least 0') for field, value in (
        ('length_penalty', -0.5), ('length_penalty', NAN), ('length_penalty', INF), ('coverage_penalty', -1.0),
        ('diversity_penalty', -1.0), ('no_repeat_ngram_size', -1), ('min_length', -1), ('length_factor', -1.0), ('length_factor', INF))],
])
def test_what_other_kinds_of_runs_have_is_refused_there(field, value, sentence):
    with pytest.raises(FieldError) as caught:
        check(with_value(field, value, RUNS[3:]))
    assert str(caught.value) == sentence


@pytest.mark.parametrize('model, task, changes, sentence', [
    ('recurrent', '', dict(documents='line', stateful=True),
     "config.data.stateful=True: documents do not go on from one another; set it to false, or config.data.documents to ''"),
    ('recurrent', '', dict(source='copy', documents='line'),
     "config.data.documents='line': is for language models, masked language models and span corruption; this run is for "
     "language_model on 'copy'; leave it out"),
    ('reader', '', dict(source='adding', max_length=5),
     "config.data.max_length=5: is for labelled sequences, translations and images with captions; this run is for regression on 'adding'; leave it out"),
    ('reader', '', dict(source='reviews', documents='line'),
     "config.data.documents='line': is for language models, masked language models and span corruption; this run is for "
     "classification on 'reviews'; leave it out"),
    ('reader', '', dict(source='reviews', characters_per_word=8),
     "config.data.characters_per_word=8: goes together with config.model.character_encoder=''; set both or neither"),
    ('reader', '', dict(source='reviews', batching='pack'),
     "config.data.batching='pack': puts several sequences in a row, which is for tagging, and the task is classification; "
     "write 'bucket'"),
    ('reader', '', dict(source='reviews', lowercase=True, tokenizer='bpe'),
     "config.data.lowercase=True: is for characters and words, and config.data.tokenizer='bpe'; set it to False, or the tokenizer to "
     "'char' or 'word'"),
    ('bert', 'masked_lm', dict(lowercase=True, tokenizer='byte'),
     "config.data.lowercase=True: is for characters and words, and config.data.tokenizer='byte'; set it to False, or the tokenizer to "
     "'char' or 'word'"),
    ('reader', '', dict(source='adding', lowercase=True),
     "config.data.lowercase=True: is for masked language models, span corruption, labelled sequences, translations and images with captions; this run is "
     "for regression on 'adding'; leave it out"),
    ('reader', 'tagging', dict(source='reviews'),
     "config.task='tagging': the set 'reviews' is for: classification; embedded sets for tagging: python_tokens, peptides, "
     'moving_digits, moving_digit_videos'),
    ('reader', 'language_model', dict(source='cldr'),
     "config.task='language_model': the set 'cldr' is for: classification, translation; embedded sets for language_model: "
     'python, copy'),
    ('reader', 'classification', dict(source='adding'),
     "config.task='classification': the set 'adding' is for: regression; embedded sets for classification: cldr, reviews, "
     'python_docs, digits, moving_digits, moving_digit_videos'),
    ('seq2seq', '', dict(),
     "config.model.name='seq2seq': cannot learn 'language_model', which the data is for; models that can: gpt, llama, "
     'recurrent, mamba, rwkv'),
    ('gpt', '', dict(source='reverse'),
     "config.model.name='gpt': cannot learn 'translation', which the data is for; models that can: "
     'transformer, t5, seq2seq'),
    ('gpt', '', dict(source='reviews'),
     "config.model.name='gpt': cannot learn 'classification', which the data is for; models that can: "
     + ANSWER_ROWS),
])
def test_data_that_does_not_fit_its_task_or_its_model_is_refused(model, task, changes, sentence):
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config(model, task=task, data=changes))
    assert str(caught.value) == sentence


def test_copying_is_for_one_vocabulary_of_both_sides():
    config = tiny_config('seq2seq', data=dict(source='reverse'), model=dict(copy=True))
    with pytest.raises(FieldError) as caught:
        check(config)
    assert str(caught.value) == ('config.model.copy=True: needs one vocabulary for source and target; set '
                                 'config.data.shared_vocabulary=True')
    config.data.shared_vocabulary = True
    check(config)


def test_a_reader_of_spelled_words_and_of_packed_tags_is_possible():
    configs.validate(tiny_config('reader', task='classification', model=dict(character_encoder='conv'),
                                 data=dict(source='file:x.tsv', tokenizer='word', characters_per_word=8)))
    configs.validate(tiny_config('reader', task='tagging', data=dict(source='peptides', batching='pack')))


@pytest.mark.parametrize('model, task, source, tokenizer', [
    ('reader', '', 'reviews', 'word'), ('bert', 'masked_lm', 'python', 'char'), ('seq2seq', '', 'reverse', 'bpe'),
    ('t5', 'span_corruption', 'python', 'byte')])
def test_capitals_are_lowered_where_something_reads_the_option(model, task, source, tokenizer):
    configs.validate(tiny_config(model, task=task, data=dict(source=source, tokenizer=tokenizer, lowercase=True)))


@pytest.mark.parametrize('model, source, possible', [
    ('gpt', 'python', True), ('reader', 'reviews', True), ('seq2seq', 'reverse', True), ('reader', 'adding', False)])
def test_targets_are_smoothed_where_they_are_tokens_or_classes(model, source, possible):
    config = tiny_config(model, data=dict(source=source), train=dict(label_smoothing=0.1))
    if possible:
        return configs.validate(config)
    with pytest.raises(FieldError) as caught:
        configs.validate(config)
    assert str(caught.value) == ('config.train.label_smoothing=0.1: is for language_model, masked_lm, span_corruption, classification, '
                                 'translation, captioning; this run is for '
                                 "regression on 'adding'; leave it out")


@pytest.mark.parametrize('model, fields, sentence', [
    ({}, dict(num_beams=4, num_beam_groups=2), 'config.decode.diversity_penalty=0.0: must be more than 0, or the 2 groups are 2 times the same'),
    ({}, dict(num_beams=4, num_beam_groups=3, diversity_penalty=0.5), 'config.decode.num_beam_groups=3: must divide num_beams=4'),
    ({}, dict(num_beams=4, sample=True),
     'config.decode.num_beams=4: a sampler draws one answer; write num_beams=1, or leave out the sampler'),
    (dict(context='last'), dict(coverage_penalty=0.2),
     'config.decode.coverage_penalty=0.2: is for translation by a model with attention; set it to 0'),
    ({}, dict(num_beams=4, num_beam_groups=2, diversity_penalty=0.5, n_best=4, coverage_penalty=0.2, no_repeat_ngram_size=2, length_penalty=0.0), None),
    ({}, dict(sample=True, min_p=1.0, top_k=3), None),
    ({}, dict(sample=True, length_penalty=0.0), None),
    ({}, dict(exact=True, n_best=3, no_repeat_ngram_size=2, length_penalty=0.0, prefix='a'), None),
    ({}, dict(exact=True, num_beams=4), 'config.decode.num_beams=4: is of a beam, and an exact search has none; write 1'),
    ({}, dict(exact=True, coverage_penalty=0.2), 'config.decode.coverage_penalty=0.2: is of a beam, and an exact search has none; '
     'write 0.0'),
    ({}, dict(exact=True, sample=True), 'config.decode.exact=True: searches for an answer, and a sampler draws it; leave out one '
     'of them'),
    ({}, dict(num_beams=4, diversity_penalty=0.5), 'config.decode.diversity_penalty=0.5: is between groups, and there is one; write 0, or more groups'),
    *[({}, {'sample': True, field: value}, f'config.decode.{field}={value}: a sampler draws one answer; write {field}={unread}, '
       'or leave out the sampler') for field, value, unread in (
           ('n_best', 3, 1), ('length_penalty', 0.6, 0.0), ('coverage_penalty', 0.2, 0.0))],
])
def test_a_search_for_translations_is_possible_or_refused(model, fields, sentence):
    config = tiny_config('seq2seq', data=dict(source='reverse'), model=model, decode=fields)
    if sentence is None:
        return configs.validate(config)
    with pytest.raises(FieldError) as caught:
        configs.validate(config)
    assert str(caught.value) == sentence


def test_a_search_is_as_its_config_says():
    fields = dict(num_beams=4, length_penalty=0.5, coverage_penalty=0.1, num_beam_groups=2, diversity_penalty=0.3, no_repeat_ngram_size=3, min_length=5, n_best=2,
                  length_factor=1.5)
    config = tiny_config('seq2seq', data=dict(source='reverse'), decode=fields)
    method, limits = configs.method(config), configs.limits(config)
    assert method == decode.Beam(4, 0.5, 0.1, num_beam_groups=2, diversity_penalty=0.3, n_best=2)
    assert limits == decode.Limits(config.decode.max_new_tokens, 1.5, no_repeat_ngram_size=3, min_length=5)


def test_gradients_of_a_translation_are_not_looked_at():
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config('seq2seq', data=dict(source='reverse'), train=dict(xray_every=2)))
    assert str(caught.value) == ('config.train.xray_every=2: is for models that read one sequence, and those for '
                                 'translation read two; set it to 0')


def test_unset_hyperparameters_are_possible():
    config = configs.defaults('gpt')
    assert [config.optimizer[field.partition('.')[2]] for field in configs.OPTIONAL] == [None] * 4
    configs.validate(config)


@pytest.mark.parametrize('config, sentence', [
    (ConfigDict(dict(seed=0)), "config has no section 'data'; start from seqjax.config.defaults(model)"),
    (5, '5 is not a config; start from seqjax.config.defaults(model) and return that'),
])
def test_what_is_no_config_is_refused(config, sentence):
    with pytest.raises(UserError) as caught:
        configs.validate(config)
    assert str(caught.value) == sentence


def test_defaults_of_an_unknown_model_name_the_field():
    with pytest.raises(FieldError, match="^config.model.name='gtp': no such model; did you mean 'gpt'"):
        configs.defaults('gtp')


@pytest.mark.parametrize('changes', [
    {}, dict(seed=7), dict(optimizer=dict(b2=0.99, momentum=0.5)), dict(train=dict(steps=9), decode=dict(prompt='é\n"')),
])
@pytest.mark.parametrize('model', models.MODELS)
def test_a_saved_config_is_read_back_whole_with_the_fields_that_were_not_set(model, changes):
    config = tiny_config(model, **changes)
    read = configs.loads(configs.dumps(config))
    assert read.to_dict() == config.to_dict()
    read.optimizer.eps = 1e-6  # a field that was not set still takes a number, and nothing else
    with pytest.raises(TypeError):
        read.optimizer.eps = 'small'


def test_a_config_saved_before_a_field_existed_gets_its_default():
    saved = tiny_config(train=dict(steps=9)).to_dict()
    del saved['train']['max_skipped'], saved['decode']
    read = configs.loads(json.dumps(saved))
    assert read.train.steps == 9
    assert read.train.max_skipped == configs.defaults('gpt').train.max_skipped
    assert read.decode.to_dict() == configs.defaults('gpt').decode.to_dict()


@pytest.mark.parametrize('change, sentence', [
    (lambda saved: saved['train'].update(stesp=3),
     "train.stesp that this version of seqjax does not know; did you mean 'steps'?"),
    (lambda saved: saved.update(trian=dict(steps=3)),
     "'trian' that this version of seqjax does not know; did you mean 'train'?"),
], ids=['field', 'section'])
def test_a_saved_name_that_is_not_known_is_refused(change, sentence):
    saved = tiny_config().to_dict()
    change(saved)
    with pytest.raises(UserError) as caught:
        configs.loads(json.dumps(saved))
    assert sentence in str(caught.value)


@pytest.mark.parametrize('field, value, counts', [
    ('model.width', 64, True), ('data.source', 'file:x', True), ('data.batch_size', 16, True), ('seed', 1, True),
    ('optimizer.learning_rate', 0.5, True), ('optimizer.b1', 0.5, True), ('train.gradient_accumulation_steps', 2, True),
    ('train.steps', 9, False), ('train.eval_every', 9, False), ('train.eval_batches', 9, False), ('train.save_every', 9, False),
    ('train.keep_latest', 9, False), ('train.keep_best', 9, False), ('train.max_skipped', 9, False), ('train.peak_flops', 1e12, False),
    ('parallel.fsdp', 2, False), ('decode.top_k', 3, False), ('data.split', 'test', False), ('data.split_seed', 1, True),
    ('data.split_column', 'part', True), ('parameters', 9, True), ('task', 'tagging', True), ('decode.num_beams', 4, False),
    ('train.decode_rows', 9, False), ('train.label_smoothing', 0.1, True), ('train.teacher_forcing', 'linear', True),
    ('data.shared_vocabulary', True, True),
])
def test_two_configs_differ_where_the_experiment_does(field, value, counts):
    run = next(run for run in RUNS if field in configs.flatten(configs.defaults(run[0], task=run[1], source=run[2])))
    before = configs.defaults(run[0], task=run[1], source=run[2])
    old = configs.flatten(before)[field]
    expected = [(field, old, value)] if counts else []
    assert configs.differences(before, with_value(field, value, [run])) == expected


def test_another_model_differs_in_the_fields_that_only_one_has():
    different = {field: (ours, theirs) for field, ours, theirs in
                 configs.differences(configs.defaults('gpt'), configs.defaults('recurrent'))}
    assert different['model.name'] == ('gpt', 'recurrent')
    assert different['model.heads'] == (4, None)
    assert different['model.tie_embeddings'] == (True, False)
    assert different['model.cell'] == (None, 'lstm')


@pytest.mark.parametrize('path', EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_and_variant_is_possible_and_says_what_it_is(path):
    with loaded(path):
        for variant in ('', *(f':{name}' for name in experiment_files.variants(path))):
            configs.validate(experiment_files.load(f'{path}{variant}'))
    first_line = experiment_files.title(path)
    assert len(first_line) >= 10 and first_line.endswith('.')


def test_there_are_experiments():
    assert len(EXPERIMENTS) >= 2


def test_rows_of_a_generated_set_cannot_be_carried():
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config('recurrent', data=dict(source='copy', stateful=True)))
    assert str(caught.value) == ("config.data.stateful=True: is for language models; this run is for language_model on "
                                 "'copy'; leave it out")


@pytest.mark.parametrize('source, task, expected', [
    ('python', '', 'language_model'), ('file:x', '', 'language_model'), ('adding', '', 'regression'),
    ('copy', '', 'language_model'), ('python', 'regression', 'regression'), ('peptides', '', 'regression'),
    ('peptides', 'tagging', 'tagging'), ('cldr', '', 'classification'), ('cldr', 'translation', 'translation'),
    ('reverse', '', 'translation'), ('tfds:x', '', 'language_model')])
def test_the_task_is_the_one_that_is_named_or_the_one_that_the_source_is_for(source, task, expected):
    assert configs.task_name(tiny_config(data=dict(source=source), task=task)) == expected


def test_a_run_of_another_kind_keeps_what_was_chosen_and_takes_the_defaults_of_its_own():
    config = tiny_config('gpt', train=dict(steps=9), decode=dict(num_beams=3, prompt='a'))
    llama = configs.for_another(config, {'model.name': 'llama'})
    assert (llama.model.width, llama.model.heads, llama.train.steps) == (config.model.width, config.model.heads, 9)
    assert llama.model.norm == configs.defaults('llama').model.norm != config.model.norm
    pairs = configs.for_another(config, {'model.name': 'seq2seq', 'data.source': 'reverse'})
    assert (pairs.decode.num_beams, pairs.data.source, 'prompt' in pairs.decode) == (3, 'reverse', False)
    configs.validate(pairs)


def test_a_config_of_before_with_the_fields_of_all_kinds_is_read():
    config = tiny_config('reader', data=dict(source='reviews'))
    saved = config.to_dict()
    saved['data'].update(sequence_length=16, stateful=False, documents='', mask_probability=0.15, format='')  # what nothing read
    saved['decode'].update(prompt='\n', num_beams=1)
    saved['train'].update(teacher_forcing='always')
    assert configs.loads(json.dumps(saved)).to_dict() == config.to_dict()


def test_an_old_name_is_read_and_answered_with_the_new_one(monkeypatch):
    monkeypatch.setitem(configs.RENAMED, 'train.updates', 'train.steps')
    saved = tiny_config().to_dict()
    saved['train']['updates'] = saved['train'].pop('steps') + 5
    assert configs.loads(json.dumps(saved)).train.steps == saved['train']['updates']
    assert configs.why_unknown('train.updates', tiny_config()) == 'config.train.updates: is called config.train.steps now'


HAVING = {'text': ('gpt', {}), 'words': ('reader', dict(data=dict(source='reviews'))), 'pairs': ('seq2seq', dict(data=dict(source='reverse'))),
        'masked': ('bert', dict(task='masked_lm'))}


@pytest.mark.parametrize('old', configs.RENAMED)
def test_every_old_name_is_read_from_a_run_and_answered_with_the_new_one(old):
    new = configs.RENAMED[old]
    (section, old_name), (_, new_name) = old.split('.'), new.split('.')
    config = next(config for config in (tiny_config(model, **fields) for model, fields in HAVING.values()) if new_name in config[section])
    now = config[section][new_name]
    value = f'{now}x' if isinstance(now, str) else not now if isinstance(now, bool) else now + 1
    saved = config.to_dict()
    del saved[section][new_name]
    saved[section][old_name] = value
    read = configs.loads(json.dumps(saved))
    assert read[section][new_name] == value and old_name not in read[section]
    assert configs.why_unknown(old, config) == f'config.{old}: is called config.{new} now'
    with config.unlocked():
        config[section][old_name] = value
    with pytest.raises(FieldError, match=f'^config.{old}={value!r}: is called {new_name} now$'):
        configs.validate(config)
        configs.check_model(config)


def test_an_old_name_that_a_registered_model_has_is_its_own(monkeypatch):
    class Windowed(models.GPT):
        window: int = 4

    monkeypatch.setattr(models.MODELS, '_things', {**models.MODELS._things, 'windowed': Windowed})
    config = tiny_config('windowed', model=dict(window=7, sliding_window=2))
    configs.validate(config)
    again = configs.loads(configs.dumps(config))
    assert (again.model.window, again.model.sliding_window) == (7, 2)
    assert models.build('windowed', vocabulary=5, context_length=8, window=3).window == 3
    del (saved := config.to_dict())['model']['window']
    assert configs.loads(json.dumps(saved)).model.window == 4
