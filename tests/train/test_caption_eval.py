"""Images are captioned in training, at its end and afterwards, and their captions compared with all references: one short run."""

import json

import numpy as np
import pytest

from seqjax import decode, metrics, train
from seqjax.metrics.captions import CAPTION_SCORES
from seqjax.modes.eval import evaluate
from seqjax.runs import RunDirectory, read_metrics, restore_model
from seqjax.runs.restore import find_checkpoint
from seqjax.train import build
from seqjax.train.decode_eval import DecodedCaptions
from tests.image_captions import SPLITS, caption_config, write_captions


@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    """(config, workdir, result)"""
    directory = tmp_path_factory.mktemp('captioned')
    config = caption_config(write_captions(directory), train=dict(decode_rows=5))
    return config, directory / 'run', train.train(config, directory / 'run')


def kept(workdir, split):
    return [json.loads(line) for line in (workdir / f'{split}_captions.jsonl').read_text('utf-8').splitlines()]


def test_every_evaluation_has_scores_of_captions_and_the_last_those_of_the_test_split(ended):
    _, workdir, result = ended
    lines = [line for line in read_metrics(workdir / 'metrics.jsonl') if 'eval/loss' in line]
    assert all({f'eval/{name}' for name in CAPTION_SCORES} <= line.keys() for line in lines) and len(lines) == 2
    assert 'test/meteor' in lines[-1] and 'test/meteor' not in lines[0]
    assert result['test/exact_match'] == 1 and result['test/bleu4'] == pytest.approx(100)
    assert result['signature/meteor'].startswith('nrefs:2|') and 'synonyms:none' in result['signature/meteor']


def test_captions_and_scores_are_kept_with_all_references(ended):
    _, workdir, result = ended
    for split, name, rows in (('validation', 'eval', 5), ('test', 'test', SPLITS['test'])):
        lines, scores = kept(workdir, split), json.loads((workdir / f'{split}_scores.json').read_text())
        assert [line['image'] for line in lines] == list(range(rows)) and all(len(line['references']) == 2 for line in lines)
        again = metrics.caption_scores([line['answer'] for line in lines], [line['references'] for line in lines])
        assert {metric: result[f'{name}/{metric}'] for metric in CAPTION_SCORES} == pytest.approx({m: again[m] for m in CAPTION_SCORES})
        assert scores['search']['method'] == 'Beam' and scores['signature/cider_d'] == again['signature/cider_d']


def test_evaluation_afterwards_captions_all_images_with_running_statistics(ended):
    config, workdir, result = ended
    found = evaluate(config, workdir)
    assert found['eval/loss'] == pytest.approx(result['eval/loss'], rel=1e-6) and len(kept(workdir, 'validation')) == SPLITS['validation']


def test_a_registered_metric_is_given_all_references(ended, monkeypatch):
    monkeypatch.setattr(metrics.METRICS, '_things', {**metrics.METRICS._things, 'named': lambda hypotheses, captions: sum(
        text in texts for text, texts in zip(hypotheses, captions)) / len(captions)})
    config, workdir, _ = ended
    found = evaluate(config, workdir)
    assert found['eval/named'] == found['eval/exact_match'] and 'named' in DecodedCaptions(None, None, None, 1).measured


def test_what_is_written_is_what_the_opened_run_writes(ended):
    config, workdir, _ = ended
    parts = build(config, RunDirectory(workdir))
    assert parts.decoded.limits.max_length == parts.dataset.codec.length
    run = RunDirectory(workdir)
    step, checkpoints = find_checkpoint(run, 'latest')
    model, params = restore_model(run, config, step, checkpoints)
    images = [parts.dataset.rows['test'][n]['inputs'] for n in range(SPLITS['test'])]
    assert images[0].dtype == np.uint8
    decoder = decode.make_decoder(model, params, prepare=parts.task.pixels)
    found = decode.search(decoder, images, limits=parts.decoded.limits)
    assert [parts.dataset.codec.text(one.texts[0]) for one in found] == [line['answer'] for line in kept(workdir, 'test')]


def test_an_image_that_cannot_be_read_is_not_counted(ended, tmp_path):
    config, workdir, _ = ended
    path = write_captions(tmp_path)
    broken = tmp_path / 'images' / 'validation_01.png'
    content = bytearray(broken.read_bytes())
    content[content.index(b'IDAT') + 4:-16] = bytes(len(content) - content.index(b'IDAT') - 20)  # its header and its end are there
    broken.write_bytes(content)
    other = config.copy_and_resolve_references()
    other.data.source, other.data.on_error = f'file:{path}', 'skip'
    with pytest.warns(UserWarning, match='validation_01.png'):
        parts = build(other, RunDirectory(tmp_path / 'other'))
        run = RunDirectory(workdir)
        step, checkpoints = find_checkpoint(run, 'latest')
        written = parts.decoded.measure(*restore_model(run, config, step, checkpoints), 'eval')
    assert written.sources == [0, 2, 3, 4]
