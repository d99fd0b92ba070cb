"""From the tensors of Hugging Face's files to our parameters and back, without the loss of a bit.

Our parameters are {path: array} here, with scanned layers taken apart into blocks.
"""

import dataclasses
import math
import re

from flax import traverse_util
from flax.core import meta
import jax
import jax.numpy as jnp
import numpy as np

from seqjax.interop.hf_names import ARCHITECTURES, FAMILIES, HEADS, is_headless, links
from seqjax.interop.hf_vision import config as vision

_EXPERTS = re.compile('/feed_forward/(in|gate|out)_kernel$')
TYPES = (np.dtype(np.float32), np.dtype(np.float16), np.dtype(jnp.bfloat16))


@dataclasses.dataclass(frozen=True)
class Record:
    """What files had beside the values of our parameters, to write them again as they were.

    names: {name of a link: the name in the file}. types: {name of a link: the type of its numbers}. repeats: {name in the file:
    name of the link that it repeats}. unused: {name in the file: array}.
    """

    names: dict = dataclasses.field(default_factory=dict)
    types: dict = dataclasses.field(default_factory=dict)
    repeats: dict = dataclasses.field(default_factory=dict)
    unused: dict = dataclasses.field(default_factory=dict)


def new_record(kind, model, architecture):
    """For a model that was never in files. Where BERT is not tied, transformers wants the bias of its output twice; DINOv2 wants the
    token of what was masked in pre-training, and every batch norm the number of its batches."""
    if kind in ('dinov2', 'dinov2_with_registers'):
        return Record(unused={_name('embeddings.mask_token', kind, architecture): np.zeros((1, model.width), np.float32)})
    if kind == 'resnet':
        names = [_name(link.name, kind, architecture) for link in links(kind, model, architecture) if link.name.endswith('running_mean')]
        return Record(unused={name.replace('running_mean', 'num_batches_tracked'): np.zeros((), np.int64) for name in names})
    twice = kind == 'bert' and not model.outputs and not model.tie_embeddings
    return Record(repeats=FAMILIES['bert'].repeats if twice else {})


# ------------------------------------------------------------------------------------------------------- What files contain

def sort_out(kind, raw, wants_tie, problems):
    """({name of a link: array}, Record, whether the output weights are those of the embedding) of the tensors of files."""
    family, tensors, record = FAMILIES[kind], {}, Record()
    for file_name, array in raw.items():
        name = _plain(file_name, family)
        if any(re.fullmatch(pattern, name) for pattern in family.unused):
            record.unused[file_name] = array
        elif name in tensors:
            problems.append(f'{file_name}: is there twice, as {record.names[name]} too')
        else:
            tensors[name], record.names[name] = array, file_name
    for name, first in family.repeats.items():
        _merge_repeats(name, first, tensors, record, problems)
    return tensors, record, _is_tied(family, tensors, record, wants_tie)


def _plain(name, family):
    """The name without the prefix of a body, and without the names that BERT's first code had for the weights of a norm."""
    name = name.removeprefix(family.prefix)
    return re.sub(r'LayerNorm\.gamma$', 'LayerNorm.weight', re.sub(r'LayerNorm\.beta$', 'LayerNorm.bias', name))


def _merge_repeats(name, first, tensors, record, problems):
    """A tensor and the one that it repeats become one."""
    if name not in tensors:
        return
    array, file_name = tensors.pop(name), record.names.pop(name)
    if first not in tensors:
        tensors[first], record.names[first] = array, file_name
    elif _same_bits(array, tensors[first]):
        record.repeats[file_name] = first
    elif name == 'cls.predictions.decoder.bias':  # the one that transformers adds; the other is then read by nothing
        record.unused[record.names[first]] = tensors[first]
        tensors[first], record.names[first] = array, file_name
    else:
        problems.append(f'{file_name}: differs from {record.names[first]}, which it should repeat')


def _is_tied(family, tensors, record, wanted):
    """As transformers 5 decides it: where both are there and differ they are not tied, whatever the config says."""
    output, table = family.tied
    if not wanted or output not in tensors:
        return wanted
    if table in tensors and not _same_bits(tensors[output], tensors[table]):
        return False
    array, file_name = tensors.pop(output), record.names.pop(output)
    if table in tensors:
        record.repeats[file_name] = table
    else:
        tensors[table], record.names[table] = array, file_name
    return True


