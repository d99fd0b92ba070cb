"""What a run that starts from another reads with: the tokens of that run, and answers of its own."""

import json

import numpy as np
import pytest

from seqjax import config as configs
from seqjax import data
from seqjax.errors import FieldError, UserError
from seqjax.special_tokens import END, MARKED_COUNT, START
from tests.labelled_files import write_labelled
from tests.pair_files import write_pairs
from tests.tiny import tiny_config, write_text

T = 24


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """Paths by task; the text has the letters of all of them."""
    folder = tmp_path_factory.mktemp('files')
    made = {task: write_labelled(folder / f'{task}.jsonl', task) for task in ('classification', 'regression', 'tagging')}
    return {**made, 'translation': write_pairs(folder / 'pairs.tsv'), 'text': write_text(folder / 'text.txt', 3000)}


def load(files, task, saved=None, **changed):
    path = files.get(task, files['text'])
    config = tiny_config('reader', data={**dict(source=f'file:{path}', sequence_length=T), **changed})
    return data.load(config.data, task, saved)


@pytest.mark.parametrize('kind', ['char', 'byte', 'bpe'])
def test_a_masked_model_is_taught_to_label_with_its_own_tokens(files, kind):
    given = dict(tokenizer=kind, vocabulary=300)
    pretrained = load(files, 'masked_lm', **given)
    for task in ('classification', 'regression') + ('tagging',) * (kind == 'char'):
        made = load(files, task, data.inherited(pretrained.codec, task), special_tokens=True, tokenizer=kind)
        assert made.for_model()['vocabulary'] == pretrained.for_model()['vocabulary']
        assert made.for_model()['context_length'] == T
        assert made.codec.tokenizer.state() == pretrained.codec.tokenizer.state()
        alone = load(files, task, special_tokens=True, tokenizer=kind, vocabulary=300)
        assert made.for_task() == alone.for_task() and made.codec.task == task
        row = made.codec.inputs('abcd')
        assert row.tolist() == [START, *pretrained.codec.tokens('abcd'), END] and row[1:-1].min() >= MARKED_COUNT
        again = load(files, task, made.codec, special_tokens=True, tokenizer=kind)
        assert again.facts() == made.facts() and again.files() == made.files()


def test_answers_of_another_run_are_not_kept(files):
    other = load(files, 'classification', special_tokens=True)
    made = load(files, 'regression', data.inherited(other.codec, 'regression'), special_tokens=True)
    assert made.codec.classes == () and made.for_model()['outputs'] == 1
    longest = other.for_model()['context_length']
    back = load(files, 'masked_lm', data.inherited(other.codec, 'masked_lm'), sequence_length=8)
    assert back.codec.task == 'masked_lm' and back.for_model()['context_length'] == longest and back.steps == 8


def test_a_model_of_missing_spans_is_taught_to_translate(files):
    """Text to text: sources and targets in the one vocabulary of the text, sentinels among them."""
    pretrained = load(files, 'span_corruption', tokenizer='bpe', vocabulary=300)
    made = load(files, 'translation', data.inherited(pretrained.codec, 'translation'), tokenizer='bpe', shared_vocabulary=True)
    assert made.for_model() == pretrained.for_model() and made.codec.dumps() == pretrained.codec.dumps()
    texts = made.texts('validation')
    for row, source, target in zip(made.rows['validation'], *texts):
        assert row['inputs'][-1] == row['targets'][-1] == END
        assert made.codec.text(row['targets']) == target and made.codec.text(row['inputs']) == source
        assert row['inputs'].max() < made.codec.source_side.first_sentinel
    back = load(files, 'span_corruption', data.inherited(made.codec, 'span_corruption'), tokenizer='bpe')
    assert back.files() == pretrained.files()


def test_sentinels_are_read_and_written(files):
    for kind, text in (('char', 'a <extra_id_0>b<extra_id_99>'), ('bpe', 'a dog<extra_id_0> sees <extra_id_7>'),
                       ('word', 'a <extra_id_0> b')):
        how = load(files, 'span_corruption', tokenizer=kind, vocabulary=300).codec
        side, tokens = how.source_side, how.source(text)
        sentinels = tokens[tokens >= side.first_sentinel] - side.first_sentinel
        assert [f'<extra_id_{i}>' for i in sentinels] == [part for part in text.replace('<', ' <').replace('>', '> ').split()
                                                          if part.startswith('<')]
        if kind == 'char':
            assert how.text(tokens) == text
        if kind == 'bpe':  # the blank belongs to the word after it
            assert how.text(tokens) == 'a dog<extra_id_0> sees<extra_id_7>'
        assert sum(word.startswith('<extra') for word in how.source_words(tokens)) == len(sentinels)
        assert tokens.max() < side.size == side.first_sentinel + 100
    assert how.source('<extra_id_100>')[0] < side.first_sentinel  # there are 100: this is text
    plain = load(files, 'translation').codec
    assert plain.source('<extra_id_0>').max() < plain.source_side.size == plain.source_side.first_sentinel


