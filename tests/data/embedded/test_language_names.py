"""Names, their languages and translations against what speakers know, and against Babel's own look-up functions."""

import collections
import re

import babel
import babel.dates
import babel.numbers
import pytest

from seqjax.data.embedded.language_names import LANGUAGES, cldr_names, language_name_examples


@pytest.fixture(scope='module')
def names():
    return language_name_examples('classification', held_out=0.1, seed=0)


def parts(examples):
    return examples.train, examples.validation, examples.test


def test_names_have_the_language_that_they_are_in(names):
    languages = {example.inputs: example.target for part in parts(names) for example in part}
    for language, name in dict(de='Deutschland', fr='Allemagne', es='Alemania', pt='Alemanha', fi='Saksa', nl='Duitsland',
                               uk='Німеччина', ja='ドイツ', zh='德国', cs='pondělí', pl='poniedziałek',
                               tr='Pazartesi').items():
        assert languages[name] == language
    for shared in ('Tyskland', 'Германия', 'Portugal', 'India', 'april'):  # Danish and Swedish, Russian and Bulgarian, ...
        assert shared not in languages


def test_a_shared_name_is_left_out_and_counted(names):
    languages = collections.defaultdict(list)
    for language in LANGUAGES:
        for name in set(cldr_names(language).values()):
            languages[name].append(language)
    single = {name: spoken[0] for name, spoken in languages.items() if len(spoken) == 1}
    assert single == {example.inputs: example.target for part in parts(names) for example in part}
    kept, left_out = (int(number.replace(',', '')) for number in re.findall(r'\d+,\d+', names.report))
    assert (kept, left_out) == (len(single), len(languages) - len(single))
    assert kept > 25_000 and left_out > 2_000


@pytest.mark.parametrize('language', ['de', 'fa', 'ja', 'ro'])
def test_a_name_is_what_babel_says_that_the_thing_is_called(language):
    found = cldr_names(language)
    locale = babel.Locale.parse(language)
    assert found['languages', 'sv'] == babel.Locale('sv').get_language_name(language)
    assert found['territories', 'PE'] == babel.Locale('es', 'PE').get_territory_name(locale)
    assert found['scripts', 'Cyrl'] == babel.Locale('sr', script='Cyrl').get_script_name(locale)
    assert found['currencies', 'CHF'] == babel.numbers.get_currency_name('CHF', locale=locale)
    for month, name in babel.dates.get_month_names('wide', 'stand-alone', locale).items():
        assert found['months', month] == name
    for day, name in babel.dates.get_day_names('wide', 'stand-alone', locale).items():
        assert found['days', day] == name
    assert all(isinstance(name, str) and name.strip() for name in found.values())


@pytest.mark.parametrize('held_out', [0.1, 0.3])
def test_every_language_is_cut_in_the_same_ratio(held_out):
    train, validation, test = (
        collections.Counter(example.target for example in part)
        for part in parts(language_name_examples('classification', held_out=held_out, seed=1)))
    for language in LANGUAGES:
        total = train[language] + validation[language] + test[language]
        assert total > 600
        assert test[language] == pytest.approx(total * held_out, abs=1)
        assert validation[language] == pytest.approx((total - test[language]) * held_out, abs=1)
    assert set(train) == set(LANGUAGES) and len(LANGUAGES) == 24


def test_no_name_is_in_two_parts_and_the_seed_deals_them_out(names):
    inputs = [{example.inputs for example in part} for part in parts(names)]
    assert len(set.union(*inputs)) == sum(map(len, inputs)) == sum(map(len, parts(names)))
    assert names == language_name_examples('classification', held_out=0.1, seed=0)
    other = language_name_examples('classification', held_out=0.1, seed=1)
    assert {example.inputs for example in other.test} != inputs[2]
    assert {example.inputs for part in parts(other) for example in part} == set.union(*inputs)
    assert len({example.target for example in names.test[:100]}) > 15  # in no order


# ------------------------------------------------------------------------------------------------ translation

@pytest.fixture(scope='module')
def translations():
    return language_name_examples('translation', held_out=0.1, seed=0)


def test_names_are_translated_in_both_directions(translations):
    found = {(example.inputs, example.target) for part in parts(translations) for example in part}
    for language, name in dict(de='Deutschland', fr='Allemagne', da='Tyskland', sv='Tyskland', uk='Німеччина', ja='ドイツ',
                               fi='Saksa').items():
        assert {(f'<{language}> Germany', name), (f'<en> {name}', 'Germany')} <= found
    names = {language: cldr_names(language) for language in LANGUAGES}
    expected = {pair for language in set(LANGUAGES) - {'en'} for key in names[language].keys() & names['en'].keys()
                for pair in ((f'<{language}> {names["en"][key]}', names[language][key]),
                             (f'<en> {names[language][key]}', names['en'][key]))}
    assert found == expected and f'{len(expected):,} translations' in translations.report


def test_a_thing_that_is_held_out_was_not_seen_in_any_language(translations):
    """No part has a text of another one as its source or target, whatever the language and the capitals."""
    texts = [{text.lower() for example in part for text in (example.inputs.split('> ', 1)[1], example.target)}
             for part in parts(translations)]
    assert len(set.union(*texts)) == sum(map(len, texts))
    sizes = [len(part) for part in parts(translations)]
    assert sizes[2] == pytest.approx(sum(sizes) * 0.1, rel=0.1) and sizes[1] == pytest.approx(sum(sizes) * 0.09, rel=0.1)
    pairs = [(example.inputs, example.target) for part in parts(translations) for example in part]
    assert len(set(pairs)) == len(pairs)


def test_the_seed_deals_the_things_out(translations):
    assert language_name_examples('translation', held_out=0.1, seed=0) == translations
    other = language_name_examples('translation', held_out=0.1, seed=1)
    assert {example.inputs for example in other.test} != {example.inputs for example in translations.test}
    tags = {example.inputs.split('> ')[0] for example in translations.test[:200]}
    assert len(tags) > 15 and translations.train != other.train  # in no order


def test_letters_alone_do_not_tell_the_language(names):
    """Guessing the language that most often has a name's rarest letter is right for less than two of three."""
    counts = collections.defaultdict(collections.Counter)
    for example in names.train:
        for letter in set(example.inputs):
            counts[letter][example.target] += 1
    right = 0
    for example in names.test:
        rarest = min(example.inputs, key=lambda letter: counts[letter].total() or 10 ** 9)
        right += counts[rarest].most_common(1)[:1] == [(example.target, counts[rarest][example.target])]
    assert 1 / 24 < right / len(names.test) < 2 / 3
