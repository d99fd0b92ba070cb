"""The command line: every mistake ends in one sentence and exit code 2 before anything is compiled or written."""

import contextlib
import gzip
import importlib.util
import io
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys

from absl import logging as absl_logging
import jax
import pytest

from seqjax import config as configs
from seqjax import modes
from seqjax.modes.command import experiment_files
import seqjax.train
from tests.labelled_files import LETTERS, labelled_config, untrained_run, write_labelled
from tests.pair_files import pair_config, untrained_translator, write_pairs
from tests.tiny import write_text

ROOT = pathlib.Path(__file__).parent.parent
GPT, READER = ROOT / 'experiments' / 'language' / 'char_gpt.py', ROOT / 'experiments' / 'labelled' / 'language_id.py'
SIZES = ['--config.model.width=16', '--config.model.depth=1', '--config.data.sequence_length=16',
         '--config.data.batch_size=8', '--config.train.steps=4', '--config.train.eval_batches=2',
         '--config.optimizer.warmup_steps=0']
TWO = '''
from seqjax import config as configs

VARIANTS = ('narrow', 'wide')


def get_config(variant='wide'):
    config = configs.defaults('recurrent')
    config.data.update(batch_size=8, sequence_length=16)
    config.model.update(width=4 if variant == 'narrow' else 8)
    config.train.update(steps=2, eval_batches=2)
    config.optimizer.update(warmup_steps=0)
    return config
'''
COMPILED = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: COMPILED.append(event) if event.endswith('backend_compile_duration') else None)



