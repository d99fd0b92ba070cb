"""`config.decode`: how answers are searched for (translations) and how texts are continued (language models)."""

import dataclasses
from typing import ClassVar

from seqjax.fields import at_least, between, field, that

SEARCHED, CONTINUED = 'translations', 'language models'
BOTH = (SEARCHED, CONTINUED)


@dataclasses.dataclass(frozen=True)
class DecodeOptions:
    MEANING: ClassVar[dict[str, str]] = {'pairs': 'translations', 'spans': 'span corruption'}

    prompt: str = field('\n', 'Prompt.', of=(CONTINUED,))
    samples: int = field(1, 'Samples: texts to write.', at_least(1), of=(CONTINUED,))
    seed: int = field(0, 'Seed of the samples.', between(0, 2 ** 32), of=BOTH)
    max_new_tokens: int = field(500, 'Maximum number of tokens to write; of a translation also length_factor times its source, plus '
                                '10; of a caption as many as the longest one had.', at_least(1), of=BOTH)
    length_factor: float = field(2.0, 'Maximum length of a translation, as a multiple of its source.', at_least(0),
                                 of=('pairs', 'spans'))
    method: str = field('', 'Decoding method, a name of decode.METHODS: greedy, sample, beam, exact, contrastive, speculative or one '
                        "of your own; '': what the fields below ask for.", of=BOTH)
    sample: bool = field(False, 'Sample translations instead of searching for them.', of=(SEARCHED,))
    temperature: float = field(0.8, 'Temperature; 0: greedy.', that(lambda value: 0 <= value < float('inf'),
                               'must be at least 0 (0 is greedy)'), of=BOTH)
    top_k: int = field(0, 'Top-k sampling; 0: all tokens.', at_least(0), of=BOTH)
    top_p: float = field(1.0, 'Nucleus (top-p) sampling.', that(lambda value: 0 < value <= 1, 'must be more than 0 and at most 1'),
                         of=BOTH)
    min_p: float = field(0.0, 'Min-p sampling: only tokens at least so many times as likely as the likeliest; 0: all.', that(
        lambda value: 0 <= value <= 1, 'must be at least 0 and at most 1 (0 keeps all tokens)'), of=BOTH)
    penalty_alpha: float = field(0.0, 'Contrastive search: degeneration penalty alpha, with top_k candidates; 0: off.', that(
        lambda value: 0 <= value <= 1, 'must be at least 0 and at most 1 (0 is off)'), of=(CONTINUED,))
    draft_model: str = field('', "Speculative sampling: directory of a smaller run that drafts tokens; '': none.", of=(CONTINUED,))
    num_draft_tokens: int = field(4, 'Tokens that it drafts at a time.', at_least(1), of=(CONTINUED,))
    num_beams: int = field(1, 'Beam width; 1: greedy search.', at_least(1), of=BOTH)
    length_penalty: float = field(1.0, 'Length penalty: log P is divided by ((5 + length) / 6) to this power; 0: off.', at_least(0),
                                  of=(SEARCHED,))
    coverage_penalty: float = field(0.0, 'Coverage penalty of source words with little attention; 0: off.', at_least(0),
                                    of=('pairs',))
    num_beam_groups: int = field(1, 'Groups of diverse beam search.', of=BOTH)
    diversity_penalty: float = field(0.0, 'Diversity penalty between groups.', at_least(0), of=BOTH)
    no_repeat_ngram_size: int = field(0, 'Repetition blocking (no-repeat n-gram); 0: off.', at_least(0), of=BOTH)
    min_length: int = field(0, 'Minimum length of a translation in tokens, EOS counted.', at_least(0), of=(SEARCHED,))
    n_best: int = field(1, 'N-best list: answers to a line, best first.', of=(SEARCHED,))
    prefix: str = field('', 'Forced prefix of every translation.', of=(SEARCHED,))
    exact: bool = field(False, 'Exact search instead of a beam, for few tokens and short answers.', of=(SEARCHED,))
    stop: str = field('', "Stop character, as '\\n'; '': none.", that(lambda value: len(value) <= 1, 'must be one character'),
                      of=(CONTINUED,))
    batch_size: int = field(32, 'Lines that are decoded together.', at_least(1), of=BOTH)
    page_size: int = field(16, 'Paged KV cache, with --input: tokens of a page.', at_least(1), of=(CONTINUED,))
    pages: int = field(0, 'Pages of the cache; 0: as many as the lines may need.', at_least(0), of=(CONTINUED,))


def kinds(task: type) -> set[str]:
    """The kinds of `DecodeOptions` that a run of a task has."""
    return {task.data, *([SEARCHED] if task.decodes else []), *([CONTINUED] if task.writes else [])}
