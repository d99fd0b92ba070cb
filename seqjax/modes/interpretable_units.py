"""What the units of a recurrent language model follow: a page of colored text from a run."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pathlib

from seqjax import config as configs
from seqjax import data
from seqjax.analysis.recurrent import cell_pages, gradients
from seqjax.analysis.recurrent import interpretable_cells as analysis
from seqjax.analysis.recurrent.layers import recurrent_layers
from seqjax.errors import UserError
from seqjax.modes.eval import open_recurrent
from seqjax.modes.command.mode import CHECKPOINT, Mode

TOKENS, SHOWN = 20_000, 2_000  # how much held-out text is read, and how much of it is on the page
PICTURED = 500                 # how much is in the picture, about: where the features change most
KEPT = 50                      # units in cells.json, the best ones; cells.npz has all


def find_cells(config, workdir, checkpoint='latest'):
    """Finds the units that follow a feature of the held-out text, writes workdir/cells/ and returns (table, findings)."""
    if data.is_endless(config.data.source) or not configs.task_of(config).writes:
        raise UserError(f'--mode=cells: the run reads {config.data.source!r} for {configs.task_name(config)}; choose the '
                        '--workdir of a language model of text')
    run, parts, step, params = open_recurrent('cells', config, workdir, checkpoint)
    tokens = np.asarray(parts.dataset.validation[:TOKENS])
    pieces = [parts.dataset.tokenizer.decode([token]) for token in tokens]
    names, activations = _activations(parts.task.model, params, tokens)
    features = _features(pieces)
    matrix = analysis.correlations(activations, features)
    ranked, best = analysis.rank(matrix, list(features)), analysis.best_of_each_feature(matrix, list(features))
    typical = analysis.typical(ranked)
    start = analysis.liveliest(features, PICTURED)
    start += next((i for i, piece in enumerate(pieces[start:start + PICTURED], 1) if '\n' in piece), 0)  # a whole line
    shown = slice(start, start + SHOWN)
    panels = [(names[f.unit], f.feature, f.correlation, activations[shown, f.unit]) for f in (*best, typical)]
    panels[-1] = (f'{names[typical.unit]} (a typical unit)', *panels[-1][1:])

    directory = run.path / 'cells'
    directory.mkdir(exist_ok=True)
    introduction = _INTRODUCTION.format(tokens=len(tokens), units=len(names))
    title = f'Units of {run.path.name}, step {step}'
    cell_pages.write_page(directory / 'index.html', title, introduction, pieces[shown], panels)
    cell_pages.plot_text(directory / 'cells.png', pieces[shown], panels[:3] + panels[-1:])
    np.savez_compressed(directory / 'cells.npz', activations=activations.astype(np.float16), correlations=matrix,
                        units=names, features=list(features), tokens=tokens)
    found = [dict(unit=names[f.unit], feature=f.feature, correlation=round(f.correlation, 4)) for f in ranked]
    run.write('cells/cells.json', json.dumps(dict(step=step, tokens=len(tokens), best=found[:KEPT]), indent=2) + '\n')
    return analysis.table(best, label=lambda unit: names[unit]), found


_INTRODUCTION = ('Held-out text, colored by single units while the model reads it: red is positive, blue negative. For '
                 'every feature the unit, out of {units:,}, that follows it best over {tokens:,} tokens (Pearson\'s '
                 'correlation), and last a unit from the middle of the ranking, as most are.')


def _activations(model, params, tokens):
    """(names, [T, units]): the state of every layer, tanh of its memory (c), while the tokens are read in one go."""
    @jax.jit
    def read(params, tokens):
        calls = recurrent_layers(model.apply, {'params': params}, tokens[None])
        return {path: (call, _bounded(call, gradients.trajectory(call)[0, 1:])) for path, call in calls.items()}

    names, columns = [], []
    for path, (call, states) in jax.device_get(read(params, tokens)).items():
        states = np.flip(states, axis=0) if call.reverse else states
        names += [f'{path} {unit}' for unit in unit_names(call)]
        columns.append(states)
    return names, np.concatenate(columns, axis=1)


def _bounded(call, states):
    """States [T, P] with tanh of the part that is a memory, which has no bounds of its own."""
    memory = call.cell.memory[0] if call.cell.memory else None
    state = zip(call.cell.parts, gradients.as_state(states, call.state))
    return gradients.as_reals(tuple(jnp.tanh(part) if name == memory else part for name, part in state))


def unit_names(call):
    """'h0', 'h1', ..., 'c0', ...; a complex part has 'h0.re' ... and then 'h0.im' ..., in the order of `as_reals`.

    Units of a matrix are 'C0,0', 'C0,1', ...
    """
    names = []
    for part, values in zip(call.cell.parts, call.state):
        endings = ('.re', '.im') if np.iscomplexobj(values) else ('',)
        names += [f'{part}{",".join(map(str, unit))}{ending}' for ending in endings for unit in np.ndindex(values.shape[1:])]
    return names


def _features(pieces):
    """Features of the text at the last character of every token."""
    ends = np.cumsum([len(piece) for piece in pieces]) - 1
    return {name: values[ends] for name, values in analysis.text_features(''.join(pieces)).items()}


def _run(request):
    print(find_cells(request.config, request.workdir, request.flags.checkpoint)[0])
    print(f'page: {pathlib.Path(request.workdir) / "cells" / "index.html"}')


MODE = Mode(_run, 'Find interpretable units of a recurrent language model.', (CHECKPOINT,), reads=('parallel',))
