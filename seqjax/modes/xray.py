"""The X-ray of a run: how far gradients reach back through its recurrent layers, and what they see; or through its depth."""

import functools
import json
import pathlib

import jax
import numpy as np

from seqjax import config as configs
from seqjax.analysis.recurrent import gradient_plots
from seqjax.analysis.recurrent import gradients as flows
from seqjax.analysis.recurrent.loss_gradients import end_gradients
from seqjax.analysis.recurrent.receptive_field import plot_receptive_fields, receptive_fields
from seqjax.errors import UserError
from seqjax.analysis.vision.depth_gradients import plot_depth_gradients
from seqjax.modes.depth_xray import depth_xray_run, describe_depth, layers_of, saved_curve
from seqjax.modes.eval import open_recurrent
from seqjax.modes.command.mode import CHECKPOINT, Mode
from seqjax.runs.directory import RunDirectory, read_metrics, runs_below

ROWS = 8              # of the held-out batch; the Jacobians are taken for the first two of them
FIELD_STEPS = 64      # states whose receptive field is drawn, evenly spaced where a row has more
RECENT = 100          # steps of training whose gradient norms suggest the threshold for clipping


def xray_run(config, workdir, checkpoint='latest'):
    """Examines a checkpoint on held-out rows, writes workdir/xray/ and returns what xray.json holds."""
    if layers_of(config):
        return depth_xray_run(config, workdir, checkpoint)
    if config.data.get('characters_per_word') or configs.task_of(config).decodes or config.data.get('batching') == 'pack':
        raise UserError('--mode=xray: looks at rows that hold one sequence of tokens, and those of this run hold several or have '
                        'words beside their spelling; choose another --workdir')
    run, parts, step, params = open_recurrent('xray', config, workdir, checkpoint)
    batch = jax.tree.map(lambda x: np.asarray(x)[:ROWS], parts.evaluation[0])
    found = jax.device_get(_examine(parts.task, params, batch))
    at, fields = _fields(parts.task, params, batch)
    layers = {path: flow for path, (flow, _) in found.items()}
    directory = run.path / 'xray'
    gradient_plots.plot_gradients(layers, directory / 'gradients.png')
    gradient_plots.plot_spectrum(layers, directory / 'spectrum.png')
    if any(flow.saturation for flow in layers.values()):
        gradient_plots.plot_saturation(layers, directory / 'saturation.png')
    if any(flow.cell_path is not None for flow in layers.values()):
        gradient_plots.plot_cell_path(layers, directory / 'cell_path.png')
    plot_receptive_fields(fields, directory / 'receptive_field.png', at)
    np.savez_compressed(directory / 'xray.npz', **_arrays(found, fields, at))
    norms = [line['train/gradient_norm'] for line in read_metrics(run.metrics) if line.get('train/gradient_norm')]
    summary = dict(step=step, layers={path: _summary(*pair) for path, pair in found.items()},
                   suggested_clip=flows.suggested_clip(norms[-RECENT:]), gradient_norms_seen=len(norms[-RECENT:]))
    run.write('xray/xray.json', json.dumps(summary, indent=2) + '\n')
    return summary


def xray_sweep(workdir, checkpoint='latest', seen=lambda name, summary: None):
    """X-rays every run below `workdir` and writes xray.png, their gradient norms in one picture. Returns {name: summary}."""
    directory, summaries, curves, by_depth = pathlib.Path(workdir), {}, {}, {}
    for name in runs_below(directory):
        config = RunDirectory(directory / name).saved_config()
        summaries[name] = xray_run(config, directory / name, checkpoint)
        seen(name, summaries[name])
        if layers_of(config):
            by_depth[name] = saved_curve(RunDirectory(directory / name))
            continue
        with np.load(directory / name / 'xray' / 'xray.npz') as arrays:
            top = list(summaries[name]['layers'])[-1]
            curves[name] = flows.mean_over_rows(arrays[f'{top}/norm'])
    if curves:
        gradient_plots.plot_gradient_comparison(curves, directory / 'xray.png')
    if by_depth:
        plot_depth_gradients(by_depth, directory / 'xray_by_depth.png')
    return summaries