@pytest.fixture(scope='module')
def launch():
    """launch.py as a module."""
    spec = importlib.util.spec_from_file_location('launch', ROOT / 'launch.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def as_before():
    """Puts back what a launch changes in its process: jax's settings and logging."""
    settings = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')
    values = {name: getattr(jax.config, name) for name in settings}
    root, verbosity = logging.getLogger(), absl_logging.get_verbosity()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        for name, value in values.items():
            jax.config.update(name, value)
        absl_logging.set_verbosity(verbosity)
        root.setLevel(level)
        root.handlers[:] = handlers


def run_here(launch, words, monkeypatch):
    """(exit code, stdout, stderr) of launch.py in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding='utf-8'), io.StringIO()
    monkeypatch.setattr(sys, 'argv', ['launch.py', *map(str, words)])
    with as_before(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        with pytest.raises(SystemExit) as left:
            launch.run()
    out.flush()
    return left.value.code or 0, out.buffer.getvalue().decode('utf-8'), err.getvalue()


def run_process(*words):
    return subprocess.run([sys.executable, ROOT / 'launch.py', *map(str, words)], capture_output=True, text=True)


def snapshot(path):
    """Every file under `path` with its bytes; None where there is nothing."""
    if path.is_file():
        return path.read_bytes()
    return {str(file): file.is_file() and file.read_bytes() for file in sorted(path.rglob('*'))} if path.exists() else None


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Texts, experiments and directories, good and bad."""
    path = tmp_path_factory.mktemp('launch')
    write_text(path / 'text.txt')
    write_labelled(path / 'trees.jsonl', 'classification')
    (path / 'empty.txt').write_text('')
    (path / 'latin.txt').write_bytes('né'.encode('latin-1') * 100)
    (path / 'short.txt').write_text('abc')
    (path / 'a_file').write_text('x')
    (path / 'no_function.py').write_text('x = 1\n')
    (path / 'returns_5.py').write_text('def get_config():\n    return 5\n')
    (path / 'wrong_model.py').write_text('import seqjax\n\ndef get_config():\n    return seqjax.config.defaults("gtp")\n')
    (path / 'notes.md').write_text('get_config')
    (path / 'two.py').write_text(TWO)
    (path / 'sweep' / 'wide').mkdir(parents=True)
    (path / 'sweep' / 'wide' / 'config.json').write_text('{}')
    return path


@pytest.fixture(scope='module')
def trained(folder):
    """A run that was trained by a real process."""
    result = run_process(f'--config={GPT}', f'--workdir={folder / "trained"}', *SIZES,
                         f'--config.data.source=file:{folder / "text.txt"}')
    assert result.returncode == 0, result.stderr
    return result


@pytest.fixture(scope='module')
def translator(folder):
    """The directory of a run that translates."""
    untrained_translator(pair_config(write_pairs(folder / 'pairs.tsv'), data=dict(max_length=14)), folder / 'translator')
    return folder / 'translator'


# ------------------------------------------------------------------------------------------------ the table of mistakes
# What is typed after a good command that starts a tiny GPT in a new directory, and what must be in the answer.
# {folder} is the folder above.

MISTAKES = [
    ('--config.train.stesp=5', "no field 'stesp' in config.train; did you mean 'steps'?"),
    ('--config.model.widht=5', "no field 'widht' in config.model (gpt); did you mean 'width'?"),
    ('--config.trian.steps=5', "no section 'trian' in config; did you mean 'train'?"),
    ('--config.learning_rate=1', "no field 'learning_rate' in config; did you mean 'optimizer.learning_rate'?"),
    ('--config.train.steps=abc', '--config.train.steps=abc: must be a whole number'),
    ('--config.train.steps=1.5', '--config.train.steps=1.5: must be a whole number'),
    ('--config.train.steps=', '--config.train.steps=: must be a whole number'),
    ('--config.optimizer.learning_rate=fast', '--config.optimizer.learning_rate=fast: must be a number'),
    ('--config.model.bias=maybe', '--config.model.bias=maybe: must be true or false'),
    ('--config.train.steps', 'Missing value for flag --config.train.steps'),
    ('--config.train.steps=-3', 'config.train.steps=-3: must be at least 1'),
    ('--config.data.batch_size=0', 'config.data.batch_size=0: must be at least 1'),
    ('--config.optimizer.learning_rate=nan', 'config.optimizer.learning_rate=nan: must be a positive number'),
    ('--config.optimizer.learning_rate=inf', 'config.optimizer.learning_rate=inf: must be a positive number'),
    ('--config.optimizer.learning_rate=-1', 'config.optimizer.learning_rate=-1.0: must be a positive number'),
    ('--config.optimizer.b1=1', 'config.optimizer.b1=1.0: must be at least 0 and less than 1'),
    ('--config.seed=4294967296', 'config.seed=4294967296: must be at least 0 and less than 4294967296'),
    ('--config.model.heads=3', 'config.model.heads=3: must divide width=16; 1, 2, 4, 8 would'),
    ('--config.model.name=gtp', "config.model.name='gtp': no such model; did you mean 'gpt'?"),
    ('--config.model.dropout=1.5', 'config.model.dropout=1.5: must be at least 0 and less than 1'),
    ('--config.model.dtype=float16', "config.model.dtype='float16': choose one of: float32, bfloat16"),
    ('--config.optimizer.name=adamm', "config.optimizer.name='adamm': no such optimizer; did you mean 'adam'?"),
    ('--config.optimizer.schedule=cosin', "config.optimizer.schedule='cosin': no such schedule; did you mean 'cosine'?"),
    ('--config.optimizer.warmup_steps=4', 'config.optimizer.warmup_steps=4: must be less than train.steps=4'),
    ('--config.optimizer.name=adam', "config.optimizer.weight_decay=0.1: 'adam' has no weight decay; set it to 0, or use 'adamw'"),
    ('--config.optimizer.name=sgd', "config.optimizer.b2=0.99: 'sgd' does not take it; set it to none"),
    ('--config.optimizer.freeze=blok*', "config.optimizer.freeze='blok*': matches no parameter; there are: decoder/block_0/"),
    ('--config.optimizer.freeze=*', "config.optimizer.freeze='*': freezes every parameter; nothing is left to train"),
    ('--config.optimizer.layerwise_rates=x', "config.optimizer.layerwise_rates='x': write PATTERN=FACTOR, as in 'embedding/*=0.1,block_3/*=2'"),
    ('--config.optimizer.layerwise_rates=*=nan', "config.optimizer.layerwise_rates='*=nan': nan must be a positive number"),
    ('--config.data.tokenizer=chars', "config.data.tokenizer='chars': no such tokenizer; did you mean 'char'?"),
    ('--config.data.tokenizer=bpe --config.data.vocabulary=9', 'config.data.vocabulary=9: byte pairs start from 256 bytes'),
    ('--config.data.source=web:x', "config.data.source='web:x': write 'python', 'file:PATH' or 'tfds:NAME', or name an "
                                   'embedded set: python, copy'),
    ('--config.data.source=adding', "config.model.name='gpt': cannot learn 'regression', which the data is for; models that "),
    ('--config.task=regresion', "config.task='regresion': no such task; did you mean 'regression'?"),
    ('--config.data.stateful=true', "config.data.stateful=True: 'gpt' has no state to carry; set it to false, or use a model that"),
    ('--config.data.source=file:{folder}/none.txt', "/none.txt': no such file (looked in "),
    ('--config.data.source=file:{folder}/empty.txt', "/empty.txt': the file is empty"),
    ('--config.data.source=file:{folder}/latin.txt', "/latin.txt': line 1: byte 1 of the file is not UTF-8; convert it first"),
    ('--config.data.source=file:{folder}/short.txt', 'config.data.sequence_length=16: the training text has only 3 tokens'),
    ('--config.data.source=tfds:seqjax_asleep',
     "config.data.source='tfds:seqjax_asleep': TFDS could not build the set here (the "
     "server is asleep); build it where it can be with 'tfds build seqjax_asleep"),
    ('--config.data.held_out=0.0001', 'config.data.sequence_length=16: the held-out text has only 2 tokens'),
    ('--config.parallel.strategy=jitt', "config.parallel.strategy='jitt': did you mean 'jit'?"),
    ('--config.parallel.data=16', 'config.parallel.data=16: data x fsdp x tensor = 16 x 1 x 1 does not fit 8 devices'),
    ('--config.parallel.fsdp=-1', 'config.parallel.fsdp=-1: only one axis can be -1, and data is too'),
    ('--config.parallel.fsdp=0', 'config.parallel.fsdp=0: must be at least 1, or -1 for all remaining devices'),
    ('--config.parallel.strategy=pmap --config.parallel.fsdp=2',
     "config.parallel.strategy='pmap': is data parallel only; set fsdp=1 and tensor=1, or use 'jit'"),
    ('--config.data.batch_size=12', 'config.data.batch_size=12: must be a multiple of 8: data x fsdp = 8 shards'),
    ('--config.train.gradient_accumulation_steps=3', 'config.train.gradient_accumulation_steps=3: must divide data.batch_size=8'),
    ('--config.train.gradient_accumulation_steps=2', 'config.data.batch_size=8: must be a multiple of 16: data x fsdp = 8 shards, and '
                                    'train.gradient_accumulation_steps=2'),
    ('--config.decode.top_p=0', 'config.decode.top_p=0.0: must be more than 0 and at most 1'),
    ('steps=5', "'steps=5' is left over: options are written --name=value, as in --config.train.steps=5"),
    ('train', "'train' is left over: options are written --name=value\n"),
    ('--stpes=5', 'no flag --stpes; did you mean --config.train.steps?'),
    ('--worckdir=x', 'no flag --worckdir; did you mean --workdir?'),
    ('--zzz=5', 'no flag --zzz; there are: --config, --workdir, --mode, '),
    ('--mode=tain', "--mode=tain: no such mode; did you mean 'train'?"),
    ('--mode=zzz', '--mode=zzz: no such mode; choose one of: average, cells, cost, describe, embed, eval, export, generate, '),
    ('--cpu_devices=x', '--cpu_devices=x: must be a whole number'),
    ('--cpu_devices=-1', '--cpu_devices=-1: must be at least 0'),
    ('--coordinator=here', "--coordinator=here: write HOST:PORT of process 0, or 'auto'"),
    ('--coordinator=127.0.0.1:1 --processes=2 --process=2', '--process=2 --processes=2: processes are numbered 0 to N-1'),
    ('--processes=2', '--processes=2 --process=0: give --coordinator=HOST:PORT of process 0 too'),
    ('--mode=eval', 'no run is here (no config.json); train one first with --config=FILE'),
    ('--mode=generate', 'no run is here (no config.json); train one first with --config=FILE'),
    ('--config.data.documents=line --config.data.tokenizer=byte --config.data.source=file:{folder}/short.txt',
     "config.data.documents='line': the held-out text has no document of two tokens or more"),
    ('--config.data.batching=pack', "config.data.batching: is for labelled sequences and translations; this run is for language_model on "),
    ('--config.data.characters_per_word=4', 'config.data.characters_per_word: is for labelled sequences; this run is for language_model on '),
    ('--config.data.split=test', "config.data.split='test': training is watched on the validation split, and the test "),
    ('--config.parameters=-5', 'config.parameters=-5: must be a positive number, or 0 for off'),
    ('--config.parameters=many', '--config.parameters=many: must be a whole number'),
    ('--config.decode.num_beams=0', 'config.decode.num_beams=0: must be at least 1'),
    ('--config.decode.n_best=2', 'config.decode.n_best: is for translations; this run is for language_model on '),
    ('--config.decode.num_beams=4 --config.decode.num_beam_groups=3', 'config.decode.num_beam_groups=3: must divide num_beams=4'),
    ('--config.decode.num_beams=4 --config.decode.num_beam_groups=2', 'config.decode.diversity_penalty=0.0: must be more than 0, or the 2 '),
    ('--config.decode.min_p=2', 'config.decode.min_p=2.0: must be at least 0 and at most 1 (0 keeps all tokens)'),
    ('--config.decode.length_penalty=-1', 'config.decode.length_penalty: is for translations; this run is for language_model on '),
    ('--config.decode.coverage_penalty=1', 'config.decode.coverage_penalty: is for translations; this run is for language_model on '),
    ('--config.decode.batch_size=0', 'config.decode.batch_size=0: must be at least 1'),
    ('--config.decode.sample=true', 'config.decode.sample: is for translations; this run is for language_model on '),
    ('--config.train.decode_rows=5', 'config.train.decode_rows: is for translation, captioning; this run is for language_model on '),
    ('--config.train.teacher_forcing=linear', 'config.train.teacher_forcing: is for translation, captioning; this run is for language_model on '),
    ('--config.train.label_smoothing=1', 'config.train.label_smoothing=1.0: must be at least 0 and less than 1'),
    ('--input=x', '--input=x: is for --mode=generate|predict|score; leave it out'),
    ('--ensemble=a,b', '--ensemble=a,b: is for --mode=generate; leave it out'),
    ('--explain', '--explain: is for --mode=generate|predict; leave it out'),
    ('--last=3', '--last=3: is for --mode=average; leave it out'),
    ('--checkpoint=best', '--checkpoint=best: is for --mode=eval|generate|predict|score|xray|cells|probe|zero_shot|embed|export|hugging_face; leave it out'),
    ('--config.data.source=file:a.tsv --config.data.source=file:b.tsv',
     '--config.data.source is given twice, as file:a.tsv and file:b.tsv; give it once, and put quotes around a value with'),
]


@pytest.mark.parametrize('words, sentence', MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_in_a_new_run_is_one_sentence(words, sentence, launch, folder, tmp_path, monkeypatch):
    if 'tfds:' in words:
        pytest.importorskip('tensorflow_datasets')
        from tests.tfds_sets import make_set
        make_set('seqjax_asleep', {}, error=OSError('the server is asleep'))
    workdir = tmp_path / 'run'
    good = [f'--config={GPT}', f'--workdir={workdir}', *SIZES, f'--config.data.source=file:{folder / "text.txt"}',
            *([f'--config.data.directory={tmp_path / "tfds"}'] if 'tfds:' in words else [])]
    assert_refused(launch, instead(good, words.format(folder=folder).split(' ')), sentence, workdir, monkeypatch)


def instead(good, words):
    """The good words but for those that set a field again, and the others."""
    again = {word.partition('=')[0] for word in words}
    return [*(word for word in good if word.partition('=')[0] not in again), *words]


# The same after a good command that starts a reader of labelled texts.

LABELLED_MISTAKES = [
    ('--config.data.batching=buckets', "config.data.batching='buckets': did you mean 'bucket'?"),
    ('--config.data.batching=pack', "config.data.batching='pack': puts several sequences in a row, which is for tagging, "
                                    "and the task is classification; write 'bucket'"),
    ('--config.data.on_error=ignore', "config.data.on_error='ignore': choose one of: skip, stop"),
    ('--config.data.split=tests', "config.data.split='tests': did you mean 'test'?"),
    ('--config.data.split=test', "config.data.split='test': training is watched on the validation split, and the test split "
                                 'is measured once, at the end; leave it out, or use --mode=eval'),
    ('--config.data.num_buckets=0', 'config.data.num_buckets=0: must be at least 1'),
    ('--config.data.documents=line', 'config.data.documents: is for language models, masked language models and span corruption; this run is '),
    ('--config.data.characters_per_word=8', "config.data.characters_per_word=8: goes together with config.model.character_encoder=''; set both "),
    ('--config.data.characters_per_word=8 --config.model.character_encoder=conv',
     "config.data.characters_per_word=8: needs words; set it to 0, or data.tokenizer to 'word'"),
    ('--config.data.tokenizer=words', "config.data.tokenizer='words': no such tokenizer; did you mean 'word'?"),
    ('--config.data.word_vectors=no.txt', "config.data.word_vectors='no.txt': are of words, and data.tokenizer='char'; write 'word'"),
    ('--config.data.word_vectors=no.txt --config.data.tokenizer=word', "config.data.word_vectors='no.txt': no such file (looked in "),
    ('--config.data.format=jsnl', "config.data.format='jsnl': did you mean 'jsonl'?"),
    ('--config.data.format=tsv',
     "/trees.jsonl': line 1: has 1 column and 2 are needed; fix it, or set config.data.on_error=skip"),
    ('--config.data.target_column=labl', "/trees.jsonl': line 1: has no key 'labl': did you mean 'label'?"),
    ('--config.data.label_file=x', "config.data.label_file='x': means nothing for the format jsonl of "),
    ('--config.data.source=file:{folder}/none.tsv', "/none.tsv': no such file (looked in "),
    ('--config.data.source=file:{folder}/{{train,dev}}.tsv', "/train.tsv': no such file (looked in "),
    ('--config.data.source=file:{folder}/text.txt', "/text.txt': the format text has no labels for classification; those "),
    ('--config.data.source=web:x', "config.data.source='web:x': write 'file:PATH' or 'tfds:NAME', or name an embedded set: "
                                   'cldr, reviews, python_docs, digits, moving_digits, moving_digit_videos'),
    ('--config.data.source=python', "config.task='classification': the set 'python' is for: language_model, masked_lm, "),
    ('--config.data.source=adding', "config.task='classification': the set 'adding' is for: regression; embedded sets for "),
    ('--config.task=regression', "/trees.jsonl': line 1: the target is no finite number: '"),
    ('--config.task=tagging --config.model.pooling=last', "/trees.jsonl': line 1: labels and steps are not as many: "),
    ('--config.data.source=peptides --config.task=tagging', "config.model.pooling='max': makes one answer of a row, and the data has a "),
    ('--config.task=language_model', "config.model.name='reader': cannot learn 'language_model', which the data is for"),
    ('--config.model.encoder=grru', "config.model.encoder='grru': no such encoder; did you mean 'gru'?"),
    ('--config.model.heads=2', "config.model.heads=2: is for attention encoders, and encoder='gru'; leave it at 4"),
    ('--config.model.crf=true', 'config.model.crf=True: is for labels of every step, and the data has one answer a row'),
    ('--config.data.batch_size=12', 'config.data.batch_size=12: must be a multiple of 8: data x fsdp = 8 shards'),
    ('--mode=predict', '--mode=predict: give --input=FILE with a line for every sequence, or --input=- to read them '),
    ('--mode=predict --input={folder}/text.txt', 'no run is here (no config.json); train one first with --config=FILE'),
]


@pytest.mark.parametrize('words, sentence', LABELLED_MISTAKES, ids=[words for words, _ in LABELLED_MISTAKES])
def test_a_mistake_in_a_run_over_labelled_texts_is_one_sentence(words, sentence, launch, folder, tmp_path, monkeypatch):
    good = [f'--config={READER}', f'--workdir={tmp_path / "run"}', '--config.data.batch_size=8', '--config.model.width=8',
            f'--config.data.source=file:{folder / "trees.jsonl"}']
    words = instead(good, words.format(folder=folder).split(' '))
    assert_refused(launch, words, sentence, tmp_path / 'run', monkeypatch)


def test_a_compilation_would_be_seen():
    COMPILED.clear()
    jax.jit(lambda x: 3 * x + 1)(2.0)
    assert COMPILED


def assert_refused(launch, words, sentence, workdir, monkeypatch):
    before = snapshot(workdir)
    COMPILED.clear()
    code, _, err = run_here(launch, words, monkeypatch)
    assert code == 2, err
    said = err[err.index('launch.py: '):]
    assert sentence in said
    assert 'Traceback' not in said
    assert COMPILED == []
    assert snapshot(workdir) == before


# Whole command lines, for what the row above cannot say. {trained} is a run that is there.

COMMANDS = [
    ('--config=experiments/none.py --workdir={new}',
     '--config=experiments/none.py: no such file; the experiments are: experiments/labelled/'),
    ('--config=char_gpt --workdir={new}', '--config=char_gpt: no such file; did you mean experiments/language/char_gpt.py?'),
    ('--config=experiments/language/char_gpt --workdir={new}', 'no such file; did you mean experiments/language/char_gpt.py?'),
    ('--config={folder}/notes.md --workdir={new}', '/notes.md: an experiment is a Python file with get_config()'),
    ('--config={folder}/no_function.py --workdir={new}',
     '/no_function.py: an experiment is a Python file with get_config()'),
    ('--config={folder}/returns_5.py --workdir={new}', '5 is not a config; start from seqjax.config.defaults(model)'),
    ('--config={folder}/wrong_model.py --workdir={new}', "config.model.name='gtp': no such model; did you mean 'gpt'?"),
    ('--config=experiments/language/char_lstm.py --workdir={new} --config.model.tie_embeddings=maybe',
     '--config.model.tie_embeddings=maybe: must be true or false'),
    ('--config=experiments/language/char_lstm.py --workdir={new} --config.model.heads=2',
     "no field 'heads' in config.model (recurrent); choose one of: activation_penalty, cell, depth, dropout, dtype, "),
    ('--config=experiments/language/char_lstm.py --workdir={new} --config.model.cell=lstmm',
     "config.model.cell='lstmm': no such cell; did you mean 'lstm'?"),
    ('--config={folder}/two.py:wid --workdir={new}', "two.py:wid: no such variant; did you mean 'wide'?"),
    ('--config={folder}/two.py --workdir={new} --config.train.stesp=5',
     "no field 'stesp' in config.train; did you mean 'steps'?"),
    ('--config={folder}/two.py --workdir={new} --config.model.dropout=1', 'config.model.dropout=1.0: must be at least 0'),
    ('--config={folder}/two.py --workdir={trained}', 'holds one run; to go on with it write --config=FILE.py:VARIANT'),
    ('--config=experiments/language/char_gpt.py:x --workdir={new}',
     'the experiment has no variants; write --config=experiments/language/char_gpt.py'),
    ('--workdir={folder}/sweep --mode=eval', '/sweep: holds several runs; name one of them, as in --workdir='),
    ('--config={folder}/two.py --workdir={folder}/sweep --mode=eval', '/sweep: holds several runs; name one of them'),
    ('--config=experiments/language/char_gpt.py', '--workdir is missing: name the directory for the run, as in --workdir=runs/first'),
    ('--config=experiments/language/char_gpt.py --workdir=', '--workdir is missing: name the directory for the run'),
    ('--config=experiments/language/char_gpt.py --workdir={folder}/a_file', '/a_file: is a file; name a directory'),
    ('--mode=eval', 'no experiment: give --config=FILE to start one, or the --workdir of one that was started'),
    ('--workdir={new}', 'no run is here (no config.json); train one first with --config=FILE'),
    ('--workdir={new} --mode=generate', 'no run is here (no config.json); train one first with --config=FILE'),
    ('--config=experiments/language/char_gpt.py --workdir={trained}',
     '/trained: holds another experiment, with config.data.batch_size=8 and not '
     '12 (and '),
    ('--workdir={trained} --config.model.depth=2',
     'holds another experiment, with config.model.depth=1 and not 2; choose another'),
    ('--workdir={trained} --mode=eval --config.model.depth=2',
     'holds another experiment, with config.model.depth=1 and not 2'),
    ('--workdir={trained} --mode=eval --checkpoint=7', "--checkpoint=7: write 'latest', 'best' or a step; there are: 4"),
    ('--workdir={trained} --mode=generate --checkpoint=newest',
     "--checkpoint=newest: write 'latest', 'best' or a step; there are: 4"),
    ('--workdir={trained} --mode=generate --config.decode.prompt=É',
     "config.decode.prompt='É': character 'É' was not in the text the "
     'tokenizer was made from; it knows these: '),
    ('--workdir={trained} --mode=generate --config.decode.prompt=', "config.decode.prompt='': give at least one character"),
    ('--workdir={trained} --mode=generate --config.decode.top_p=0',
     'config.decode.top_p=0.0: must be more than 0 and at most 1'),
    ('--workdir={trained} --mode=generate --config.decode.temprature=0',
     "no field 'temprature' in config.decode; did you mean 'temperature'?"),
    ('--workdir={trained} --mode=generate --config.temperature=0',
     "no field 'temperature' in config; did you mean 'decode.temperature'?"),
    ('--workdir={trained} --mode=generate --temperature=0',
     'no flag --temperature; did you mean --config.decode.temperature?'),
    ('--config=experiments/scaling/complexity.py --workdir={new}',
     "config.cost.layers='all': is about layers and trains nothing; add --mode=cost"),
    ('--config=experiments/scaling/complexity.py --workdir={new} --mode=cost --config.cost.layers=recurent',
     "config.cost.layers='recurent': no such layer as 'recurent'; did you mean 'recurrent'?"),
    ('--config=experiments/scaling/complexity.py --workdir={new} --mode=cost --checkpoint=best',
     '--checkpoint=best: is for --mode=eval|generate|predict|score|xray|cells|probe|zero_shot|embed|export|hugging_face; leave it out'),
    ('--workdir={trained} --mode=cost --config.model.depth=2', 'holds another experiment, with config.model.depth=1 and not 2'),
    ('--workdir={trained} --mode=predict', '--mode=predict: give --input=FILE with a line for every sequence'),
    ('--workdir={trained} --mode=predict --input=', '--mode=predict: give --input=FILE with a line for every sequence'),
    ('--workdir={trained} --mode=predict --input={folder}/none.txt',
     '/none.txt: cannot be read (No such file or directory)'),
    ('--workdir={trained} --mode=predict --input={folder}', 'has not learned to label sequences; use --mode=generate'),
    ('--workdir={trained} --mode=predict --input={folder}/text.txt',
     '/trained: the run has not learned to label sequences; use --mode=generate\n'),
    ('--workdir={trained} --mode=score', '--mode=score: give --input=FILE with a line for every sequence, or --input=- to '),
    ('--workdir={trained} --mode=score --input={folder}/text.txt',
     '/trained: the run has not learned to translate; use --mode=generate\n'),
    ('--workdir={classifier} --mode=score --input={folder}/text.txt',
     '/run: the run has not learned to translate; use --mode=predict --input=FILE\n'),
    ('--workdir={classifier} --mode=generate --input={folder}/text.txt',
     '/run: the run has not learned to continue a text; use --mode=predict --input=FILE\n'),
    ('--workdir={classifier} --mode=generate',
     '/run: the run has not learned to continue a text; use --mode=predict --input=FILE\n'),
    ('--workdir={trained} --mode=generate --input={folder}/text.txt --config.decode.prompt=a',
     "config.decode.prompt='a': is not read, as every line of --input is a prompt; write '\\n'"),
    ('--workdir={trained} --mode=generate --ensemble=x', '--ensemble=x: is for a run that translates, and this one goes '),
    ('--workdir={trained} --mode=generate --explain', '--explain: is for a run that translates, and this one goes on '),
    ('--workdir={trained} --mode=generate --config.decode.num_beams=2 --config.decode.samples=3',
     'config.decode.samples=3: a beam finds config.decode.num_beams=2 texts; ask for fewer, or widen it'),
    ('--workdir={trained} --mode=generate --config.decode.num_beams=2 --config.decode.prompt=a',
     'config.decode.max_new_tokens=500: a beam looks at all of its text, 501 tokens with the prompt, and the model can look '
     'at 16; ask for fewer, or set config.decode.num_beams=1'),
    ('--workdir={translator} --mode=generate', '--mode=generate: give --input=FILE with a line for every sequence, or '),
    ('--workdir={translator} --mode=generate --input={folder}/none.txt', '/none.txt: cannot be read (No such file or '),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --ensemble={folder}/none',
     '/none: no run is here (no config.json); train one first with --config=FILE'),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --ensemble={translator},{trained}',
     '--ensemble={trained}: the run has not learned to translate\n'),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --explain --config.decode.sample=true',
     '--explain: shows how an answer was searched for, and config.decode.sample=True draws it; leave out one of them'),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --config.decode.samples=2',
     'config.decode.samples: is for language models; this run is for translation on '),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --config.decode.length_penalty=-1',
     'config.decode.length_penalty=-1.0: must be at least 0'),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --config.decode.sample=true --config.decode.num_beams=4',
     'config.decode.num_beams=4: a sampler draws one answer; write num_beams=1'),
    ('--workdir={translator} --config.train.decode_rows=-5', 'config.train.decode_rows=-5: must be at least 0'),
    ('--workdir={translator} --config.train.teacher_forcing=linaer',
     "config.train.teacher_forcing='linaer': no such schedule; did you mean 'linear'?"),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --config.decode.n_best=2',
     'config.decode.n_best=2: must be at least 1 and at most num_beams=1'),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --config.decode.temperature=0.5',
     'config.decode.temperature=0.5: is for answers that are drawn; set config.decode.sample=true too, or write 0.8\n'),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --checkpoint=7',
     "--checkpoint=7: write 'latest', 'best' or a step; there are: 1"),
    ('--workdir={translator} --mode=generate --input={folder}/text.txt --config.data.tokenizer=byte',
     "/translator: holds another experiment, with config.data.tokenizer='char' and not 'byte'; choose another --workdir"),
    ('--workdir={translator} --mode=predict --input={folder}/text.txt',
     '/translator: the run has not learned to label sequences; use --mode=generate --input=FILE'),
    ('--workdir={translator} --mode=xray',
     '--mode=xray: looks at rows that hold one sequence of tokens, and those of this run hold several'),
    ('--workdir={translator} --mode=cells',
     "/pairs.tsv' for translation; choose the --workdir of a language model of text"),
    ('--workdir={translator} --mode=eval --input=x', '--input=x: is for --mode=generate|predict|score; leave it out'),
    ('--workdir={translator} --mode=score --ensemble=x --input=y', '--ensemble=x: is for --mode=generate; leave it out'),
    ('--workdir={trained} --mode=generate prompt=a', "'prompt=a' is left over: options are written --name=value, as in "
     '--config.decode.prompt=a'),
]


