"""What else can be done with a run: evaluate it, and let it write."""

import functools
import sys

import jax
import numpy as np

from seqjax import config as configs
from seqjax import decode, models, parallel
from seqjax.analysis.layers import recurrent_layers
from seqjax.errors import FieldError, UserError
from seqjax.train.checkpoints import Checkpoints, verify
from seqjax.train.evaluation import draw, evaluate_state, summarise
from seqjax.train.experiment import build, make_strategy, make_task
from seqjax.train.progress import ProgressBar
from seqjax.train.run_directory import RunDirectory, check_same_experiment, jsonable

_EVALUATE_ON_OTHER_DATA = tuple(f'data.{field}' for field in (
    'source', 'directory', 'held_out', 'held_out_rows', 'batch_size', 'carry', 'batching', 'shapes', 'format', 'input_column',
    'target_column', 'split_column', 'label_file', 'mask_file', 'split_seed', 'on_error'))


def evaluate(config, workdir, checkpoint='latest'):
    """Metrics of a checkpoint of the run on its held-out text, or on that of another source that `config` names."""
    config = for_these_devices(config)
    run = open_run(config, workdir, may_differ=_EVALUATE_ON_OTHER_DATA)
    parts = build(config, run)
    step, checkpoints = find_checkpoint(run, checkpoint)
    state = checkpoints.restore(step, parts.target.replace(carry=None), part=True)  # evaluation carries a state of its own
    state = parts.strategy.enter(state.replace(carry=parts.initial_carry()))
    with ProgressBar('evaluate', len(parts.evaluation), quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling')
        sums = evaluate_state(parts.strategy, parts.eval_step(bar.say), state, parts.evaluation, seen=bar.update)
    name = dict(validation='eval').get(config.data.split, config.data.split)
    if jax.process_index() == 0 and config.data.source == run.saved_config().data.source:
        draw(parts.task, sums, run, name)
    return {'step': step, **jsonable(summarise(parts.task, sums, name))}


def generate(config, workdir, checkpoint='latest'):
    """`config.decode.samples` texts that the run writes; each starts with the prompt."""
    config = for_these_devices(config)
    run = open_run(config, workdir)
    options = config.decode
    if not hasattr(models.MODELS[config.model.name], 'extend'):
        able = [name for name, model in models.MODELS.items() if hasattr(model, 'extend')]
        raise UserError(f'--mode=generate: {config.model.name!r} cannot continue a text; models that can: {", ".join(able)}')
    sampler = configs.with_prefix('config.decode', lambda: decode.Sampler(options.temperature, options.top_k, options.top_p))
    if not options.prompt:
        raise UserError("config.decode.prompt='': give at least one character to continue from")
    tokenizer = run.tokenizer()
    try:
        prompt = tokenizer.encode(options.prompt)
    except (UserError, UnicodeEncodeError) as error:
        raise FieldError('config.decode.prompt', options.prompt, str(error)) from None
    if not len(prompt):
        raise FieldError('config.decode.prompt', options.prompt, 'has no word to continue from')
    sample = dict(inputs=np.zeros((1, 1), np.int32))
    task = make_task(config, for_model=dict(vocabulary=tokenizer.vocabulary, context_length=config.data.sequence_length),
                     for_task={}, sample=sample['inputs'])
    step, checkpoints = find_checkpoint(run, checkpoint)
    params = restore_parameters(config, task, checkpoints, step, sample)
    with ProgressBar('generate', options.samples, quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling and writing')
        written = decode.generate(task.model, params, [prompt] * options.samples, key=jax.random.key(options.seed),
                                  max_new_tokens=options.max_new_tokens, sampler=sampler)
    return [options.prompt + tokenizer.glue + tokenizer.decode(tokens) for tokens in written]


def find_checkpoint(run, which):
    """(step, checkpoints) for 'latest', 'best' or a number; only a checkpoint whose every byte is right is used."""
    checkpoints = Checkpoints(run.checkpoints)
    newest = checkpoints.newest_intact(report=lambda text: print(text, file=sys.stderr))  # sets damaged ones aside
    steps = checkpoints.steps()
    if newest is None:
        raise UserError(f'--workdir={run.path}: no checkpoint yet; train first')
    if which not in ('latest', 'best') and not (which.isdigit() and int(which) in steps):
        raise UserError(f"--checkpoint={which}: write 'latest', 'best' or a step; there are: {', '.join(map(str, steps))}")
    step = {'latest': newest, 'best': checkpoints.best_step()}.get(which) or int(which)
    if step != newest and (problems := verify(checkpoints.path(step))):
        raise UserError(f'--checkpoint={which}: step {step} is damaged ({problems[0]}); choose another of: '
                        f'{", ".join(map(str, steps))}')
    return step, checkpoints


def open_run(config, workdir, may_differ=()):
    configs.validate(config)
    run = RunDirectory(workdir)
    check_same_experiment(run.path, run.saved_config(), config, may_differ)
    return run


def open_recurrent(mode, config, workdir, checkpoint='latest'):
    """(run, parts, step, parameters) of a checkpoint of a recurrent model, the parameters on the host: to look into it.

    mode: what the user asked for, for the sentences that refuse it.
    """
    if jax.process_count() > 1:
        raise UserError(f'--mode={mode}: is done by one process and not by {jax.process_count()}; leave out --coordinator')
    config = for_these_devices(config)
    run = open_run(config, workdir)
    parts = build(config, run)
    if not jax.eval_shape(functools.partial(recurrent_layers, parts.task), parts.target.params, parts.dataset.sample()):
        raise UserError(f'--mode={mode}: {config.model.name!r} has no recurrent layer to look into; choose the --workdir of '
                        'a recurrent model')
    step, checkpoints = find_checkpoint(run, checkpoint)
    which = 'ema' if config.optimizer.ema else 'params'
    params = checkpoints.restore(step, {which: getattr(parts.target, which)}, part=True)[which]
    return run, parts, step, jax.device_get(params)


def for_these_devices(config):
    """The same config, on one device where the mesh that the run was trained on needs more devices than there are."""
    sizes = [abs(config.parallel[axis]) for axis in parallel.AXES]
    if sizes[0] * sizes[1] * sizes[2] > jax.device_count():
        config = config.copy_and_resolve_references()
        config.parallel.update(data=1, fsdp=1, tensor=1, strategy='jit')
    return config


def restore_parameters(config, task, checkpoints, step, batch):
    """The parameters to use, without the optimizer's share of the checkpoint. batch: of one row, whatever its length."""
    which = 'ema' if config.optimizer.ema else 'params'
    boxed = jax.eval_shape(task.init, jax.random.key(0), batch)['params']
    abstract = {which: jax.eval_shape(lambda: task.plain_init(jax.random.key(0), batch))}
    layout = make_strategy(config).state_layout(abstract, boxed)
    target = jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), abstract, layout)
    return checkpoints.restore(step, target, part=True)[which]