def describe_xray(summary):
    """The summary as lines for a reader."""
    if 'log10_gradient' in summary:
        return describe_depth(summary)
    lines = [f'step {summary["step"]}']
    for path, layer in summary['layers'].items():
        reach = f'1 % at lag {layer["horizon"]}' if layer['horizon'] is not None else f'over 1 % at all {layer["lags"]} lags'
        saturated = '  '.join(f'{gate} {part:.0%}' for gate, part in layer['saturation'].items())
        lines += [f'{path}: {layer["verdict"]}',
                  f'  gradient norm         {reach}; {_power(layer["log10_norm"])} at lag {layer["lags"]}',
                  f'  gradient of the loss  {_power(layer["log10_loss_gradient"])} at lag {layer["lags"]}, as part of lag 0',
                  f'  Lyapunov exponent     {layer["exponents"][0]:+.3f} a step']
        lines += [f'  saturated             {saturated}'] if saturated else []
    if summary['suggested_clip'] is not None:
        lines.append(f'suggested config.optimizer.clip_norm: {summary["suggested_clip"]:.3g} '
                     f'(90th percentile of the last {summary["gradient_norms_seen"]} gradient norms)')
    return '\n'.join(lines)


@functools.partial(jax.jit, static_argnums=0)
def _examine(task, params, batch):
    """{path: (GradientFlow, log |dL/ds_{T-k}| [B, K])}"""
    calls, ends = end_gradients(lambda params: task(params, batch).loss, params)
    return {path: (flows.gradient_flow(call), flows.followed_gradient(call, ends[path])) for path, call in calls.items()}


def _fields(task, params, batch):
    """(steps, {name: [steps, T]}) for the first row."""
    one = jax.tree.map(lambda x: x[:1], batch)
    T = one['inputs'].shape[1]
    at = np.unique(np.linspace(0, T - 1, min(T, FIELD_STEPS)).round().astype(int))
    fields = jax.jit(lambda params, batch: receptive_fields(task, params, batch, at=at))(params, one)
    return at, jax.device_get(fields)


def _summary(flow, loss):
    """The numbers of one layer."""
    norm, loss = flows.mean_over_rows(flow.norm), flows.mean_over_rows(loss)
    return dict(verdict=flows.verdict(norm), horizon=flows.horizon(norm), lags=int(np.flatnonzero(~np.isnan(norm))[-1]),
                log10_norm=_log10(norm), log10_loss_gradient=_log10(loss[:len(norm)]),
                exponents=[float(value) for value in np.mean(flow.exponents, axis=0)],
                saturation={gate: float(part) for gate, part in flow.saturation.items()})


def _log10(logs):
    """The change from lag 0 to the last lag, as a power of ten; None where nothing is left."""
    change = (logs[~np.isnan(logs)][-1] - logs[0]) / np.log(10)
    return float(change) if np.isfinite(change) else None


def _power(value):
    return 'nothing' if value is None else f'10^{value:+.1f}'


def _arrays(found, fields, at):
    """All arrays by name, as they go into xray.npz."""
    arrays = {f'receptive_field/{name}': field for name, field in fields.items()}
    for path, (flow, loss) in found.items():
        named = {name: getattr(flow, name) for name in flow.__dataclass_fields__ if name != 'saturation'}
        named |= {f'saturation/{gate}': part for gate, part in flow.saturation.items()}
        arrays |= {f'{path}/{name}': value for name, value in named.items() if value is not None}
        arrays[f'{path}/loss_gradient'] = loss
    return {**arrays, 'receptive_field_steps': at}


def _run(request):
    workdir, checkpoint = request.workdir, request.flags.checkpoint
    if not runs_below(workdir):
        print(describe_xray(xray_run(request.config, workdir, checkpoint)))
        return print(f'pictures and arrays: {pathlib.Path(workdir) / "xray"}')
    for change in request.changes:
        raise UserError(f'--config.{change}: an X-ray of several runs uses the config of each; leave it out')
    xray_sweep(workdir, checkpoint,
               seen=lambda name, summary: print(f'== {name} ==\n{describe_xray(summary)}\n', flush=True))
    print(f'gradient norms of all: {", ".join(str(path) for path in sorted(pathlib.Path(workdir).glob("xray*.png")))}')


MODE = Mode(_run, 'Measure how far gradients reach back through recurrent layers, or through the depth of a ResNet.', (CHECKPOINT,),
            reads=('data.batch_size', 'data.split', 'parallel'), takes_sweeps=True)
