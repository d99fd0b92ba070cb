"""The training loop, on one page."""

import contextlib
import faulthandler
import functools
import json
import sys

import jax

from seqjax import data, parallel
from seqjax.analysis.curves import plot_loss
from seqjax.runs.checkpoints import Checkpoints
from seqjax.runs.directory import MetricsLog, read_metrics
from seqjax.train import stopping
from seqjax.train.evaluation import evaluate_splits, remarks, short_line
from seqjax.train.experiment import LOOPS, Experiment, other_rate, prepare
from seqjax.train.interrupts import Interrupts
from seqjax.train.progress import ProgressBar
from seqjax.train.recorder import Recorder
from seqjax.train.result import final_numbers, finished_result
from seqjax.train.xray_step import make_look


class Interrupted(Exception):
    """The run was asked to leave; its state is saved."""

    def __init__(self, step, exit_code):
        super().__init__(f'stopped at step {step}, saved; the same command goes on from there')
        self.exit_code = exit_code


def train(described, workdir=None, *, typed=()):
    """Trains from the newest checkpoint on and returns the final metrics.

    Args:
        described: a config, with the `workdir` to train in and what was `typed` (see `prepare`), or an Experiment that is prepared.
    """
    lead = jax.process_index() == 0
    say = lambda text: print(text, file=sys.stderr) if lead else None
    parts = described if isinstance(described, Experiment) else prepare(described, workdir, say, typed=typed)
    return LOOPS[parts.config.train.loop](parts)


def default_loop(parts):
    """The loop of `train`: a step, an evaluation and a checkpoint where they are due. parts: a prepared Experiment."""
    config, run, strategy, lead = parts.config, parts.run, parts.strategy, jax.process_index() == 0
    with (Interrupts(Checkpoints(run.checkpoints).steps) as interrupts,
          ProgressBar('train', config.train.steps, quiet=not lead) as bar, contextlib.ExitStack() as stack):
        with interrupts.expendable():
            # ---------------------------------------------------------------- Restore
            checkpoints = Checkpoints(run.checkpoints, keep_latest=config.train.keep_latest, keep_best=config.train.keep_best)
            step = checkpoints.newest_intact(report=bar.say) or 0
            patience = stopping.restored(config, run, checkpoints, step)
            ends_with = 'test/loss' if parts.test and patience.is_last(step) else 'eval/loss'
            evaluated = any(line['step'] == step and ends_with in line for line in read_metrics(run.metrics))
            if evaluated and (result := finished_result(config, run, patience, step)):
                bar.say(f'resumed from step {step}, the last one; nothing is left to do')
                _say_early_end(config, patience, step, bar.say)
                return result
            if lead:
                run.begin(parts.texts)  # only now: a config with a mistake in it leaves nothing behind
            parallel.barrier('claimed')
            bar.say('\n'.join(parts.lines))
            state, seconds = _newest_state(config, parts, checkpoints, step, bar.say)
            state, saved = strategy.enter(state), step
            parallel.barrier('restored')
            log = stack.enter_context(contextlib.closing(MetricsLog(run, step))) if lead else None
            recorder = Recorder(log, bar, strategy.read, max_skipped=config.train.max_skipped, seconds=seconds,
                                tokens_per_step=parts.tokens_per_step(config.data.batch_size))

            # ---------------------------------------------------------------- Compile
            bar.update(step, 'compiling')
            with recorder.paused():
                train_step, eval_step, look = _programs(config, parts, state, step, bar.say)

        # -------------------------------------------------------------------- Train
        def save():
            """Saves the state, once a step; at the end before the test split is measured, so that nothing is lost there."""
            nonlocal saved
            if saved == step:
                return
            watch()
            recorder.sync()  # a checkpoint is only ever as new as the log
            checkpoints.save(strategy.leave(state), step=step, config=config.to_dict(), score=patience.value(step),
                             metric=patience.metric, seconds=recorder.seconds())
            if lead:
                plot_loss(read_metrics(run.metrics), run.loss_plot, parts.task.unit)
            saved = step
            bar.say(f'step {step}: saved')

        def measure():
            """Evaluates and says so; None where a signal came in between."""
            found = evaluate_splits(parts, eval_step, state, step, patience.is_last, run if lead else None, ending=save,
                                    stop=lambda: interrupts.signal, seen=watch)
            if found:
                recorder.write(step, found)
                bar.say(f'step {step}: {short_line(found)}')
                if parts.task.remarks:
                    for sentence in filter(None, remarks(parts.task, found).values()):
                        bar.say(f'warning: {sentence}')
            return found

        watch, batches = functools.partial(_watch, config.parallel.deadline), data.prefetched(parts.training, step)
        while True:
            last = patience.is_last(step)
            leaving = interrupts.requested(step)
            if (last or _due(step, config.train.eval_every)) and not evaluated and not leaving:
                with recorder.paused():
                    bar.update(step, 'evaluating')
                    evaluated = bool(measure())
                last, leaving = patience.is_last(step), not evaluated
            if last or leaving or _due(step, config.train.save_every):
                with recorder.paused():
                    save()
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
        _say_early_end(config, patience, step, bar.say)
        recorder.sync()  # an evaluation that was made up for comes after its checkpoint
        if lead:
            skipped = int(strategy.read(state.skipped))
            result = final_numbers(config, run, parts, recorder, train_step, patience, step, skipped, bar.say)
            run.write('result.json', json.dumps(result, indent=2) + '\n')
    parallel.barrier('finished')
    return json.loads(run.read('result.json'))


def _say_early_end(config, patience, step, say):
    if step < config.train.steps:
        say(f'step {step}: ends early; {patience.describe()}')


def _newest_state(config, parts, checkpoints, step, say):
    """(state, seconds that it took) of checkpoint `step`, or where that is 0 of a run that begins."""
    start = parts.start
    if step:
        state, manifest = checkpoints.restore(step, parts.target), checkpoints.manifest(step)
        say(f'resumed from step {step}')
        if note := other_rate(config, manifest['config']['train']['steps'], parts.schedule, step):
            say(note)
        return state, manifest['seconds']
    state = parts.initial_state(config, start and start.parameters())
    for line in start.describe() if start else ():
        say(line)
    return state, 0.0


def _programs(config, parts, state, step, say):
    """The programs of a training step and of an evaluation, compiled for their first batch, and the X-ray's where there is one."""
    train_step, eval_step, place = parts.train_step(config, say), parts.eval_step(say), parts.strategy.place
    train_step.prepare(state, place(parts.training[step]))
    eval_step.prepare(state, place(parts.evaluation[0]))
    return train_step, eval_step, make_look(parts, state) if config.train.xray_every else None


def _watch(seconds, *_):
    """A peer that is alive but stuck would be waited for without end: a step, evaluation batch or save has its deadline."""
    if jax.process_count() > 1:
        faulthandler.dump_traceback_later(seconds, exit=True)


def _due(step, every):
    return step > 0 and every > 0 and step % every == 0
