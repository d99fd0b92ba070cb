"""From text in which something is hidden to another task: the same tokens, the same parameters, and text in and out."""

import json

import pytest

from seqjax import config as configs
from seqjax import train
from seqjax.errors import FieldError
from seqjax.modes.translate import translate_lines
from seqjax.runs import RunDirectory, transfer
from seqjax.special_tokens import END
from seqjax.train import build
from tests.labelled_files import untrained_run
from tests.pair_files import write_pairs
from tests.tiny import tiny_config, write_text

SIZES = dict(parallel=dict(data=1), model=dict(heads=2, width=8))


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp('text') / 'text.txt', 3000)


def begun(config, workdir):
    """The parts of a run that begins with another one."""
    run = RunDirectory(workdir)
    return build(config, run, transfer.find_origin(config, run))


def test_a_masked_model_learns_to_judge_two_texts(text, tmp_path):
    config = tiny_config('bert', task='masked_lm', data=dict(source=f'file:{text}', next_sentence=True, sequence_length=24), **SIZES)
    old, _ = untrained_run(config, tmp_path / 'old')
    lines = [dict(a='an elm', b='a tree' * (i % 3), label=['yes', 'no'][i % 2]) for i in range(1, 24) if i % 3]
    (tmp_path / 'pairs.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines), 'utf-8')
    fields = dict(source=f'file:{tmp_path / "pairs.jsonl"}', input_column='a,b', special_tokens=True, batching='pad')
    config = tiny_config('bert', task='classification', init_from=str(tmp_path / 'old'), data=fields, train=dict(steps=2), **SIZES)
    new = begun(config, tmp_path / 'new')
    assert new.dataset.for_model()['vocabulary'] == old.dataset.for_model()['vocabulary']
    batch = new.training[0]
    assert ((batch['inputs'] == END).sum(axis=1) == 2).all()
    assert train.train(config, tmp_path / 'new')['steps'] == 2


def test_a_model_of_missing_spans_writes_text_and_learns_to_translate(text, tmp_path):
    config = tiny_config('t5', task='span_corruption', data=dict(source=f'file:{text}', sequence_length=24), **SIZES)
    old, _ = untrained_run(config, tmp_path / 'old')
    written = list(translate_lines(config, tmp_path / 'old', ['and <extra_id_0> the', '']))
    assert len(written) == 2 and written[1][0][1] == ''
    fields = dict(source=f'file:{write_pairs(tmp_path / "pairs.tsv")}', shared_vocabulary=True, batching='pad')
    config = tiny_config('t5', task='translation', init_from=str(tmp_path / 'old'), data=fields,
                         train=dict(steps=2, decode_rows=2), decode=dict(max_new_tokens=4), **SIZES)
    assert begun(config, tmp_path / 'new').dataset.codec.dumps() == old.dataset.codec.dumps()
    assert 'eval/bleu' in train.train(config, tmp_path / 'new')


# ------------------------------------------------------------------------------------------------ configs

def refused(name, **sections):
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config(name, **sections))
    return str(caught.value)


def test_the_fields_of_hidden_text_and_of_marks_fit_the_task_and_the_model():
    assert refused('bert', task='classification', data=dict(source='reviews'), model=dict(heads=2)) == (
        "config.data.special_tokens=False: 'bert' reads rows that begin with START and end with END; set it to true")
    assert refused('gpt', data=dict(mask_probability=0.2)) == (
        "config.data.mask_probability=0.2: is for masked language models and span corruption; this run is for language_model on 'python'; "
        'leave it out')
    assert refused('bert', task='masked_lm', data=dict(span_length=2.0), model=dict(heads=2)) == (
        "config.data.span_length=2.0: is for span corruption; this run is for masked_lm on 'python'; leave it out")
    assert refused('t5', task='span_corruption', data=dict(next_sentence=True), model=dict(heads=2)) == (
        "config.data.next_sentence=True: is for masked language models; this run is for span_corruption on 'python'; "
        'leave it out')
    assert refused('t5', task='span_corruption', data=dict(span_length=0.5), model=dict(heads=2)) == (
        'config.data.span_length=0.5: must be at least 1')
    assert refused('bert', task='masked_lm', data=dict(mask_probability=1.0), model=dict(heads=2)) == (
        'config.data.mask_probability=1.0: must be more than 0 and less than 1')
    assert 'config.data.special_tokens=True: is for labelled sequences and masked language models; this' in refused('gpt', data=dict(special_tokens=True))
    assert 'config.data.max_length=5: is for labelled sequences' in refused(
        'bert', task='masked_lm', data=dict(max_length=5), model=dict(heads=2))
    assert "models that can: bert" in refused('gpt', task='masked_lm')
    for model, sections in (('bert', dict(task='masked_lm', data=dict(documents='paragraph', special_tokens=True, next_sentence=True))),
                            ('t5', dict(task='span_corruption', data=dict(documents='line', shared_vocabulary=True, mask_probability=0.3))),
                            ('reader', dict(data=dict(source='python_docs', special_tokens=True)))):
        configs.validate(tiny_config(model, **sections, **({} if model == 'reader' else dict(model=dict(heads=2)))))
