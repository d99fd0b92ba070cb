"""What a model costs as rows get longer and layers wider, or what a layer does: --mode=cost.

Of an experiment, its training step at several lengths and widths; of one with variants, those of all of them side by side.
An experiment with `config.cost.layers` is about layers and not about its model: see `analysis.complexity`.
"""

import json
import pathlib

import jax
import numpy as np

from seqjax import config as configs
from seqjax import models
from seqjax.analysis.cost import complexity, scaling
from seqjax.analysis.cost.complexity_plots import plot_costs
from seqjax.analysis.cost.depth import sequential_depth
from seqjax.analysis.tables import columns
from seqjax.errors import UserError
from seqjax.modes.command.mode import Mode, one_process
from seqjax.runs import files
from seqjax.runs.directory import RunDirectory
from seqjax.train.experiment import build, make_task
from seqjax.train.parameters import make_parameters
from seqjax.train.progress import ProgressBar
from seqjax.train.state import create_state
from seqjax.train.step import make_train_step
from seqjax.train.sweeps import check_variants

LENGTHS, WIDTHS = (0.5, 1, 2, 4), (0.5, 1, 2)  # times those of the config
PATHS = 64, 256, 1024                          # steps of the rows in which the last step has to see the first


def measure_cost(variants, workdir):
    """Measures every config of {name: config}, writes cost.json and a picture to workdir; returns (a table, files)."""
    directory = pathlib.Path(workdir)
    _check(variants, directory)
    about_layers = [config for config in variants.values() if config.cost.layers]
    found, table, picture = cost_of_layers(about_layers[0]) if about_layers else cost_of_models(variants, directory)
    directory.mkdir(parents=True, exist_ok=True)
    found |= dict(device=jax.devices()[0].device_kind, version=jax.__version__)
    files.write_atomically(directory / 'cost.json', json.dumps(found, indent=2) + '\n')
    plot_costs({name: facts['points'] for name, facts in found['measured'].items()}, directory / picture)
    return table, [directory / 'cost.json', directory / picture]


def _check(variants, directory):
    """Refuses what cannot be measured here, before anything is."""
    one_process('cost')
    for config in variants.values():
        configs.refuse_quantised(config, '--mode=cost measures')
    if len(variants) > 1:
        return check_variants(variants, directory)
    config, = variants.values()
    configs.validate(config)
    RunDirectory(directory).check(config)


# ---------------------------------------------------------------------------------------------------------- layers

def cost_of_layers(config):
    """(facts, table, name of the picture) of the layers that config.cost.layers names."""
    layers = configs.with_prefix('config.cost', lambda: complexity.chosen_layers(config.cost.layers))
    cases = {name: layer.cases() for name, layer in layers.items()}
    points = _measure(cases, config.cost)
    with ProgressBar('paths', len(layers)) as bar:
        paths = {}
        for name, layer in layers.items():
            paths[name] = [_path(layer, n) for n in PATHS]
            bar.add(1)
    measured = {name: dict(table=dict(complexity=layer.complexity, sequential=layer.sequential, path=layer.path),
                           **_with_fits(points[name], tuple(layer.sizes)), path=paths[name]) for name, layer in layers.items()}
    return dict(measured=measured), _layer_table(measured), 'complexity.png'


def _path(layer, n):
    """What lies between the first step and the last: so many layers, each of so many operations one after another."""
    count, case = complexity.layers_until_seen(layer, n), layer.case({**complexity.PATH_SIZES, 'n': n})
    return dict(n=n, layers=count, length=count * sequential_depth(case.function, *case.arguments))


def _layer_table(measured):
    head = ['layer', 'the table', *scaling.METRICS, 'layers between first and last step, n = ' + ', '.join(map(str, PATHS))]
    rows = [[name, facts['table']['complexity'], *(_power(facts, metric) for metric in scaling.METRICS),
             ', '.join(f'{path["layers"]:,}' for path in facts['path'])] for name, facts in measured.items()]
    return '\n'.join(columns([head, *rows]))


# ---------------------------------------------------------------------------------------------------------- models

def cost_of_models(variants, directory):
    """(facts, table, name of the picture) of the training steps of all configs."""
    cases = {name: _cases(config, RunDirectory(directory)) for name, config in variants.items()}
    points = _measure(cases, next(iter(variants.values())).cost)
    measured = {name: _with_fits(points[name], ('n', 'd')) for name in variants}
    return dict(measured=measured), '\n\n'.join(_model_table(name, facts) for name, facts in measured.items()), 'cost.png'


