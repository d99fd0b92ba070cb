"""Clips against the pictures that they are made of: without noise and bar, every whole digit is one of them."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_digits

from seqjax.data.embedded import moving_digits
from seqjax.data.embedded.moving_digits import moving_digit_examples, moving_digit_videos

TASKS = ['classification', 'tagging']
DIGITS = load_digits()
NUMBERS = {(image / 16).astype(np.float32).tobytes(): number for number, image in enumerate(DIGITS.images)}


@pytest.fixture(autouse=True)
def fewer_clips(monkeypatch):
    monkeypatch.setattr(moving_digits, 'CLIPS', 300)


@pytest.fixture
def clean(monkeypatch):
    monkeypatch.setattr(moving_digits, 'NOISE', 0.0)
    monkeypatch.setattr(moving_digits, 'BAR', 0)


def parts(examples):
    return examples.train, examples.validation, examples.test


def shown(frame):
    """The number of the image that is seen whole in a frame, or None."""
    canvas = frame.reshape(16, 16)
    for top, left in itertools.product(range(9), range(9)):
        square = np.ascontiguousarray(canvas[top:top + 8, left:left + 8])
        if np.count_nonzero(square) == np.count_nonzero(canvas) and square.tobytes() in NUMBERS:
            return NUMBERS[square.tobytes()]
    return None


@pytest.mark.parametrize('task', TASKS)
def test_the_label_is_the_digit_that_is_shown_and_no_image_is_in_two_parts(task, clean):
    assert len(NUMBERS) == len(DIGITS.images)  # no image is there twice
    images = []
    for part in parts(moving_digit_examples(task, held_out=0.2, seed=3)):
        images.append(set())
        whole = frames = 0
        for example in part[:60]:
            labels = [example.target] * len(example.inputs) if task == 'classification' else example.target
            numbers = list(map(shown, example.inputs))
            for number, label in zip(numbers, labels, strict=True):
                if number is not None:
                    assert str(DIGITS.target[number]) == label
                    images[-1].add(number)
                    whole += 1
            frames += len(numbers)
            if task == 'classification':
                assert len(set(numbers) - {None}) <= 1
        assert 0.4 < whole / frames < 0.9  # the others are partly outside
    assert all(len(some) > 20 for some in images)
    assert len(set.union(*images)) == sum(map(len, images))


@pytest.mark.parametrize('task', TASKS)
def test_clips_are_ragged_frames_of_numbers_between_0_and_1(task):
    made = moving_digit_examples(task, held_out=0.1, seed=0)
    assert list(map(len, parts(made))) == [243, 27, 30]
    for part in parts(made):
        assert all(example.inputs.shape[1:] == (256,) and example.inputs.dtype == np.float32 for example in part)
        assert all(0 <= example.inputs.min() and example.inputs.max() <= 1 for example in part)
    assert {len(example.inputs) for example in made.train} == set(range(8, 17))
    names = {example.target for example in made.train} if task == 'classification' else {
        label for example in made.train for label in example.target}
    assert names == set('0123456789') and all(type(name) is str for name in names)


def test_one_digit_after_another_is_seen_for_several_frames():
    runs = [[len(list(run)) for _, run in itertools.groupby(example.target)]
            for example in moving_digit_examples('tagging', held_out=0.1, seed=0).train]
    assert all(run >= 4 for clip in runs for run in clip[:-1])
    assert {run for clip in runs for run in clip[:-1]} >= {4, 5, 6, 7}
    assert sum(len(clip) > 1 for clip in runs) > 0.8 * len(runs)  # two digits may have the same name


@pytest.mark.parametrize('task', TASKS)
def test_the_bar_hides_four_columns_and_the_noise_changes_every_pixel_a_little(task, monkeypatch):
    noisy = moving_digit_examples(task, held_out=0.1, seed=0).train
    monkeypatch.setattr(moving_digits, 'NOISE', 0.0)
    barred = moving_digit_examples(task, held_out=0.1, seed=0).train
    monkeypatch.setattr(moving_digits, 'BAR', 0)
    whole = moving_digit_examples(task, held_out=0.1, seed=0).train
    hidden = 0
    for one, other, third in zip(noisy, barred, whole, strict=True):
        assert one.target == other.target == third.target
        between = (other.inputs > 0.4) & (other.inputs < 0.6)  # where nothing is clipped
        assert np.abs(one.inputs - other.inputs)[between].max(initial=0) < 0.08 * 6
        for columns, entire in zip(other.inputs.reshape(-1, 16, 16), third.inputs.reshape(-1, 16, 16)):
            changed = np.flatnonzero((columns != entire).any(axis=0))
            if len(changed):
                assert changed[-1] - changed[0] < 4 and not columns[:, changed].any()
                hidden += 1
    assert hidden > 0.4 * sum(len(example.inputs) for example in whole)
    differences = np.concatenate([(one.inputs - other.inputs)[(other.inputs > 0.4) & (other.inputs < 0.6)]
                                  for one, other in zip(noisy, barred)])
    assert differences.std() == pytest.approx(0.08, rel=0.05) and differences.mean() == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize('task', TASKS)
def test_a_clip_depends_on_the_seed_and_its_number_alone(task, monkeypatch):
    def clips(**changes):
        made = moving_digit_examples(task, **dict(dict(held_out=0.1, seed=5), **changes))
        return [(example.inputs.tobytes(), example.target) for example in made.train]

    first = clips()
    assert first == clips() and len(set(first)) == len(first)
    other = clips(seed=6)
    assert not set(first) & set(other)
    assert [len(frames) for frames, _ in first] != [len(frames) for frames, _ in other]  # not the images alone
    monkeypatch.setattr(moving_digits, 'CLIPS', 600)
    assert clips()[:243] == first  # more clips change none


@pytest.mark.parametrize('task', TASKS)
def test_videos_are_the_same_clips_in_256_levels(task):
    frames, videos = (make(task, held_out=0.2, seed=0) for make in (moving_digit_examples, moving_digit_videos))
    for ours, clips in zip(parts(videos), parts(frames)):
        assert len(ours) == len(clips)
        for video, found in zip(ours, clips):
            assert video.inputs.dtype == np.uint8 and video.inputs.shape == (len(found.inputs), 16, 16, 1) and video.target == found.target
            np.testing.assert_allclose(video.inputs.reshape(found.inputs.shape) / 255, found.inputs, atol=0.5 / 255 + 1e-6)
