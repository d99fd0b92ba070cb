"""A small grammar of opinions about films: is the sentence positive or negative?

    although the plot was really dull , i cannot deny that the acting felt superb .     positive
    i expected a clever film , and i was wrong .                                        negative

Words that praise stand in sentences that do not, and the other way round: negation turns them over, twice turns them back
(Polanyi & Zaenen 2006, contextual valence shifters), a contrast decides for one of two clauses (Socher et al. 2013, section
5.3: 'X but Y'), and expectations are thwarted (Pang et al. 2002, section 7). Counting words does not find the answer, which
the grammar has by construction. Lower case, with blanks between all words and signs.
"""

import random

from seqjax.data.embedded.parts import three_parts
from seqjax.data.readers.examples import Example, Examples

REVIEWS = 20_000
# A word in capitals is replaced by one of its lines; QUALITY is a word of praise or of blame. What a + follows has the
# polarity of the line that it stands in, and what a - follows the opposite.
GRAMMAR = {
    'REVIEW': (
        'CLAUSE+ .',
        'CLAUSE+ , and CLAUSE+ .',
        'CLAUSE- , but CLAUSE+ .',
        'although CLAUSE- , CLAUSE+ .',
        'CLAUSE+ , although CLAUSE- .',
        'i expected a QUALITY- film , but CLAUSE+ .',
        'i expected a QUALITY+ film , and i was right .',
        'i expected a QUALITY- film , and i was wrong .'),
    'CLAUSE': (
        'the PART VERB DEGREE QUALITY+',
        'i found the PART DEGREE QUALITY+',
        'i cannot deny that the PART VERB QUALITY+',
        'nobody will deny that the PART VERB QUALITY+',
        'the PART VERB not DEGREE QUALITY-',
        'the PART VERB not QUALITY- at all',
        'the PART VERB far from QUALITY-',
        'the PART VERB anything but QUALITY-',
        'i would not call the PART QUALITY-',
        'nobody could call the PART DEGREE QUALITY-'),
    'PART': ('acting', 'camera work', 'cast', 'dialogue', 'direction', 'editing', 'ending', 'humour', 'music', 'plot',
             'script', 'story'),
    'VERB': ('was', 'seemed', 'felt'),
    'DEGREE': ('', 'very', 'really', 'truly', 'particularly'),
}
PRAISE = ('brilliant', 'charming', 'clever', 'convincing', 'fresh', 'funny', 'gripping', 'moving', 'superb', 'thoughtful',
          'touching', 'witty')
BLAME = ('bad', 'boring', 'clumsy', 'dreadful', 'dull', 'lifeless', 'messy', 'predictable', 'shallow', 'silly', 'tedious',
         'tired')


def review_examples(task, *, held_out, seed):
    """Different sentences, as many positive as negative ones but for chance, drawn and dealt out by `seed`."""
    rng = random.Random(seed)
    polarities = {}  # of a sentence
    while len(polarities) < REVIEWS:
        positive = rng.random() < 0.5
        polarities[' '.join(_words('REVIEW', positive, rng))] = 'positive' if positive else 'negative'
    examples = [Example(sentence, polarity) for sentence, polarity in polarities.items()]
    rng.shuffle(examples)  # the short ones, of which there are few, come first
    return Examples(*three_parts(examples, held_out), f'{len(examples):,} different sentences of a grammar')


def _words(symbol, positive, rng):
    if symbol == 'QUALITY':
        yield rng.choice(PRAISE if positive else BLAME)
        return
    for word in rng.choice(GRAMMAR[symbol]).split():
        if word.rstrip('+-').isupper():
            yield from _words(word.rstrip('+-'), positive != word.endswith('-'), rng)
        else:
            yield word
