"""Names of the Unicode Common Locale Data Repository (CLDR) in 24 languages: which one is it, and what is it in another?

    Deutschland -> de    Allemagne -> fr    Alemania -> es    Alemanha -> pt    Saksa -> fi    Німеччина -> uk
    <de> Germany -> Deutschland    <en> Deutschland -> Germany    <fi> Germany -> Saksa    <en> Saksa -> Germany

Countries, languages, scripts, currencies, cities, units, months, days and quarters, as the Babel package carries them. The
shortest of texts, which is where guessing the language is hard (Baldwin & Lui 2010). No language has an alphabet of its own:
fourteen are written in Latin letters, four in Cyrillic, two each in Arabic, Devanagari and Han characters. A name that two
languages share, as Danish and Swedish do Tyskland, has no answer and is left out.

Translation is from English into the others and back in one model, which a tag tells what is wanted (Johnson et al. 2017).
What is held out is so in all languages: the model has not seen the thing, and spells it by what it knows of the languages.
"""

import random

from seqjax.data.embedded.parts import three_parts
from seqjax.data.readers.examples import Example, Examples
from seqjax.data.readers.splits import hold_out
from seqjax.tasks import TASKS

LANGUAGES = ('cs', 'da', 'de', 'en', 'es', 'fi', 'fr', 'it', 'nl', 'pl', 'pt', 'ro', 'sv', 'tr',  # Latin
             'bg', 'ru', 'sr', 'uk', 'ar', 'fa', 'hi', 'mr', 'ja', 'zh')


def language_name_examples(task, *, held_out, seed):
    """Names and the codes of their languages, or names and what they are called in another, dealt out by `seed`."""
    return _translations(held_out, seed) if TASKS[task].decodes else _codes(task, held_out, seed)


def _codes(task, held_out, seed):
    """Every language is cut in three in the same ratio."""
    languages = {}  # of a name
    for language in LANGUAGES:
        for name in cldr_names(language).values():
            languages.setdefault(name, set()).add(language)
    examples = [Example(name, *spoken) for name, spoken in languages.items() if len(spoken) == 1]
    random.Random(seed).shuffle(examples)
    rest, test = hold_out(examples, task, part=held_out, seed=seed)
    train, validation = hold_out(rest, task, part=held_out, seed=seed)
    return Examples(train, validation, test, (
        f'{len(examples):,} names of CLDR in {len(LANGUAGES)} languages; {len(languages) - len(examples):,} more were left out, '
        'because several of the languages share them'))


def _translations(held_out, seed):
    """The things are cut in three, each with its names in all languages."""
    names = {language: cldr_names(language) for language in LANGUAGES}
    things = _things(names)
    rng = random.Random(seed)
    rng.shuffle(things)
    parts = [list(dict.fromkeys(pair for thing in part for pair in _pairs(thing, names)))
             for part in three_parts(things, held_out)]
    for part in parts:
        rng.shuffle(part)
    return Examples(*([Example(*pair) for pair in part] for part in parts), (
        f'{sum(map(len, parts)):,} translations of the names of {len(things):,} things of CLDR, between English and '
        f'{len(LANGUAGES) - 1} languages'))


def _things(names):
    """Lists of the keys that have a name in English. Those that share one in any language, as the country Singapore and the
    city, are one thing: to have seen one is to know the other."""
    thing, first = {key: [key] for key in names['en']}, {}
    for language in LANGUAGES:
        for key in names[language].keys() & thing.keys():
            same, other = thing[key], thing[first.setdefault(names[language][key].lower(), key)]
            if same is not other:
                same += other
                thing.update(dict.fromkeys(other, same))
    return list({id(keys): sorted(keys) for keys in thing.values()}.values())


def _pairs(keys, names):
    """(source, target) from English into every language that has a name for a key, and back."""
    for key in keys:
        for language in LANGUAGES:
            if language != 'en' and key in names[language]:
                yield f'<{language}> {names["en"][key]}', names[language][key]
                yield f'<en> {names[language][key]}', names['en'][key]


def cldr_names(language):
    """What a thing is called in a language: {(kind, CLDR's key of the thing): name}."""
    import babel  # here, because few runs need it

    locale = babel.Locale(language)
    return {
        **{(kind, key): name for kind in ('territories', 'languages', 'scripts', 'currencies')
           for key, name in getattr(locale, kind).items()},
        **{(kind, key): name for kind in ('months', 'days', 'quarters')
           for key, name in getattr(locale, kind)['stand-alone']['wide'].items()},
        **{('cities', key): zone['city'] for key, zone in locale.time_zones.items() if 'city' in zone},
        **{('units', key): names['long'] for key, names in locale.unit_display_names.items() if 'long' in names},
    }
