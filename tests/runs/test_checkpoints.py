"""A checkpoint is what was saved, to the bit, or it is not used."""

import json
import os
import pathlib
import random
import shutil

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding
import numpy as np
import pytest

from seqjax.errors import UserError
from seqjax.parallel import make_mesh, over_batch, replicated
from seqjax.runs import Checkpoints, verify


def some_state(seed):
    rng = np.random.default_rng(seed)
    return {'params': {'kernel': jnp.asarray(rng.normal(size=(16, 8)), jnp.float32),
                       'half': jnp.asarray(rng.normal(size=(24,)), jnp.bfloat16)},
            'opt_state': ({'count': jnp.int32(seed)}, {'mu': {'kernel': jnp.asarray(rng.normal(size=(16, 8)), jnp.float32)}})}


def target_of(state, sharding=None):
    sharding = sharding or SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state)


def save(checkpoints, step, score=None):
    checkpoints.save(some_state(step), step=step, config={'seed': 0}, score=score, seconds=1.5)


def same_bits(ours, theirs):
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() and a.dtype == b.dtype
               for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))


@pytest.fixture(scope='module')
def two_saved(tmp_path_factory):
    """A folder with checkpoints of steps 1 and 2."""
    checkpoints = Checkpoints(tmp_path_factory.mktemp('run') / 'checkpoints')
    save(checkpoints, 1)
    save(checkpoints, 2)
    return checkpoints


def copy_of(checkpoints, tmp_path):
    shutil.copytree(checkpoints.directory, tmp_path / 'checkpoints')
    return Checkpoints(tmp_path / 'checkpoints')


def test_restores_the_bits_that_were_saved(two_saved):
    assert two_saved.newest_intact() == 2
    assert same_bits(two_saved.restore(2, target_of(some_state(2))), some_state(2))
    assert two_saved.manifest(2)['data_position'] == 2
    assert two_saved.manifest(2)['seconds'] == 1.5


def test_restores_a_part(two_saved):
    part = {'params': some_state(2)['params']}
    assert same_bits(two_saved.restore(2, target_of(part), part=True), part)


def test_restores_onto_another_number_of_devices(two_saved):
    part = {'params': some_state(2)['params']}
    for sharding in (replicated(make_mesh(data=8)), over_batch(make_mesh(data=4, fsdp=2))):
        restored = two_saved.restore(2, target_of(part, sharding), part=True)
        assert same_bits(restored, part)
        assert restored['params']['kernel'].sharding.is_equivalent_to(sharding, 2)


def test_the_manifest_can_be_checked_with_sha256sum(two_saved):
    line = (two_saved.path(2) / 'manifest.sha256').read_text()
    digest, name = line.split()
    assert len(digest) == 64 and name == 'manifest.json'


def flip_one_bit(path, rng):
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def test_one_flipped_bit_is_always_found_and_the_previous_checkpoint_used(two_saved, tmp_path):
    """100 flips, files drawn by their size and also evenly, so that small files get their share."""
    rng = random.Random(0)
    names = sorted(path.relative_to(two_saved.path(2)) for path in two_saved.path(2).rglob('*') if path.is_file())
    names = [name for name in names if os.path.getsize(two_saved.path(2) / name)]
    sizes = [os.path.getsize(two_saved.path(2) / name) for name in names]
    for flip in range(100):
        name = rng.choice(names) if flip % 2 else rng.choices(names, sizes)[0]
        folder = tmp_path / str(flip)
        folder.mkdir()
        checkpoints, said = copy_of(two_saved, folder), []
        flip_one_bit(checkpoints.path(2) / name, rng)
        assert checkpoints.newest_intact(report=said.append) == 1, f'bit flipped in {name} was not found'
        assert 'checkpoint 2 is damaged' in said[0] and 'damaged-00000002' in said[0]
        assert (checkpoints.directory / 'damaged-00000002').is_dir()
        assert same_bits(checkpoints.restore(1, target_of(some_state(1))), some_state(1))
        shutil.rmtree(folder)


@pytest.mark.parametrize('damage, problem', [
    (lambda path: next((path / 'arrays').rglob('_METADATA')).unlink(), 'is missing'),
    (lambda path: (path / 'arrays' / 'stray').write_text('x'), 'was not saved'),
    (lambda path: os.truncate(next((path / 'arrays' / 'd').iterdir()), 3), 'has changed'),
    (lambda path: (path / 'manifest.json').write_text('{}'), 'does not match'),
    (lambda path: (path / 'manifest.json').unlink(), 'cannot be read')])
def test_what_is_wrong_is_named(two_saved, tmp_path, damage, problem):
    checkpoints = copy_of(two_saved, tmp_path)
    damage(checkpoints.path(2))
    assert problem in verify(checkpoints.path(2))[0]
    assert not verify(checkpoints.path(1))


