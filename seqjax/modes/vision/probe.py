"""What the features of a run are good for, beside pixels and the same network before it has learned anything: --mode=probe."""

from collections.abc import Sequence
import dataclasses
import json
import sys
from typing import Any

import jax
import numpy as np

from seqjax import config as configs
from seqjax import data, tasks
from seqjax.analysis import tables
from seqjax.analysis.vision.attention_maps import cls_attention, plot_attention
from seqjax.analysis.vision.feature_map import plot_features, plot_patches
from seqjax.analysis.vision.frozen import FrozenFeatures, pixels
from seqjax.errors import FieldError, UserError
from seqjax.metrics import probes
from seqjax.metrics.features import collapsed, effective_rank, feature_std
from seqjax.modes.command.mode import CHECKPOINT, Flag, Mode, one_process
from seqjax.runs.directory import RunDirectory, jsonable
from seqjax.runs.restore import find_checkpoint, open_run, restore_model
from seqjax.train.experiment import build
from seqjax.train.progress import ProgressBar

SPLITS = 'train', 'validation', 'test'
OF_FILES = 'held_out', 'split_seed', 'image_size', 'directory', 'on_error'  # of config.data, for another set than that of the run
CHOOSING = 0.1  # of the training rows, to choose the penalty by where the run has no test split
DRAWN = 8  # images of attention_maps.png and patches.png
NAMES = dict(pixels='pixels', random='random network', trained='trained network')


def probe(config: Any, workdir: Any, checkpoint: str = 'latest', *, labels: Sequence[int] = (10,), source: str = '',
          draws: int = 5) -> dict[str, Any]:
    """Scores of three sets of features: pixels, the network of the run at its random initialisation, and as it is trained.

        linear          accuracy of a linear probe on the test rows; its penalty is chosen on the validation rows
        knn             of weighted k-nearest neighbours, k = 20, T = 0.07
        few_shot/N      of a linear probe with N labels per class, the mean over `draws`; few_shot/N/std: its deviation
        feature_std, feature_rank, collapsed   see `metrics.features`
        frozen          SHA-256 of all leaves of the trained network before and after: they are the same, or this raises

    They are written to probe.json and, with 'probe/' before their names, to result.json; the first two
    principal components to feature_map.png. Of a Transformer attention_maps.png and patches.png are drawn.

    Args:
        labels: N of few_shot. source: another labelled set of images, by its name in config.data.source; '': that of the run.
        draws: of the rows with labels.
    """
    one_process('probe')
    config, run = open_run(config, workdir)
    parts = build(config, run)
    step, checkpoints = find_checkpoint(run, checkpoint)
    model, params = restore_model(run, config, step, checkpoints)
    rows, classes = _labelled_rows(config, parts, source)
    start = parts.initial_state(config)
    networks = dict(random=(frozen_task(parts.task, parts.task.model, start), parts.parameters.merge(start.params)),
                    trained=(frozen_task(parts.task, model), params))
    if not hasattr(model, 'features'):
        raise UserError(f'--workdir={run.path}: {config.model.name!r} has no features to probe; use the run of a network for images')
    found, pictures = dict(step=step, source=source or config.data.source, rows={name: len(part) for name, part in rows.items()}), {}
    with ProgressBar('probe', sum(map(len, rows.values())) * len(networks)) as bar:
        for name in NAMES:
            frozen = FrozenFeatures(*networks[name], config.data.batch_size, bar.add) if name in networks else None
            before = frozen and frozen.digest()
            features = {split: (frozen or pixels)(part) for split, part in rows.items()}
            bar.say(f'probing: {NAMES[name]}, {features["train"][0].shape[1]} features')
            found[name] = scores(features, labels, draws)
            pictures[name] = features['test'][0]
            if frozen and frozen.digest() != before:
                raise RuntimeError('the parameters of the frozen network have changed')
            if frozen:
                found[name]['frozen'] = dict(before=before, after=frozen.digest())
    targets = np.array([rows['test'][i]['targets'] for i in range(len(rows['test']))])
    plot_features({NAMES[name]: part for name, part in pictures.items()}, targets, classes, run.path / 'feature_map.png')
    if all(hasattr(model, field) for field in ('has_cls', 'prefix', 'feature_map')):
        _draw_attention(run, parts.task, model, params, rows['test'])
    _write(run, found)
    return found


def _draw_attention(run, task, model, params, rows):
    """Attention of [CLS], and the patches by their principal components, of a Transformer."""
    images = np.stack([rows[i]['inputs'] for i in range(min(DRAWN, len(rows)))])
    inputs = jax.jit(lambda images: task.prepare(dict(inputs=images))['inputs'])(images)
    patches = np.asarray(model.apply({'params': params}, inputs, method='feature_map'), np.float32)
    plot_attention(images, cls_attention(model, params, inputs), run.path / 'attention_maps.png',
                   'attention in the last layer')
    plot_patches(images, patches.reshape(len(patches), -1, patches.shape[-1]), run.path / 'patches.png')