@pytest.mark.parametrize('line, sentence', COMMANDS, ids=[line for line, _ in COMMANDS])
def test_a_command_that_cannot_be_is_one_sentence(line, sentence, launch, folder, trained, translator, classifier, tmp_path,
                                                  monkeypatch):
    monkeypatch.chdir(ROOT)
    places = dict(folder=folder, new=tmp_path / 'new', trained=folder / 'trained', translator=translator,
                  classifier=classifier)
    before = snapshot(folder)
    assert_refused(launch, line.format(**places).split(' '), sentence.format(**places), tmp_path / 'new', monkeypatch)
    assert snapshot(folder) == before


# ------------------------------------------------------------------------------------------------ real processes

def test_a_mistake_ends_a_process_with_code_2_and_one_line(tmp_path):
    result = run_process(f'--config={GPT}', f'--workdir={tmp_path / "run"}', '--config.train.stesp=5')
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr == "launch.py: no field 'stesp' in config.train; did you mean 'steps'?\n"
    assert not (tmp_path / 'run').exists()


def test_a_mistake_that_needs_the_devices_ends_a_process_with_code_2_too(folder, tmp_path):
    result = run_process(f'--config={GPT}', f'--workdir={tmp_path / "run"}', *SIZES, '--cpu_devices=2',
                         '--config.parallel.tensor=4', '--config.parallel.data=1',
                         f'--config.data.source=file:{folder / "text.txt"}')
    assert result.returncode == 2
    assert result.stderr.startswith(
        'launch.py: config.parallel.tensor=4: data x fsdp x tensor = 1 x 1 x 4 does not fit 2 devices')
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('words', [[], ['--help']], ids=['alone', 'help'])
def test_what_to_type_is_said_without_importing_jax(words):
    code = f'''
import runpy, sys
sys.argv = ['launch.py', *{words}]
try:
    runpy.run_path({str(ROOT / 'launch.py')!r}, run_name='__main__')
except SystemExit as left:
    print('code', left.code, 'heavy', sorted({{'jax', 'flax', 'numpy', 'orbax', 'tensorflow_datasets'}} & set(sys.modules)))
'''
    result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith('code 0 heavy []\n') and result.stderr == ''
    assert 'python launch.py --config=experiments/SUBJECT/NAME.py --workdir=DIR' in result.stdout
    for path in (ROOT / 'experiments').glob('*/*.py'):
        assert path.name in result.stdout and f'experiments/{path.parent.name}/' in result.stdout
        assert ', '.join(experiment_files.variants(path)) in result.stdout
    assert ('--cpu_devices: Simulate this many devices on the CPU.' in result.stdout) == ('--help' in words)


