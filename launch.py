"""Launches experiments: the only file that knows flags.

    python launch.py --config=experiments/language/char_gpt.py --workdir=runs/gpt --config.model.depth=8
    python launch.py --workdir=runs/gpt --mode=eval
    python launch.py --workdir=runs/gpt --mode=generate --config.decode.prompt='class '
    python launch.py --workdir=runs/gpt --mode=generate --input=FILE             # continues every line of a file
    python launch.py --workdir=runs/gpt --mode=eval --config.quantise.weights=int8               # with 8-bit parameters
    python launch.py --workdir=runs/tagger --mode=predict --input=FILE           # labels new lines; '-': those of a pipe
    python launch.py --workdir=runs/de_en --mode=generate --input=FILE --config.decode.beam=5     # translates its lines
    python launch.py --workdir=runs/de_en --mode=score --input=FILE              # log P of 'source TAB target'
    python launch.py --workdir=runs/gpt --mode=average --last=5                  # the mean of its last checkpoints, as a run
    python launch.py --workdir=runs/gpt --mode=export                            # as files that need none of its code
    python launch.py --workdir=runs/gpt --mode=hugging_face                      # as files that transformers loads
    python launch.py --workdir=runs/lstm --mode=xray                             # how far its gradients reach
    python launch.py --workdir=runs/lstm --mode=cells                            # what its units follow
    python launch.py --workdir=runs/gpt --mode=cost                              # what longer rows and wider layers would cost
    python launch.py --config=experiments/language/char_gpt.py --mode=describe            # its parameters, cost and memory; no run
    python launch.py --config=experiments/recurrence/adding.py --workdir=runs/adding        # all its variants, and a comparison
    python launch.py --config=experiments/recurrence/adding.py:gru --workdir=runs/gru       # one of them
"""

import contextlib
import gzip
import itertools
import json
import os
import pathlib
import sys
import zlib

from absl import app, flags, logging
from ml_collections import config_flags

from seqjax.errors import UserError
from seqjax.modes import experiment_files

MODES = ('train', 'eval', 'generate', 'predict', 'score', 'xray', 'cells', 'average', 'export', 'hugging_face', 'cost', 'describe')
OURS = ('config', 'workdir', 'mode', 'checkpoint', 'input', 'ensemble', 'explain', 'last', 'cpu_devices', 'coordinator',
        'processes', 'process')
READ_BY = {'input': ('generate', 'predict', 'score'), 'ensemble': ('generate',), 'explain': ('generate',),
           'last': ('average',)}

flags.DEFINE_string('workdir', None, 'The run directory: config, metrics, plots and checkpoints. The same command resumes.')
flags.DEFINE_enum('mode', 'train', MODES, 'What to do; all but train, cost and describe need a run, and read its config.')
flags.DEFINE_string('checkpoint', 'latest', "For all modes but train and average: 'latest', 'best' or a step.")
flags.DEFINE_string('input', None, "A file of lines to predict, translate or continue, also .gz, or '-' for what is piped in.")
flags.DEFINE_list('ensemble', [], 'For --mode=generate --input: more run directories, which translate with --workdir.')
flags.DEFINE_boolean('explain', False, 'For --mode=generate --input: pictures of where the model looked and of its beam.')
flags.DEFINE_integer('last', None, 'For --mode=average: the mean of so many checkpoints.')
flags.DEFINE_integer('cpu_devices', 0, 'Simulate this many devices on the CPU.', lower_bound=0)
flags.DEFINE_string('coordinator', None, "HOST:PORT of process 0 when several processes train together, or 'auto' on a cluster.")
flags.DEFINE_integer('processes', 1, 'How many processes there are, with --coordinator.')
flags.DEFINE_integer('process', 0, 'Which of them this is, with --coordinator.')
FLAGS = flags.FLAGS


