"""Work and memory of each of eight devices in a compiled training step: its share and no more.

Losses are right even where every device computes all rows, so nothing but the program shows it.
"""

import functools

import jax
from jax.experimental.compilation_cache import compilation_cache
import numpy as np
import pytest

from seqjax.analysis.cost.compiled import compiled_flops
from seqjax.analysis.cost.flops import jaxpr_flops
from seqjax.runs import RunDirectory
from seqjax.train import build, make_train_step
from tests.parallel.test_strategies import DESCENT, one_step
from tests.tiny import tiny_config, write_text

DEVICES = 8
MESHES = {'data=8': dict(data=8), 'fsdp=8': dict(data=1, fsdp=8),
          '2x2x2': dict(data=2, fsdp=2, tensor=2)}
SIZES = dict(width=64, depth=3)
HEADS = dict(SIZES, heads=4)
FAMILIES = {
    'gpt': ('gpt', '', HEADS), 'llama': ('llama', '', HEADS), 'bert': ('bert', 'masked_lm', HEADS),
    't5': ('t5', 'span_corruption', HEADS), 'experts': ('gpt', '', dict(HEADS, experts=4)),
    'mamba': ('mamba', '', SIZES), 'rwkv': ('rwkv', '', SIZES), 'lstm': ('recurrent', '', SIZES),
    'seq2seq': ('seq2seq', 'translation', SIZES), 'reader': ('reader', 'classification', SIZES),
    'resnet': ('resnet', 'classification', dict(width=64, depth=8)),
}
AS_ONE_DEVICE = ('experts', 'resnet')  # their jaxpr is no measure: a loop of unknown length, convolutions with strides
LOOPLESS = ('seq2seq', 'lstm', 'reader', 'resnet')  # their layers are never scanned
CASES = [(family, scan, remat)
         for family in FAMILIES for scan in (False, True) for remat in (False, True)
         if family not in LOOPLESS or not (scan or remat)]


def family_config(folder, family, scan, remat, mesh, sizes=(), **sections):
    """A tiny config with 16 rows. sizes: fields of the model that are others than in FAMILIES."""
    model, task, fields = FAMILIES[family]
    source = 'digits' if model == 'resnet' else {'translation': 'reverse', 'classification': 'reviews'}.get(task) or f'file:{write_text(folder / "text.txt")}'
    loop = {} if family in LOOPLESS else dict(scan_layers=scan, remat=remat)
    return tiny_config(model, task=task, data=dict(source=source, batch_size=16, sequence_length=32), parallel=mesh,
                       model={**fields, **loop, **dict(sizes)}, **sections)


def compile_step(folder, *case, tokenizer='', **train):
    """(jaxpr, compiled step)."""
    config = family_config(folder, *case, train=train)
    config.data.update(dict(tokenizer=tokenizer) if tokenizer else {})
    parts = build(config, RunDirectory(folder))
    step = make_train_step(parts.task, parts.optimizer, parts.schedule, seed=0, accumulate=config.train.gradient_accumulation_steps)
    program = parts.strategy.compile(step, parts.target, parts.strategy.place(parts.training[0]), updates_state=True)
    return program.jaxpr, program.run


def measure(folder, capfd, *case, whole=None, **train):
    """(work of all devices / what the step needs, bytes of temporaries, whether XLA gave up).

    whole: the program of one device, whose work is what the step needs; None: that of the jaxpr.
    Chosen experts are read in a loop of unknown trip count, in blocks that are as much shorter as
    there are fewer rows: its body counts once in both programs.
    """
    capfd.readouterr()
    jaxpr, compiled = compile_step(folder, *case, **train)
    once = functools.partial(compiled_flops, unknown_turns=1)
    needed = jaxpr_flops(jaxpr.jaxpr) if whole is None else once(whole.as_text())
    work = once(compiled.as_text()) * DEVICES / needed
    gave_up = 'full rematerialization' in capfd.readouterr().err
    return work, compiled.memory_analysis().temp_size_in_bytes, gave_up


