"""Pairs of texts as batches: against plain loops, and the same in every process and after saving."""

import collections
import json
import random
import types

import numpy as np
import pytest

from seqjax import data
from seqjax.data.pairs import load_pairs
from seqjax.data.readers.examples import Example, Examples
from seqjax.data import load_codec
from seqjax.errors import FieldError
from seqjax.special_tokens import END
from tests.tiny import tiny_config

OPTIONS = dict(source='file:trees.tsv', tokenizer='char', vocabulary=300, shared_vocabulary=False, lowercase=False, max_length=0,
               batching='bucket', num_buckets=3, batch_tokens=0)
COUNTS = dict(train=50, validation=9, test=7)


def options(**changed):
    return types.SimpleNamespace(**{**OPTIONS, **changed})


def examples(seed=0):
    """Pairs whose two lengths have little to do with each other."""
    rng = random.Random(seed)
    text = lambda letters: ''.join(rng.choices(letters, k=rng.randint(1, 14)))
    made = {part: [Example(text('abcde'), text('vwxyz')) for _ in range(count)] for part, count in COUNTS.items()}
    return Examples(**made, report='trees.tsv: some records')


def load(**changed):
    return load_pairs(examples(), options(**changed))


def texts_of(made, batch):
    """[(source, target)] of the rows of a batch that are no filling, with all its padding checked."""
    found, source = [], made.codec.source_side
    for inputs, length, targets, weights in zip(batch['inputs'], batch['lengths'], batch['targets'], batch['weights']):
        steps = int(weights.sum())
        assert (weights == (np.arange(len(weights)) < steps)).all()
        assert (inputs[length:] == 0).all() and (targets[steps:] == 0).all() and (length == 0) == (steps == 0)
        if length:
            assert inputs[length - 1] == END == targets[steps - 1]
            assert (inputs[:length] > 0).all() and (targets[:steps] > 0).all()
            found.append((source.decode(inputs[:length - 1]), made.codec.text(targets)))
    return found


def pairs(part):
    return [(example.inputs, example.target) for example in part]


# ------------------------------------------------------------------------------------------------ batches

@pytest.mark.parametrize('changed', [dict(), dict(batch_tokens=100), dict(batching='pad'), dict(batching='exact')], ids=str)
def test_evaluation_has_every_pair_once(changed):
    made, given = load(**changed), examples()
    for split, part in (('validation', given.validation), ('test', given.test)):
        batches = list(made.evaluation_batches(batch_size=2, split=split))
        assert sorted(pair for batch in batches for pair in texts_of(made, batch)) == sorted(pairs(part))
        for batch in batches:
            assert {name: batch[name].dtype.name for name in batch} == dict(
                inputs='int32', targets='int32', weights='float32', lengths='int32')


