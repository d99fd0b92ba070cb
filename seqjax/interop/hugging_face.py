"""Models from and to the files of Hugging Face's transformers: config.json and *.safetensors. Neither it nor torch is needed."""

import dataclasses
import functools
import pathlib

from flax import linen
from flax.core import meta
import jax

from seqjax import models
from seqjax.errors import FieldError, UserError, suggestion
from seqjax.interop import hf_files, hf_weights
from seqjax.interop.hf_config import MODELS, make_config, model_fields
from seqjax.interop.hf_forward import forward, prepare
from seqjax.interop.hf_names import ARCHITECTURES
from seqjax.interop.hf_vision import preprocessing
from seqjax.interop.hf_vision.config import complete


@dataclasses.dataclass(frozen=True, eq=False)
class Loaded:
    """A model that was read, and what is needed to write it again.

        model, variables     ours: model.apply(variables, ...), decode.make_decoder(model, variables['params'])
        apply(**inputs)      theirs: inputs and outputs as numpy arrays, by the names that transformers has for them
    architecture: the class of transformers that the files are of. config: config.json.
    """

    model: linen.Module
    variables: dict
    architecture: str
    config: dict
    record: hf_weights.Record
    directory: pathlib.Path | None = None

    def apply(self, **inputs):
        """{name: numpy array}: `loaded.apply(input_ids=[[5, 9, 2]])['logits']`.

        Inputs, [B, T]: input_ids, attention_mask (1 where a step is looked at; any pattern, but of mamba and rwkv only the ends
        of rows may be left out), token_type_ids (bert), position_ids (gpt2, llama, mixtral, bert), decoder_input_ids and
        decoder_attention_mask (t5).
        Compiled once for every shape.
        """
        arrays = prepare(self.model, self.architecture, inputs, self.config)
        return jax.device_get(self._run(self._on_device, arrays))

    def preprocess(self, images):
        """pixel_values [B, C, H, W] of images, uint8 arrays [H, W, C] of any size: resized, cropped and normalised as
        preprocessor_config.json says."""
        return self.preprocessing(images)

    @functools.cached_property
    def preprocessing(self):
        """The `hf_vision.preprocessing.Preprocessing` that the files describe: `.mean`, `.std`, `.size`."""
        problems = []
        found = {} if self.directory is None else hf_files.read_json(self.directory / preprocessing.FILE, problems)
        if problems or self.directory is None:
            raise UserError(f'{self.directory or self.architecture}: does not say how images are resized and normalised: '
                            f'{"; ".join(problems) or preprocessing.FILE}')
        return preprocessing.parse(found)

    @functools.cached_property
    def _run(self):
        return jax.jit(lambda variables, arrays: self.model.apply(variables, self.architecture, arrays, method=forward))

    @functools.cached_property
    def _on_device(self):
        return jax.device_put(self.variables)


def from_hf(directory, *, dtype='float32'):
    """The model in a directory of Hugging Face's: gpt2, llama, mixtral, bert, t5, mamba, rwkv, vit, dinov2, clip or resnet, with any of
    the heads in `ARCHITECTURES`, or none.

        loaded = from_hf('bert-base-uncased/')
        loaded.apply(input_ids=..., attention_mask=...)

    dtype: what the model computes in. Parameters are float32 whatever the files have, which to_hf remembers. All that is wrong is
    said in one UserError: a damaged file, a missing, unknown or misshapen tensor, an option that the models here do not have.
    """
    if dtype not in models.DTYPES:
        raise FieldError('dtype', dtype, suggestion(str(dtype), models.DTYPES))
    directory, problems = pathlib.Path(directory), []
    if not directory.is_dir():
        raise UserError(f"{directory}: there is no such directory; download the files first, as with 'hf download {directory} "
                        f"--local-dir {directory}'")
    config = hf_files.read_json(directory / hf_files.CONFIG, problems)
    readable = not problems
    raw = hf_files.read_tensors(directory, problems)
    complete = not problems
    loaded = _assemble(config, raw if complete else None, dtype, problems) if readable else None
    if problems:
        kind = config.get('model_type', 'a model')
        raise UserError(f'{directory} cannot be read as {kind}:' + ''.join(f'\n  {problem}' for problem in problems))
    return dataclasses.replace(loaded, directory=directory)


def _assemble(config, raw, dtype, problems):
    """The model of a config with the tensors of its files; None where there are problems. raw None: look at the config alone."""
    kind = config.get('model_type')
    if kind not in MODELS:
        problems.append(f'config.json: model_type={kind!r}: {suggestion(str(kind), MODELS)}')
        return None
    tie = config.get('tie_word_embeddings')
    # T5 ties whatever it says, see `hf_config`
    wants_tie = kind == 't5' or (kind not in ('llama', 'mixtral', 'rwkv') if tie is None else bool(tie))
    tensors, record, tie = hf_weights.sort_out(kind, raw or {}, wants_tie, problems)
    architecture = _architecture(kind, config, tensors, problems)
    if architecture is None:
        return None
    fields = model_fields(kind, config, architecture, tie, problems, tensors)
    if fields is None:
        return None
    try:
        model = MODELS[kind](**fields, dtype=dtype)
    except FieldError as error:
        problems.append(f'config.json: as {error.field} of {MODELS[kind].__name__} here: {error}')
        return None
    if raw is None:
        return None
    variables = hf_weights.to_variables(kind, model, architecture, tensors, record, problems, config)
    return Loaded(model, variables, architecture, config, record)


def _architecture(kind, config, tensors, problems):
    named = config.get('architectures') or [hf_weights.guess_architecture(kind, tensors)]
    known = [name for name, (family, _) in ARCHITECTURES.items() if family == kind]
    if named[0] not in known:
        problems.append(f'config.json: architectures={named!r}: {suggestion(str(named[0]), known)}')
        return None
    return named[0]


def to_hf(model, directory, variables=None):
    """Writes config.json and model.safetensors, which transformers loads.

        to_hf(loaded, directory)                        what from_hf has read, bit for bit, its tokenizer too
        to_hf(loaded, directory, variables)             the same with other weights, as after training
        to_hf(model, directory, variables)              a GPT, Llama, BERT, T5, Mamba, RWKV, ViT, CLIP or ResNet of ours

    What transformers has no option for is refused, all of it in one error.
    """
    problems = []
    if isinstance(model, models.WithStatistics):  # of a run
        model, variables = model.module, {**variables, 'batch_stats': model.batch_stats}
    if isinstance(model, Loaded):
        loaded = model if variables is None else dataclasses.replace(model, variables=variables)
        kind = ARCHITECTURES[loaded.architecture][0]
    else:
        _check_variables(variables)
        params = meta.unbox(variables['params'])
        model = complete(model, params)
        kind, architecture, config = make_config(model, params, problems)
        loaded = Loaded(model, variables, architecture, config, hf_weights.new_record(kind, model, architecture))
    _check_variables(loaded.variables)
    tensors = {} if problems else hf_weights.to_tensors(kind, loaded.model, loaded.architecture, loaded.variables,
                                                        loaded.record, problems, loaded.config)
    if problems:
        raise UserError(f'{type(loaded.model).__name__} cannot be written as {kind or "a model of transformers"}:'
                        + ''.join(f'\n  {problem}' for problem in problems))
    hf_files.write(pathlib.Path(directory), loaded.config, tensors, loaded.directory)


def _check_variables(variables):
    if not isinstance(variables, dict) or 'params' not in variables:
        raise FieldError('variables', type(variables).__name__, "must be a dict with 'params', as from_hf and init return it")
