"""Scenes against their captions: what stands where is what is said, and held-out scenes show what training never does."""

import itertools
import re

import numpy as np
import pytest

from seqjax import data
from seqjax.data.embedded import digit_scenes
from seqjax.data.embedded.digit_scenes import NAMES, digit_scene_examples, enlarged
from seqjax.data.embedded.digits import digit_images

CAPTION = re.compile(r'an? (\w+)(?: (left of|above) an? (\w+))?')


@pytest.fixture(autouse=True)
def fewer_scenes(monkeypatch):
    monkeypatch.setattr(digit_scenes, 'SCENES', dict(train=1500, validation=200, test=200))


def parts(seed=0, held_out=0.1):
    made = digit_scene_examples('', held_out=held_out, seed=seed)
    return made.train, made.validation, made.test


def test_an_image_has_what_its_caption_says():
    for part in parts():
        for i in range(60):
            example = part[i]
            first, relation, second = CAPTION.fullmatch(example.target).groups()
            assert first in NAMES and second in (None, *NAMES) and part.targets[i] == example.target
            assert example.inputs.shape == (32, 32, 1) and example.inputs.dtype == np.uint8
            seen = [example.inputs[:, :16], example.inputs[:, 16:]] if relation == 'left of' else [example.inputs[:16], example.inputs[16:]]
            assert all(half.any() for half in seen) if relation else example.inputs.any()


def placed(example):
    """Every (digit, image number) that is seen whole in one of the halves of a scene."""
    images, names = digit_images()
    found = set()
    canvas = example.inputs[:, :, 0]
    for size in range(10, 15):
        large = {enlarged(image[:, :, 0], size).tobytes(): number for number, image in enumerate(images)}
        for top, left in itertools.product(range(33 - size), repeat=2):
            number = large.get(np.ascontiguousarray(canvas[top:top + size, left:left + size]).tobytes())
            if number is not None:
                found.add((NAMES[int(names[number])], number))
    return found


def test_digits_are_those_that_are_named_and_no_image_is_in_two_parts():
    seen = []
    for part in parts():
        seen.append(set())
        for i in range(8):
            example, found = part[i], None
            first, _, second = CAPTION.fullmatch(example.target).groups()
            found = placed(example)
            assert {name for name, _ in found} <= {first, second} and found
            seen[-1] |= {number for _, number in found}
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


def test_a_fifth_of_the_compositions_is_never_trained_on():
    train, validation, test = (part.targets for part in parts())
    two = lambda captions: {caption for caption in captions if ' of ' in caption or ' above ' in caption}
    new = two(test) - two(train)
    assert len(two(train)) == 160 and 30 < len(new) <= 40
    share = np.mean([caption in new for caption in test if caption in two(test)])
    assert 0.35 < share < 0.65 and two(validation) - two(train)
    alone = np.mean([caption not in two(train) for caption in train])
    assert 0.13 < alone < 0.2 and {f'an {name}' if name == 'eight' else f'a {name}' for name in NAMES} == {*train} - two(train)


def test_a_scene_depends_on_the_seed_its_part_and_its_number_alone():
    one, same, other = parts()[0], parts()[0], parts(seed=1)[0]
    assert (one[7].inputs == same[7].inputs).all() and one[7].target == same[7].target and one.manifest() == same.manifest()
    assert one.targets != other.targets and one.manifest() != other.manifest()
    assert len({example.inputs.tobytes() for example in itertools.islice(one, 99)}) == 99


def test_an_enlarged_digit_is_interpolated():
    image = digit_images()[0][0][:, :, 0]
    np.testing.assert_array_equal(enlarged(image, 8), image)
    large = enlarged(image, 16)
    assert large.shape == (16, 16) and abs(float(large.mean()) - float(image.mean())) < 6
    assert data.SOURCES['digit_scenes'].targets == ('captions',)
