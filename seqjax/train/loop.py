"""The training loop, on one page."""

import contextlib
import faulthandler
import importlib.metadata
import json
import platform

import jax

from seqjax import config as configs
from seqjax import data, parallel
from seqjax.analysis.baselines import baselines
from seqjax.analysis.cost import jaxpr_flops
from seqjax.analysis.curves import plot_loss
from seqjax.errors import FieldError, UserError
from seqjax.train.checkpoints import Checkpoints
from seqjax.train.evaluation import draw, evaluate_state, make_evaluation, short_line, summarise
from seqjax.train.experiment import build
from seqjax.train.interrupts import Interrupts
from seqjax.train.progress import ProgressBar
from seqjax.train.recorder import Recorder
from seqjax.train.run_directory import MetricsLog, RunDirectory, jsonable, read_metrics
from seqjax.train.step import make_train_step
from seqjax.train.xray_step import make_look


class Interrupted(Exception):
    """The run was asked to leave; its state is saved."""

    def __init__(self, step, exit_code):
        super().__init__(f'stopped at step {step}, saved; the same command goes on from there')
        self.exit_code = exit_code


def train(config, workdir):
    """Trains what `config` describes in `workdir`, from its newest checkpoint on, and returns the final metrics."""
    configs.validate(config)
    if config.data.split != 'validation':
        raise FieldError('config.data.split', config.data.split, 'training is watched on the validation split, and the test '
                         'split is measured once, at the end; leave it out, or use --mode=eval')
    run, lead = RunDirectory(workdir), jax.process_index() == 0
    run.check(config)
    with (Interrupts() as interrupts, ProgressBar('train', config.train.steps, quiet=not lead) as bar,
          contextlib.ExitStack() as stack):
        with interrupts.expendable():
            # ---------------------------------------------------------------- Mesh, data, model
            parts = build(config, run)
            if lead:
                run.claim(config, parts.dataset)  # only now: a config with a mistake in it leaves nothing behind
            parallel.barrier('claimed')
            strategy = parts.strategy
            if report := getattr(parts.dataset, 'report', ''):
                bar.say(f'read {report}')
            bar.say(f'{parts.parameter_count():,} parameters, {parts.dataset}, {strategy}')
            if sum(parts.dataset.shapes) > 2:
                bar.say('compiles {} training and {} evaluation programs'.format(*parts.dataset.shapes))

            # ---------------------------------------------------------------- Restore
            checkpoints = Checkpoints(run.checkpoints, keep_latest=config.train.keep_latest, keep_best=config.train.keep_best)
            step, seconds = checkpoints.newest_intact(report=bar.say), 0.0
            if step is None:
                step, state = 0, parts.initial_state(config)
            else:
                state, seconds = checkpoints.restore(step, parts.target), checkpoints.manifest(step)['seconds']
                bar.say(f'resumed from step {step}')
            state, saved = strategy.enter(state), step
            wanted = 'test/loss' if parts.test and step >= config.train.steps else 'eval/loss'
            evaluated = any(line['step'] == step and wanted in line for line in read_metrics(run.metrics))
            parallel.barrier('restored')
            log = stack.enter_context(contextlib.closing(MetricsLog(run, step))) if lead else None
            recorder = Recorder(log, bar, strategy.read, max_skipped=config.train.max_skipped, seconds=seconds,
                                tokens_per_step=config.data.batch_size * parts.dataset.steps)

            # ---------------------------------------------------------------- Compile
            bar.update(step, 'compiling')
            with recorder.paused():
                train_step = parallel.Programs(
                    strategy, make_train_step(parts.task, parts.optimizer, parts.schedule, seed=config.seed,
                                              ema=config.optimizer.ema, accumulate=config.train.accumulate,
                                              axis_name=strategy.axis_name),
                    updates_state=True, declared=parts.dataset.shapes[0], report=bar.say)
                train_step.prepare(state, strategy.place(parts.training[step]))
                eval_step = make_evaluation(parts, report=bar.say)
                eval_step.prepare(state, strategy.place(parts.evaluation[0]))
                look = make_look(parts, state) if config.train.xray_every else None

        # -------------------------------------------------------------------- Train
        def save(score=None):
            recorder.sync()  # a checkpoint is only ever as new as the log
            checkpoints.save(strategy.leave(state), step=step, config=config.to_dict(), score=score, seconds=recorder.seconds())
            if lead:
                plot_loss(read_metrics(run.metrics), run.loss_plot, parts.task.unit)

        def watch(*_):
            """A peer that is alive but stuck would be waited for without end: this step, batch or save has its deadline."""
            if jax.process_count() > 1:
                faulthandler.dump_traceback_later(config.parallel.deadline, exit=True)

        def measure(splits):
            """Evaluates on {name in the log: batches} and says so; None where a signal came in between."""
            found = {}
            for name, batches in splits.items():
                sums = evaluate_state(strategy, eval_step, state, batches, stop=lambda: interrupts.signal, seen=watch)
                if sums is None:
                    return None
                found.update(summarise(parts.task, sums, name))
                if lead and step >= config.train.steps:
                    draw(parts.task, sums, run, name)
            recorder.write(step, found)
            bar.say(f'step {step}: {short_line(found)}')
            return found

        batches = data.prefetched(parts.training, step)
        while True:
            last, score = step >= config.train.steps, None
            leaving = interrupts.requested(step)
            if (last or _due(step, config.train.eval_every)) and not evaluated and not leaving:
                with recorder.paused():
                    bar.update(step, 'evaluating')
                    measured = measure({'eval': parts.evaluation} | ({'test': parts.test} if last and parts.test else {}))
                evaluated, leaving, score = bool(measured), not measured, measured and measured['eval/loss']
            if (last or leaving or _due(step, config.train.save_every)) and saved != step:
                with recorder.paused():
                    watch()
                    save(score)
                saved = step
                bar.say(f'step {step}: saved')
            if leaving:
                raise Interrupted(step, interrupts.exit_code)
            if last:
                break
            watch()
            batch = strategy.place(next(batches))
            if not train_step.knows(batch):
                with recorder.paused():
                    bar.update(step, 'compiling')
                    train_step.prepare(state, batch)
            state, facts = train_step(state, batch)
            step, evaluated = step + 1, False
            recorder.push(step, facts)
            if _due(step, config.train.xray_every):
                with recorder.paused():
                    recorder.write(step, look(state))
        faulthandler.cancel_dump_traceback_later()

        recorder.sync()  # an evaluation that was made up for comes after its checkpoint
        if lead:
            result = _result(config, run, parts, recorder, train_step, skipped=int(strategy.read(state.skipped)))
            run.write('result.json', json.dumps(result, indent=2) + '\n')
    parallel.barrier('finished')
    return json.loads(run.read('result.json'))