def whole_grid(fast):
    """The cases of all families, those that are not fast marked as slow."""
    return [pytest.param(*case, id=f'{case[0]}{" scan" * case[1]}{" remat" * case[2]}',
                         marks=[] if case in fast else pytest.mark.slow) for case in CASES]


@pytest.fixture(autouse=True)
def everything_is_compiled():
    """A program out of the cache gives no warning."""
    for enabled in (False, True):
        jax.config.update('jax_enable_compilation_cache', enabled)
        compilation_cache.reset_cache()  # whether it is in use was decided by the first program
        if not enabled:
            yield


@pytest.mark.parametrize('family, scan, remat', whole_grid(fast=[
    ('gpt', True, True), ('bert', True, False), ('mamba', True, False), ('experts', True, False),
    ('lstm', False, False), ('resnet', False, False)]))
def test_a_device_computes_and_holds_its_share_of_the_rows(family, scan, remat, tmp_path, capfd):
    """Fully sharded parameters come to the rows, which stay where they are."""
    case = family, scan, remat
    whole = compile_step(tmp_path, *case, dict(data=1))[1] if family in AS_ONE_DEVICE else None
    work, temporaries = {}, {}
    for mesh in ('data=8', 'fsdp=8'):
        work[mesh], temporaries[mesh], gave_up = measure(tmp_path, capfd, *case, MESHES[mesh],
                                                         whole=whole)
        assert not gave_up
    assert max(work.values()) <= 1.05
    assert temporaries['fsdp=8'] <= 1.2 * temporaries['data=8']


@pytest.mark.parametrize('family, scan, remat', whole_grid(fast=[('gpt', True, True)]))
def test_on_a_mesh_of_three_axes_nothing_is_replicated(family, scan, remat, tmp_path, capfd):
    """XLA replicates looked-up rows of a table that is cut unless it is told each step of the way."""
    case = family, scan, remat
    whole = compile_step(tmp_path, *case, dict(data=1))[1] if family in AS_ONE_DEVICE else None
    work, _, gave_up = measure(tmp_path, capfd, *case, MESHES['2x2x2'], whole=whole)
    assert not gave_up and work <= 1.1  # both along `tensor` compute what is not cut along it


@pytest.mark.parametrize('family, scan, remat', whole_grid(fast=[('lstm', False, False),
                                                                 ('seq2seq', False, False)]))
def test_on_meshes_of_three_axes_gradients_are_those_of_one_device(family, scan, remat, tmp_path):
    """XLA has products wrong that are cut along all three; the first loss is right all the same."""
    def step(**mesh):
        config = family_config(tmp_path, family, scan, remat, mesh, dict(width=16, depth=8 if family == 'resnet' else 2),
                               optimizer=DESCENT)
        return one_step(config, tmp_path)[1:3]

    facts, params = step(data=1)
    for mesh in (MESHES['2x2x2'], dict(data=1, fsdp=4, tensor=2)):
        their_facts, their_params = step(**mesh)
        norm, their_norm = facts['gradient_norm'], their_facts['gradient_norm']
        np.testing.assert_allclose(their_norm, norm, rtol=1e-5)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * np.abs(b).max()),
                     their_params, params)


@pytest.mark.parametrize('family', ['gpt', pytest.param('llama', marks=pytest.mark.slow)])
def test_each_device_computes_its_part_of_the_logits(family, tmp_path, capfd):
    """A vocabulary of 256 over eight devices, of the embedding (gpt) and of an output of its own (llama)."""
    work, _, gave_up = measure(tmp_path, capfd, family, True, False, dict(data=1, tensor=8), dict(heads=8),
                               tokenizer='byte')
    assert not gave_up and work <= 1.05


def test_micro_batches_are_cut_like_batches(tmp_path, capfd):
    work, _, gave_up = measure(tmp_path, capfd, 'gpt', True, True, MESHES['fsdp=8'], gradient_accumulation_steps=2)
    assert not gave_up and work <= 1.05


def test_a_program_for_one_device_is_told_nothing(tmp_path):
    jaxpr, _ = compile_step(tmp_path, 'gpt', True, False, dict(data=1))
    assert 'sharding_constraint' not in str(jaxpr)