def main(argv):
    import jax

    from seqjax import analysis, parallel, runs, train
    from seqjax import config as configs
    from seqjax.modes.average import average_checkpoints
    from seqjax.modes.continue_text import continue_lines, generate_text
    from seqjax.modes.cost import measure_cost
    from seqjax.modes.describe import describe_experiment
    from seqjax.modes.eval import evaluate
    from seqjax.modes.export import export_run
    from seqjax.modes.hugging_face import write_hugging_face
    from seqjax.modes.interpretable_units import find_cells
    from seqjax.modes.predict import predict_lines
    from seqjax.modes.translate import score_lines, translate_lines
    from seqjax.modes.xray import describe_xray, xray_run, xray_sweep

    del argv
    _check_flags()
    logging.set_verbosity(logging.ERROR)  # Orbax and grain tell their story at the lower levels
    config, variants = FLAGS.config, _all_variants() if FLAGS.mode in ('train', 'cost') else {}
    configs.validate(config)
    parallel.keep_freed_memory()
    jax.config.update('jax_compilation_cache_dir', _cache_directory())
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
    if FLAGS.mode == 'export':
        jax.config.update('jax_platforms', 'cpu')  # what is chosen for an accelerator of this machine is not for all
    if FLAGS.cpu_devices:
        jax.config.update('jax_num_cpu_devices', FLAGS.cpu_devices)
    if FLAGS.coordinator:
        parallel.start_processes(FLAGS.coordinator, FLAGS.processes, FLAGS.process)
    elif FLAGS.processes != 1 or FLAGS.process:
        raise UserError(f'--processes={FLAGS.processes} --process={FLAGS.process}: '
                        'give --coordinator=HOST:PORT of process 0 too')

    if FLAGS.mode == 'train' and config.cost.layers:
        raise UserError(f'config.cost.layers={config.cost.layers!r}: is about layers and trains nothing; add --mode=cost')
    if FLAGS.mode == 'train':
        try:
            result = train.sweep(variants, FLAGS.workdir) if variants else train.train(config, FLAGS.workdir)
        except train.Interrupted as interrupted:
            print(interrupted, file=sys.stderr)
            sys.exit(interrupted.exit_code)
        if jax.process_index() > 0:
            return
        if variants:
            print(analysis.comparison_table(result))
            print(f'runs: {FLAGS.workdir} (compared in {pathlib.Path(FLAGS.workdir) / "comparison.png"})')
            return
        print(json.dumps(result, indent=2))
        print(f'run directory: {FLAGS.workdir} (loss curve: {pathlib.Path(FLAGS.workdir) / "loss.png"})')
    elif FLAGS.mode == 'eval':
        print(json.dumps(evaluate(config, FLAGS.workdir, FLAGS.checkpoint), indent=2))
    elif FLAGS.mode == 'generate' and configs.task_name(config) in ('translation', 'span_corruption'):
        with _open_input() as lines:
            _print_answers(translate_lines(config, FLAGS.workdir, lines, FLAGS.checkpoint, ensemble=FLAGS.ensemble,
                                           explain=FLAGS.explain), config.decode.n_best)
    elif FLAGS.mode == 'score':
        with _open_input() as lines:
            _print_each(score_lines(config, FLAGS.workdir, lines, FLAGS.checkpoint))
    elif FLAGS.mode == 'generate':
        if configs.task_name(config) == 'language_model':
            _refuse(('ensemble', 'explain'), 'is for a run that translates, and this one goes on with a text')
        if FLAGS.input:
            with _open_input() as lines:
                return _print_each(continue_lines(config, FLAGS.workdir, lines, FLAGS.checkpoint))
        print('\n\n'.join(generate_text(config, FLAGS.workdir, FLAGS.checkpoint)))
    elif FLAGS.mode == 'predict':
        with _open_input() as lines:
            _print_each(predict_lines(config, FLAGS.workdir, lines, FLAGS.checkpoint))
    elif FLAGS.mode == 'average':
        path, steps = average_checkpoints(config, FLAGS.workdir, FLAGS.last)
        print(f'the mean of checkpoints {", ".join(map(str, steps))}: {path} (a --workdir for the other modes)')
    elif FLAGS.mode == 'export':
        path, signature = export_run(config, FLAGS.workdir, FLAGS.checkpoint)
        print(f'step {signature["step"]} for {", ".join(signature["platforms"])}: {path} (read it with interop.load_exported)')
    elif FLAGS.mode == 'hugging_face':
        path = write_hugging_face(config, FLAGS.workdir, FLAGS.checkpoint)
        print(f"files that transformers loads: {path} (from_pretrained('{path}'))")
    elif FLAGS.mode == 'cost':
        table, written = measure_cost(variants or {config.model.name: config}, FLAGS.workdir)
        print(table)
        print(f'numbers and picture: {", ".join(map(str, written))}')
    elif FLAGS.mode == 'describe':
        file = _value_of('config', sys.argv[1:])
        if about := file and experiment_files.say_variant(file):
            print(about, end='\n\n')
        print(describe_experiment(config, runs.RunDirectory(FLAGS.workdir) if FLAGS.workdir else None))
    elif FLAGS.mode == 'cells':
        print(find_cells(config, FLAGS.workdir, FLAGS.checkpoint)[0])
        print(f'page: {pathlib.Path(FLAGS.workdir) / "cells" / "index.html"}')
    elif runs.runs_below(FLAGS.workdir):
        if changes := config_flags.get_override_values(FLAGS['config']):
            raise UserError(f'--config.{next(iter(changes))}: an X-ray of several runs uses the config of each; leave it out')
        xray_sweep(FLAGS.workdir, FLAGS.checkpoint,
                         seen=lambda name, summary: print(f'== {name} ==\n{describe_xray(summary)}\n', flush=True))
        print(f'gradient norms of all: {pathlib.Path(FLAGS.workdir) / "xray.png"}')
    else:
        print(describe_xray(xray_run(config, FLAGS.workdir, FLAGS.checkpoint)))
        print(f'pictures and arrays: {pathlib.Path(FLAGS.workdir) / "xray"}')


