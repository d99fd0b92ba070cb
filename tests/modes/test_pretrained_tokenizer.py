"""Runs that begin with a directory of Hugging Face's and read with its tokenizer: the numbers that transformers reads, and its answers."""

import dataclasses
import json
import shutil
import types

import jax
import numpy as np
import pytest

import launch
from seqjax import config as configs
from seqjax import data, interop, train
from seqjax.data.text import tokenizers
from seqjax.data.text.masking import Masking
from seqjax.errors import FieldError, UserError
from seqjax.modes.continue_text import generate_text
from seqjax.runs import RunDirectory, files, load_model, transfer
from seqjax.special_tokens import Marks
from seqjax.train import build
from tests.tiny import tiny_config, write_text

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

LETTERS = 'abcdefghijklmnopqrstuvwxyz'
VOCABULARY = ['[unused0]', '[PAD]', 'film', '[CLS]', 'very', '[MASK]', '[UNK]', '[SEP]', 'good', 'bad', 'the', 'was',  # in no order
              *LETTERS, *(f'##{letter}' for letter in LETTERS), '.', ',']
SIZES = dict(width=16, depth=2, heads=2, feed_forward=32)


@pytest.fixture(scope='module')
def bert(tmp_path_factory):
    """A directory with a small BERT and its vocab.txt; the model has three tokens more than the tokenizer."""
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp('bert')
    config = transformers.BertConfig(vocab_size=len(VOCABULARY) + 3, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=32, max_position_embeddings=24, initializer_range=0.5)
    (directory / 'vocab.txt').write_text('\n'.join(VOCABULARY) + '\n', 'utf-8')
    theirs = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(directory)
    return types.SimpleNamespace(directory=directory, model=theirs,
                                 tokenizer=transformers.BertTokenizerFast(str(directory / 'vocab.txt'), do_lower_case=True))


@pytest.fixture(scope='module')
def pairs(tmp_path_factory):
    """Two texts a row, some of them too long for the model, and a class."""
    path, rng = tmp_path_factory.mktemp('data') / 'pairs.jsonl', np.random.default_rng(0)
    text = lambda: ' '.join(rng.choice(['The', 'film', 'was', 'very', 'good,', 'bad.', 'zyx', '\N{SNOWMAN}'], rng.integers(1, 12)))
    rows = [dict(text=text(), text2=text(), label='good' if n % 2 else 'bad') for n in range(40)]
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows), 'utf-8')
    return path, rows


def begun(config, workdir):
    """(the parts of a new run, its first parameters)."""
    run = RunDirectory(workdir)
    origin = transfer.find_origin(config, run)
    parts = build(config, run, origin)
    start = transfer.make_start(config, origin, parts)
    return parts, parts.initial_state(config, start.parameters()).params, list(start.describe())


def classifier(bert, pairs, **sections):
    options = dict(source=f'file:{pairs[0]}', tokenizer='pretrained', special_tokens=True, batch_size=8, input_column='text,text2')
    return tiny_config('bert', task='classification', init_from=str(bert.directory), model=SIZES, data=options, **sections)


def test_a_classifier_of_pairs_reads_and_answers_as_transformers_does(bert, pairs, tmp_path):
    parts, params, lines = begun(classifier(bert, pairs), tmp_path / 'run')
    assert lines == [f'begins with {bert.directory}: 41 parameters taken, 0 new']
    encoding, checked = parts.dataset.codec, 0
    answer = jax.jit(lambda row, length: parts.task.model.apply({'params': params}, row, length))
    for row in pairs[1]:
        wanted = bert.tokenizer(row['text'], row['text2'], return_tensors='pt')
        ours = encoding.inputs(data.TextPair(row['text'], row['text2']))
        np.testing.assert_array_equal(ours, wanted['input_ids'][0])
        if len(ours) > 24:
            continue
        with torch.no_grad():
            expected = bert.model(**wanted).logits.numpy()
        padded = np.pad(ours, (0, 24 - len(ours)))[None]
        np.testing.assert_allclose(answer(padded, np.array([len(ours)])), expected, atol=1e-4)
        checked += 1
    assert 5 < checked < 40  # both long and short ones were there


