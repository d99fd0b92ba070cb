"""Eight simulated devices, strict dtype promotion, and a compilation cache: compiling is what tests spend their time on."""

import importlib.metadata
import os
import pathlib

FLAGS = '--xla_backend_optimization_level=0'  # compiles faster, computes the same
if importlib.metadata.version('jax') < '0.11':
    FLAGS += ' --xla_cpu_use_fusion_emitters=false'  # the older emitters compile a loop three times faster
CACHE = 'xla_' + os.environ.get('PYTEST_XDIST_WORKER', 'alone')  # jax writes an entry in place: one writer for each
os.environ.setdefault('NPROC', '16')  # jax 0.10 deadlocks on simulated devices with fewer threads than this
os.environ.setdefault('XLA_FLAGS', FLAGS)

import jax

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_dtype_promotion', 'strict')
jax.config.update('jax_compilation_cache_dir', str(pathlib.Path(__file__).parent.parent / '.pytest_cache' / CACHE))
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.1)