def test_a_run_prints_its_result_and_leaves_it_in_its_directory(folder, trained):
    printed, _, last = trained.stdout.partition('\nrun directory: ')
    assert json.loads(printed) == json.loads((folder / 'trained' / 'result.json').read_text())
    assert json.loads(printed)['steps'] == 4
    assert last.startswith(str(folder / 'trained'))


# ------------------------------------------------------------------------------------------------ the saved config

@pytest.fixture
def continued(folder, trained, tmp_path):
    """A copy of the run, to go on with."""
    return shutil.copytree(folder / 'trained', tmp_path / 'run')


def test_the_directory_alone_goes_on_with_the_saved_config(launch, continued, monkeypatch):
    words = [f'--workdir={continued}', '--config.train.steps=6', '--config.parallel.data=1']
    code, out, err = run_here(launch, words, monkeypatch)
    assert code == 0, err
    assert 'resumed from step 4' in err
    assert json.loads(out.partition('\nrun directory: ')[0])['steps'] == 6
    saved = json.loads((continued / 'config.json').read_text())
    assert (saved['train']['steps'], saved['model']['width'], saved['data']['sequence_length']) == (6, 16, 16)
    lines = [json.loads(line) for line in (continued / 'metrics.jsonl').read_text().splitlines()]
    assert [line['step'] for line in lines if 'train/loss' in line] == [1, 2, 3, 4, 5, 6]


