"""Files of Hugging Face: config.json, and weights as safetensors, in one file or in several with an index.

What is wrong with them is not raised but added to a list of problems, so that all of it can be said at once.
"""

import json
import pathlib
import shutil

import numpy as np
import safetensors
import safetensors.numpy

CONFIG, WEIGHTS, INDEX = 'config.json', 'model.safetensors', 'model.safetensors.index.json'
BESIDE = ('preprocessor_config.json', 'processor_config.json', 'generation_config.json',
          'tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json', 'added_tokens.json',
          'vocab.json', 'merges.txt', 'vocab.txt', 'spiece.model', 'tokenizer.model')  # go where the weights go


def read_json(path, problems):
    """The object in a file; {} where there is none, and a problem more."""
    try:
        found = json.loads(path.read_text('utf-8'))
    except OSError as error:
        problems.append(f'{path.name}: {error.strerror or error}')
        return {}
    except ValueError as error:  # no JSON, or no text
        problems.append(f'{path.name}: is not JSON: {error}')
        return {}
    if not isinstance(found, dict):
        problems.append(f'{path.name}: holds no JSON object')
        return {}
    return found


def read_tensors(directory, problems):
    """{name: numpy array} of all weights there are, of the types that they have in the files."""
    if (directory / WEIGHTS).is_file():
        return _read_file(directory / WEIGHTS, problems)
    if (directory / INDEX).is_file():
        return _read_indexed(directory, problems)
    paths = sorted(directory.glob('*.safetensors'))
    if not paths:
        pickles = ', '.join(sorted(path.name for path in directory.glob('*.bin')))
        way_out = f'; {pickles} is a pickle, which is not read because it may run code: load it with transformers and save it again'
        problems.append('no *.safetensors' + (way_out if pickles else ''))
    tensors = {}
    for path in paths:
        for name, array in _read_file(path, problems).items():
            if name in tensors:
                problems.append(f'{path.name}: {name} is in another file too')
            tensors[name] = array
    return tensors


def _read_indexed(directory, problems):
    """The tensors that the index names, each from the file that it names."""
    places = read_json(directory / INDEX, problems).get('weight_map')
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        problems.append(f'{INDEX}: has no weight_map from names to files')
        return {}
    found = {}
    for file in sorted(set(places.values())):
        tensors = _read_file(directory / pathlib.Path(file).name, problems)  # its name: an index leads nowhere else
        if tensors:
            problems += [f'{file}: {name} is missing, which {INDEX} says is there'
                         for name, place in places.items() if place == file and name not in tensors]
            problems += [f'{file}: {name} is not in {INDEX}' for name in tensors if places.get(name) != file]
        found |= tensors
    return found


def _read_file(path, problems):
    try:
        with safetensors.safe_open(path, framework='np') as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    except OSError as error:
        problems.append(f'{path.name}: {"no such file" if isinstance(error, FileNotFoundError) else error}')
    except (safetensors.SafetensorError, TypeError, ValueError) as error:  # of a type that numpy does not have, too
        problems.append(f'{path.name}: is damaged, or is no safetensors file: {error}')
    return {}


def write(directory, config, tensors, source=None):
    """Writes a directory that transformers loads. source: a directory whose tokenizer and settings of generation come along."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: np.asarray(array, order='C') for name, array in tensors.items()}  # its bytes are written as they lie
    safetensors.numpy.save_file(tensors, directory / WEIGHTS, metadata={'format': 'pt'})
    (directory / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + '\n', 'utf-8')
    if source is not None and source.resolve() != directory.resolve():
        for name in BESIDE:
            if (source / name).is_file():
                shutil.copyfile(source / name, directory / name)