def test_a_language_model_goes_on_with_its_tokenizer(files):
    pretrained = load(files, 'language_model', tokenizer='bpe', vocabulary=300)
    saved = data.inherited(pretrained.codec, 'language_model')
    made = load(files, 'language_model', saved, tokenizer='bpe', vocabulary=400)
    assert made.tokenizer.vocabulary == 300 and np.array_equal(made.train, pretrained.train)


def test_weights_from_elsewhere_bring_no_tokens():
    for found in ({}, {'tokenizer.json': json.dumps(dict(version='1.0', model={}))}):
        for task in ('language_model', 'classification', 'translation'):
            assert data.inherited(data.saved_codec(found.get), task) is None


@pytest.mark.parametrize('theirs, ours, sentence', [
    ('language_model', 'classification', 'is a run for language_model, and its tokens are of no use for classification'),
    ('masked_lm', 'translation', 'is a run for masked_lm or classification or regression or tagging or simclr or dino, and its tokens are of no use '
     'for translation; start from another run'),
    ('span_corruption', 'language_model', 'is a run for span_corruption or translation, and')])
def test_a_run_for_something_else_is_refused(files, theirs, ours, sentence):
    with pytest.raises(UserError, match=sentence):
        data.inherited(load(files, theirs).codec, ours)


@pytest.mark.parametrize('theirs, task, changed, sentence', [
    (('masked_lm', dict(tokenizer='byte')), 'classification', dict(special_tokens=True),
     "data.tokenizer='char': the run that this one starts from has 'byte'; write that"),
    (('masked_lm', {}), 'classification', {}, 'data.special_tokens=False: the run that this one starts from has True; write that'),
    (('masked_lm', {}), 'classification', dict(special_tokens=True, lowercase=True), 'data.lowercase=True: the run that this one starts'),
    (('masked_lm', {}), 'classification', dict(special_tokens=True, max_length=T + 1),
     'data.max_length=25: the model that this run starts from reads rows of up to 24 steps'),
    (('masked_lm', {}), 'masked_lm', dict(sequence_length=T + 1), 'data.sequence_length=25: the model that this run starts from '
     'reads rows of up to 24 steps; set it to that or less'),
    (('masked_lm', dict(tokenizer='byte')), 'tagging', dict(tokenizer='byte', special_tokens=True), 'has a label for every character'),
    (('classification', {}), 'masked_lm', {}, "task='masked_lm': the run that this one starts from reads rows without marks"),
    (('span_corruption', {}), 'translation', {}, 'data.shared_vocabulary=False: the run that this one starts from has True; write that'),
    (('translation', {}), 'span_corruption', {}, "task='span_corruption': the run that this one starts from has no sentinels"),
    (('language_model', {}), 'language_model', dict(tokenizer='byte'), "data.tokenizer='byte': the run that this one starts from "
     "has 'char'; write that")])
def test_a_config_that_says_otherwise_is_refused(files, theirs, task, changed, sentence):
    saved = data.inherited(load(files, theirs[0], **theirs[1]).codec, task)
    with pytest.raises(FieldError) as caught:
        load(files, task, saved, **changed)
    assert sentence in str(caught.value)


def test_pixels_are_normalised_as_those_that_the_network_has_learned_from():
    """From classes to few of them, from captions to classes, and from classes to captions, whose words are new."""
    def load_images(task, source, saved=None, **changed):
        options = configs.defaults('resnet', task=task, source=source).data
        options.update(changed)
        return data.load(options, task, saved)

    learned = load_images('classification', 'digits', normalise=True)
    few = load_images('classification', 'digits', data.inherited(learned.codec, 'classification'),
                      normalise=True, examples_per_class=1, images_as='rows')
    assert few.codec.mean == learned.codec.mean * 8 and few.codec.images_as == 'rows'
    assert few.codec.mean != load_images('classification', 'digits', normalise=True, examples_per_class=1).codec.mean * 8
    captions = load_images('captioning', 'digit_scenes', normalise=True, tokenizer='word')
    found = load_images('classification', 'digits', data.inherited(captions.codec, 'classification'), normalise=True)
    assert (found.codec.mean, found.codec.shape) == (captions.codec.mean, (8, 8, 1))
    assert found.codec.mean != learned.codec.mean and len(found.codec.classes) == 10
    assert data.inherited(learned.codec, 'captioning') is None
    with pytest.raises(FieldError, match='data.normalise=False: the run that this one starts from has True; write that'):
        load_images('classification', 'digits', data.inherited(learned.codec, 'classification'))
