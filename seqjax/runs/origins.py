"""Where the first parameters of a run may come from: a checkpoint of another run, or Hugging Face's files."""

from collections.abc import Callable
import dataclasses
import functools
import math
import pathlib

from flax.core import meta
import jax
import numpy as np

from seqjax import models, parallel
from seqjax.data import LabelledCodec, PretrainedTokenizer, TextCodec
from seqjax.data.text.codecs import FILE
from seqjax.data.text.pretrained_tokenizer import BERT_MARKS
from seqjax.errors import FieldError, UserError
from seqjax.interop.hf_vision.preprocessing import FILE as PREPROCESSOR
from seqjax.params import low_rank, paths
from seqjax.runs.checkpoints import Checkpoints, used_parts, verify
from seqjax.runs.directory import RunDirectory, runs_below


@dataclasses.dataclass(frozen=True)
class Origin:
    """Parameters that were learned before, running statistics of batch norms among them, not yet read.

        str()       what to call them
        shapes      {path: ShapeDtypeStruct} of all there are
        fetch       {path: sharding} -> {path: array}, each where it is wanted; every process calls it
        read        name of a file that lies there -> its text, or None
        model       {field: value} of the model that learned them
        family      the name of that model, of files of Hugging Face; '' of a run
    """

    name: str
    shapes: dict
    fetch: Callable
    read: Callable
    model: dict
    family: str = ''

    def __str__(self):
        return self.name


def open_origin(text, report=print):
    """The Origin at 'DIR', 'DIR@STEP' or 'DIR@best'. report: told of damaged checkpoints; nothing is changed there."""
    directory, which = pathlib.Path(text), 'latest'
    if not directory.exists() and '@' in text:
        directory, which = pathlib.Path(text.rpartition('@')[0]), text.rpartition('@')[2]
    refuse = functools.partial(FieldError, 'config.init_from', text)
    if not directory.is_dir():
        raise refuse('there is no such directory; train the run that it names first, or set --config.init_from to another; '
                     "files of Hugging Face are downloaded with 'hf download NAME --local-dir DIR'")
    if any(directory.glob('*.safetensors')):
        if which != 'latest':
            raise refuse(f"Hugging Face's files have no steps; leave out @{which}")
        return _files_of_hugging_face(directory)
    if runs := runs_below(directory):
        raise refuse(f'holds several runs; name one of them, as in {directory / runs[0]}')
    if not (directory / 'config.json').is_file():
        raise refuse('holds neither a run (config.json and checkpoints/) nor weights of Hugging Face (config.json and '
                     '*.safetensors)')
    return _run(RunDirectory(directory), which, refuse, report)


def _run(run, which, refuse, report):
    checkpoints, old = Checkpoints(run.checkpoints), run.saved_config()
    step = _find_step(checkpoints, which, refuse, report)
    arrays = {path: jax.ShapeDtypeStruct(x['shape'], x['dtype']) for path, x in checkpoints.manifest(step)['arrays'].items()}
    parts = [f'{part}/' for part in used_parts(arrays)]
    names = {path.removeprefix(part): path for part in parts for path in arrays if path.startswith(part)}
    saved = {path: arrays[name] for path, name in names.items()}

    def fetch(wanted):
        target = {names[path]: _at(saved[path], place) for path, place in wanted.items()}
        for path, place in wanted.items():
            target |= {names[side]: _at(saved[side], parallel.replicated(place.mesh))
                       for side in low_rank.sides(path) if side in saved}
        restored = checkpoints.restore(step, target, part=True)
        found = {path: restored[name] for path, name in names.items() if name in restored}
        return found if found.keys() == wanted.keys() else _merged(found, old.lora.alpha, wanted)

    shapes = {path: x for path, x in saved.items() if not low_rank.is_adapter(path)}
    return Origin(f'{run.path}, step {step}', shapes, fetch, run.read, old.model.to_dict())


def _merged(arrays, alpha, layout):
    """What a run with LoRA has learned, as the parameters of one without."""
    return jax.jit(lambda arrays: paths.by_path(low_rank.merge(arrays, alpha)), out_shardings=layout)(arrays)


def _at(x, place):
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)


def _find_step(checkpoints, which, refuse, report):
    """The step of the checkpoint that is meant; only one whose every byte is right is used."""
    steps = checkpoints.steps()
    if not steps:
        raise refuse('the run has no checkpoint yet')
    if which == 'latest':
        for step in reversed(steps):
            if not (problems := verify(checkpoints.path(step))):
                return step
            report(f'checkpoint {step} of {checkpoints.directory} is damaged ({problems[0]}); the one before is used')
        raise refuse('every checkpoint of the run is damaged')
    if which != 'best' and not (which.isdigit() and int(which) in steps):
        raise refuse(f"after @ write 'best' or a step; there are: {', '.join(map(str, steps))}")
    step = checkpoints.best_step() if which == 'best' else int(which)
    if problems := verify(checkpoints.path(step)):
        raise refuse(f'checkpoint {step} is damaged ({problems[0]})')
    return step


def _files_of_hugging_face(directory):
    from seqjax import interop  # here, because most runs need none of it

    found = interop.from_hf(directory)
    arrays = {path: x for tree in meta.unbox(found.variables).values() for path, x in paths.by_path(tree).items()}
    shapes = {path: jax.ShapeDtypeStruct(x.shape, x.dtype) for path, x in arrays.items()}

    def fetch(wanted):
        return {path: jax.make_array_from_callback(shapes[path].shape, place, np.asarray(arrays[path]).__getitem__)
                for path, place in wanted.items()}

    family = next((name for name, model in models.MODELS.items() if model is type(found.model)), '')
    codec = _codec_of_images(found) if hasattr(found.model, 'feature_map') else None
    read = {FILE: codec.dumps()}.get if codec else _tokens_of_hugging_face(directory, found.model).get
    return Origin(str(directory), shapes, fetch, read, models.fields(found.model), family)


def _codec_of_images(loaded):
    """What a run that normalises images as preprocessor_config.json says would have written; None
    where the directory has no such file."""
    if not (loaded.directory / PREPROCESSOR).is_file():
        return None
    how = loaded.preprocessing
    if not math.isclose(how.factor, 1 / 255, rel_tol=1e-6):
        raise UserError(f'{loaded.directory / PREPROCESSOR}: rescale_factor={how.factor}: a run reads pixels '
                        'from 0 to 1, 1/255 of what is stored; begin with files that do, too')
    return LabelledCodec('', mean=how.mean or (), deviation=how.std or ())


def _tokens_of_hugging_face(directory, model):
    """{name: text} of what a run that reads with the tokenizer in the directory would have written; {} where there is none.

    T5's is among those: a translation has vocabularies of another kind.
    """
    from seqjax import interop

    if not interop.has_tokenizer(directory) or not isinstance(model, (models.GPT, models.Llama, models.BERT)):
        return {}
    made = PretrainedTokenizer(interop.tokenizer_from_hf(directory).tokenizer, model.vocabulary, model.context_length or 0)
    if not isinstance(model, models.BERT):
        return {FILE: TextCodec(made).dumps()}
    if made.marks is None:
        raise UserError(f'{directory}: the tokenizer lacks one of {", ".join(BERT_MARKS)}, which mark and mask rows')
    return {FILE: LabelledCodec('', made, marked=True, longest=made.context_length).dumps()}