def _check_flags():
    """A flag is given where it is read; --mode=average needs --last, and then no --checkpoint."""
    for name, modes in READ_BY.items():
        if FLAGS.mode not in modes:
            _refuse([name], f'is for --mode={"|".join(modes)}')
    if FLAGS.mode == 'train':
        _refuse(['checkpoint'], 'training goes on from the newest checkpoint of its --workdir')
    if FLAGS.mode in ('cost', 'describe'):
        _refuse(['checkpoint'], f'--mode={FLAGS.mode} needs no trained parameters')
    if FLAGS.mode == 'average' and FLAGS.last is None:
        raise UserError('--mode=average: give --last=N, the number of checkpoints to take the mean of')
    if FLAGS.mode == 'average' and FLAGS.checkpoint != 'latest':
        raise UserError(f'--checkpoint={FLAGS.checkpoint}: --mode=average takes the last ones; leave it out')


def _refuse(names, reason):
    """Refuses those of the flags that were given."""
    for name in names:
        if FLAGS[name].present:
            raise UserError(f'{FLAGS[name].serialize()}: {reason}; leave it out')


@contextlib.contextmanager
def _open_input():
    """The lines of --input, also of a .gz; a byte that is no UTF-8 becomes a replacement character: no line is lost."""
    if not FLAGS.input:
        raise UserError(f'--mode={FLAGS.mode}: give --input=FILE with a line for every sequence, or --input=- to read them '
                        'from a pipe')
    if FLAGS.input == '-':
        sys.stdin.reconfigure(encoding='utf-8-sig', errors='replace', newline='\n')
        yield sys.stdin
        return
    opened = gzip.open if FLAGS.input.endswith('.gz') else open
    try:
        lines = opened(FLAGS.input, 'rt', encoding='utf-8-sig', errors='replace', newline='\n')
    except OSError as error:
        raise UserError(f'--input={FLAGS.input}: cannot be read ({error.strerror})') from None
    with lines:
        try:
            yield lines
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f'--input={FLAGS.input}: is damaged, or not compressed though its name ends in .gz ({error}); '
                            'copy it again, or rename it') from None


def _print_each(answers):
    """A line of JSON for every answer."""
    escaped = not (sys.stdout.encoding or 'utf-8').lower().startswith('utf')
    _print_lines(json.dumps(answer, ensure_ascii=escaped) for answer in answers)


def _print_answers(answers, n_best):
    """The text of every answer; of several to a line also the line's number and the score, with tabs between them."""
    sys.stdout.reconfigure(encoding='utf-8')
    if n_best == 1:
        return _print_lines(found[0][1] for found in answers)
    _print_lines(f'{number}\t{score:.4f}\t{text}' for number, found in enumerate(answers, 1) for score, text in found)


def _print_lines(lines):
    """Prints until there are no more, or the reader has seen enough, as `head` has."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes when it ends


def _all_variants():
    """{name: config} of an experiment's variants, as the command line changes them; {} where one is named or none exist."""
    from seqjax.modes import command_line

    words = sys.argv[1:]
    path, chosen = experiment_files.split(_value_of('config', words) or '')
    if chosen or not path.is_file():
        return {}
    changes = {**config_flags.get_override_values(FLAGS['config']),
               **{f'optimizer.{field}': None for field in command_line.set_to_none(words).values()}}
    return {name: command_line.changed(experiment_files.load(f'{path}:{name}'), changes, name)
            for name in experiment_files.variants(path)}