def scores(features: dict[str, tuple[np.ndarray, np.ndarray]], labels: Sequence[int] = (), draws: int = 5) -> dict[str, Any]:
    """Those of one set of features, {'train': (features [N, D], classes [N]), 'validation': ..., 'test': ...}."""
    linear = probes.linear_probe(*(features[split] for split in SPLITS))
    found = dict(linear=linear.accuracy, linear_validation=linear.validation, strength=linear.strength,
                 knn=probes.knn_accuracy(features['train'], features['test']))
    for count in labels:
        accuracies = probes.few_shot(features['train'], features['test'], count, draws)
        found |= {f'few_shot/{count}': float(np.mean(accuracies)), f'few_shot/{count}/std': float(np.std(accuracies))}
    spread = dict(feature_std=feature_std(features['test'][0]), feature_rank=effective_rank(features['test'][0]))
    return {**found, 'width': features['test'][0].shape[1], **spread, 'collapsed': collapsed(spread)}


def table(found: dict[str, Any]) -> list[str]:
    """Lines for a reader: a row for each set of features."""
    shots = [name for name in found['trained'] if name.startswith('few_shot/') and not name.endswith('/std')]
    head = ['features', 'width', 'linear probe', 'k-NN', *map(_labels, shots), 'std', 'rank']
    percent = lambda value: f'{100 * value:.2f} %'
    lines = [head]
    for name in NAMES:
        of = found[name]
        lines.append([NAMES[name], str(of['width']), percent(of['linear']), percent(of['knn']),
                      *(f'{percent(of[shot])} ± {100 * of[f"{shot}/std"]:.1f}' for shot in shots),
                      f'{of["feature_std"]:.3f}', f'{of["feature_rank"]:.1f}'])
    return tables.columns(lines, right=range(1, len(head)))


def _labels(shot):
    count = shot.partition('/')[2]
    return f'{count} label{"" if count == "1" else "s"} per class'


def labelled_set(config: Any, source: str) -> Any:
    """The dataset of a labelled set of images: {split: rows} and the names of its classes. config: of the run; source: the name of
    the set."""
    learned = tasks.taking('class')[0]
    try:
        options = configs.with_prefix('config', lambda: configs.defaults('vit', task=learned, source=source)).data
        options.update({field: config.data[field] for field in OF_FILES if field in options and field in config.data})
        dataset = configs.with_prefix('config', lambda: data.load(options, learned))
    except FieldError as error:
        if error.field != 'config.data.source':
            raise
        raise FieldError('--source', source, f'{error.reason}; a set that an experiment file registers needs '
                         '--config=FILE beside --workdir') from None
    _check_classes(dataset, source)
    return dataset


def _check_classes(dataset, source):
    if not getattr(dataset, 'of_images', False) or not dataset.codec.classes:
        raise FieldError('--source', source, "has no classes of images; name a set that has, as 'digits' or 'file:DIR'")


def _labelled_rows(config, parts, source):
    """({split: rows}, names of the classes) of the run's own set, or of another one."""
    dataset = labelled_set(config, source) if source else parts.dataset
    _check_classes(dataset, config.data.source)
    rows = {split: dataset.rows[split] for split in SPLITS}
    if not len(rows['test']):  # what was held out is the test; the penalty is chosen by some of the training rows
        order = np.random.default_rng(0).permutation(len(rows['train']))
        held = max(1, round(CHOOSING * len(order)))
        rows = dict(train=_Chosen(rows['train'], order[held:]), validation=_Chosen(rows['train'], order[:held]), test=rows['validation'])
    return rows, dataset.codec.classes


def frozen_task(task, model, state=None):
    """The task with another model, or with the running statistics of a training state."""
    task = dataclasses.replace(task, model=model)
    return task.holding(state.batch_stats, state.task_state) if state else task


class _Chosen(Sequence):
    """Some rows of others."""

    def __init__(self, rows, places):
        self._rows, self._places = rows, places

    def __len__(self):
        return len(self._places)

    def __getitem__(self, i):
        return self._rows[int(self._places[i])]


def _write(run, found):
    flat = {f'probe/{name}/{score}': value for name in NAMES for score, value in found[name].items() if score != 'frozen'}
    flat |= {f'probe/frozen/{when}': value for when, value in found['trained']['frozen'].items()}
    result = json.loads(run.read('result.json') or '{}')
    run.write('probe.json', json.dumps({name: jsonable(value) if isinstance(value, dict) else value for name, value in found.items()},
                                       indent=2) + '\n')
    run.write('result.json', json.dumps({**result, **jsonable(flat)}, indent=2) + '\n')


def _run(request):
    typed = [count.strip() for count in request.flags.labels.split(',') if count.strip()]
    if not all(count.isdigit() and int(count) for count in typed):
        raise UserError(f'--labels={request.flags.labels}: must be numbers of labels per class, as 1,10,100')
    labels = [int(count) for count in typed]
    found = probe(request.config, request.workdir, request.flags.checkpoint, labels=labels, source=request.flags.source)
    print('\n'.join(table(found)))
    frozen = found['trained']['frozen']
    print(f'frozen leaves: {frozen["before"]} before, {frozen["after"]} after', file=sys.stderr)
    if found['trained']['collapsed']:
        print(f'warning: {found["trained"]["collapsed"]}', file=sys.stderr)


MODE = Mode(_run, 'Score frozen features beside pixels and the untrained network: linear probe, k-NN, few labels per class.', (
    CHECKPOINT, Flag('labels', '1,10,100', 'Labels a class of the few-shot probes.'),
    Flag('source', '', 'Another labelled set of images, as config.data.source names it; empty: that of the run.')),
    reads=('data.batch_size', 'parallel'))
