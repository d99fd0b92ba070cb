"""Eight simulated devices, strict dtype promotion, and a compilation cache: compiling is what tests spend their time on."""

import gc
import importlib.metadata
import os
import pathlib

import pytest

FLAGS = '--xla_backend_optimization_level=0'  # compiles faster, computes the same
if importlib.metadata.version('jax') < '0.11':
    FLAGS += ' --xla_cpu_use_fusion_emitters=false'  # the older emitters compile a loop three times faster
CACHE = 'xla_' + os.environ.get('PYTEST_XDIST_WORKER', 'alone')  # jax writes an entry in place: one writer for each
os.environ.setdefault('NPROC', '16')  # jax 0.10 deadlocks on simulated devices with fewer threads than this
os.environ.setdefault('XLA_FLAGS', FLAGS)

CACHES = pathlib.Path(__file__).parent.parent / '.pytest_cache' / CACHE
os.environ['SEQJAX_CACHE'] = str(CACHES)  # also of texts as tokens

import jax

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_dtype_promotion', 'strict')
jax.config.update('jax_compilation_cache_dir', str(CACHES))
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.1)

LONG = ('test_launch', 'test_kill', 'test_processes', 'test_training', 'test_docs', 'test_interrupts')  # files that take longest


def pytest_collection_modifyitems(items):
    """Begins with them, so that no process is left with one of them when the others are done."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(scope='module', autouse=True)
def compiled_programs_are_let_go():
    """After every file: Linux gives a process 65,530 memory maps, a compiled program takes six or more, and without one jax dies."""
    yield
    jax.clear_caches()
    gc.collect()
