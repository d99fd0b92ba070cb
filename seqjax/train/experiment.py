"""From a config to the things it describes: devices, data, model, optimizer. Nothing is compiled or trained here."""

import dataclasses
import functools
import json
from typing import Any

import jax
import numpy as np

from seqjax import config as configs
from seqjax import data, models, parallel, tasks
from seqjax.data import tokenizers
from seqjax.errors import FieldError, UserError
from seqjax.train.optimizers import check_patterns, make_optimizer
from seqjax.train.schedules import make_schedule
from seqjax.train.state import create_state


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All parts of a run, ready to use."""

    strategy: Any
    corpus: data.Corpus
    training: Any          # element `step` is this process's rows of that step's batch
    evaluation: Any
    task: tasks.LanguageModel
    schedule: Any
    optimizer: Any
    target: Any            # the state's shapes and dtypes with their shardings

    def initial_state(self, config):
        """The state before the first step, made where it will live."""
        layout = jax.tree.map(lambda x: x.sharding, self.target)
        make = functools.partial(create_state, self.task, self.optimizer, batch=sample_batch(config),
                                 ema=config.optimizer.ema > 0)
        return jax.jit(make, out_shardings=layout)(jax.random.key(config.seed))

    def parameter_count(self):
        return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(self.target.params))


def build(config, run):
    """Everything `config` describes; the tokenizer comes from the run directory `run` where it has one. Writes nothing."""
    strategy = make_strategy(config)
    _check_batch(config, strategy.mesh)
    corpus = configs.with_prefix('config', lambda: _load_corpus(config, run))
    shape = dict(batch_size=config.data.batch_size, sequence_length=config.data.sequence_length,
                 process=jax.process_index(), processes=jax.process_count())
    training, evaluation = configs.with_prefix('config', lambda: (
        data.training_batches(corpus.train, seed=config.seed, **shape),
        data.evaluation_batches(corpus.validation, limit=config.train.eval_batches, **shape)))
    task = make_task(config, corpus.tokenizer.vocabulary)
    schedule, optimizer = configs.with_prefix('config', lambda: _make_optimizer(config))

    key, batch = jax.eval_shape(lambda: jax.random.key(config.seed)), sample_batch(config)
    abstract = jax.eval_shape(lambda key: create_state(task, optimizer, key, batch, ema=config.optimizer.ema > 0), key)
    configs.with_prefix('config', lambda: check_patterns(config.optimizer, abstract.params))
    layout = strategy.state_layout(abstract, jax.eval_shape(task.init, key, batch)['params'])
    target = jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), abstract, layout)
    return Experiment(strategy, corpus, training, evaluation, task, schedule, optimizer, target)


def make_strategy(config):
    return configs.with_prefix('config', lambda: parallel.make_strategy(
        **{name: config.parallel[name] for name in ('strategy', *parallel.AXES)}))


def make_task(config, vocabulary):
    fields = config.model.to_dict()
    return tasks.LanguageModel(models.build(fields.pop('name'), vocabulary=vocabulary,
                                            context_length=config.data.sequence_length, **fields))


def sample_batch(config):
    """The smallest batch that shows a model its input: parameters do not depend on the number of rows."""
    return dict(inputs=np.zeros((1, config.data.sequence_length), np.int32))


def _make_optimizer(config):
    options = config.optimizer
    schedule = make_schedule(options.schedule, options.learning_rate, steps=config.train.steps, width=config.model.width,
                             warmup_steps=options.warmup_steps, final_rate=options.final_rate)
    return schedule, make_optimizer(options, schedule)


def _check_batch(config, mesh):
    shards = mesh.shape['data'] * mesh.shape['fsdp']
    micro = config.data.batch_size // config.train.accumulate
    if micro % shards:
        raise FieldError('config.data.batch_size', config.data.batch_size,
                         f'must be a multiple of {shards * config.train.accumulate}: data x fsdp = {shards} shards, and '
                         f'train.accumulate={config.train.accumulate}')


def _load_corpus(config, run):
    """The corpus of the run; a text that is not the one the run began with is refused."""
    saved = run.read('tokenizer.json')
    corpus = data.load_corpus(config.data, tokenizers.loads(saved) if saved else None)
    before = json.loads(run.read('data.json') or 'null')
    if before and before['source'] == corpus.source and before['sha256'] != corpus.sha256:
        raise UserError(f'the text of {config.data.source!r} is not the one this run began with (in {run.path}); '
                        'restore it, or start a new run in another --workdir')
    return corpus
