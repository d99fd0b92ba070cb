"""From a config to the things it describes: devices, data, model, optimizer. Nothing is compiled or trained here."""

import dataclasses
import functools
import json
from typing import Any

import jax
import numpy as np

from seqjax import config as configs
from seqjax import data, parallel, tasks
from seqjax.errors import FieldError, UserError
from seqjax.params.paths import by_path
from seqjax.runs.restore import make_strategy, placed
from seqjax.runs.saved_model import describe_model, make_model
from seqjax.train.decode_eval import make_decoded
from seqjax.train.optimizers import TUNABLE, make_optimizer
from seqjax.train.parameters import make_parameters
from seqjax.train.schedules import make_schedule
from seqjax.train.state import create_state
from seqjax.train.step import make_eval_step, make_train_step


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All parts of a run, ready to use."""

    strategy: Any
    dataset: Any           # see `data.load`
    training: Any          # element `step` is this process's rows of that step's batch
    evaluation: Any
    test: Any              # the same of the test split, or None
    task: Any
    schedule: Any
    optimizer: Any
    parameters: Any        # which of them are trained, and what the model is given of them
    target: Any            # the state's shapes and dtypes with their shardings
    create: Any            # key -> the state before the first step
    decoded: Any           # how what is written is measured, or None

    def initial_state(self, config, taken=None):
        """The state before the first step, made where it will live. taken: parameters of another run, see `transfer`."""
        layout = jax.tree.map(lambda x: x.sharding, self.target)
        return jax.jit(self.create, out_shardings=layout)(jax.random.key(config.seed), taken=taken or {})

    def initial_carry(self):
        """What a recurrent model remembers before the first batch: nothing; None where nothing is carried."""
        return jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype), x.sharding), self.target.carry)

    def saved_model(self, config):
        """What rebuilds the model alone."""
        return describe_model(config, self.task, self.dataset.for_model(), self.dataset.sample())

    def parameter_count(self, counted=lambda path: True):
        return sum(leaf.size for path, leaf in by_path(self.target.params).items() if counted(path))

    def tokens_per_step(self, batch_size):
        """The mean number of real steps in a training batch."""
        rows = getattr(self.dataset, 'rows_of_a_step', lambda batch_size: batch_size)
        return rows(batch_size) * self.dataset.steps

    def describe(self):
        """Lines for a reader: what was read, how large everything is, and how many programs will be compiled."""
        if report := getattr(self.dataset, 'report', ''):
            yield f'read {report}'
        trained = f', {self.parameter_count(self.parameters.is_trained):,} of them trained' if self.parameters.frozen else ''
        yield f'{self.parameter_count():,} parameters{trained}, {self.dataset}, {self.strategy}'
        if sum(self.dataset.shapes) > 2:
            yield 'compiles {} training and {} evaluation programs'.format(*self.dataset.shapes)

    def train_step(self, config, report=lambda text: None):
        """The training step, compiled for every shape of batch that it meets; report: told of more than were declared."""
        step = make_train_step(self.task, self.optimizer, self.schedule, seed=config.seed, ema=config.optimizer.ema,
                               accumulate=config.train.accumulate, axis_name=self.strategy.axis_name,
                               frozen=self.parameters.frozen, merge=self.parameters.merge)
        return parallel.Programs(self.strategy, step, updates_state=True, declared=self.dataset.shapes[0], report=report)

    def eval_step(self, report=lambda text: None):
        """The same for the evaluation step."""
        step = make_eval_step(self.task, axis_name=self.strategy.axis_name, merge=self.parameters.merge)
        return parallel.Programs(self.strategy, step, updates_state=False, declared=self.dataset.shapes[1], report=report)


def build(config, run, origin=None, report=lambda text: None):
    """Everything `config` describes; writes nothing. The tokenizer comes from the run directory `run` where it has one, and
    else from `origin`, what the run begins with (see `transfer`), where it begins with something. report: told what is read
    before it is, as that may take a while.
    """
    strategy = make_strategy(config)
    check_batch(config, strategy.mesh)
    configs.with_prefix('config.optimizer', lambda: optimizer_of(config, width=1))  # any width: mistakes come before data is read
    report(f'reading {config.data.source}')
    dataset = configs.with_prefix('config', lambda: load_data(config, run, origin))
    rows = dict(batch_size=config.data.batch_size, process=jax.process_index(), processes=jax.process_count())
    training, evaluation = configs.with_prefix('config', lambda: (
        dataset.training_batches(seed=config.seed, **rows),
        dataset.evaluation_batches(split=config.data.split, limit=_limit(config), **rows)))
    test = dataset.evaluation_batches(split='test', **rows) if 'test' in dataset.splits else None
    task = make_task(config, for_model=dataset.for_model(), for_task=dataset.for_task(), sample=dataset.sample()['inputs'])
    schedule, optimizer = configs.with_prefix('config.optimizer', lambda: optimizer_of(config, task.model.width))

    parameters = make_parameters(config, task, dataset.sample())
    create = functools.partial(create_state, task, optimizer, batch=dataset.sample(), ema=config.optimizer.ema > 0,
                               carried_rows=config.data.batch_size if config.data.get('carry') else 0, parameters=parameters)
    target = placed(jax.eval_shape(create, jax.random.key(config.seed)), parameters.boxed, strategy)
    return Experiment(strategy, dataset, training, evaluation, test, task, schedule, optimizer, parameters, target, create,
                      configs.with_prefix('config', lambda: make_decoded(config, dataset)))


def make_task(config, *, for_model, for_task, sample):
    """The task that the config names or its source is for, around the model.

    for_model, for_task: what the data decides about them; sample: inputs of a batch of one row.
    """
    model, _ = make_model(config, for_model, sample)
    return configs.with_prefix('config', lambda: tasks.build(
        configs.task_name(config), model, **{**for_task, **configs.task_of(config).settings(config.train)}))


def optimizer_of(config, width):
    """(learning rate by step, optimizer) of a model of that width."""
    options = config.optimizer
    read = {name: options[name] for name in ('clip_norm', 'clip_value', 'weight_decay', 'no_decay', 'rates', *TUNABLE)}
    schedule = make_schedule(options.schedule, options.learning_rate, steps=config.train.steps, width=width,
                             warmup_steps=options.warmup_steps, final_rate=options.final_rate)
    return schedule, make_optimizer(options.name, schedule, **read)


def _limit(config):
    """The batches of an evaluation; the test split is always measured as a whole."""
    return config.train.eval_batches if config.data.split == 'validation' else 0


def check_batch(config, mesh):
    """The rows of a micro-batch must be shared out evenly."""
    shards = mesh.shape['data'] * mesh.shape['fsdp']
    micro = config.data.batch_size // config.train.accumulate
    if micro % shards:
        raise FieldError('config.data.batch_size', config.data.batch_size,
                         f'must be a multiple of {shards * config.train.accumulate}: data x fsdp = {shards} shards, and '
                         f'train.accumulate={config.train.accumulate}')


def load_data(config, run, origin=None):
    """The data of the run; what is not the same as when the run began is refused."""
    task = configs.task_name(config)
    codec = data.saved_codec(run.read) or (_inherited(config, origin, task) if origin else None)
    dataset = data.load(config.data, task, codec)
    has = dataset.for_model().get('vocabulary')
    if config.vocabulary not in (0, has):
        raise FieldError('vocabulary', config.vocabulary, f'the data has {has} tokens, and only --mode=describe can do '
                         'without; set it to 0')
    if config.data.split not in dataset.splits:
        raise FieldError('data.split', config.data.split, f'the set has only: {", ".join(dataset.splits)}')
    if config.model.get('crf') and dataset.has_gaps:
        raise FieldError('model.crf', True, 'some steps of the set have no label, and a random field needs them all; '
                         'set it to false')
    before = json.loads(run.read('data.json') or '{}')
    content = lambda facts: [facts.get(name) for name in ('sha256', 'train', 'validation', 'test')]
    if before.get('source') == config.data.source and content(before) != content(dataset.facts()):
        raise UserError(f'the data of {config.data.source!r} is not what this run began with (in {run.path}); '
                        'restore it, or start a new run in another --workdir')
    return dataset


def _inherited(config, origin, task):
    """The codec of what the run begins with, without answers."""
    try:
        return data.inherited(data.saved_codec(origin.read), task)
    except UserError as error:
        raise FieldError('init_from', config.init_from, str(error)) from None