def test_generation_reads_the_saved_config_and_takes_overrides(launch, continued, monkeypatch):
    words = [f'--workdir={continued}', '--mode=generate', '--config.decode.temperature=0', '--config.decode.prompt=ab',
             '--config.decode.max_new_tokens=5', '--config.decode.samples=2', '--config.parallel.data=1']
    before = snapshot(continued)
    results = [run_here(launch, words, monkeypatch) for _ in range(2)]
    assert results[0] == results[1]
    code, out, err = results[0]
    assert code == 0, err
    first, second = out[:7], out[9:16]
    assert first == second and first.startswith('ab') and len(out) == 17  # greedy: every sample is the same
    assert snapshot(continued) == before


def test_evaluation_gives_the_numbers_of_the_end_of_training(launch, continued, trained, monkeypatch):
    code, out, err = run_here(launch, [f'--workdir={continued}', '--mode=eval', '--config.parallel.data=1'], monkeypatch)
    assert code == 0, err
    end = json.loads(trained.stdout.partition('\nrun directory: ')[0])
    found = json.loads(out)
    assert found.pop('step') == 4
    assert found == {name: pytest.approx(value, rel=1e-5) for name, value in end.items() if name.startswith('eval/')}


def test_none_takes_back_what_an_experiment_sets(launch, folder, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(seqjax.train, 'train', lambda config, workdir, **_: seen.append(config))
    code, _, err = run_here(launch, [f'--config={GPT}', f'--workdir={tmp_path}', '--config.optimizer.b2=None'], monkeypatch)
    assert code == 0, err
    assert seen[0].optimizer.b2 is None


# ------------------------------------------------------------------------------------------------ new lines

@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    """The directory of a run that labels texts."""
    path = tmp_path_factory.mktemp('labelled')
    untrained_run(labelled_config(write_labelled(path / 'trees.jsonl', 'classification'), 'classification'), path / 'run')
    return path / 'run'


@pytest.mark.parametrize('source', ['file', 'pipe'])
def test_every_line_is_answered_with_one_object_whatever_its_bytes(source, launch, classifier, tmp_path, monkeypatch):
    content = b'\xef\xbb\xbfabc\n\nab\xff\r\n' + 'é🙂\u2028d'.encode() + b'\nh'
    (tmp_path / 'lines.txt').write_bytes(content)
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(content), encoding='ascii'))
    before = snapshot(classifier)
    words = [f'--workdir={classifier}', '--mode=predict', f'--input={tmp_path / "lines.txt" if source == "file" else "-"}']
    code, out, err = run_here(launch, words, monkeypatch)
    assert code == 0, err
    found = [json.loads(line) for line in out.split('\n')[:-1]]
    assert [answer['input'] for answer in found] == ['abc', '', 'ab\N{REPLACEMENT CHARACTER}', 'é🙂\u2028d', 'h']
    assert found[1] == dict(input='', label=None, reason='an empty line') and 'é🙂' in out
    assert all(answer['label'] in LETTERS for answer in found if answer['input']) and snapshot(classifier) == before
    assert '1 line without an answer (an empty line): 2\n2 lines with symbols that are not known: 3, 4\n' in err
    assert '1 line with U+FFFD, which stands for bytes that are not UTF-8: 3\n' in err