def _cases(config, run):
    """The training step of a config, at rows of several lengths and at several widths."""
    parts = build(config, run)
    n, d = _steps(parts.training[0]), parts.task.model.width
    multiple = models.width_multiple(config.model.name, config.model.to_dict())
    lengths = [max(2, round(factor * n)) for factor in LENGTHS]
    widths = [multiple * max(1, round(factor * d / multiple)) for factor in WIDTHS]
    return [_case(config, parts, **sizes) for sizes in scaling.star(dict(n=n, d=d), dict(n=lengths, d=widths))]


def _case(config, parts, n, d):
    config = config.copy_and_resolve_references()
    config.parameters, config.model.width = 0, d
    batch, for_model = resized(parts.training[0], n), parts.dataset.for_model()
    if 'context_length' in for_model:
        for_model['context_length'] = n
    one = jax.tree.map(lambda x: x[:1], batch)
    try:
        task = make_task(config, for_model=for_model, for_task=parts.dataset.for_task(), sample=one['inputs'])
        parameters = make_parameters(config, task, one)
    except (UserError, ValueError) as error:
        raise UserError(f'--mode=cost: measures rows of {n} steps and a width of {d} too, and that cannot be: {error}') from None
    state = jax.eval_shape(lambda: create_state(task, parts.optimizer, jax.random.key(0), one, ema=config.optimizer.ema_decay > 0,
                                                carried_rows=config.data.batch_size if config.data.get('stateful') else 0,
                                                parameters=parameters))
    step = make_train_step(task, parts.optimizer, parts.schedule, seed=config.seed, ema=config.optimizer.ema_decay,
                           accumulate=config.train.gradient_accumulation_steps, frozen=parameters.frozen, merge=parameters.merge)
    return scaling.Case(dict(n=n, d=d), step, (state, batch))


def _steps(batch):
    return jax.tree.leaves(batch['inputs'])[0].shape[1]


def resized(batch, n):
    """A batch with rows of n steps and with nothing in them: what it costs does not depend on what it says.

    The second axis of every array counts steps, or what there are more of in a longer row; it grows as that of the inputs.
    """
    def blank(path, x):
        lengths = path[-1].key == 'lengths'
        shape = x.shape if x.ndim < 2 else (x.shape[0], max(1, round(x.shape[1] * n / _steps(batch))), *x.shape[2:])
        return np.full(shape, n if lengths else int(x.dtype.kind == 'f'), x.dtype)

    return jax.tree_util.tree_map_with_path(blank, batch)


def _model_table(name, facts):
    show = dict(operations='{:.3g}', seconds='{:.3g}', bytes='{:.3g}', depth='{:,}')
    rows = [[f'{point["n"]:,}', f'{point["d"]:,}', *('-' if point[metric] is None else show[metric].format(point[metric])
                                                     for metric in scaling.METRICS)] for point in facts['points']]
    last = ['grows', 'as', *(_power(facts, metric) for metric in scaling.METRICS)]
    left_out = any(point['seconds'] is None for point in facts['points'])
    return (f'{name}, a training step\n' + '\n'.join(columns([['n', 'd', *scaling.METRICS], *rows, last]))
            + left_out * '\n-: more operations than config.cost.largest, so neither compiled nor run')


# ---------------------------------------------------------------------------------------------------------- both

def _measure(cases, options):
    """{name: points} of {name: cases}, all of them in one list, so that none is measured at a better hour than another."""
    everything = [case for of_one in cases.values() for case in of_one]
    with ProgressBar('measure', scaling.parts_of_work(everything)) as bar:
        points = iter(scaling.measure(everything, seconds=options.seconds, most_operations=options.largest,
                                      seen=lambda: bar.add(1)))
    return {name: [next(points) for _ in of_one] for name, of_one in cases.items()}


def _with_fits(points, letters):
    laws = scaling.fits(points, letters)
    return dict(points=points, fits={metric: dict(coefficient=law.coefficient, exponents=law.exponents, error=law.error)
                                     for metric, law in laws.items()})


def _power(facts, metric):
    """'4 n^2.00 d^1.00', without the letters that make no difference; the coefficient of seconds means nothing elsewhere."""
    if metric not in facts['fits']:
        return '-'
    law = facts['fits'][metric]
    powers = [f'{letter}^{power:.2f}' for letter, power in law['exponents'].items() if abs(power) >= 0.005]
    return ' '.join(([] if metric == 'seconds' else [f'{law["coefficient"]:.3g}']) + powers) or '1'


def _run(request):
    table, written = measure_cost(request.variants or {request.config.model.name: request.config}, request.workdir)
    print(table)
    print(f'numbers and picture: {", ".join(map(str, written))}')


MODE = Mode(_run, 'Measure what longer rows and wider layers cost.', reads=(
    'cost', 'seed', 'data', 'model', 'train.gradient_accumulation_steps', 'optimizer', 'lora', 'parallel'))
