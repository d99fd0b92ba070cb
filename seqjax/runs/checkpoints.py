"""Checkpoints that are durable and verified. Orbax stores the arrays; `save` commits them:

    checkpoints/00000500/arrays/...        what Orbax wrote
    checkpoints/00000500/manifest.json     SHA-256 and size of every file, shape and dtype of every array, step, config
    checkpoints/00000500/manifest.sha256   the hash of the manifest itself, as `sha256sum -c` reads it

All of it is written beside, synced, renamed and read back before a checkpoint counts as saved, and only then are older
ones removed. One that does not match its manifest is renamed to `damaged-...` and never read.
"""

import json
import pathlib
import re
import shutil

import jax
import orbax.checkpoint as ocp

from seqjax import parallel
from seqjax.errors import UserError
from seqjax.runs import files
from seqjax.metrics.direction import lower_is_better

_FORMAT = 1


class Checkpoints:
    """The checkpoints of one run: the latest `keep_latest`, and apart from them the `keep_best` of the best `score`."""

    def __init__(self, directory, *, keep_latest=2, keep_best=1):
        self.directory = pathlib.Path(directory).absolute()
        self.keep_latest, self.keep_best = keep_latest, keep_best

    def steps(self):
        """Steps of the committed checkpoints, oldest first."""
        if not self.directory.is_dir():
            return []
        return sorted(int(path.name) for path in self.directory.iterdir() if re.fullmatch(r'\d{8,}', path.name))

    def path(self, step):
        return self.directory / f'{step:08d}'

    def manifest(self, step):
        return json.loads((self.path(step) / 'manifest.json').read_text('utf-8'))

    def best_step(self):
        """The committed step of the best score; the newest where none has a score."""
        return (self._by_score() or self.steps()[-1:] or [None])[0]

    def save(self, state, *, step, config, score=None, metric='eval/loss', seconds=0.0):
        """Commits `state` (sharded arrays, from every process) and returns only when it is safe on disk.

        score: what an evaluation found of `metric`, by whose name lower or higher is better.
        """
        final, writing = self.path(step), self.directory / f'.{step:08d}.writing'
        arrays = flatten(state)
        lead = jax.process_index() == 0
        if final.exists():
            return
        try:
            if lead:
                self.directory.mkdir(parents=True, exist_ok=True)
                for left_by_a_killed_process in self.directory.glob('.*'):
                    shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
                writing.mkdir()
            parallel.barrier(f'writing {step}')
            _orbax().save(writing / 'arrays', args=ocp.args.PyTreeSave(arrays))
            parallel.barrier(f'written {step}')
            if lead:
                content = dict(format=_FORMAT, step=step, data_position=step, score=score, metric=metric, seconds=seconds,
                               config=config, files=_hash_files(writing),
                               arrays={path: dict(shape=list(x.shape), dtype=str(x.dtype)) for path, x in arrays.items()})
                _commit(writing, final, json.dumps(content, indent=1))
                if problems := verify(final):
                    raise OSError('; '.join(problems))
                self._remove_old()
            parallel.barrier(f'committed {step}')
        except (OSError, ValueError) as error:
            shutil.rmtree(writing, ignore_errors=True)
            kept = f'step {self.steps()[-1]} is still there' if self.steps() else 'there is no earlier checkpoint'
            raise UserError(f'could not save step {step} to {self.directory}: {error}; {kept}') from error

    def newest_intact(self, report=print):
        """The newest step whose files are what was saved, or None where nothing was ever saved.

        Damaged ones that are newer are set aside and reported. Where all are damaged, starting over would look like
        a normal start and lose the run, so that is refused.
        """
        found = self.latest_intact(1, report)
        parallel.barrier('verified')
        damaged = sorted(self.directory.glob('damaged-*')) if self.directory.is_dir() else []
        if not found and damaged:
            raise UserError(f'{self.directory} has {len(damaged)} checkpoint(s) and all are damaged; to start over, choose '
                            f'another --workdir or remove {", ".join(path.name for path in damaged)}')
        return found[0] if found else None

    def latest_intact(self, count, report=print):
        """The newest `count` steps whose files are what was saved, or as many as there are, oldest first.

        Damaged ones among them are set aside and reported.
        """
        found = []
        for step in reversed(self.steps()):
            if len(found) == count:
                break
            if problems := verify(self.path(step)):
                report(f'checkpoint {step} is damaged ({problems[0]}); set aside as {self._set_aside(step)}')
            else:
                found.insert(0, step)
        return found

    def restore(self, step, target, *, part=False):
        """The arrays of checkpoint `step` that `target` names, each with the sharding it has there.

        target: a pytree of ShapeDtypeStructs with shardings, the whole state or with `part` some of it. Shapes and
        dtypes must be those that were saved; nothing is cast.
        """
        wanted, saved = flatten(target), self.manifest(step)['arrays']
        different = [f'{path}: not in the checkpoint' for path in wanted if path not in saved]
        for path in wanted.keys() & saved.keys():
            here = f'{wanted[path].dtype}{list(wanted[path].shape)}'
            there = f'{saved[path]["dtype"]}{saved[path]["shape"]}'
            if here != there:
                different.append(f'{path}: {there} in the checkpoint, {here} in the model')
        if not part:
            different += [f'{path}: in the checkpoint, not in the model' for path in saved if path not in wanted]
        if different:
            raise UserError(f'checkpoint {self.path(step)} does not fit the model:\n  ' + '\n  '.join(sorted(different)))
        restored = _orbax().restore(self.path(step) / 'arrays', args=ocp.args.PyTreeRestore(
            item=wanted, restore_args=ocp.checkpoint_utils.construct_restore_args(wanted), partial_restore=True))
        return jax.tree.unflatten(jax.tree.structure(target), [restored[path] for path in wanted])

    def _set_aside(self, step):
        aside = self.directory / f'damaged-{step:08d}'
        if jax.process_index() == 0:
            shutil.rmtree(aside, ignore_errors=True)
            self.path(step).rename(aside)
        return aside

    def _by_score(self):
        """Steps that have a score of the metric that the newest one has, the best first and the newest of equals."""
        scored = {}
        for step in self.steps():
            try:
                manifest = self.manifest(step)
                if manifest['score'] is not None:
                    scored[step] = manifest.get('metric', 'eval/loss'), manifest['score']  # an older one does not say
            except (OSError, ValueError, KeyError):  # damaged; found out and reported when it is next needed
                continue
        newest, _ = scored[max(scored)] if scored else ('eval/loss', None)
        sign = 1 if lower_is_better(newest) else -1
        return sorted((step for step, (metric, _) in scored.items() if metric == newest),
                      key=lambda step: (sign * scored[step][1], -step))

    def _remove_old(self):
        steps = self.steps()
        keep = {*steps[-self.keep_latest:], *self._by_score()[:self.keep_best]}
        for step in steps:
            if step not in keep:
                # Renamed first: a folder that is half removed must not look like a checkpoint.
                removing = self.directory / f'.{step:08d}.removing'
                self.path(step).rename(removing)
                shutil.rmtree(removing, ignore_errors=True)