def _due(step, every):
    return step > 0 and every > 0 and step % every == 0


def _result(config, run, parts, recorder, train_step, skipped):
    """The final numbers, flat, with what is needed to trust and repeat them."""
    lines = read_metrics(run.metrics)
    newest = {name: value for line in lines for name, value in line.items() if '/' in name}
    before = json.loads(run.read('result.json') or '{}')  # a finished run that is started again trains no step
    speed = recorder.tokens_per_second() or before.get('tokens_per_second', 0.0)
    flops = _flops(train_step) or before.get('flops_per_step')
    labelled = isinstance(parts.dataset, data.Labelled)
    simple = jsonable(baselines(configs.task_name(config), parts.dataset.rows)) if labelled else {}
    versions = {f'version/{name}': importlib.metadata.version(name) for name in ('jax', 'flax', 'optax', 'orbax-checkpoint')}
    return {**newest, **simple, 'steps': config.train.steps, 'skipped': skipped,
            'seconds': round(recorder.seconds(), 1), 'tokens_per_second': round(speed), 'flops_per_step': flops,
            'parameters': parts.parameter_count(), 'seed': config.seed, 'device': jax.devices()[0].device_kind,
            'devices': jax.device_count(), 'version/python': platform.python_version(), **versions}


def _flops(train_step):
    """Operations of the matrix products of a step, the mean over all; None where they cannot be counted."""
    try:
        return train_step.mean_cost(jaxpr_flops)
    except UserError:
        return None
