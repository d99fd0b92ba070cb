"""Text with something hidden in it, as batches: pure functions of (seed, step), in any number of processes."""

import itertools

import numpy as np
import pytest

from seqjax import data
from seqjax.data.pretraining import Pieces
from seqjax.errors import FieldError
from seqjax.special_tokens import END, MARKED_COUNT, MASK, START, UNKNOWN
from tests.reference.spans import put_back
from tests.tfds_sets import make_set
from tests.tiny import tiny_config, write_text

B, T = 8, 24
TASKS = [('masked_lm', {}), ('masked_lm', dict(next_sentence=True)), ('masked_lm', dict(documents='line')),
         ('span_corruption', {}), ('span_corruption', dict(documents='line', mask_probability=0.4))]


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp('text') / 'words.txt', 6000)


def load(path, task, saved=None, **changed):
    config = tiny_config('reader', data=dict(source=f'file:{path}', sequence_length=T, **changed))
    return data.load(config.data, task, saved)


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def joined(batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def original(made, batch, b):
    """The text of row b as it was before anything was hidden."""
    if made.is_translation:
        return put_back(batch['inputs'][b], batch['targets'][b], made.hide.first)
    tokens, counted = batch['inputs'][b].copy(), batch['weights'][b] > 0
    tokens[batch['places'][b][counted]] = batch['targets'][b][counted]
    return tokens[:batch['lengths'][b]]


# ------------------------------------------------------------------------------------------------ batches

@pytest.mark.parametrize('task, changed', TASKS)
def test_a_batch_is_a_function_of_seed_and_step_whatever_the_processes(text, task, changed):
    made, again = load(text, task, **changed), load(text, task, **changed)
    whole = made.training_batches(batch_size=B, seed=3)
    for step in (0, 1, 77):
        assert same(whole[step], again.training_batches(batch_size=B, seed=3)[step])
        for processes in (2, 4):
            parts = [made.training_batches(batch_size=B, seed=3, process=p, processes=processes)[step] for p in range(processes)]
            assert same(whole[step], joined(parts))
    assert not same(whole[0], whole[1]) and not same(whole[0], made.training_batches(batch_size=B, seed=4)[0])
    assert {name: value.shape[1:] for name, value in whole[0].items()} == {
        name: value.shape[1:] for name, value in made.sample().items()}


@pytest.mark.parametrize('task, changed', [TASKS[0], TASKS[3]])
def test_an_epoch_reads_every_part_of_the_text_and_the_next_hides_something_else(text, task, changed):
    made = load(text, task, **changed)
    rows, tokens = len(made.texts['train']), bytes(np.asarray(made.texts['train'].tokens, np.uint8))
    batches, targets, seen = made.training_batches(batch_size=rows, seed=0), [], np.zeros(len(tokens))
    for epoch in (batches[0], batches[1]):
        for b in range(rows):
            row = original(made, epoch, b)
            row = bytes((row[1:-1] if task == 'masked_lm' else row).astype(np.uint8))
            at = tokens.find(row)
            assert at >= 0
            seen[at:at + len(row)] += 1
        targets.append(sorted(epoch['targets'].tolist()))
    assert targets[0] != targets[1]
    assert (seen > 0).mean() > 0.8  # rows move, each by up to its length: an epoch leaves out one token in six


@pytest.mark.parametrize('task, changed', TASKS)
def test_the_evaluation_reads_the_held_out_text_once_and_hides_the_same_every_time(text, task, changed):
    made = load(text, task, **changed)
    batches = list(made.evaluation_batches(batch_size=B))
    assert same(joined(batches), joined(list(load(text, task, **changed).evaluation_batches(batch_size=B))))
    for processes in (2, 4):
        shared = [list(made.evaluation_batches(batch_size=B, process=p, processes=processes)) for p in range(processes)]
        assert same(joined(batches), joined([part for step in zip(*shared) for part in step]))
    rows = joined(batches)
    real = rows['lengths'] > 0
    assert real.sum() == len(made.texts['validation']) and len(real) % B == 0
    assert all((values[~real] == 0).all() for values in rows.values())
    assert same(joined(list(made.evaluation_batches(batch_size=B, limit=2))), joined(batches[:2]))
    if not changed:
        read = [original(made, rows, b) for b in np.flatnonzero(real)]
        read = np.concatenate([row[1:-1] if task == 'masked_lm' else row for row in read])
        validation = made.texts['validation'].tokens
        assert read.tolist() == validation[:len(read)].tolist() and len(validation) - len(read) <= 1


def test_rows_never_have_more_steps_than_asked_for_and_hide_their_share(text):
    for task, changed in TASKS:
        for tokenizer in ('char', 'word', 'byte'):
            made = load(text, task, tokenizer=tokenizer, **changed)
            for step in range(3):
                batch = made.training_batches(batch_size=B, seed=step)[step]
                assert batch['inputs'].shape[1] <= T and (batch['lengths'] <= batch['inputs'].shape[1]).all()
                assert batch['inputs'].max() < made.for_model()['vocabulary'] and batch['targets'].max() < made.for_model()['vocabulary']
                assert (batch['weights'].sum(axis=1) > 0).all() or tokenizer == 'word'
    full = load(text, 'masked_lm', mask_probability=0.3).training_batches(batch_size=B, seed=0)[0]
    assert (full['weights'].sum(axis=1) == round(0.3 * (T - 2))).all()


def test_a_masked_row_begins_with_start_and_ends_with_end(text):
    made = load(text, 'masked_lm')
    batch = made.training_batches(batch_size=B, seed=0)[0]
    assert (batch['inputs'][:, 0] == START).all()
    assert (batch['inputs'][np.arange(B), batch['lengths'] - 1] == END).all() and (batch['inputs'] == END).sum() == B
    assert MASK in batch['inputs'] and batch['targets'].min() >= MARKED_COUNT
    two = load(text, 'masked_lm', next_sentence=True).training_batches(batch_size=B, seed=0)[0]
    assert ((two['inputs'] == END).sum(axis=1) == 2).all() and set(two['next'].tolist()) <= {0, 1}


def test_a_second_text_that_follows_does_so_in_the_text(text):
    made = load(text, 'masked_lm', next_sentence=True)
    whole, labels = made.texts['train'].tokens.tolist(), []
    whole = ','.join(map(str, whole))
    for step in range(6):
        batch = made.training_batches(batch_size=B, seed=5)[step]
        for b in range(B):
            row = original(made, batch, b)[1:-1].tolist()
            cut = row.index(END)
            together = ','.join(map(str, row[:cut] + row[cut + 1:]))
            assert (f',{together},' in f',{whole},') == (batch['next'][b] == 0)
            labels.append(int(batch['next'][b]))
    assert 0 < sum(labels) < len(labels)


def test_documents_are_kept_apart():
    rng = np.random.default_rng(0)
    lengths = [7, 1, 20, 2, 3, 30]
    tokens, ends = np.arange(sum(lengths), dtype=np.int32), np.cumsum(lengths)
    of_token = np.repeat(np.arange(6), lengths)
    pieces = Pieces(tokens, ends, 8)
    assert len(pieces) == 1 + 0 + 3 + 1 + 1 + 4
    found = [pieces.fixed(i, rng)[0][0] for i in range(len(pieces))]
    assert sorted(itertools.chain(*found)) == [token for token in range(len(tokens)) if of_token[token] != 1]
    for i in range(len(pieces)):
        for _ in range(10):
            piece = pieces.drawn(i, rng)[0][0]
            assert len(set(of_token[piece])) == 1 and 2 <= len(piece) <= 8 and (np.diff(piece) == 1).all()
            assert len(piece) == min(8, lengths[of_token[piece[0]]])


# ------------------------------------------------------------------------------------------------ as a set

def test_what_the_data_decides_about_a_model(text):
    masked, spans = load(text, 'masked_lm'), load(text, 'span_corruption')
    letters = len(set(text.read_text()[:5400]))
    assert {name: masked.for_model()[name] for name in ('vocabulary', 'outputs', 'per_step', 'context_length')} == dict(
        vocabulary=MARKED_COUNT + letters, outputs=0, per_step=False, context_length=T)
    assert spans.for_model() == dict(vocabulary=4 + letters + 100, target_vocabulary=4 + letters + 100, shared=True)
    assert masked.steps == T and spans.steps == sum(spans.hide.sizes) and masked.shapes == spans.shapes == (1, 1)
    assert masked.facts()['train_tokens'] == spans.facts()['train_tokens'] == 5400
    assert str(masked).endswith('3 of 24 in a row to be found') and 'of a source and' in str(spans)


@pytest.mark.parametrize('task, changed', TASKS[:4])
@pytest.mark.parametrize('tokenizer', ['char', 'bpe'])
def test_a_run_that_starts_again_reads_the_same(text, task, changed, tokenizer):
    made = load(text, task, tokenizer=tokenizer, vocabulary=300, **changed)
    again = load(text, task, data.saved_codec(made.files().get), tokenizer=tokenizer, vocabulary=300, **changed)
    assert again.facts() == made.facts() and again.files() == made.files()
    assert same(made.training_batches(batch_size=2, seed=0)[5], again.training_batches(batch_size=2, seed=0)[5])


def test_symbols_that_only_the_held_out_text_has_are_unknown(tmp_path):
    (tmp_path / 'text.txt').write_text('ab ab\n' * 90 + 'ab éb\n' * 10, 'utf-8')
    for task in ('masked_lm', 'span_corruption'):
        made = load(tmp_path / 'text.txt', task)
        assert UNKNOWN in made.texts['validation'].tokens and UNKNOWN not in made.texts['train'].tokens


def test_a_set_of_tfds_and_the_embedded_text_are_texts_too(tmp_path):
    make_set('masked_lines', {'train': ['a tree and another'] * 9, 'validation': ['another tree'] * 4})
    config = tiny_config('reader', data=dict(source='tfds:masked_lines', directory=str(tmp_path), sequence_length=T))
    made = data.load(config.data, 'masked_lm')
    assert made.facts()['validation_tokens'] == len('another tree\n') * 4 - 1
    data.check_task('python', 'masked_lm'), data.check_task('python', 'span_corruption')
    with pytest.raises(FieldError, match="task='masked_lm': the set 'reviews' is for: classification"):
        data.check_task('reviews', 'masked_lm')


def test_small_letters_where_the_config_says_so(tmp_path):
    (tmp_path / 'text.txt').write_text('An Elm. ' * 100, 'utf-8')
    for task, tokenizer in itertools.product(('masked_lm', 'span_corruption'), ('char', 'word')):
        made = load(tmp_path / 'text.txt', task, tokenizer=tokenizer, lowercase=True)
        side = made.codec if task == 'masked_lm' else made.codec.source_side
        tokens = side.tokens('an elm.')
        assert UNKNOWN not in tokens and made.texts['train'].tokens[:len(tokens)].tolist() == tokens.tolist()


@pytest.mark.parametrize('content, changed, sentence', [
    ('ab' * 500, dict(sequence_length=7), 'data.sequence_length=7: masked_lm needs rows of 8 steps or more'),
    ('ab\n' * 200 + 'ab' * 100, dict(next_sentence=True), 'the held-out text has nothing that makes a row, which takes two lines of one '
     'document'),
    ('ab\n' * 20, dict(next_sentence=True, held_out=0.4), 'data.next_sentence=True: the held-out text is so short that nothing is '
     'elsewhere in it'),
    ('a' * 5, {}, 'the held-out text has nothing that makes a row')])
def test_what_makes_no_rows_is_refused(tmp_path, content, changed, sentence):
    (tmp_path / 'text.txt').write_text(content, 'utf-8')
    config = tiny_config('reader', data={**dict(source=f'file:{tmp_path / "text.txt"}', sequence_length=T), **changed})
    with pytest.raises(FieldError) as caught:
        data.load(config.data, 'masked_lm')
    assert sentence in str(caught.value)


def test_more_spans_than_sentinels_are_refused(text):
    config = tiny_config('reader', data=dict(source=f'file:{text}', sequence_length=400, mask_probability=0.5, span_length=1.0))
    with pytest.raises(FieldError, match='so long a row has more spans than the 100 sentinels of the vocabulary'):
        data.load(config.data, 'span_corruption')
