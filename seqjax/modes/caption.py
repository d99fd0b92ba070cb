"""Captions images with a run: the paths of images in, a dict for each out, in the same order; and scores captions that are there."""

import functools
import sys

import jax
import numpy as np

from seqjax import config as configs
from seqjax import decode, tasks
from seqjax.analysis.vision.caption_attention import plot_caption
from seqjax.data.images.lazy import threaded
from seqjax.data.readers.lines import Malformed
from seqjax.errors import UserError, with_prefix
from seqjax.modes.command.input_warnings import Noticed
from seqjax.modes.command.lines import answered
from seqjax.modes.command.mode import one_process
from seqjax.modes.explain import looked
from seqjax.modes.translate import check_decoding, open_translator, prefix_of

EXPLAINED = 8  # images


def caption_images(config, workdir, paths, checkpoint='latest', *, explain=False):
    """Yields, for every path of an image, dict(image, caption, score), or with config.decode.n_best > 1 dict(image, captions), of (score,
    text), best first. An image that cannot be read has a null and the reason; at the end it is said how many have, and which.

    explain: for each of the first images 'explain/NUMBER_caption.png' in the directory of the run, where the decoder looks word by word.
    """
    check_decoding(config, explain)
    run, codec, task, model, params = _opened('generate', config, workdir, checkpoint)
    prefix, method, limits = prefix_of(config.decode, codec), configs.method(config), codec.limits(configs.limits(config))
    decoder, key = decode.make_decoder(model, params, prepare=task.pixels), jax.random.key(config.decode.seed)
    noticed, drawn = Noticed(noun='image'), run.path / 'explain'
    for old in drawn.glob('[0-9][0-9][0-9]_caption.png') if explain else ():
        old.unlink()

    def answer(some, done, bar):
        for begin in range(0, len(some), config.decode.batch_size):  # more images at once may not fit
            part = some[begin:begin + config.decode.batch_size]
            images = threaded(functools.partial(_read, codec), part)
            sound = [image for image, reason in images if not reason]
            found = iter(with_prefix('config.decode', lambda: decode.search(
                decoder, sound, method, limits=limits, batch_size=config.decode.batch_size, prefixes=[prefix] * len(sound),
                key=jax.random.fold_in(key, done + begin), seen=bar.add)))
            for number, (path, (image, reason)) in enumerate(zip(part, images), done + begin + 1):
                if reason:
                    noticed.note(number, f'without a caption ({reason})')
                    yield dict(image=path, caption=None, reason=reason)
                    continue
                one = next(found)
                if explain and number <= EXPLAINED and one.texts:
                    _draw(decoder, codec, image, one.texts[0], drawn / f'{number:03d}_caption.png')
                yield _answer(path, one, codec, config.decode.n_best)

    yield from answered('caption', paths, noticed, answer, unit='image')
    if explain:
        made = list(drawn.glob('[0-9][0-9][0-9]_caption.png'))
        print(f'pictures: {drawn}' if made else 'no pictures: no caption was written with attention', file=sys.stderr)


def score_captions(config, workdir, lines, checkpoint='latest'):
    """Yields a dict for every line 'IMAGE TAB caption': log P of the caption, all of it and token by token; a line that is no such pair
    gets a null and the reason."""
    configs.refuse_unread(config, ('prefix', 'exact'), 'is for answers that are written, and --mode=score measures those that '
                          'are given; write')
    _, codec, task, model, params = _opened('score', config, workdir, checkpoint)
    score = jax.jit(lambda batch: decode.score_pairs(model, params, task.prepare(batch)))
    noticed, rows = Noticed(), config.decode.batch_size

    def answer(some, done, bar):
        for begin in range(0, len(some), rows):
            pairs = [line.partition('\t') for line in some[begin:begin + rows]]
            images = [_read(codec, path) if tab else (None, 'no TAB between image and caption') for path, tab, _ in pairs]
            batch = dict(inputs=np.zeros((rows, *next((image.shape for image, _ in images if image is not None), (1, 1, 1))), np.uint8),
                         targets=np.zeros((rows, codec.length), np.int32), weights=np.zeros((rows, codec.length), np.float32))
            for n, ((image, reason), (_, _, caption)) in enumerate(zip(images, pairs)):
                if not reason and len(codec.target(caption)) > codec.length:
                    images[n] = image, f'the caption has more than {codec.length - 1} tokens'
                elif not reason:
                    batch['inputs'][n], (batch['targets'][n], batch['weights'][n]) = image, codec.caption(caption)
            totals, log_probs = jax.device_get(score(batch)) if any(not reason for _, reason in images) else ((), ())
            for n, ((_, reason), (path, _, caption)) in enumerate(zip(images, pairs)):
                if reason:
                    noticed.note(done + begin + n + 1, f'without a score ({reason})')
                    yield dict(image=path, caption=caption, log_prob=None, reason=reason)
                else:
                    length = int(batch['weights'][n].sum())
                    yield dict(image=path, caption=caption, log_prob=float(totals[n]), tokens=codec.target_words(batch['targets'][n, :length]),
                               log_probs=[round(float(p), 4) for p in log_probs[n, :length]])

    yield from answered('score', lines, noticed, answer)


def _opened(mode, config, workdir, checkpoint):
    """(run, codec, task, model, parameters) of a run that has learned to caption images."""
    one_process(mode)
    run, codec, restore = open_translator(mode, config, workdir, checkpoint, kind='captions')
    saved = run.saved_config()
    learned = configs.task_of(saved)
    if not learned.decodes:
        raise UserError(f'--workdir={run.path}: {configs.task_name(saved)!r} writes no captions; use --mode=eval')
    model, params = restore()
    return run, codec, tasks.build(configs.task_name(saved), model, **{**codec.for_task(), **learned.settings(saved.train)}), model, params


def _read(codec, path):
    """(the pixels of an image, None), or (None, why there are none)."""
    try:
        return codec.image(path), None
    except (Malformed, OSError) as problem:
        return None, str(problem)


def _answer(path, found, codec, n_best):
    text = lambda tokens: ' '.join(codec.text(tokens).splitlines())
    answers = [(float(score), text(tokens)) for score, tokens in zip(found.scores, found.texts)]
    if n_best > 1:
        return dict(image=path, captions=answers)
    return dict(image=path, caption=answers[0][1], score=answers[0][0]) if answers else dict(image=path, caption='', score=None)


def _draw(decoder, codec, image, tokens, path):
    """The picture of one caption, of a decoder that has attention."""
    weights = jax.device_get(looked(decoder, image[None], np.ones(1, np.int32), np.asarray(tokens, np.int32)[None]))
    if weights is not None:
        plot_caption(image, codec.target_words(tokens), weights[0], path)
