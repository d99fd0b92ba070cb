"""Names of the Unicode Common Locale Data Repository (CLDR) in 24 languages: which language is it?

    Deutschland -> de    Allemagne -> fr    Alemania -> es    Alemanha -> pt    Saksa -> fi    Німеччина -> uk

Countries, languages, scripts, currencies, cities, units, months, days and quarters, as the Babel package carries them. The
shortest of texts, which is where guessing the language is hard (Baldwin & Lui 2010). No language has an alphabet of its own:
fourteen are written in Latin letters, four in Cyrillic, two each in Arabic, Devanagari and Han characters. A name that two
languages share, as Danish and Swedish do Tyskland, has no answer and is left out.
"""

import random

from seqjax.data.examples import Example, Examples
from seqjax.data.splits import hold_out

LANGUAGES = ('cs', 'da', 'de', 'en', 'es', 'fi', 'fr', 'it', 'nl', 'pl', 'pt', 'ro', 'sv', 'tr',  # Latin
             'bg', 'ru', 'sr', 'uk', 'ar', 'fa', 'hi', 'mr', 'ja', 'zh')


def language_name_examples(task, *, held_out, seed):
    """Names and the codes of their languages. Every language is cut in three in the same ratio, dealt out by `seed`."""
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