def test_the_files_fill_the_model_of_the_config_also_when_the_run_goes_on_without_them(bert, pairs, tmp_path):
    """Nothing is typed again: width, depth, heads, feed_forward and order are those of the weights; dropout is the config's."""
    directory = shutil.copytree(bert.directory, tmp_path / 'theirs')
    config = classifier(bert, pairs, train=dict(steps=2, save_every=1), parallel=dict(data=1))
    config.init_from = str(directory)
    wanted = train.build(config, RunDirectory(tmp_path / 'no'), transfer.find_origin(config, RunDirectory(tmp_path / 'no'))).task.model
    config.model.update(dict(width=24, depth=3, heads=3, feed_forward=0, norm_position='pre', dropout=0.2))
    with pytest.raises(FieldError) as caught:
        train.prepare(config, tmp_path / 'run', typed=('model.width', 'train.steps'))
    assert str(caught.value) == (f'config.model.width=24: the weights in {directory} have {SIZES["width"]}; leave it out')
    assert not (tmp_path / 'run').exists()
    train.train(config, tmp_path / 'run')
    shutil.rmtree(directory)
    config.train.steps = 3
    train.train(config, tmp_path / 'run')
    saved = RunDirectory(tmp_path / 'run').saved_config().model
    assert saved.dropout == 0.2 and {name: saved[name] for name in SIZES} == SIZES
    model, _ = load_model(tmp_path / 'run')
    assert dataclasses.replace(model, dropout=wanted.dropout) == wanted


def test_it_is_trained_kept_and_written_back(bert, pairs, tmp_path):
    train.train(classifier(bert, pairs, train=dict(steps=2)), tmp_path / 'run')
    model, params = load_model(tmp_path / 'run')  # without the directory that it began with
    interop.to_hf(interop.from_hf(bert.directory), tmp_path / 'back', {'params': params})
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / 'back').eval()
    tokens = bert.tokenizer('the film was good', 'very', return_tensors='pt')
    with torch.no_grad():
        expected = theirs(**tokens).logits.numpy()
    np.testing.assert_allclose(jax.jit(model.apply)({'params': params}, tokens['input_ids'].numpy()), expected, atol=1e-4)


def test_masks_are_those_of_the_vocabulary(bert, tmp_path):
    config = tiny_config('bert', task='masked_lm', init_from=str(bert.directory), init_fresh='', model=SIZES,
                         data=dict(source=f'file:{write_text(tmp_path / "text.txt", 3000)}', tokenizer='pretrained', batch_size=8,
                                   sequence_length=24))
    parts, params, _ = begun(config, tmp_path / 'run')
    marks, special = parts.dataset.codec.marks, {VOCABULARY.index(name) for name in ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]')}
    assert set(marks) == special and VOCABULARY[marks.mask] == '[MASK]' and VOCABULARY[marks.start] == '[CLS]'
    batch = parts.dataset.training_batches(batch_size=8, seed=0)[0]
    assert (batch['inputs'][:, 0] == marks.start).all() and (batch['inputs'] == marks.mask).any()
    assert not set(batch['targets'][batch['weights'] > 0].tolist()) & special
    sums = jax.jit(parts.task)(params, batch, jax.random.key(0))
    assert np.isfinite(sums.loss)


def test_masking_draws_no_special_token_wherever_they_are():
    marks = Marks(7, 2, 9, 4, 0)
    hide = Masking(64, 12, 0.5, marks)
    rows = [hide(np.array([1, 3, 5, 6, 8, 10, 11] * 8, np.int32), rng=np.random.default_rng(seed)) for seed in range(40)]
    inputs = np.concatenate([row['inputs'][1:57] for row in rows])
    assert set(inputs.tolist()) == {0, 1, 3, 5, 6, 8, 10, 11}
    assert all(row['inputs'][0] == 9 and row['inputs'][57] == 4 for row in rows)


@pytest.fixture(scope='module')
def gpt2(tmp_path_factory):
    """A directory with a small GPT-2 and byte pairs of its own."""
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp('gpt2')
    text = write_text(directory / 'text.txt', 3000)
    pairs = data.BPETokenizer.train(text.read_text('utf-8'), 300)
    (directory / 'tokenizer.json').write_text(json.dumps(pairs.state()), 'utf-8')
    config = transformers.GPT2Config(vocab_size=300, n_positions=32, n_embd=16, n_layer=2, n_head=2, initializer_range=0.3,
                                     attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.save_pretrained(directory)
    return types.SimpleNamespace(directory=directory, model=theirs, text=text)


def language_model(gpt2, **sections):
    sizes = dict(width=16, depth=2, heads=2, feed_forward=64, bias=True, positions='learned')
    options = dict(source=f'file:{gpt2.text}', tokenizer='pretrained', sequence_length=16, batch_size=8)
    return tiny_config('gpt', init_from=str(gpt2.directory), model=sizes, data=options, **sections)


def test_a_language_model_goes_on_in_rows_shorter_than_it_could_read(gpt2, tmp_path):
    parts, params, _ = begun(language_model(gpt2), tmp_path / 'run')
    batch = parts.dataset.training_batches(batch_size=8, seed=0)[0]
    tokens = torch.tensor(np.concatenate([batch['inputs'], batch['targets'][:, -1:]], axis=1)).long()
    with torch.no_grad():
        logits = gpt2.model(tokens[:, :-1]).logits
        expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction='sum')
    np.testing.assert_allclose(parts.task(params, batch).loss, expected, rtol=1e-5)
    train.train(language_model(gpt2, train=dict(steps=2)), tmp_path / 'run')
    assert generate_text(RunDirectory(tmp_path / 'run').saved_config(), tmp_path / 'run')[0]


