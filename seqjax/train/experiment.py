"""From a config to the things it describes: devices, data, model, optimizer. Nothing is compiled or trained here."""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import json
from typing import Any

import jax
from ml_collections import ConfigDict
import numpy as np
import optax

from seqjax import config as configs
from seqjax import data, parallel, tasks
from seqjax.errors import FieldError, UserError, suggestion
from seqjax.params.paths import by_path
from seqjax.registry import Registry
from seqjax.runs import transfer
from seqjax.runs.directory import RunDirectory, texts_of
from seqjax.runs.saved_model import describe_model, make_model
from seqjax.runs.transfer import Start
from seqjax.train import stopping
from seqjax.train.decode_eval import Decoded, make_decoded
from seqjax.train.evaluation import metric_names
from seqjax.train.optimizers import TUNABLE, make_optimizer
from seqjax.train.parameters import Parameters, make_parameters
from seqjax.train.schedules import make_schedule
from seqjax.train.state import TrainState, create_state, first_state
from seqjax.train.step import make_eval_step, make_train_step

LOOPS = Registry('training loop', {'default': 'seqjax.train.loop:default_loop'})  # function(prepared Experiment) -> final metrics


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All parts of a run, ready to use; made by `build` or, to be trained, by `prepare`.

    Args:
        config: what it is made from.
        run: the run directory.
        strategy: how a step runs on the devices.
        dataset: what its batches are made of.
        training: element `step` is this process's rows of that step's batch.
        evaluation: the batches of config.data.split; test: of the test split, or None.
        task: what is learned, around the model.
        schedule: the learning rate by step; optimizer: of the parameters that are trained.
        parameters: which of them are trained, and what the model is given of them.
        target: the state's shapes and dtypes with their shardings.
        decoded: how what is written is measured, or None.
        start: what another run or a file has learned of the parameters, or None.
        texts: {name: text} of the files that a run begins with; lines: what is said of it then.
    """

    config: ConfigDict
    run: RunDirectory
    strategy: parallel.Jit | parallel.Pmap
    dataset: data.Dataset
    training: Sequence
    evaluation: Sequence
    test: Sequence | None
    task: tasks.Task
    schedule: Callable[[Any], Any]
    optimizer: optax.GradientTransformation
    parameters: Parameters
    target: TrainState
    decoded: Decoded | None
    start: Start | None = None
    texts: dict = dataclasses.field(default_factory=dict)
    lines: tuple[str, ...] = ()

    def initial_state(self, config, taken=None):
        """The state before the first step, made where it will live. taken: parameters of another run, see `transfer`."""
        create = functools.partial(create_state, self.task, self.optimizer, batch=self.dataset.sample(),
                                   parameters=self.parameters, **_first(config))
        layout = jax.tree.map(lambda x: x.sharding, self.target)
        return jax.jit(create, out_shardings=layout)(jax.random.key(config.seed), taken=taken or {})

    def initial_carry(self):
        """What a recurrent model remembers before the first batch: nothing; None where nothing is carried."""
        return jax.tree.map(lambda x: jax.device_put(np.zeros(x.shape, x.dtype), x.sharding), self.target.carry)

    def saved_model(self, config, decided=()):
        """What rebuilds the model alone."""
        return describe_model(config, self.task, self.dataset.for_model(), self.dataset.sample(), decided)

    def parameter_count(self, counted=lambda path: True):
        return sum(leaf.size for path, leaf in by_path(self.target.params).items() if counted(path))

    def tokens_per_step(self, batch_size):
        """The mean number of real steps in a training batch."""
        return self.dataset.rows_of_a_step(batch_size) * self.dataset.steps

    def describe(self):
        """Lines for a reader: what was read, how large everything is, and how many programs will be compiled."""
        if self.dataset.report:
            yield f'read {self.dataset.report}'
        trained = f', {self.parameter_count(self.parameters.is_trained):,} of them trained' if self.parameters.frozen else ''
        yield f'{self.parameter_count():,} parameters{trained}, {self.dataset}, {self.strategy}'
        if sum(self.dataset.shapes) > 2:
            yield 'compiles {} training and {} evaluation programs'.format(*self.dataset.shapes)

    def train_step(self, config, report=lambda text: None):
        """The training step, compiled for every shape of batch that it meets; report: told of more than were declared."""
        step = make_train_step(self.task, self.optimizer, self.schedule, seed=config.seed, ema=config.optimizer.ema_decay,
                               accumulate=config.train.gradient_accumulation_steps, axis_name=self.strategy.axis_name,
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
    sizes = {axis: config.parallel[axis] for axis in parallel.AXES}
    strategy = configs.with_prefix('config', lambda: parallel.make_strategy(config.parallel.strategy, **sizes))
    check_batch(config, strategy.mesh)
    width = None if config.parameters else config.model.get('width')
    make = lambda width: configs.with_prefix('config.optimizer', lambda: optimizer_of(config, width))
    made = make(width) if width else None  # now where it can be, so that mistakes come before data is read
    report(f'reading {config.data.source}')
    dataset = configs.with_prefix('config', lambda: load_data(config, run, origin))
    rows = dict(batch_size=config.data.batch_size, process=jax.process_index(), processes=jax.process_count())
    limit = config.train.eval_batches if config.data.split == 'validation' else 0  # the test split is measured as a whole
    training, evaluation = configs.with_prefix('config', lambda: (
        dataset.training_batches(seed=config.seed, **rows),
        dataset.evaluation_batches(split=config.data.split, limit=limit, **rows)))
    test = dataset.evaluation_batches(split='test', **rows) if 'test' in dataset.splits else None
    task = make_task(config, for_model=dataset.for_model(), for_task=dataset.for_task(), sample=dataset.sample()['inputs'])
    schedule, optimizer = made or make(getattr(task.model, 'width', None))

    parameters = make_parameters(config, task, dataset.sample())
    state = jax.eval_shape(functools.partial(first_state, task, optimizer, frozen=parameters.frozen, merge=parameters.merge,
                                             **_first(config)), parameters.abstract, parameters.batch_stats)
    decoded = configs.with_prefix('config', lambda: make_decoded(config, dataset, task)) if task.decodes else None
    return Experiment(config, run, strategy, dataset, training, evaluation, test, task, schedule, optimizer, parameters,
                      strategy.placed(state, parameters.boxed), decoded)


def prepare(config: ConfigDict, workdir: Any, report: Callable[[str], None] = lambda text: None, *,
            typed: Sequence[str] = ()) -> Experiment:
    """What `config` describes, checked and ready to be trained in `workdir`, where nothing is written yet. report: told what is
    read before it is. typed: fields of a command line, which files of Hugging Face must not contradict: `with_model_of`."""
    configs.validate(config)
    configs.refuse_quantised(config, 'training changes')
    if config.train.loop not in LOOPS:
        raise FieldError('config.train.loop', config.train.loop, f'no such training loop; {suggestion(config.train.loop, LOOPS)}')
    if config.data.split != 'validation':
        raise FieldError('config.data.split', config.data.split, 'training is watched on the validation split, and the test '
                         'split is measured once, at the end; leave it out, or use --mode=eval')
    run, origin, decided = RunDirectory(workdir), None, ()
    if config.init_from:
        config = transfer.as_begun(config, run, typed)
        origin = transfer.find_origin(config, run, report)
        config, decided = transfer.with_model_of(origin, config, typed)
    run.check(config)
    parts = build(config, run, origin, report)
    if config.train.stop_metric:
        stopping.check_name(config.train.stop_metric, metric_names(parts))
    return dataclasses.replace(
        parts, start=transfer.make_start(config, origin, parts) if origin else None, lines=tuple(parts.describe()),
        texts=texts_of(config, parts.dataset, parts.saved_model(config, decided)))


def _first(config):
    """What the first state of a run has beside parameters."""
    return dict(ema=config.optimizer.ema_decay > 0, carried_rows=config.data.batch_size if config.data.get('stateful') else 0)


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
    read = {name: options[name] for name in ('clip_norm', 'clip_value', 'weight_decay', 'no_decay', 'layerwise_rates', *TUNABLE)}
    schedule = make_schedule(options.schedule, options.learning_rate, steps=config.train.steps, width=width,
                             warmup_steps=options.warmup_steps, final_rate=options.final_rate)
    return schedule, make_optimizer(options.name, schedule, **read)


def other_rate(config, steps, schedule, step):
    """A note where the learning rate of `step` was another one with the `steps` that the run was to take before; or ''."""
    options = config.optimizer
    if config.train.steps == steps or options.schedule == 'noam':
        return ''
    old = make_schedule(options.schedule, options.learning_rate, steps=steps, warmup_steps=options.warmup_steps,
                        final_rate=options.final_rate)
    was, now = float(old(step)), float(schedule(step))
    return '' if was == now else (f'note: config.train.steps={config.train.steps} and no longer {steps} changes the learning rate '
                                  f'of the {options.schedule} schedule: here from {was:.3g} to {now:.3g}')


def check_batch(config, mesh):
    """The rows of a micro-batch must be shared out evenly."""
    shards = mesh.shape['data'] * mesh.shape['fsdp']
    micro = config.data.batch_size // config.train.gradient_accumulation_steps
    if micro % shards:
        raise FieldError('config.data.batch_size', config.data.batch_size,
                         f'must be a multiple of {shards * config.train.gradient_accumulation_steps}: data x fsdp = {shards} shards, and '
                         f'train.gradient_accumulation_steps={config.train.gradient_accumulation_steps}')


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