def test_a_reader_that_has_seen_enough_is_no_mistake_and_ascii_is_no_obstacle(classifier, tmp_path):
    (tmp_path / 'lines.txt').write_text('é\n' * 3000)  # more answers than a pipe holds
    words = [sys.executable, ROOT / 'launch.py', f'--workdir={classifier}', '--mode=predict',
             f'--input={tmp_path / "lines.txt"}']
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, 'PYTHONIOENCODING': 'ascii'}) as process:
        first = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 0 and 'Traceback' not in errors, errors
    assert '\\u00e9' in first and json.loads(first)['input'] == 'é'


@pytest.mark.parametrize('source', ['lines.txt', 'lines.txt.gz', '-'])
def test_every_line_is_translated_into_one_line_whatever_its_bytes(source, launch, translator, tmp_path, monkeypatch):
    content = b'\xef\xbb\xbfab\n\nab\xff\r\n' + 'é🙂\u2028d'.encode() + b'\nab\r\n' + b'cd ' * 20 + b'\n\r\ndd'
    (tmp_path / 'lines.txt').write_bytes(content)
    (tmp_path / 'lines.txt.gz').write_bytes(gzip.compress(content))
    monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(content), encoding='ascii'))
    before = snapshot(translator)
    words = [f'--workdir={translator}', '--mode=generate', f'--input={source if source == "-" else tmp_path / source}']
    code, out, err = run_here(launch, words, monkeypatch)
    assert code == 0, err
    found = out.split('\n')
    assert len(found) == 9 and found.pop() == ''
    assert [bool(text) for text in found] == [True, False, True, True, True, True, False, True]
    assert found[0] == found[4] != found[2] and snapshot(translator) == before
    assert '2 lines empty: 2, 7\n2 lines with symbols that are not known: 3, 4\n' in err
    assert '1 line of more than 14 tokens, translated in pieces: 6\n' in err


