"""What else can be done with a run: evaluate it, and let it write."""

import sys

import jax

from seqjax import config as configs
from seqjax import decode, parallel
from seqjax.errors import FieldError, UserError
from seqjax.train.checkpoints import Checkpoints, verify
from seqjax.train.evaluation import evaluate_state
from seqjax.train.experiment import build, make_strategy, make_task, sample_batch
from seqjax.train.progress import ProgressBar
from seqjax.train.run_directory import RunDirectory, check_same_experiment
from seqjax.train.step import make_eval_step

_EVALUATE_ON_OTHER_DATA = ('data.source', 'data.directory', 'data.held_out', 'data.batch_size')


def evaluate(config, workdir, checkpoint='latest'):
    """Metrics of a checkpoint of the run on its held-out text, or on that of another source that `config` names."""
    config = _for_these_devices(config)
    run = _open(config, workdir, may_differ=_EVALUATE_ON_OTHER_DATA)
    parts = build(config, run)
    step, checkpoints = find_checkpoint(run, checkpoint)
    state = parts.strategy.enter(checkpoints.restore(step, parts.target))
    with ProgressBar('evaluate', len(parts.evaluation), quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling')
        eval_step = parts.strategy.compile(make_eval_step(parts.task, axis_name=parts.strategy.axis_name),
                                           state, parts.strategy.place(parts.evaluation[0]), updates_state=False)
        means = evaluate_state(parts, eval_step, state, seen=bar.update)
    return {'step': step, **{f'eval/{name}': value for name, value in means.items()}}


def generate(config, workdir, checkpoint='latest'):
    """`config.decode.samples` texts that the run writes; each starts with the prompt."""
    config = _for_these_devices(config)
    run = _open(config, workdir)
    options = config.decode
    sampler = configs.with_prefix('config.decode', lambda: decode.Sampler(options.temperature, options.top_k, options.top_p))
    if not options.prompt:
        raise UserError("config.decode.prompt='': give at least one character to continue from")
    tokenizer = run.tokenizer()
    try:
        prompt = tokenizer.encode(options.prompt)
    except (UserError, UnicodeEncodeError) as error:
        raise FieldError('config.decode.prompt', options.prompt, str(error)) from None
    task = make_task(config, tokenizer.vocabulary)
    step, checkpoints = find_checkpoint(run, checkpoint)
    params = _restore_parameters(config, task, checkpoints, step)
    with ProgressBar('generate', options.samples, quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling and writing')
        written = decode.generate(task.model, params, [prompt] * options.samples, key=jax.random.key(options.seed),
                                  max_new_tokens=options.max_new_tokens, sampler=sampler)
    return [options.prompt + tokenizer.decode(tokens) for tokens in written]


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


def _open(config, workdir, may_differ=()):
    configs.validate(config)
    run = RunDirectory(workdir)
    check_same_experiment(run.path, run.saved_config(), config, may_differ)
    return run


def _for_these_devices(config):
    """The same config, on one device where the mesh that the run was trained on needs more devices than there are."""
    sizes = [abs(config.parallel[axis]) for axis in parallel.AXES]
    if sizes[0] * sizes[1] * sizes[2] > jax.device_count():
        config = config.copy_and_resolve_references()
        config.parallel.update(data=1, fsdp=1, tensor=1, strategy='jit')
    return config


def _restore_parameters(config, task, checkpoints, step):
    """The parameters to use, without the optimizer's share of the checkpoint."""
    which = 'ema' if config.optimizer.ema else 'params'
    boxed = jax.eval_shape(task.init, jax.random.key(0), sample_batch(config))['params']
    abstract = {which: jax.eval_shape(lambda: task.plain_init(jax.random.key(0), sample_batch(config)))}
    layout = make_strategy(config).state_layout(abstract, boxed)
    target = jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), abstract, layout)
    return checkpoints.restore(step, target, part=True)[which]
