"""A finished run as files that transformers loads: weights, config and, where it can be said exactly, the tokenizer."""

import jax

from seqjax import config as configs
from seqjax import interop
from seqjax.errors import UserError
from seqjax.runs.restore import load_model, open_run
from seqjax.modes.command.mode import CHECKPOINT, Mode


def write_hugging_face(config, workdir, checkpoint='latest', report=print):
    """Writes config.json, model.safetensors, tokenizer.json and tokenizer_config.json to workdir/hugging_face; returns its path.

    What transformers has no model for is refused. A tokenizer that it cannot have exactly is not written, and report is told so
    in a line.
    """
    configs.refuse_quantised(config, '--mode=hugging_face writes')
    _, run = open_run(config, workdir)
    path = run.path / 'hugging_face'
    model, params = load_model(workdir, checkpoint)
    interop.to_hf(model, path, {'params': jax.device_get(params)})
    for name in ('tokenizer.json', 'tokenizer_config.json'):
        (path / name).unlink(missing_ok=True)  # of an earlier run
    try:
        interop.tokenizer_to_hf(run.codec(), path, context_length=getattr(model, 'context_length', None))
    except UserError as error:
        report(f'without a tokenizer, which transformers cannot have exactly as it is: {error}')
    return path


def _run(request):
    path = write_hugging_face(request.config, request.workdir, request.flags.checkpoint)
    print(f"files that transformers loads: {path} (from_pretrained('{path}'))")


MODE = Mode(_run, 'Write files that transformers loads.', (CHECKPOINT,))