def _cache_directory():
    """Where compiled programs are kept between runs."""
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    return os.environ.get('SEQJAX_CACHE') or str(pathlib.Path(home) / 'seqjax' / 'xla')


def parse(argv):
    """Flags from the command line; every mistake in them becomes one sentence that says what to type instead."""
    words = argv[1:]
    if not words:
        print(_what_to_type())
        sys.exit(0)
    if {'--help', '-h', '-help'} & set(words):
        print(f'{__doc__}\n{FLAGS.main_module_help()}\n{_what_to_type()}')
        sys.exit(0)
    file, workdir = _value_of('config', words), _value_of('workdir', words)
    if file is not None:
        experiment_files.check(file)
    elif not workdir:
        raise UserError('no experiment: give --config=FILE to start one, or the --workdir of one that was started\n\n'
                        + _what_to_type())
    from seqjax.modes import command_line

    command_line.check_one_source(words)
    unset = command_line.set_to_none(words)
    try:
        if file is None:
            config_flags.DEFINE_config_dict('config', _load_config(file, workdir), 'The config that the run saved.')
        else:
            config_flags.DEFINE_config_file('config', None, 'The experiment file; --config.a.b=c changes one of its fields.')
        left = FLAGS([word for word in argv if word not in unset])
    except (AttributeError, KeyError):  # what ml_collections raises for a field that does not exist
        raise UserError(command_line.first_unknown_field(words, _load_config(file, workdir))) from None
    except flags.UnrecognizedFlagError as error:
        raise UserError(command_line.unknown_flag(error.flagname, OURS, _load_config(file, workdir))) from None
    except flags.IllegalFlagValueError as error:
        raise UserError(command_line.wrong_value(str(error))) from None
    except flags.Error as error:
        raise UserError(str(error)) from None
    for field in unset.values():
        FLAGS.config.optimizer[field] = None
    if len(left) > 1:
        raise UserError(command_line.left_over(left[1], FLAGS.config))
    if not FLAGS.workdir and FLAGS.mode != 'describe':
        raise UserError('--workdir is missing: name the directory for the run, as in --workdir=runs/first')
    return left


def _value_of(name, words):
    """The value of flag `name` before flags are parsed: which config there is decides which flags there are."""
    for word, after in zip(words, [*words[1:], None]):
        if word in (f'--{name}', f'-{name}'):
            return after
        if word.startswith((f'--{name}=', f'-{name}=')):
            return word.partition('=')[2]
    return None


def _load_config(file, workdir):
    """The config before the command line changes it."""
    if file is None:
        from seqjax.runs.directory import RunDirectory, runs_below

        several = runs_below(workdir) if _value_of('mode', sys.argv[1:]) == 'xray' else []  # each is read with its own
        return RunDirectory(pathlib.Path(workdir, *several[:1])).saved_config()
    return experiment_files.load(file)


def _what_to_type():
    lines = ['To train:  python launch.py --config=experiments/SUBJECT/NAME.py --workdir=DIR [--config.model.width=256 ...]',
             'Before it: python launch.py --config=experiments/SUBJECT/NAME.py --mode=describe [--config.parallel.fsdp=8 ...]',
             'After it:  python launch.py --workdir=DIR --mode=eval|generate|predict|score|xray|cells|average|export', '',
             'Experiments (all variants are trained and compared, or the one that is named, as in NAME.py:VARIANT):']
    for folder, paths in itertools.groupby(experiment_files.ours(), lambda path: path.parent.name):
        lines.append(f'  experiments/{folder}/')
        for path in paths:
            lines.append(f'    {path.name:24} {experiment_files.title(path)}')
            if variants := experiment_files.variants(path):
                lines.append(f'{"variants:":>38} {", ".join(variants)}')
    return '\n'.join(lines)


def run():
    """Runs main; a mistake of the user ends in one sentence and exit code 2, an interrupted run in 128 + signal."""
    os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')  # LAPACK's threads only get in each other's way on small matrices
    try:
        app.run(main, flags_parser=parse)
    except UserError as error:
        print(f'launch.py: {error}', file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print('\nstopped', file=sys.stderr)
        sys.exit(130)


if __name__ == '__main__':
    run()
