"""What else can be done with a run: evaluate it, let it write, load its model."""

import dataclasses
import functools
import json
import sys

import jax
import numpy as np

from seqjax import config as configs
from seqjax import data, decode, models, parallel
from seqjax.analysis.layers import recurrent_layers
from seqjax.data import encoding, pair_encoding, tokenizers
from seqjax.errors import FieldError, UserError
from seqjax.train.checkpoints import Checkpoints, verify
from seqjax.train.decoded import on_one_device
from seqjax.train.evaluation import draw, evaluate_state, place_of, summarise
from seqjax.train.experiment import build, make_strategy, make_task
from seqjax.train.parameters import make_parameters, placed
from seqjax.train.progress import ProgressBar
from seqjax.train.run_directory import RunDirectory, check_same_experiment, jsonable

_OTHER_ROWS = ('source', 'held_out', 'held_out_rows', 'format', 'input_column', 'target_column', 'split_column', 'label_file',
               'mask_file', 'split_seed', 'on_error')
_EVALUATE_ON_OTHER_DATA = tuple(f'data.{field}' for field in (*_OTHER_ROWS, 'directory', 'batch_size', 'carry', 'batching',
                                                              'shapes'))


def evaluate(config, workdir, checkpoint='latest'):
    """Metrics of a checkpoint of the run on its held-out text, or on that of another source that `config` names.

    All pairs of a translation are decoded, whatever config.train.decode_rows says. Pictures, texts and scores of the run's own
    rows are written, see `place_of`; of other rows nothing is.
    """
    config = for_these_devices(config)
    run = open_run(config, workdir, may_differ=_EVALUATE_ON_OTHER_DATA)
    parts = build(config, run)
    step, checkpoints = find_checkpoint(run, checkpoint)
    state = checkpoints.restore(step, parts.target.replace(carry=None), part=True)  # evaluation carries a state of its own
    state = parts.strategy.enter(state.replace(carry=parts.initial_carry()))
    with ProgressBar('evaluate', len(parts.evaluation), quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling')
        sums = evaluate_state(parts.strategy, parts.eval_step(bar.say), state, parts.evaluation, seen=bar.update)
    name = dict(validation='eval').get(config.data.split, config.data.split)
    place = place_of(config, run, step) if jax.process_index() == 0 and _same_rows(config, run.saved_config()) else None
    files = draw(parts.task, sums, place, name, step) if place else []
    found = summarise(parts.task, sums, name)
    if parts.decoded:
        every_pair = dataclasses.replace(parts.decoded, rows=0)
        with ProgressBar('decode', every_pair.count(name)) as bar:
            bar.update(0, 'compiling')
            written = every_pair.measure(parts.task.model, on_one_device(parts, state), name, bar.add)
        found |= written.numbers
        files += written.keep(place, step) if place else []
    if files:
        print(f'written to {place.path}: {", ".join(files)}', file=sys.stderr)
    return {'step': step, **jsonable(found)}


def _same_rows(config, saved):
    return all(config.data[field] == saved.data[field] for field in _OTHER_ROWS)


def generate(config, workdir, checkpoint='latest'):
    """`config.decode.samples` texts that the run writes; each starts with the prompt."""
    config = for_these_devices(config)
    run = open_run(config, workdir)
    options = config.decode
    if run.read('encoding.json') is not None:
        raise UserError(f'--workdir={run.path}: the run has not learned to continue a text; use {run.mode()}')
    if not hasattr(models.MODELS[config.model.name], 'extend'):
        able = [name for name, model in models.MODELS.items() if hasattr(model, 'extend')]
        raise UserError(f'--mode=generate: {config.model.name!r} cannot continue a text; models that can: {", ".join(able)}')
    if not options.prompt:
        raise UserError("config.decode.prompt='': give at least one character to continue from")
    _check(config)
    tokenizer = run.tokenizer()
    try:
        prompt = tokenizer.encode(options.prompt)
    except (UserError, UnicodeEncodeError) as error:
        raise FieldError('config.decode.prompt', options.prompt, str(error)) from None
    if not len(prompt):
        raise FieldError('config.decode.prompt', options.prompt, 'has no word to continue from')
    model, restore = _writer(config, run, tokenizer)
    if options.beam > 1:
        _check_beam(options, len(prompt), model.context_length)
    if options.draft:
        draft, draft_params = _load_draft(config, model, tokenizer)
    params = restore(checkpoint)
    with ProgressBar('generate', options.samples, quiet=jax.process_index() > 0) as bar:
        bar.update(0, 'compiling and writing')
        prompts, length = [prompt] * options.samples, dict(max_new_tokens=options.max_new_tokens)
        drawn = dict(key=jax.random.key(options.seed), sampler=configs.sampler(config), **length)
        if options.beam > 1:
            written = _likeliest(config, model, params, prompt)
        elif options.contrastive:
            written = decode.contrastive_search(model, params, prompts, k=options.top_k, alpha=options.contrastive, **length)
        elif options.draft:
            written, share = decode.speculate(model, params, draft, draft_params, prompts,
                                              draft_tokens=options.draft_tokens, **drawn)
            bar.say(f'accepted: {share:.1%} of the tokens that {options.draft} drafted')
        else:
            written = decode.generate(model, params, prompts, **drawn)
    return [options.prompt + tokenizer.glue + tokenizer.decode(tokens) for tokens in written]


def _check(config):
    """What writing a text does not do must not be asked for."""
    options = config.decode
    if options.n_best != 1:
        raise FieldError('config.decode.n_best', options.n_best, 'is for the answers of a translation; write 1, and '
                         'config.decode.samples for more than one text')
    if options.min_length:
        raise FieldError('config.decode.min_length', options.min_length, 'is for the answers of a translation, and a text '
                         'has as many tokens as config.decode.max_new_tokens says; write 0')
    if options.no_repeat and options.beam == 1:
        raise FieldError('config.decode.no_repeat', options.no_repeat, 'is for a beam, and config.decode.beam=1 draws the '
                         'text; write 0, or widen the beam')
    configs.refuse_unread(config, ('length_penalty', 'length_factor'), 'is for the answers of a translation, and a text has as '
                          'many tokens as config.decode.max_new_tokens says; write')
    if options.beam > 1:
        configs.refuse_unread(config, ('temperature', 'top_k', 'top_p', 'min_p', 'seed'), 'is for a text that is drawn, and '
                              f'config.decode.beam={options.beam} searches for it; set that to 1, or write')
        configs.refuse_unread(config, ('contrastive', 'draft'), 'is another way to write a text than '
                              f'config.decode.beam={options.beam}; set that to 1, or write')
    if options.contrastive:
        configs.refuse_unread(config, ('temperature', 'top_p', 'min_p', 'seed', 'samples', 'draft'), 'is for a text that is '
                              f'drawn, and config.decode.contrastive={options.contrastive} searches for one; set that to 0, or '
                              'write')


def _writer(config, run, tokenizer):
    """(model, restore) of a run that continues texts; restore(checkpoint) -> parameters."""
    sample = dict(inputs=np.zeros((1, 1), np.int32))
    task = make_task(config, for_model=data.text_fields(tokenizer, config.data.sequence_length),
                     for_task={}, sample=sample['inputs'])

    def restore(checkpoint):
        step, checkpoints = find_checkpoint(run, checkpoint)
        return restore_parameters(config, task, checkpoints, step, sample)

    return task.model, restore


def _load_draft(config, model, tokenizer):
    """(model, parameters) of the run that drafts tokens for a model, on the devices of that."""
    run = RunDirectory(config.decode.draft)
    refuse = functools.partial(FieldError, 'config.decode.draft', config.decode.draft)

    def there(read):
        """What read() returns; what it refuses is said of config.decode.draft."""
        try:
            return read()
        except UserError as error:
            raise refuse(str(error).removeprefix(f'--workdir={run.path}: ')) from None

    theirs, their_tokenizer = there(lambda: (run.saved_config(), run.tokenizer()))
    if tokenizers.dumps(their_tokenizer) != tokenizers.dumps(tokenizer):
        raise refuse('the run there has learned other tokens, so it cannot draft for this one; train it on the same text with '
                     'the same config.data')
    theirs.parallel.update(config.parallel)
    draft, restore = _writer(theirs, run, their_tokenizer)
    for given, whose in ((model, 'this run'), (draft, 'the run there')):
        if not getattr(given, 'rewinds', False):
            raise refuse('drafts are for Transformers with softmax attention, which can take back what they have read, and the '
                         f"model of {whose} cannot; write '', or choose another run")
    limit = max(1, draft.context_length // 2)
    if config.decode.draft_tokens > limit:
        raise FieldError('config.decode.draft_tokens', config.decode.draft_tokens, f'must be at most {limit}, half of what '
                         'the model that drafts can look at')
    return draft, there(lambda: restore('latest'))


def _likeliest(config, model, params, prompt):
    """The likeliest ways to go on that a beam finds, as many as samples are wanted."""
    options = config.decode
    search = dataclasses.replace(configs.search(config), n_best=options.samples, length_factor=0.0,
                                 length_margin=options.max_new_tokens)
    found = decode.translate(model, params, [prompt], search=search, batch_size=1, shapes=(len(prompt),), end=-1)
    return [answer.tokens for answer in found[0]]


def _check_beam(options, prompt_length, context):
    """Refuses more texts than a beam is wide, and longer ones than the model can look at: a beam moves no window along."""
    if options.samples > options.beam:
        raise FieldError('config.decode.samples', options.samples, f'a beam finds config.decode.beam={options.beam} texts; '
                         'ask for fewer, or widen it')
    length = prompt_length + options.max_new_tokens
    if context is not None and length > context:
        raise FieldError('config.decode.max_new_tokens', options.max_new_tokens, 'a beam looks at all of its text, '
                         f'{length} tokens with the prompt, and the model can look at {context}; ask for fewer, or set '
                         'config.decode.beam=1')


def load_model(workdir, checkpoint='latest'):
    """(linen module, parameters) of a run, for code of your own: model.apply({'params': params}, ...).

    The running average where there is one, adapters merged; no data is read. Not for runs that read clips of frames.
    """
    run = RunDirectory(workdir)
    config, text = for_these_devices(run.saved_config()), run.read('encoding.json')
    if text is None:
        how, for_model = None, data.text_fields(run.tokenizer(), config.data.sequence_length)
    else:
        how = (pair_encoding if json.loads(text)['task'] == 'translation' else encoding).loads(text)
        for_model = how.for_model()
    row = np.zeros((1, 2), np.int32)
    spelling = getattr(how, 'spelling', None) and dict(words=row, characters=np.zeros((1, 2, how.spelling_length), np.int32))
    sample = dict(inputs=spelling or row, lengths=np.full(1, 2, np.int32), targets=row)
    task = make_task(config, for_model=for_model, for_task={}, sample=sample['inputs'])
    step, checkpoints = find_checkpoint(run, checkpoint)
    return task.model, restore_parameters(config, task, checkpoints, step, sample)


def find_checkpoint(run, which):
    """(step, checkpoints) for 'latest', 'best' or a number; only a checkpoint whose every byte is right is used."""
    checkpoints = Checkpoints(run.checkpoints)
    newest = checkpoints.newest_intact(report=lambda text: print(text, file=sys.stderr))  # sets damaged ones aside
    steps = checkpoints.steps()
    if newest is None:
        raise UserError(f'--workdir={run.path}: no checkpoint yet; train first')
    if which not in ('latest', 'best') and not (which.isdigit() and int(which) in steps):
        raise UserError(f"--checkpoint={which}: write 'latest', 'best' or a step; there are: {', '.join(map(str, steps))}")
    step = {'latest': newest, 'best': checkpoints.best_step()}.get(which) or int(which)
    if step != newest and (problems := verify(checkpoints.path(step))):
        raise UserError(f'--checkpoint={which}: step {step} is damaged ({problems[0]}); choose another of: '
                        f'{", ".join(map(str, steps))}')
    return step, checkpoints


def open_run(config, workdir, may_differ=()):
    configs.validate(config)
    run = RunDirectory(workdir)
    check_same_experiment(run.path, run.saved_config(), config, may_differ)
    return run


def open_recurrent(mode, config, workdir, checkpoint='latest'):
    """(run, parts, step, parameters) of a checkpoint of a recurrent model, the parameters on the host: to look into it.

    mode: what the user asked for, for the sentences that refuse it.
    """
    if jax.process_count() > 1:
        raise UserError(f'--mode={mode}: is done by one process and not by {jax.process_count()}; leave out --coordinator')
    config = for_these_devices(config)
    run = open_run(config, workdir)
    parts = build(config, run)
    if not jax.eval_shape(functools.partial(recurrent_layers, parts.task), parts.parameters.plain, parts.dataset.sample()):
        raise UserError(f'--mode={mode}: {config.model.name!r} has no recurrent layer to look into; choose the --workdir of '
                        'a recurrent model')
    step, checkpoints = find_checkpoint(run, checkpoint)
    params = restore_parameters(config, parts.task, checkpoints, step, parts.dataset.sample())
    return run, parts, step, jax.device_get(params)


def for_these_devices(config):
    """The same config, on one device where the mesh that the run was trained on needs more devices than there are."""
    sizes = [abs(config.parallel[axis]) for axis in parallel.AXES]
    if sizes[0] * sizes[1] * sizes[2] > jax.device_count():
        config = config.copy_and_resolve_references()
        config.parallel.update(data=1, fsdp=1, tensor=1, strategy='jit')
    return config


def restore_parameters(config, task, checkpoints, step, sample):
    """Those of a checkpoint that the model computes with: the running average where there is one, adapters merged.

    The optimizer's share of the checkpoint is not read. sample: a batch of one row, whatever its length.
    """
    parameters, which = make_parameters(config, task, sample), 'ema' if config.optimizer.ema else 'params'
    target = placed({which: parameters.abstract}, parameters.boxed, make_strategy(config))
    return parameters.merge(checkpoints.restore(step, target, part=True)[which])
