"""The parameters of a run: what a checkpoint holds of them, and the tree that the model computes with."""

import dataclasses
import functools
from typing import Any

from flax.core import meta
import jax

from seqjax import config as configs
from seqjax.params import freezing, low_rank, paths, quantisation
from seqjax.train import optimizers


@dataclasses.dataclass(frozen=True)
class Parameters:
    """How the parameters of a run are made and used.

    boxed: their shapes, dtypes and named axes. frozen: patterns over the paths of those that are not trained, see
    `freezing`. adapters: a `low_rank.LoRA`, or None. rounded: writes those that the model computes with in 8 bits, see
    `quantisation`, or does nothing. batch_stats: shapes and dtypes of the running statistics of batch norms, or None;
    init_statistics: key -> those before the first step.
    """

    init: Any  # key -> those of the model, before anything is learned
    boxed: Any
    frozen: tuple
    adapters: Any
    rounded: Any = lambda params: params
    batch_stats: Any = None
    init_statistics: Any = None

    def create(self, key, taken=None):
        """All of them before the first step. taken: {path: array} of those that do not start anew."""
        params = _with_taken(self.init(key), taken or {})
        return self.adapters.add(params, key) if self.adapters else params

    def create_statistics(self, key, taken=None):
        """The same of running statistics; None where there are none."""
        return None if self.batch_stats is None else _with_taken(self.init_statistics(key), taken or {})

    def merge(self, params):
        """The tree that the model computes with."""
        return self.rounded(self.adapters.merge(params) if self.adapters else params)

    @property
    def abstract(self):
        """Their shapes and dtypes."""
        return meta.unbox(self.boxed)

    @property
    def plain(self):
        """Those of the tree that the model computes with."""
        return jax.eval_shape(self.merge, self.abstract)

    def is_trained(self, path):
        return not freezing.is_frozen(path, self.frozen)


def make_parameters(config, task, sample):
    """The Parameters of `task`, as the config says. sample: a batch of one row, whatever its length. Computes nothing."""
    init, options = (lambda: task.init(jax.random.key(0), sample)), config.lora
    frozen, adapters = tuple(paths.parse(config.optimizer.freeze)), None
    if options.rank:
        variables, projections = low_rank.find_projections(init)
        adapters = configs.with_prefix('config.lora', lambda: low_rank.adapters_of(
            meta.unbox(variables['params']), projections, options.rank, options.alpha, options.targets))
        boxed, frozen = adapters.add_axes(variables['params']), (*low_rank.FROZEN, *frozen)
    else:
        variables = jax.eval_shape(init)
        boxed = variables['params']
    made = Parameters(functools.partial(task.plain_init, batch=sample), boxed, frozen, adapters)
    if 'batch_stats' in variables:
        made = dataclasses.replace(made, batch_stats=meta.unbox(variables['batch_stats']),
                                   init_statistics=lambda key: task.plain_variables(key, sample)['batch_stats'])
    if config.quantise.weights:
        summed = quantisation.find_summed_axes(init)
        rounded = functools.partial(quantisation.with_eight_bits, summed=summed, **config.quantise)
        made = dataclasses.replace(made, rounded=jax.jit(rounded))
    if frozen:
        configs.with_prefix('config.optimizer', lambda: freezing.check(config.optimizer.freeze, frozen, made.abstract))
    if config.optimizer.layerwise_rates:
        configs.with_prefix('config.optimizer', lambda: optimizers.check_rates(config.optimizer.layerwise_rates, made.abstract))
    return made


def _with_taken(tree, taken):
    return paths.map_paths(lambda path, x: taken[path].astype(x.dtype) if path in taken else x, tree)