def _same_bits(first, second):
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def guess_architecture(kind, tensors):
    """The class of transformers that would have written such files, where config.json names none."""
    has = lambda start: any(name.startswith(start) for name in tensors)
    if kind == 'bert':
        if has('classifier.'):
            return 'BertForSequenceClassification' if has('pooler.') else 'BertForTokenClassification'
        if has('cls.predictions.'):
            return 'BertForPreTraining' if has('cls.seq_relationship.') else 'BertForMaskedLM'
        return 'BertForQuestionAnswering' if has('qa_outputs.') else 'BertModel'
    if kind == 't5':
        return 'T5ForConditionalGeneration' if has('decoder.') else 'T5EncoderModel'
    return [name for name, (family, _) in ARCHITECTURES.items() if family == kind][-1]  # the one with all parts


# ------------------------------------------------------------------------------------------------------- There and back again

def to_variables(kind, model, architecture, tensors, record, problems, config):
    """Our variables, {'params': ...} and of batch norms {'batch_stats': ...}; what is missing, too much, or of another shape or type,
    is a problem."""
    shapes, found = _shapes(model, config), {}
    for name in [name for name in tensors if model_has_no_place(name, architecture)]:
        record.unused[record.names.pop(name)] = tensors.pop(name)
    expected = _chosen(links(kind, model, architecture), architecture, tensors)
    for link in expected:
        if link.name not in tensors:
            problems.append(f'missing: {_name(link.name, kind, architecture)} {list(_their_shape(link, shapes))}')
            continue
        array, wanted = tensors[link.name], _their_shape(link, shapes)
        if array.shape != wanted:
            problems.append(f'{record.names[link.name]} {list(array.shape)}: expected {list(wanted)}')
        elif array.dtype not in TYPES:
            problems.append(f'{record.names[link.name]}: its numbers are {array.dtype}, and are read as float32, float16 or '
                            'bfloat16')
        else:
            record.types[link.name] = array.dtype
            found.update(zip(link.paths, _to_ours(link, array, shapes)))
    known = {link.name for link in expected}
    problems += [f'not expected: {record.names[name]} {list(array.shape)}' for name, array in tensors.items()
                 if name not in known]
    if problems:
        return {}
    trees = {collection: {path: found[path] for path in paths if path in found} for collection, paths in _collections(model, config).items()}
    return {collection: traverse_util.unflatten_dict(_stack_experts(tree), sep='/') for collection, tree in trees.items()}


def to_tensors(kind, model, architecture, variables, record, problems, config):
    """{name in the file: array} of our variables; those that are missing, too many or of another shape are problems.

    A GPT without biases gets some of zeros, for theirs has them always.
    """
    bias = kind == 'gpt2' and not model.bias
    shapes = _shapes(model.clone(bias=True) if bias else model, config)
    params = {path: leaf for tree in _stored(variables).values() for path, leaf in _split(traverse_util.flatten_dict(tree, sep='/')).items()}
    if bias:
        params = {**{path: np.zeros(shape, np.float32) for path, shape in shapes.items() if path.endswith('bias')}, **params}
    every = links(kind, model, architecture)
    chosen = [link for link in every if link.part in ARCHITECTURES[architecture][1] or any(path in params for path in link.paths)]
    wanted = {path: shapes[path] for link in chosen for path in link.paths}
    problems += [f'missing: {path} {list(shape)}' for path, shape in wanted.items() if path not in params]
    problems += [f'not expected: {path} {list(np.shape(array))}' for path, array in params.items() if path not in wanted]
    problems += [f'{path} {list(np.shape(params[path]))}: expected {list(shape)}' for path, shape in wanted.items()
                 if path in params and np.shape(params[path]) != shape]
    if problems:
        return {}
    tensors = {link.name: _to_theirs(link, [np.asarray(params[path]) for path in link.paths])
               .astype(record.types.get(link.name, np.float32)) for link in chosen}
    named = {record.names.get(name, _name(name, kind, architecture)): array for name, array in tensors.items()}
    return {**named, **{name: tensors[first] for name, first in record.repeats.items()}, **record.unused}


def model_has_no_place(name, architecture):
    """Files of models that answer at every step, or have classes of images, may have a pooler, which neither theirs nor ours reads."""
    without = ('BertForTokenClassification', 'BertForQuestionAnswering', 'ViTForImageClassification')
    return name.startswith('pooler.') and architecture in without


def _chosen(every, architecture, tensors):
    """Links of the parts that must be there, and of those of which something is."""
    parts = {*ARCHITECTURES[architecture][1], *(link.part for link in every if link.name in tensors)}
    return [link for link in every if link.part in parts]


