"""model.json rebuilds the model of a run alone: as training built it, and as a run without the file is read."""

import json

import numpy as np
import pytest

from seqjax import runs
from seqjax.fields import RENAMED
from seqjax.params import paths
from seqjax.runs import RunDirectory, saved_model
from tests.labelled_files import labelled_config, untrained_run, write_labelled
from tests.pair_files import pair_config, untrained_translator, write_pairs
from tests.tiny import tiny_config

ONE = dict(parallel=dict(data=1))


def language_model(tmp_path):
    return untrained_run(tiny_config('gpt', lora=dict(rank=2), **ONE), tmp_path / 'run')


def matched_width(tmp_path):
    return untrained_run(tiny_config('recurrent', parameters=3000, **ONE), tmp_path / 'run')


def classifier(tmp_path):
    path = write_labelled(tmp_path / 'trees.jsonl', 'classification')
    return untrained_run(labelled_config(path, 'classification', 'conv', **ONE), tmp_path / 'run')


def words_with_their_spelling(tmp_path):
    path = write_labelled(tmp_path / 'trees.jsonl', 'classification')
    config = labelled_config(path, 'classification', 'lstm', data=dict(tokenizer='word'), **ONE)
    config.data.characters_per_word, config.model.character_encoder = 4, 'conv'
    return untrained_run(config, tmp_path / 'run')


def translator(tmp_path):
    return untrained_translator(pair_config(write_pairs(tmp_path / 'pairs.tsv'), **ONE), tmp_path / 'run')


def frames(tmp_path):
    return untrained_run(tiny_config('reader', data=dict(source='adding'), **ONE), tmp_path / 'run')


@pytest.mark.parametrize('make', [language_model, matched_width, classifier, words_with_their_spelling, translator, frames], ids=lambda make: make.__name__)
def test_the_model_and_its_parameters_are_those_of_the_run(make, tmp_path):
    parts, params = make(tmp_path)[:2]
    expected = paths.by_path(parts.parameters.merge(params))
    run = RunDirectory(tmp_path / 'run')
    for saved in (True, False):
        if not saved:
            if make is frames:
                return
            (run.path / 'model.json').unlink()  # as in a run from before it was written
        model, found = runs.load_model(run.path)
        assert model == parts.task.model
        found = paths.by_path(found)
        assert found.keys() == expected.keys()
        for path, x in found.items():
            np.testing.assert_array_equal(x, expected[path], err_msg=path)


def test_it_says_what_it_is_in_plain_words(tmp_path):
    classifier(tmp_path)
    saved = json.loads((tmp_path / 'run' / 'model.json').read_text())
    assert saved['name'] == 'reader' and saved['fields']['encoder'] == 'conv' and saved['from_data']['vocabulary'] > 2
    assert saved['given'][0][0]['shape'][0] == 1
    assert saved_model.loads((tmp_path / 'run' / 'model.json').read_text()).dumps() == (tmp_path / 'run' / 'model.json').read_text()


def test_a_file_with_the_names_of_before_makes_the_same_model(tmp_path):
    parts, _ = untrained_run(tiny_config('gpt', model=dict(sliding_window=3, kv_heads=1), **ONE), tmp_path / 'run')[:2]
    text = (tmp_path / 'run' / 'model.json').read_text()
    saved = json.loads(text)
    old_names = {new: old for old, new in RENAMED.items()}
    old = lambda name: old_names.get(f'model.{name}', f'model.{name}').partition('.')[2]
    saved.update(fields={old(name): value for name, value in saved['fields'].items()}, decided=[old('tie_embeddings'), 'width'])
    assert {'order', 'tie', 'scan', 'key_heads', 'window', 'relative_limit', 'experts_chosen'} <= saved['fields'].keys()
    read = saved_model.loads(json.dumps(saved))
    assert read.build() == parts.task.model and read.decided == ('tie_embeddings', 'width')
    assert read.fields == json.loads(text)['fields']
