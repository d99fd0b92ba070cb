"""Launches experiments: the only file that is run by hand.

    python launch.py --config=experiments/language/char_gpt.py --workdir=runs/gpt --config.model.depth=8
    python launch.py --workdir=runs/gpt --mode=eval
    python launch.py --workdir=runs/gpt --mode=generate --config.decode.prompt='class '
    python launch.py --workdir=runs/gpt --mode=generate --input=FILE             # continues every line of a file
    python launch.py --workdir=runs/gpt --mode=eval --config.quantise.weights=int8               # with 8-bit parameters
    python launch.py --workdir=runs/tagger --mode=predict --input=FILE           # labels new lines; '-': those of a pipe
    python launch.py --workdir=runs/de_en --mode=generate --input=FILE --config.decode.num_beams=5     # translates its lines
    python launch.py --workdir=runs/de_en --mode=score --input=FILE              # log P of 'source TAB target'
    python launch.py --workdir=runs/gpt --mode=average --last=5                  # the mean of its last checkpoints, as a run
    python launch.py --workdir=runs/gpt --mode=export                            # as files that need none of its code
    python launch.py --workdir=runs/gpt --mode=hugging_face                      # as files that transformers loads
    python launch.py --workdir=runs/lstm --mode=xray                             # how far its gradients reach
    python launch.py --workdir=runs/lstm --mode=cells                            # interpretable units
    python launch.py --workdir=runs/gpt --mode=cost                              # what longer rows and wider layers would cost
    python launch.py --config=experiments/language/char_gpt.py --mode=describe            # its parameters, cost and memory; no run
    python launch.py --config=experiments/recurrence/adding.py --workdir=runs/adding        # all its variants, and a comparison
    python launch.py --config=experiments/recurrence/adding.py:gru --workdir=runs/gru       # one of them
    python launch.py --mode=generate --help                                      # the flags and fields that a mode reads
"""

import faulthandler
import os
import pathlib
import sys

from seqjax.errors import UserError, suggestion
from seqjax.modes import MODES, Flag, Request
from seqjax.modes.command import experiment_files
from seqjax.modes.command.mode import Words, help_of

FLAGS = (
    Flag('config', '', 'FILE.py or FILE.py:VARIANT, the experiment; --config.SECTION.FIELD=VALUE changes one of its fields.'),
    Flag('workdir', '', 'The run directory: config, metrics, plots and checkpoints. The same command resumes.'),
    Flag('mode', 'train', f'What to do: {", ".join(MODES)}. --mode=NAME --help lists what it reads.'),
    Flag('cpu_devices', 0, 'Simulate this many devices on the CPU.'),
    Flag('coordinator', '', "HOST:PORT of process 0 when several processes train together, or 'auto' on a cluster."),
    Flag('processes', 1, 'How many processes there are, with --coordinator.'),
    Flag('process', 0, 'Which of them this is, with --coordinator.'),
)


def main(typed):
    words = Words(typed)
    asks = words.take('help', switch=True) or words.take('h', switch=True)
    chosen = not asks or 'mode' in words.names()
    ours = words.take_flags(FLAGS)
    if not typed or not chosen:
        return print(f'{__doc__}\n{help_of(FLAGS)}\n\n' * bool(asks) + experiment_files.what_to_type())
    mode, config = load(ours, asks)
    from seqjax.modes.command import command_line  # not before: it imports jax

    if asks:
        return print(command_line.help_of_mode(ours.mode, mode, config))
    changes = command_line.take_changes(words, config)
    request = Request(ours.mode, command_line.changed(config, changes, workdir=ours.workdir),
                      ours.workdir, ours.config, words.take_flags(mode.flags), changes)
    command_line.refuse_left(words, FLAGS, config)
    if mode.needs_workdir and not ours.workdir:
        raise UserError('--workdir is missing: name the directory for the run, as in --workdir=runs/first')
    prepare(ours)
    mode.run(request)


def load(ours, asks):
    """(Mode, the config before the command line changes it); the experiment file comes first: it may register the mode."""
    if ours.config:
        experiment_files.check(ours.config)
    elif not ours.workdir and not asks:
        raise UserError('no experiment: give --config=FILE to start one, or the --workdir of one that was started\n\n'
                        + experiment_files.what_to_type())
    config = experiment_files.load(ours.config) if ours.config else None
    if ours.mode not in MODES:
        raise UserError(f'--mode={ours.mode}: no such mode; {suggestion(ours.mode, MODES)}')
    mode = MODES[ours.mode]
    if not ours.config and ours.workdir:
        from seqjax.runs.directory import RunDirectory, runs_below

        several = runs_below(ours.workdir) if mode.takes_sweeps else []  # each is read with its own
        config = RunDirectory(pathlib.Path(ours.workdir, *several[:1])).saved_config()
    return mode, config


def prepare(ours):
    """Settings of JAX and of the processes, before the first array is made."""
    import jax
    from absl import logging

    from seqjax import parallel

    logging.set_verbosity(logging.ERROR)  # Orbax and grain tell their story at the lower levels
    parallel.keep_freed_memory()
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    cache = os.environ.get('SEQJAX_CACHE') or str(pathlib.Path(home) / 'seqjax' / 'xla')
    jax.config.update('jax_compilation_cache_dir', cache)  # compiled programs are kept between runs
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.1)
    if ours.cpu_devices < 0:
        raise UserError(f'--cpu_devices={ours.cpu_devices}: must be at least 0')
    if ours.cpu_devices:
        parallel.simulate_devices(ours.cpu_devices)
    if ours.coordinator:
        parallel.start_processes(ours.coordinator, ours.processes, ours.process)
    elif ours.processes != 1 or ours.process:
        raise UserError(f'--processes={ours.processes} --process={ours.process}: '
                        'give --coordinator=HOST:PORT of process 0 too')


def run():
    """Runs main; a mistake of the user ends in one sentence and exit code 2, an interrupted run in 128 + signal."""
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')  # LAPACK's threads only get in each other's way on small matrices
    if sys.stderr is sys.__stderr__:
        faulthandler.enable()
    try:
        sys.exit(main(sys.argv[1:]) or 0)
    except UserError as error:
        print(f'launch.py: {error}', file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print('\nstopped', file=sys.stderr)
        sys.exit(130)


if __name__ == '__main__':
    run()