def _name(name, kind, architecture):
    """What transformers would write."""
    return name if is_headless(architecture) or name.startswith(HEADS) else FAMILIES[kind].prefix + name


def _their_shape(link, shapes):
    plain = list(_plain_shape(link, shapes))
    for axis in link.ones:
        plain.insert(axis, 1)
    return tuple(plain)


def _plain_shape(link, shapes):
    ours = [shapes[path] for path in link.paths]
    if link.order:
        return tuple(ours[0][axis] for axis in link.order)
    if link.stacked:
        return sum(math.prod(shape[:-1]) for shape in ours), ours[0][-1]
    if link.contract is None:
        return ours[0]
    shape = (*_inputs(link, ours[0]), sum(math.prod(one[link.contract:]) for one in ours))
    return shape[::-1] if link.transposed else shape


def _inputs(link, shape):
    """The sizes of all axes of theirs but that of outputs: one, or none of a bias."""
    return (math.prod(shape[:link.contract]),) if link.contract else ()


def _to_theirs(link, arrays):
    if link.order:
        return arrays[0].transpose(link.order)
    if link.stacked:
        return np.expand_dims(np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays]), link.ones)
    if link.contract is None:
        return np.expand_dims(arrays[0], link.ones)
    whole = np.concatenate([array.reshape(*_inputs(link, array.shape), -1) for array in arrays], axis=-1)
    return np.expand_dims(whole.T if link.transposed else whole, link.ones)


def _to_ours(link, array, shapes):
    """Ours in float32, one for each path of a link."""
    array = array.squeeze(link.ones)
    wanted, parts = [shapes[path] for path in link.paths], [array]
    if link.order:
        parts = [array.transpose(np.argsort(link.order))]
    elif link.stacked:
        parts = np.split(array, np.cumsum([math.prod(shape[:-1]) for shape in wanted])[:-1])
    elif link.contract is not None:
        widths = [math.prod(shape[link.contract:]) for shape in wanted]
        parts = np.split(array.T if link.transposed else array, np.cumsum(widths)[:-1], axis=-1)
    return [np.ascontiguousarray(part).reshape(shape).astype(np.float32) for part, shape in zip(parts, wanted)]


# ------------------------------------------------------------------------------------------------------- Our parameters, flat

def _shapes(model, config):
    """{path: shape} of all variables that a model may have. config: config.json."""
    return {path: shape for shapes in _collections(model, config).values() for path, shape in shapes.items()}


def _collections(model, config):
    """The same for each of their collections, 'params' and 'batch_stats'."""
    tokens = jax.ShapeDtypeStruct((1, 1), np.int32)
    inputs = (tokens, None, tokens) if hasattr(model, 'begin') else (tokens,)
    inputs = vision.inputs_for(model, config) if vision.kind_of(model) else inputs
    variables = jax.eval_shape(model.init, jax.random.key(0), *inputs)
    return {collection: {path: leaf.shape for path, leaf in _split(traverse_util.flatten_dict(tree, sep='/')).items()}
            for collection, tree in _stored(variables).items()}


def _stored(variables):
    return {collection: meta.unbox(variables[collection]) for collection in ('params', 'batch_stats') if collection in variables}


def _split(flat):
    """Layers that are scanned become blocks, and each expert has a path of its own."""
    layers = _parts(flat, lambda path: '/blocks/' in path, lambda path, number: path.replace('/blocks/', f'/block_{number}/'))
    return _parts(layers, _EXPERTS.search, lambda path, number: f'{path}/{number}')


def _parts(flat, is_stacked, name):
    found = {}
    for path, leaf in flat.items():
        if not is_stacked(path):
            found[path] = leaf
            continue
        abstract = isinstance(leaf, jax.ShapeDtypeStruct)
        parts = leaf.shape[0] * [jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)] if abstract else np.asarray(leaf)
        found.update((name(path, number), part) for number, part in enumerate(parts))
    return found


def _stack_experts(found):
    stacked = {}
    for path, array in found.items():
        whole, _, number = path.rpartition('/')
        if _EXPERTS.search(whole):
            stacked.setdefault(whole, {})[int(number)] = array
    rest = {path: array for path, array in found.items() if path.rpartition('/')[0] not in stacked}
    return rest | {path: np.stack([parts[number] for number in sorted(parts)]) for path, parts in stacked.items()}
