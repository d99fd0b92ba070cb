"""Translates new lines with a run, or with several at once: one line in, one answer out, in the same order."""

import functools
import sys

import jax
import numpy as np

from seqjax import config as configs
from seqjax import decode
from seqjax.data.batches import ragged
from seqjax.data.readers.examples import Example
from seqjax.data.text.tokenizers import BPETokenizer
from seqjax.errors import FieldError, UserError, with_prefix
from seqjax.runs.restore import find_checkpoint, open_run, restore_model
from seqjax.modes.explain import explain_row, pictures
from seqjax.modes.command.input_warnings import Noticed
from seqjax.modes.command.lines import answered, open_input, print_objects
from seqjax.modes.command.mode import CHECKPOINT, INPUT, Mode, one_process
from seqjax.runs.directory import RunDirectory
from seqjax.special_tokens import END

EXPLAINED = 8  # lines


def translate_lines(config, workdir, lines, checkpoint='latest', *, ensemble=(), explain=False):
    """Yields, for every line, its answers [(score, text), ...], best first: config.decode.n_best of them.

    ensemble: more run directories, whose mean probability decides (`decode.Ensemble`). explain: pictures of the first lines
    go to the directory 'explain' of the run, after the answers, in place of those that are there. A line of more tokens than
    config.data.max_length, or than 255 where that is 0, is translated in pieces, cut between words, and has one answer; an
    empty line has an empty one. At the end it is said what was unusual about the lines, and in which of them.
    """
    check_decoding(config, explain)
    run, encoding, first = open_translator('generate', config, workdir, checkpoint)
    prefix = prefix_of(config.decode, encoding)
    members = [first, *(_same_words(encoding, config.quantise, path, checkpoint) for path in ensemble)]
    models, params = zip(*(restore() for restore in members))  # only now: a run that cannot take part is refused before
    decoder, method, limits = decode.make_decoder(models, params), configs.method(config), configs.limits(config)
    shapes, key = _shapes(config.data.get('max_length', 0)), jax.random.key(config.decode.seed)
    noticed, drawn = Noticed(), run.path / 'explain'
    for old in pictures(drawn) if explain else ():
        old.unlink()

    def answer(some, done, bar):
        rows = [_rows(number, line, encoding, shapes[-1], noticed) for number, line in enumerate(some, done + 1)]
        prefixes = [() if piece else prefix for of_line in rows for piece, _ in enumerate(of_line)]
        answers = iter(with_prefix('config.decode', lambda: decode.search(
            decoder, [row for of_line in rows for row in of_line], method, limits=limits, shapes=shapes,
            batch_size=config.decode.batch_size, key=jax.random.fold_in(key, done), seen=bar.add, prefixes=prefixes)))
        yield from (_texts([next(answers) for _ in of_line], encoding) for of_line in rows)
        for number, of_line in enumerate(rows[:EXPLAINED] if explain and not done else (), 1):
            for row in of_line[:1]:
                bar.say(f'drawing how line {number} was translated')
                explain_row(decoder, encoding, row, method, limits, drawn, number, prefix)

    yield from answered('translate', lines, noticed, answer)
    if explain:
        print(f'pictures: {drawn}' if pictures(drawn) else 'no pictures: no line has an answer to explain', file=sys.stderr)


def score_lines(config, workdir, lines, checkpoint='latest'):
    """Yields a dict for every line 'source TAB target': log P of the target, all of it and token by token.

    A line that is no such pair gets a null and the reason. At the end it is said what was unusual about the lines.
    """
    configs.refuse_unread(config, ('prefix', 'exact'), 'is for answers that are written, and --mode=score measures those that '
                          'are given; write')
    _, encoding, restore = open_translator('score', config, workdir, checkpoint)
    model, params = restore()
    score = functools.partial(jax.jit(functools.partial(decode.score_pairs, model)), params)
    noticed = Noticed()

    def answer(some, done, bar):
        pairs = [_pair(number, line, encoding, noticed) for number, line in enumerate(some, done + 1)]
        return _score_pairs(pairs, encoding, score, config.decode.batch_size)

    yield from answered('score', lines, noticed, answer)


def open_translator(mode, config, workdir, checkpoint='latest', *, kind='pairs'):
    """(run, encoding, restore) of a run that has learned to translate, or from another kind of codec; restore() -> (model, parameters)."""
    one_process(mode)
    config, run = open_run(config, workdir)
    encoding = run.codec(kind)
    if run.loaded:
        return run, encoding, lambda: run.loaded
    return run, encoding, functools.partial(restore_model, run, config, *find_checkpoint(run, checkpoint))


def _same_words(encoding, quantise, path, checkpoint):
    """What restores another run, which must know the same words. quantise: in how many bits, as config.quantise says."""
    run = RunDirectory(path)
    try:
        saved = run.saved_config()
        saved.quantise.update(quantise)
        _, theirs, restore = open_translator('generate', saved, path, checkpoint)
    except UserError as error:
        reason = str(error).removeprefix(f'--workdir={run.path}: ').partition('; use --mode=')[0]
        raise UserError(f'--ensemble={run.path}: {reason}') from None
    if theirs.dumps() != encoding.dumps():
        raise UserError(f'--ensemble={run.path}: the run has learned other tokens, so its answers cannot be added up; train '
                        'it on the same data with the same config.data')
    return restore