def test_a_run_that_can_read_none_of_its_checkpoints_does_not_start_over(two_saved, tmp_path):
    checkpoints = copy_of(two_saved, tmp_path)
    for step in (1, 2):
        (checkpoints.path(step) / 'manifest.sha256').write_text('0')
    for _ in range(2):  # and it refuses again the next time, when both have been set aside
        with pytest.raises(UserError, match='2 checkpoint.* all are damaged; to start over, choose another --workdir'):
            checkpoints.newest_intact(report=lambda text: None)


def test_nothing_saved_is_not_an_error(tmp_path):
    assert Checkpoints(tmp_path / 'none').newest_intact() is None


@pytest.mark.parametrize('scores, keep_latest, keep_best, kept', [
    ([3, 1, 2, 4, 5], 2, 1, [2, 4, 5]),
    ([3, 1, 2, 4, 5], 1, 2, [2, 3, 5]),
    ([5, 4, 3, 2, 1], 2, 1, [4, 5]),
    ([None, None, None], 1, 1, [3]),
    ([2, 2, 9], 1, 1, [2, 3])])
def test_keeps_the_latest_and_apart_from_them_the_best(tmp_path, scores, keep_latest, keep_best, kept):
    checkpoints = Checkpoints(tmp_path, keep_latest=keep_latest, keep_best=keep_best)
    for step, score in enumerate(scores, 1):
        save(checkpoints, step, score)
    assert checkpoints.steps() == kept
    scored = [step for step in kept if scores[step - 1] is not None]
    assert checkpoints.best_step() == (min(scored, key=lambda s: (scores[s - 1], -s)) if scored else kept[-1])


def test_a_hundred_million_steps_are_a_checkpoint_too(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (99_999_999, 100_000_000):
        (tmp_path / f'{step:08d}').mkdir()
    assert checkpoints.steps() == [99_999_999, 100_000_000]


def test_differences_are_listed_by_path_and_nothing_is_cast(two_saved):
    state = some_state(2)
    state['params']['half'] = state['params']['half'].astype(jnp.float32)
    state['params']['kernel'] = state['params']['kernel'].T
    state['params']['new'] = jnp.zeros(3)
    del state['opt_state'][1]['mu']
    with pytest.raises(UserError) as caught:
        two_saved.restore(2, target_of(state))
    assert str(caught.value).splitlines()[1:] == [
        '  opt_state/1/mu/kernel: in the checkpoint, not in the model',
        '  params/half: bfloat16[24] in the checkpoint, float32[24] in the model',
        '  params/kernel: float32[16, 8] in the checkpoint, float32[8, 16] in the model',
        '  params/new: not in the checkpoint']


def test_a_save_that_fails_leaves_the_last_one_and_says_so(two_saved, tmp_path, monkeypatch):
    checkpoints = copy_of(two_saved, tmp_path)

    def full_disk(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('seqjax.runs.checkpoints._commit', full_disk)
    with pytest.raises(UserError, match='could not save step 3 .*No space left.*step 2 is still there'):
        save(checkpoints, 3)
    assert sorted(os.listdir(checkpoints.directory)) == ['00000001', '00000002']
    assert checkpoints.newest_intact() == 2


def test_what_a_killed_process_left_half_written_is_not_a_checkpoint(two_saved, tmp_path):
    checkpoints = copy_of(two_saved, tmp_path)
    for name in ('.00000003.writing', '.00000001.removing'):
        (checkpoints.directory / name).mkdir()
    assert checkpoints.steps() == [1, 2]
    save(checkpoints, 3)
    assert sorted(os.listdir(checkpoints.directory)) == ['00000002', '00000003']


def test_every_file_is_on_disk_before_the_rename(tmp_path, monkeypatch):
    """The order of the protocol: all files and folders synced, then the rename, then the parent synced."""
    events = []
    monkeypatch.setattr('seqjax.runs.files.sync_file', lambda path: events.append(('sync', pathlib.Path(path).name)))
    monkeypatch.setattr('seqjax.runs.files.sync_folder', lambda path: events.append(('sync', pathlib.Path(path).name)))
    rename = pathlib.Path.rename
    monkeypatch.setattr(pathlib.Path, 'rename', lambda self, to: (events.append(('rename', to.name)), rename(self, to))[1])
    checkpoints = Checkpoints(tmp_path / 'checkpoints')
    save(checkpoints, 7)
    moment = events.index(('rename', '00000007'))
    synced = {name for kind, name in events[:moment] if kind == 'sync'}
    inside = {path.name for path in checkpoints.path(7).rglob('*')}
    assert inside <= synced
    assert events[moment + 1] == ('sync', 'checkpoints')
    assert json.loads((checkpoints.path(7) / 'manifest.json').read_text())['step'] == 7