@pytest.mark.parametrize('content, reason', [
    (b'ab\n', "Not a gzipped file (b'ab')"),
    (gzip.compress(b'ab\n', mtime=0)[:-4], 'Compressed file ended before the end-of-stream marker was reached')],
    ids=['plain', 'cut'])
def test_a_compressed_file_that_is_none_is_refused(content, reason, launch, translator, tmp_path, monkeypatch):
    (tmp_path / 'lines.gz').write_bytes(content)
    words = [f'--workdir={translator}', '--mode=generate', f'--input={tmp_path / "lines.gz"}']
    code, out, err = run_here(launch, words, monkeypatch)
    assert (code, out) == (2, '') and (f'launch.py: --input={tmp_path / "lines.gz"}: is damaged, or not compressed though its '
                                       f'name ends in .gz ({reason}); copy it again, or rename it\n') in err


def test_several_answers_come_with_the_number_of_their_line_and_scores_as_objects(launch, translator, tmp_path, monkeypatch):
    (tmp_path / 'lines.txt').write_text('ab\n\ncd')
    words = [f'--workdir={translator}', '--mode=generate', f'--input={tmp_path / "lines.txt"}', '--config.decode.num_beams=2',
             '--config.decode.n_best=2', '--config.decode.length_penalty=0']
    code, out, err = run_here(launch, words, monkeypatch)
    assert code == 0, err
    rows = [line.split('\t') for line in out.splitlines()]
    assert [number for number, _, _ in rows] == ['1', '1', '2', '3', '3'] and rows[2] == ['2', '0.0000', '']
    assert float(rows[0][1]) > float(rows[1][1]) and rows[0][2] != rows[1][2]
    (tmp_path / 'pairs.txt').write_text(f'ab\t{rows[0][2]}\nab\t{rows[1][2]}\n')
    code, out, err = run_here(launch, [*words[:1], '--mode=score', f'--input={tmp_path / "pairs.txt"}'], monkeypatch)
    assert code == 0, err
    scores = [json.loads(line) for line in out.splitlines()]
    assert [answer['target'] for answer in scores] == [rows[0][2], rows[1][2]]
    for answer in scores:
        assert answer['tokens'][-1] == '</s>' and answer['log_prob'] == pytest.approx(sum(answer['log_probs']), abs=1e-2)
    code, out, err = run_here(launch, [*words[:1], '--mode=score', f'--input={tmp_path / "lines.txt"}'], monkeypatch)
    assert code == 0, err
    reason = 'no TAB between source and target'
    assert [json.loads(line) for line in out.splitlines()] == [
        dict(source=source, target=None, log_prob=None, reason=reason) for source in ('ab', '', 'cd')]
    assert '3 lines without a score, for lack of a TAB: 1, 2, 3\n' in err


