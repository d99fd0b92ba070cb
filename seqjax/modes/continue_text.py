"""Texts that a run of a language model writes: after one prompt, or after every line of a file."""

import dataclasses
import functools
import sys

import jax

from seqjax import config as configs
from seqjax import data, decode, models
from seqjax.data.text import tokenizers
from seqjax.errors import FieldError, UserError
from seqjax.modes.command.input_warnings import Noticed
from seqjax.modes.command.lines import answered
from seqjax.modes.command.mode import one_process
from seqjax.runs.directory import RunDirectory
from seqjax.runs.restore import open_run, restored
from seqjax.runs.saved_model import saved_model
from seqjax.train.progress import ProgressBar


def generate_text(config, workdir, checkpoint='latest'):
    """`config.decode.samples` texts that the run writes; each starts with the prompt."""
    config, run, tokenizer = _open(config, workdir)
    options = config.decode
    if not options.prompt:
        raise UserError("config.decode.prompt='': give at least one character to continue from")
    _check(config)
    configs.refuse_unread(config, ('pages', 'page_size'), 'is for the lines of --input; write')
    prompt, reason = _prompt(tokenizer, options.prompt)
    if reason:
        raise FieldError('config.decode.prompt', options.prompt, reason)
    end = _end(tokenizer, options.stop)
    model = saved_model(run).build()
    if options.num_beams > 1:
        _check_beam(options, len(prompt), model.context_length)
    method = configs.method(config, options.draft_model and _load_draft(config, model, tokenizer))
    decoder = decode.make_decoder(*restored(run, config, checkpoint), end=end)
    with ProgressBar('generate', options.samples, quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling and writing')
        length, key = options.max_new_tokens, jax.random.key(options.seed)
        if isinstance(method, decode.Beam):  # one search finds all of them
            method, prompts = dataclasses.replace(method, n_best=options.samples), [prompt]
        else:
            prompts = [prompt] * options.samples
        facts = {}
        found = decode.search(decoder, prompts, method, limits=decode.Limits(length, no_repeat_ngram_size=options.no_repeat_ngram_size), key=key,
                              shapes=(len(prompt),), batch_size=len(prompts), report=facts.update)
        if 'accepted' in facts:
            bar.say(f'accepted: {facts["accepted"]:.1%} of the tokens that {options.draft_model} drafted')
    return [options.prompt + _text(tokenizer, tokens, options.stop) for one in found for tokens in one.texts]


def continue_lines(config, workdir, lines, checkpoint='latest'):
    """Yields dict(input, texts) for every line: `config.decode.samples` texts that begin with it.

    config.decode.batch_size texts are written at a time, and one that is done makes room for the next (`decode.serve`).
    A line that cannot be continued gets a null and the reason. At the end it is said what was unusual about the lines.
    """
    one_process('generate --input')
    config, run, tokenizer = _open(config, workdir)
    options = config.decode
    _check(config)
    configs.refuse_unread(config, ('num_beams', 'penalty_alpha', 'draft_model'), 'is for one prompt, and the lines of --input are drawn; write')
    configs.refuse_unread(config, ['prompt'], 'is not read, as every line of --input is a prompt; write')
    end = _end(tokenizer, options.stop)
    model, params = restored(run, config, checkpoint)
    decoder, method = decode.make_decoder(model, params, end=end), configs.method(config)
    if isinstance(method, decode.Sample):
        write = functools.partial(decode.serve, decoder, sampler=method, max_new_tokens=options.max_new_tokens,
                                  rows=options.batch_size, pages=options.pages, page_size=options.page_size)
    else:
        write = lambda prompts, **drawn: (decode.search(decoder, prompts, method, limits=configs.limits(config),
                                                        batch_size=options.batch_size, **drawn), None)
    noticed, evicted = Noticed(), 0

    def answer(piece, done, bar):
        nonlocal evicted
        prompts = [_prompt(tokenizer, line) for line in piece]
        for number, (line, (_, reason)) in enumerate(zip(piece, prompts), done + 1):
            noticed.look(number, line)
            if reason:
                noticed.note(number, f'without an answer ({reason})')
        key, before = jax.random.fold_in(jax.random.key(options.seed), done), done * options.samples
        ready = [prompt for prompt, reason in prompts if not reason for _ in range(options.samples)]
        texts, facts = configs.with_prefix('config.decode', lambda: write(
            ready, key=key, seen=lambda count: bar.update(before + count))) if ready else ((), None)
        texts, evicted = iter(texts), evicted + (facts.evictions if facts else 0)
        for line, (_, reason) in zip(piece, prompts):
            if reason:
                yield dict(input=line, texts=None, reason=reason)
            else:
                some = [next(texts).texts for _ in range(options.samples)]
                yield dict(input=line, texts=[line + _text(tokenizer, tokens, options.stop) for tokens, *_ in some])

    yield from answered('generate', lines, noticed, answer, unit='text', per_line=options.samples)
    if evicted:
        print(f'{evicted} times a text had to wait for pages of the cache, and was read again; more of them, '
              f'config.decode.pages={options.pages}, or fewer rows, config.decode.batch_size={options.batch_size}, take less time',
              file=sys.stderr)


def _open(config, workdir):
    """(config for these devices, run, its tokenizer); a run that cannot continue a text is refused."""
    config, run = open_run(config, workdir)
    codec = data.saved_codec(run.read)
    if (codec is None or codec.kind == 'text') and not hasattr(models.MODELS[config.model.name], 'extend'):
        able = [name for name, model in models.MODELS.items() if hasattr(model, 'extend')]
        raise UserError(f'--mode=generate: {config.model.name!r} cannot continue a text; models that can: {", ".join(able)}')
    return config, run, run.codec('text').tokenizer


def _prompt(tokenizer, text):
    """(tokens, None), or (None, why the text cannot be continued)."""
    try:
        tokens = tokenizer.encode(text)
    except (UserError, UnicodeEncodeError) as error:
        return None, str(error)
    return (tokens, None) if len(tokens) else (None, 'has no word to continue from')


def _end(tokenizer, stop):
    """The tokens that have the character `stop` in them, as a tuple; None where it is ''."""
    if not stop:
        return None
    found = tuple(token for token in range(tokenizer.vocabulary) if stop in tokenizer.decode([token]))
    if not found:
        raise FieldError('config.decode.stop', stop, 'the run has no token with this character, so no text would end; choose '
                         "another, or ''")
    return found


def _text(tokenizer, tokens, stop):
    """What was written, up to the character `stop`."""
    text = tokenizer.glue + tokenizer.decode(tokens)
    return text.partition(stop)[0] if stop else text


def _check(config):
    """What writing a text does not do must not be asked for."""
    options = config.decode
    if options.no_repeat_ngram_size and options.num_beams == 1:
        raise FieldError('config.decode.no_repeat_ngram_size', options.no_repeat_ngram_size,
                         'is for a beam, and config.decode.num_beams=1 draws the text; write 0, or widen the beam')
    if options.num_beams > 1:
        configs.refuse_unread(config, ('temperature', 'top_k', 'top_p', 'min_p', 'seed'), 'is for a text that is drawn, and '
                              f'config.decode.num_beams={options.num_beams} searches for it; set that to 1, or write')
        configs.refuse_unread(config, ['stop'], f'is for a text that is drawn, and config.decode.num_beams={options.num_beams} searches for one '
                              'of config.decode.max_new_tokens tokens; set that to 1, or write')
        configs.refuse_unread(config, ('penalty_alpha', 'draft_model'), 'is another way to write a text than '
                              f'config.decode.num_beams={options.num_beams}; set that to 1, or write')
    if options.penalty_alpha:
        configs.refuse_unread(config, ('temperature', 'top_p', 'min_p', 'seed', 'samples', 'draft_model'), 'is for a text that is '
                              f'drawn, and config.decode.penalty_alpha={options.penalty_alpha} searches for one; set that to 0, or '
                              'write')


def _load_draft(config, model, tokenizer):
    """The decoder of the run that drafts tokens for a model, on the devices of that."""
    run = RunDirectory(config.decode.draft_model)
    refuse = functools.partial(FieldError, 'config.decode.draft_model', config.decode.draft_model)

    def there(read):
        """What read() returns; what it refuses is said of config.decode.draft_model."""
        try:
            return read()
        except UserError as error:
            raise refuse(str(error).removeprefix(f'--workdir={run.path}: ')) from None

    theirs, their_tokenizer = there(lambda: (run.saved_config(), run.codec('text').tokenizer))
    if tokenizers.dumps(their_tokenizer) != tokenizers.dumps(tokenizer):
        raise refuse('the run there has learned other tokens, so it cannot draft for this one; train it on the same text with '
                     'the same config.data')
    theirs.parallel.update(config.parallel)
    theirs.quantise.update(config.quantise)
    draft = saved_model(run).build()
    for given, whose in ((model, 'this run'), (draft, 'the run there')):
        if not getattr(given, 'rewinds', False):
            raise refuse('drafts are for Transformers with softmax attention, which can take back what they have read, and the '
                         f"model of {whose} cannot; write '', or choose another run")
    limit = max(1, draft.context_length // 2)
    if config.decode.num_draft_tokens > limit:
        raise FieldError('config.decode.num_draft_tokens', config.decode.num_draft_tokens, f'must be at most {limit}, half of what '
                         'the model that drafts can look at')
    return decode.make_decoder(*there(lambda: restored(run, theirs)))


def _check_beam(options, prompt_length, context):
    """Refuses more texts than a beam is wide, and longer ones than the model can look at: a beam moves no window along."""
    if options.samples > options.num_beams:
        raise FieldError('config.decode.samples', options.samples, f'a beam finds config.decode.num_beams={options.num_beams} texts; '
                         'ask for fewer, or widen it')
    length = prompt_length + options.max_new_tokens
    if context is not None and length > context:
        raise FieldError('config.decode.max_new_tokens', options.max_new_tokens, 'a beam looks at all of its text, '
                         f'{length} tokens with the prompt, and the model can look at {context}; ask for fewer, or set '
                         'config.decode.num_beams=1')