def flatten(tree):
    """{'params/decoder/block_0/...': leaf}: the names of arrays in a checkpoint."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator='/'): leaf for path, leaf in leaves}


def used_parts(arrays):
    """(parameters, running statistics): the parts of a checkpoint that evaluation, generation and other runs take, those of a
    teacher that the task keeps, of the average, or what is trained. arrays: the paths of a manifest."""
    parts = ('task_state/teacher', 'batch_stats'), ('ema', 'ema_batch_stats'), ('params', 'batch_stats')
    return next(pair for pair in parts if pair[0] == 'params' or any(path.startswith(f'{pair[0]}/') for path in arrays))


def verify(path):
    """What is wrong with the checkpoint at `path`; an empty list when every byte is the one that was saved."""
    try:
        text = (path / 'manifest.json').read_bytes()
        if (path / 'manifest.sha256').read_text('ascii') != _manifest_line(path / 'manifest.json'):
            return ['manifest.json does not match manifest.sha256']
        expected = json.loads(text)['files']
    except (OSError, ValueError, KeyError) as error:
        return [f'the manifest cannot be read: {error}']
    found = _hash_files(path)
    return [f'{name} {"is missing" if name not in found else "was not saved" if name not in expected else "has changed"}'
            for name in sorted(expected.keys() | found.keys()) if expected.get(name) != found.get(name)]


def _commit(writing, final, manifest):
    (writing / 'manifest.json').write_text(manifest, 'utf-8')
    (writing / 'manifest.sha256').write_text(_manifest_line(writing / 'manifest.json'), 'ascii')
    files.commit_directory(writing, final)


def _hash_files(directory):
    paths = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob('*')) if path.is_file()}
    return {name: dict(bytes=path.stat().st_size, sha256=files.sha256(path)) for name, path in paths.items()
            if name not in ('manifest.json', 'manifest.sha256')}


def _manifest_line(path):
    return f'{files.sha256(path)}  manifest.json\n'


def _orbax():
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