@pytest.mark.parametrize('changed', [dict(), dict(batch_tokens=100), dict(batching='pad'), dict(batching='exact')], ids=str)
def test_training_makes_up_no_pair_and_forgets_none(changed):
    made, epochs, given = load(**changed), 12, pairs(examples().train)
    training = made.training_batches(batch_size=2, seed=3)
    shape_of = lambda batch: (batch['inputs'].shape[1], batch['targets'].shape[1])
    rows = {shape_of(training[step]): len(training[step]['lengths']) for step in range(300)}  # of a batch of every shape
    assert len(rows) == made.shapes[0]
    bucket = lambda pair: min((shape for shape in rows if max(shape) > max(map(len, pair))), key=max)
    members = collections.Counter(map(bucket, given))
    seen = collections.Counter()
    for step in range(sum(epochs * members[shape] // rows[shape] for shape in rows)):
        found = texts_of(made, training[step])
        shape = shape_of(training[step])
        assert len(found) == rows[shape] and {bucket(pair) for pair in found} == {shape}
        seen.update(found)
    for pair, count in collections.Counter(given).items():  # the last batch of a bucket may not have been full yet
        shape = bucket(pair)
        assert (epochs - -(-rows[shape] // members[shape])) * count <= seen[pair] <= epochs * count


def test_sources_and_targets_are_filled_up_to_the_longest_of_their_bucket():
    """Against a search over all pairs, for the bucket that a batch must be of."""
    made = load()
    training = made.training_batches(batch_size=4, seed=0)
    sizes = [(len(example.inputs) + 1, len(example.target) + 1) for example in examples().train]  # with the end
    shapes = {training[step]['inputs'].shape[1:] + training[step]['targets'].shape[1:] for step in range(100)}
    assert len(shapes) == made.shapes[0] == 3
    tops = sorted(max(shape) for shape in shapes)
    for source, target in shapes:
        below = max([top for top in tops if top < max(source, target)], default=0)
        members = [size for size in sizes if below < max(size) <= max(source, target)]
        assert (source, target) == tuple(np.max(members, axis=0))
    assert made.efficiency() == pytest.approx(sum(map(sum, sizes)) / sum(
        sum(min((shape for shape in shapes if max(shape) >= max(size)), key=max)) for size in sizes))
    assert f'{made.efficiency():.2%} of their positions real' in str(made)


def test_the_shapes_of_evaluation_are_those_of_validation_and_test_together():
    made = load()
    shapes = {(*batch['inputs'].shape, batch['targets'].shape[1]) for split in ('validation', 'test')
              for batch in made.evaluation_batches(batch_size=2, split=split)}
    assert len(shapes) == made.shapes[1] <= 3


@pytest.mark.parametrize('batch_size', [1, 2, 4])
@pytest.mark.parametrize('batch_tokens', [1, 60, 200])
def test_a_batch_has_about_so_many_tokens_and_a_multiple_of_the_batch_size(batch_tokens, batch_size):
    made = load(batch_tokens=batch_tokens)
    training = made.training_batches(batch_size=batch_size, seed=0)
    rows_of = {}
    for step in range(80):
        (rows, source), target = training[step]['inputs'].shape, training[step]['targets'].shape[1]
        assert rows % batch_size == 0 and rows_of.setdefault((source, target), rows) == rows
        more = (rows + batch_size) * (source + target)
        assert more > batch_tokens and (rows == batch_size or rows * (source + target) <= batch_tokens)
    if batch_tokens == 200 and batch_size == 1:
        assert len(set(rows_of.values())) == len(rows_of) == 3  # short pairs come in larger batches


@pytest.mark.parametrize('processes', [2, 4])
@pytest.mark.parametrize('batch_tokens', [0, 150])
def test_the_rows_of_all_processes_are_the_batch_of_one(processes, batch_tokens):
    made = load(batch_tokens=batch_tokens)
    for make in (lambda **part: made.training_batches(batch_size=4, seed=1, **part),
                 lambda **part: made.evaluation_batches(batch_size=4, split='test', **part)):
        whole, parts = make(), [make(process=process, processes=processes) for process in range(processes)]
        for step in range(min(20, len(whole))):
            for name, array in whole[step].items():
                np.testing.assert_array_equal(np.concatenate([part[step][name] for part in parts]), array)


def test_a_batch_depends_on_seed_and_step_alone():
    one, other = (load(batch_tokens=90).training_batches(batch_size=2, seed=5) for _ in range(2))
    other[3]
    for step in (0, 7, 10 ** 9):
        assert all((one[step][name] == other[step][name]).all() for name in one[step])
    different = load(batch_tokens=90).training_batches(batch_size=2, seed=6)
    assert any(one[step]['inputs'].tolist() != different[step]['inputs'].tolist() for step in range(3))


# ------------------------------------------------------------------------------------------------ what is left out, and kept

@pytest.mark.parametrize('most', [3, 8, 14])
def test_long_training_pairs_are_left_out_and_counted(most):
    made, given = load(max_length=most), examples()
    kept = [pair for pair in pairs(given.train) if max(map(len, pair)) <= most]
    assert list(zip(*made.texts('train'))) == kept and len(made.rows['train']) == len(kept)
    noun = 'pair' if COUNTS['train'] - len(kept) == 1 else 'pairs'
    assert made.report.endswith(f'; {COUNTS["train"] - len(kept)} training {noun} of more than {most} tokens left out')
    assert [len(made.rows[split]) for split in ('validation', 'test')] == [COUNTS['validation'], COUNTS['test']]


def test_texts_are_in_the_order_of_the_file():
    given = Examples([Example('Ä', 'B')], [Example('Ä', 'C'), Example('A', 'D')], [], '')
    made = load_pairs(given, options(lowercase=True))
    assert made.texts('validation') == (['ä', 'a'], ['c', 'd']) and made.splits == ('train', 'validation')
    assert load_pairs(given, options()).texts('validation') == (['Ä', 'A'], ['C', 'D'])


def test_a_sample_is_a_batch_of_one_pair():
    made = load()
    assert texts_of(made, made.sample()) == pairs(examples().train[:1])
    sizes = [len(row['inputs']) + len(row['targets']) for row in made.rows['train']]
    assert made.steps == pytest.approx(np.mean(sizes)) and made.for_task() == {}
    assert str(made).startswith('50 train, 9 validation, 7 test pairs of 2 to 15 source and 2 to 15 target tokens in 3 + 3 ')


@pytest.mark.parametrize('changed', [dict(), dict(tokenizer='bpe', shared_vocabulary=True), dict(tokenizer='word', lowercase=True)],
                         ids=str)
def test_a_saved_encoding_gives_the_same_set(changed):
    made = load(**changed)
    saved = made.files()['codec.json']
    again = load_pairs(examples(), options(**changed), load_codec(saved))
    assert again.facts() == made.facts() and again.for_model() == made.for_model()
    assert json.loads(json.dumps(made.facts())) == made.facts()


def test_another_text_has_another_hash_even_where_its_tokens_are_the_same():
    one, other = examples(), examples()
    other.test[0] = Example(other.test[0].inputs, '?')
    third = examples()
    third.test[0] = Example(third.test[0].inputs, '!')
    assert len({load_pairs(each, options()).facts()['sha256'] for each in (one, other, third)}) == 3


@pytest.mark.parametrize('changed, sentence', [
    (dict(batching='pack'), "data.batching='pack': puts several sequences in a row, and pairs have rows of their own; write "
     "'bucket'"),
    (dict(batching='buckets'), "data.batching='buckets': no such way; did you mean 'bucket'?"),
    (dict(max_length=-1), 'data.max_length=-1: no training pair is that short; set it higher, or to 0')])
def test_what_cannot_be_is_refused(changed, sentence):
    with pytest.raises(FieldError) as caught:
        load(**changed).shapes
    assert str(caught.value) == sentence


def test_a_held_out_tag_that_was_not_learned_is_refused():
    given = Examples([Example('<de> a', 'b')], [Example('<fr> a', 'b')], [], '')
    with pytest.raises(FieldError) as caught:
        load_pairs(given, options())
    assert str(caught.value) == ("data.source='file:trees.tsv': in the validation part '<fr> a' begins with no tag that was "
                                 'learned; there are: <de>')


# ------------------------------------------------------------------------------------------------ through data.load

def test_a_config_loads_pairs_and_a_run_keeps_how(tmp_path):
    path = tmp_path / 'trees.tsv'
    path.write_text('source\ttarget\tsplit\n' + ''.join(
        f'{source}\t{target}\t{part}\n' for part in COUNTS for source, target in pairs(getattr(examples(), part))), 'utf-8')
    config = tiny_config('reader', data=dict(source=f'file:{path}', shared_vocabulary=True, batch_tokens=60))
    made = data.load(config.data, 'translation')
    assert [len(made.rows[part]) for part in COUNTS] == list(COUNTS.values()) and made.codec.shared
    assert list(zip(*made.texts('test'))) == pairs(examples().test)
    config.data.vocabulary = 7  # what a run began with counts
    assert data.load(config.data, 'translation', data.saved_codec(made.files().get)).facts()['sha256'] == made.facts()['sha256']
    config.data.shared_vocabulary = False
    with pytest.raises(FieldError, match='data.shared_vocabulary=False: the run that this one starts from has True; write that'):
        data.load(config.data, 'translation', data.saved_codec(made.files().get))