def test_the_config_that_began_a_run_opens_it_although_the_files_have_filled_its_model(gpt2, tmp_path, monkeypatch, capsys):
    """Resumed, also as one of several, and read by other modes: the file of the experiment says width=24 as ever."""
    directory = shutil.copytree(gpt2.directory, tmp_path / 'theirs')
    config = language_model(gpt2, train=dict(steps=2, eval_batches=1), decode=dict(prompt='so', max_new_tokens=2))
    config.init_from = str(directory)
    config.model.update(dict(width=24, heads=3, depth=1))
    run = RunDirectory(tmp_path / 'runs' / 'a')
    with monkeypatch.context() as patched:  # killed between the first file and the next
        patched.setattr(RunDirectory, 'write', lambda self, name, text: files.write_atomically(self.path / name, text)
                        if name == 'model.json' else (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train.train(config, run.path)
    assert [path.name for path in run.path.iterdir()] == ['model.json']
    result = train.sweep({'a': config}, tmp_path / 'runs')
    assert result == train.sweep({'a': config}, tmp_path / 'runs')
    shutil.rmtree(directory)
    assert result == train.sweep({'a': config}, tmp_path / 'runs')
    experiment = tmp_path / 'experiment.py'
    experiment.write_text('from seqjax import config as configs\n\n\n'
                          f'def get_config():\n    return configs.loads({configs.dumps(config)!r})\n')
    command = [f'--config={experiment}', f'--workdir={run.path}']
    launch.main([*command, '--config.train.steps=3'])
    launch.main([*command, '--mode=eval'])
    assert '"step": 3' in capsys.readouterr().out
    launch.main([*command, '--mode=generate'])
    assert capsys.readouterr().out.startswith('so')
    with pytest.raises(UserError, match='holds another experiment, with config.model.width=16 and not 24; choose another'):
        launch.main([*command, '--mode=eval', '--config.model.width=24'])
    config.init_from = ''  # typed with every command, and not in the file
    experiment.write_text('from seqjax import config as configs\n\n\n'
                          f'def get_config():\n    return configs.loads({configs.dumps(config)!r})\n')
    command.append(f'--config.init_from={directory}')
    launch.main([*command, '--mode=eval'])
    assert '"step": 3' in capsys.readouterr().out
    with pytest.raises(UserError, match='holds another experiment, with config.model.width=16 and not 24; choose another'):
        launch.main([*command, '--mode=eval', '--config.model.width=24'])


def test_the_tokenizer_is_saved_whole(gpt2, tmp_path):
    origin = transfer.find_origin(language_model(gpt2), RunDirectory(tmp_path / 'run'))
    made = data.saved_codec(origin.read).tokenizer
    again = tokenizers.loads(tokenizers.dumps(made))
    text = 'some words, \N{SNOWMAN}\n\n  and more'
    np.testing.assert_array_equal(made.encode(text), again.encode(text))
    assert made.decode(made.encode(text)) == text and (again.vocabulary, again.context_length) == (300, 32)


def test_mistakes_are_sentences(bert, gpt2, pairs, tmp_path):
    def refusal(config):
        with pytest.raises((FieldError, UserError)) as caught:
            begun(config, tmp_path / 'run')
        return str(caught.value)

    config = classifier(bert, pairs)
    config.data.tokenizer = 'bpe'
    assert refusal(config) == "config.data.tokenizer='bpe': the run that this one starts from has 'pretrained'; write that"
    config = language_model(gpt2)
    config.init_from = ''
    with pytest.raises(FieldError, match="tokenizer='pretrained': comes with the weights that config.init_from=DIRECTORY names"):
        build(config, RunDirectory(tmp_path / 'run'))
    config = language_model(gpt2)
    config.init_from = str(bert.directory)
    assert 'its tokens are of no use for language_model' in refusal(config)
