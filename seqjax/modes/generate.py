"""Continue a prompt or every line of a file with a language model, translate every line, or caption every image."""

import sys

from seqjax import config as configs
from seqjax.errors import UserError
from seqjax.modes.caption import caption_images
from seqjax.modes.command.image_paths import image_paths
from seqjax.modes.continue_text import continue_lines, generate_text
from seqjax.modes.command.lines import open_input, print_lines, print_objects
from seqjax.modes.command.mode import CHECKPOINT, INPUT, Flag, Mode
from seqjax.modes.translate import translate_lines


def _run(request):
    config, workdir, flags = request.config, request.workdir, request.flags
    if configs.task_of(config).of_images:
        paths = image_paths(flags.input)
        if paths is None:
            raise UserError(f'--input={flags.input}: is no image and no directory of images, and the run reads images')
        if flags.ensemble:
            raise UserError(f'--ensemble={",".join(flags.ensemble)}: is for runs that translate; leave it out')
        return print_objects(caption_images(config, workdir, paths, flags.checkpoint, explain=flags.explain))
    if configs.task_of(config).decodes:
        with open_input(request) as lines:
            answers = translate_lines(config, workdir, lines, flags.checkpoint, ensemble=flags.ensemble, explain=flags.explain)
            return _print_answers(answers, config.decode.n_best)
    for name in ('ensemble', 'explain'):
        if value := getattr(flags, name):
            shown = f'--{name}' if value is True else f'--{name}={",".join(value)}'
            raise UserError(f'{shown}: is for a run that translates, and this one goes on with a text; leave it out')
    if flags.input:
        with open_input(request) as lines:
            return print_objects(continue_lines(config, workdir, lines, flags.checkpoint))
    print('\n\n'.join(generate_text(config, workdir, flags.checkpoint)))


def _print_answers(answers, n_best):
    """The text of every answer; of several to a line also the line's number and the score, with tabs between them."""
    sys.stdout.reconfigure(encoding='utf-8')
    if n_best == 1:
        return print_lines(found[0][1] for found in answers)
    print_lines(f'{number}\t{score:.4f}\t{text}' for number, found in enumerate(answers, 1) for score, text in found)


MODE = Mode(_run, 'Continue the prompt or every line of --input with a language model, translate every line, or caption every image.', (
    CHECKPOINT, INPUT,
    Flag('ensemble', [], 'Translate with these run directories too, DIR,DIR: their mean probability decides.'),
    Flag('explain', False, 'Of translations: pictures of the attention weights and of the beam search tree; of captions: where the decoder looks word by word.'),
), reads=('decode', 'quantise', 'parallel'))