def check_decoding(config, explain):
    """What translating does not do must not be asked for."""
    options = config.decode
    if not options.sample:
        configs.refuse_unread(config, ('temperature', 'top_k', 'top_p', 'min_p', 'seed'), 'is for answers that are drawn; set '
                              'config.decode.sample=true too, or write')
    if explain and options.sample:
        raise UserError('--explain: shows how an answer was searched for, and config.decode.sample=True draws it; leave out '
                        'one of them')
    if explain and options.exact:
        raise UserError('--explain: shows what a beam thought of, and config.decode.exact=True has none; leave out one of them')


def prefix_of(options, encoding):
    """The tokens that every answer begins with."""
    try:
        tokens = encoding.prefix(options.prefix)
    except UserError as error:
        raise FieldError('config.decode.prefix', options.prefix, f'{error}; write what was learned') from None
    if options.prefix and not len(tokens):
        raise FieldError('config.decode.prefix', options.prefix, "has no token to begin with; write ''")
    if len(tokens) >= options.max_new_tokens:
        raise FieldError('config.decode.prefix', options.prefix, f'has {len(tokens)} tokens, and an answer at most '
                         f'config.decode.max_new_tokens={options.max_new_tokens}; write a shorter one, or allow more')
    return tokens


def _shapes(longest):
    """The row lengths that are compiled; what is longer than the last of them is cut."""
    longest = longest + 1 if longest else decode.SHAPES[-1]  # with the end, which max_length does not count
    return (*(shape for shape in decode.SHAPES if shape < longest), longest)


def _rows(number, line, encoding, longest, noticed):
    """The rows of tokens that a line is translated in."""
    if not line.strip():
        noticed.note(number, 'empty')
        return []
    try:
        tokens = encoding.source(line)
    except UserError:
        noticed.note(number, f'left out, without a tag ({", ".join(encoding.source_side.tags)})')
        return []
    noticed.look(number, line, tokens)
    if len(tokens) <= longest:
        return [tokens]
    noticed.note(number, f'of more than {longest - 1} tokens, translated in pieces')
    return cut(tokens, encoding, longest)


def cut(tokens, encoding, longest):
    """Rows of at most `longest` tokens, each with the tag and the end, cut before a word where that is possible.

    Byte pairs of a word have the blank before it, as those of the first one do; where it is a token it is left out.
    """
    tags = len(encoding.source_side.tags) and 1
    tag, rest, pieces = tokens[:tags], tokens[tags:-1], []
    words, blanks = encoding.source_words(rest), () if isinstance(encoding.source_side.tokenizer, BPETokenizer) else ('▁',)
    begins, blank = np.array([word.startswith('▁') for word in words]), np.array([word in blanks for word in words])
    while len(rest):
        room = longest - tags - 1
        if len(rest) > room and begins[1:room + 1].any():
            room = int(np.flatnonzero(begins[1:room + 1])[-1]) + 1
        pieces.append(np.concatenate([tag, rest[:room], np.array([END], np.int32)]))
        room += int(np.argmin(np.append(blank[room:], False)))
        rest, begins, blank = rest[room:], begins[room:], blank[room:]
    return pieces


def _texts(of_pieces, encoding):
    """The answers to a line from those to its pieces. A line end that was written becomes a blank: an answer is one line."""
    text = lambda tokens: ' '.join(encoding.text(tokens).splitlines())
    if len(of_pieces) == 1 and of_pieces[0].texts:
        return [(float(score), text(tokens)) for score, tokens in zip(of_pieces[0].scores, of_pieces[0].texts)]
    best = [found for found in of_pieces if found.texts]
    return [(float(sum(float(found.scores[0]) for found in best)), ' '.join(text(found.texts[0]) for found in best))]


def _pair(number, line, encoding, noticed):
    """(source, target, their row of tokens) of a line, or (source, target, why there is no row)."""
    source, tab, target = line.partition('\t')
    try:
        row = encoding.row(Example(source, target)) if tab else 'no TAB between source and target'
    except UserError as error:
        row = str(error)
    if isinstance(row, str):
        lacks = f'tag ({", ".join(encoding.source_side.tags)})' if tab else 'TAB'
        noticed.note(number, f'without a score, for lack of a {lacks}')
        noticed.look(number, line)
    else:
        noticed.look(number, line, row['inputs'], row['targets'])
    return source, target if tab else None, row


def _score_pairs(pairs, encoding, score, batch_size):
    answers = [dict(source=source, target=target, log_prob=None, reason=row) for source, target, row in pairs]
    lengths = np.array([0 if isinstance(row, str) else max(len(row['inputs']), len(row['targets'])) for _, _, row in pairs])
    for row_length, places in decode.of_like_length(lengths, batch_size):
        batch = ragged.padded([pairs[place][2] for place in places], row_length, batch_size)
        totals, log_probs = jax.device_get(score(batch))
        for place, total, of_tokens in zip(places, totals, log_probs):
            source, target, row = pairs[place]
            answers[place] = dict(source=source, target=target, log_prob=float(total),
                                  tokens=encoding.target_words(row['targets']),
                                  log_probs=[round(float(p), 4) for p in of_tokens[:len(row['targets'])]])
    return answers


def _run_scores(request):
    from seqjax.modes.caption import score_captions  # here, because it is built on this

    score = score_captions if configs.task_of(request.config).of_images else score_lines
    with open_input(request) as lines:
        print_objects(score(request.config, request.workdir, lines, request.flags.checkpoint))


SCORE = Mode(_run_scores, "Score every line 'source TAB target', or 'IMAGE TAB caption', of --input: the log-probability of the target.",
             (CHECKPOINT, INPUT), reads=('decode.batch_size', 'quantise', 'parallel'))
