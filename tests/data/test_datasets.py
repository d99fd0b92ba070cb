"""What every set of data owes the rest of the house: the members of `data.Dataset`, for every kind of set and of task."""

import dataclasses
import inspect
import json

import jax
import numpy as np
import pytest

from seqjax import data, models, tasks
from seqjax.data.embedded import addition, moving_digits, peptides
from tests.data.images.test_class_folders import write_images
from tests.tiny import tiny_config, write_text

B, SEED = 4, 3
SETS = {
    'text': ('FILE', 'language_model', {}),
    'text in streams': ('FILE', 'language_model', dict(stateful=True)),
    'packed documents': ('FILE', 'language_model', dict(documents='line', tokenizer='word')),
    'masked text': ('FILE', 'masked_lm', {}),
    'pairs of sentences': ('FILE', 'masked_lm', dict(next_sentence=True, tokenizer='word', sequence_length=32)),
    'spans': ('FILE', 'span_corruption', {}),
    'classes': ('cldr', 'classification', {}),
    'classes of marked texts': ('reviews', 'classification', dict(tokenizer='word', special_tokens=True, max_length=9)),
    'pairs of texts': ('python_docs', 'classification', dict(tokenizer='word', special_tokens=True, max_length=16)),
    'labels': ('peptides', 'tagging', dict(batching='pad')),
    'packed labels': ('peptides', 'tagging', dict(batching='pack')),
    'numbers': ('peptides', 'regression', dict(batching='exact')),
    'words with their spelling': ('reviews', 'classification', dict(tokenizer='word', characters_per_word=3, train_examples=99)),
    'frames': ('moving_digits', 'classification', {}),
    'videos': ('moving_digit_videos', 'classification', {}),
    'labelled frames of videos': ('moving_digit_videos', 'tagging', dict(batching='pad')),
    'translations': ('cldr', 'translation', {}),
    'translations by tokens': ('addition', 'translation', dict(batch_tokens=200, max_length=9)),
    'generated tokens': ('copy', 'language_model', {}),
    'generated numbers': ('adding', 'regression', {}),
    'images': ('IMAGES', 'classification', {}),
    'digits as pixels': ('digits', 'classification', dict(images_as='permuted', normalise=True)),
    'augmented digits': ('digits', 'classification', dict(augment='crop(padding=1), flip')),
    'captions': ('digit_scenes', 'clip', {}),
    'series': ('mackey_glass', 'forecasting', dict(sequence_length=16)),
}


@pytest.fixture(scope='module', params=SETS)
def load(request, tmp_path_factory):
    """(a function that reads the set anew, or with a codec, the name of its task)."""
    source, task, options = SETS[request.param]
    directory = tmp_path_factory.mktemp('set')
    if source == 'FILE':
        source = f'file:{write_text(directory / "text.txt", 3000)}'
    if source == 'IMAGES':
        write_images(directory / 'images')
        source = f'file:{directory / "images"}'
    options = tiny_config('gpt', data=dict(source=source, **options)).data
    with pytest.MonkeyPatch.context() as patch:  # fewer rows than they have
        patch.setattr(moving_digits, 'CLIPS', 120)
        patch.setattr(peptides, 'PEPTIDES', 400)
        patch.setattr(addition, 'TRAIN', 500)
        yield lambda saved=None: data.load(options, task, saved), task


@pytest.fixture(scope='module')
def found(load):
    return load[0]()


@pytest.fixture(scope='module')
def again(load):
    return load[0]()


def shapes_of(batch):
    return jax.tree.map(lambda x: (np.shape(x), np.asarray(x).dtype), batch)


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def joined(parts):
    return jax.tree.map(lambda *rows: np.concatenate(rows), *parts)


def test_it_has_all_members(found):
    assert isinstance(found, data.Dataset)
    members = {name for name in vars(data.Dataset) if not name.startswith('_')} | {'codec', 'splits'}
    assert members >= {'training_batches', 'evaluation_batches', 'sample', 'steps', 'rows_of_a_step', 'splits', 'shapes',
                       'for_model', 'for_task', 'codec', 'files', 'facts', 'report', 'has_gaps'}
    for name in members:
        member, declared = getattr(found, name), getattr(data.Dataset, name, None)
        if callable(declared):
            parameters = lambda of: list(inspect.signature(of).parameters)
            assert parameters(member) == parameters(declared)[1:], name
    assert isinstance(found.report, str) and isinstance(found.has_gaps, (bool, np.bool_)) and str(found)