def test_a_reader_that_has_seen_enough_of_translations_is_no_mistake(translator, tmp_path):
    (tmp_path / 'lines.txt').write_text('ab\n' * 20000)  # more answers than a pipe holds
    words = [sys.executable, ROOT / 'launch.py', f'--workdir={translator}', '--mode=generate',
             '--config.decode.batch_size=4096', '--config.decode.max_new_tokens=4', f'--input={tmp_path / "lines.txt"}']
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, 'PYTHONIOENCODING': 'ascii'}) as process:
        first = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 0 and 'Traceback' not in errors, errors
    assert first.strip('\n') and set(first.strip('\n')) <= set('wxyz ')


# ------------------------------------------------------------------------------------------------ variants

def sweep_words(folder, workdir, *more):
    return [f'--config={folder / "two.py"}', f'--workdir={workdir}', f'--config.data.source=file:{folder / "text.txt"}',
            '--config.parallel.data=1', *more]


def test_an_experiment_with_variants_trains_and_compares_all_of_them(launch, folder, tmp_path, monkeypatch):
    seen, both = [], tmp_path / 'both'

    def train_nothing(config, workdir):
        seen.append((config.model.width, config.train.steps, config.optimizer.b1, workdir))
        workdir.mkdir(parents=True)
        return {'eval/loss': 1.5, 'steps': config.train.steps}

    monkeypatch.setattr(seqjax.train.sweeps, 'train', train_nothing)
    words = sweep_words(folder, both, '--config.train.steps=3', '--config.optimizer.b1=none')
    code, out, err = run_here(launch, words, monkeypatch)
    assert code == 0, err
    assert seen == [(4, 3, None, both / 'narrow'), (8, 3, None, both / 'wide')]
    assert [line.split()[:2] for line in out.splitlines()[1:-1]] == [['narrow', '1.5'], ['wide', '1.5']]
    assert out.splitlines()[-1] == f'runs: {both} (compared in {both / "comparison.png"})'
    assert json.loads((both / 'comparison.json').read_text()).keys() == {'narrow', 'wide'}


def test_a_sweep_that_is_interrupted_leaves_as_a_single_run_does(launch, folder, tmp_path, monkeypatch):
    def interrupted(config, workdir):
        raise seqjax.train.Interrupted(7, 130)

    monkeypatch.setattr(seqjax.train.sweeps, 'train', interrupted)
    code, _, err = run_here(launch, sweep_words(folder, tmp_path / 'both'), monkeypatch)
    assert code == 130 and 'stopped at step 7, saved; the same command goes on from there' in err


def test_a_variant_that_is_named_is_trained_alone(launch, folder, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(seqjax.train, 'train', lambda config, workdir, **_: seen.append((config.model.width, workdir)))
    words = sweep_words(folder, tmp_path / 'one')
    code, _, err = run_here(launch, [words[0] + ':narrow', *words[1:]], monkeypatch)
    assert code == 0, err
    assert seen == [(4, str(tmp_path / 'one'))]


# ------------------------------------------------------------------------------------------------ help of a mode

def test_the_help_of_a_mode_lists_its_flags_and_the_fields_that_it_reads(launch, translator, monkeypatch):
    code, out, err = run_here(launch, [f'--workdir={translator}', '--mode=score', '--help'], monkeypatch)
    assert (code, err) == (0, '')
    named = {line.split()[0].rstrip(':') for line in out.splitlines() if line.startswith('  --')}
    assert named == {'--checkpoint', '--input', '--config.decode.batch_size', '--config.quantise.weights',
                     '--config.quantise.activations', *(f'--config.parallel.{field}' for field in (
                         'strategy', 'data', 'fsdp', 'tensor', 'deadline'))}


def test_without_a_run_the_help_of_a_mode_lists_the_fields_of_all_kinds_with_their_defaults(launch, monkeypatch):
    code, out, err = run_here(launch, ['--mode=generate', '--help'], monkeypatch)
    assert (code, err) == (0, '')
    assert '  --config.decode.num_beams (default: 1)  Beam width; 1: greedy search.\n' in out
    assert '  --config.decode.stop (default: ' in out and '--config.train' not in out
    assert run_here(launch, ['--mode=average', '--help'], monkeypatch)[1].endswith('Fields of the config:\n  none\n')


@pytest.mark.parametrize('mode', modes.MODES)
def test_every_mode_reads_what_it_says_is_there(mode):
    fields = configs.flatten(configs.defaults('gpt'))
    for read in modes.MODES[mode].reads:
        assert any(field == read or field.startswith(f'{read}.') for field in fields), read
    assert modes.MODES[mode].help.endswith('.')