def test_a_batch_of_training_is_a_function_of_seed_and_step_and_of_no_process(found, again):
    batches, others = (made.training_batches(batch_size=B, seed=SEED) for made in (found, again))
    for step in (200, 0, 7):  # in any order
        same(batches[step], others[step])
        parts = [found.training_batches(batch_size=B, seed=SEED, process=p, processes=2)[step] for p in range(2)]
        same(joined(parts), batches[step])
    threads = data.prefetched(found.training_batches(batch_size=B, seed=SEED), 1)
    for step in range(1, 9):
        same(next(threads), batches[step])
    others = [found.training_batches(batch_size=B, seed=SEED + more) for more in (1, 2, 3)]
    assert any(str(other[i]) != str(batches[i]) for other in others for i in range(9))


def test_it_has_as_many_shapes_as_it_says_and_the_sample_is_one_of_their_rows(found):
    sample = found.sample()
    rank = lambda batch: jax.tree.map(lambda x: (np.ndim(x), np.asarray(x).dtype), batch)
    seen = {'train': set(), 'held out': set()}
    training = found.training_batches(batch_size=B, seed=SEED)
    for split, batches in (('train', [training[i] for i in range(40)]),
                           *(('held out', found.evaluation_batches(batch_size=B, split=split)) for split in found.splits[1:])):
        for i in range(min(40, len(batches))):
            batch = batches[i]
            assert {'inputs', 'targets', 'weights'} <= batch.keys()
            assert rank({name: batch[name] for name in sample}) == rank(sample), split
            seen[split].add(str(shapes_of(batch)))
    assert all(len(x) == 1 for x in jax.tree.leaves(sample))
    assert len(seen['train']) <= found.shapes[0] and len(seen['held out']) <= found.shapes[1]


def test_the_evaluation_has_every_row_once_whatever_the_batch(found):
    assert found.splits[:2] == ('train', 'validation') and set(found.splits[2:]) <= {'test'}
    for split in found.splits[1:]:
        weights = []
        for size in (B, 2 * B):
            batches = found.evaluation_batches(batch_size=size, split=split)
            if len(batches) > 150:
                pytest.skip('too many rows to count twice; smaller sets are counted')
            weights.append(sum(float(batches[i]['weights'].sum()) for i in range(len(batches))))
            first = found.evaluation_batches(batch_size=size, split=split, limit=1)
            assert len(first) == 1
            same(first[0], batches[0])
            parts = [found.evaluation_batches(batch_size=size, split=split, process=p, processes=2)[0] for p in range(2)]
            same(joined(parts), batches[0])
        assert weights[0] == weights[1] > 0


def test_its_sizes_are_those_of_its_batches(found):
    batches = [found.training_batches(batch_size=B, seed=SEED)[i] for i in range(60)]
    rows = np.mean([len(batch['weights']) for batch in batches])
    assert found.steps > 0
    np.testing.assert_allclose(found.rows_of_a_step(B), rows, rtol=0.15)


def test_its_facts_are_json_and_know_the_set_again(found, again):
    facts = json.loads(json.dumps(found.facts()))
    assert facts == json.loads(json.dumps(again.facts()))
    assert isinstance(facts['source'], str) and len(facts['sha256']) == 64


def test_its_files_bring_back_its_codec(load, found):
    files = found.files()
    assert all(isinstance(text, str) for text in files.values())
    codec = data.saved_codec(files.get)
    assert (codec is None) == (found.codec is None)
    if codec:
        assert codec.dumps() == found.codec.dumps()
        again = load[0](codec)
        assert again.facts() == found.facts()
        same(again.training_batches(batch_size=B, seed=SEED)[2], found.training_batches(batch_size=B, seed=SEED)[2])


def test_a_model_and_a_task_can_be_built_of_what_it_says(load, found):
    task = tasks.TASKS[load[1]]
    taken = {field.name for field in dataclasses.fields(task)}
    assert found.for_task().keys() <= taken | {'classes', 'offset', 'scale', 'token_sizes'}
    fields = found.for_model()
    assert 'vocabulary' in fields and all(isinstance(name, str) for name in fields)
    if task.target:
        assert fields['outputs'] == (len(found.for_task()['classes']) or 1 if found.codec else 1)
        assert models.build('reader', **fields)
