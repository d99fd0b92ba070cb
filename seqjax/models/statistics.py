"""A model with the running statistics of its batch norms, linen's collection 'batch_stats'. Where a task applies its model to
parameters alone, they go with it."""

from collections.abc import Callable, Sequence
import contextlib
from typing import Any

from flax import core, linen
import jax

from seqjax import nn, ops

COLLECTION = 'batch_stats'


class WithStatistics:
    """What a linen module is, its statistics included.

        model = WithStatistics(module, variables['batch_stats'])
        model.apply({'params': params}, images)                   # with running statistics

    All else is that of the module: `model.width`, `model.init`. Variables with statistics of their own, as an EMA teacher has,
    are applied as they are.

    Args:
        module: a linen module.
        batch_stats: its statistics, a tree of arrays.
        updates: whether `batch_stats` is afterwards what a call has made of them. Only for the time that a step is traced: a
            model that is applied twice, to two views of an image, updates them twice, in that order.
        frozen: path of a statistic, 'stem/norm/mean' -> whether it stays as it is. A batch norm whose statistics are frozen
            computes as in evaluation, in training too.
        axis_name: a mapped axis whose devices share the rows of a batch, as under pmap.
    """

    def __init__(self, module: linen.Module, batch_stats: Any, *, updates: bool = False,
                 frozen: Callable[[str], bool] | None = None, axis_name: str | None = None) -> None:
        self.module, self.batch_stats = module, batch_stats
        self._updates, self._frozen, self._axis_name = updates, frozen, axis_name

    def __getattr__(self, name: str) -> Any:
        if name == 'module':  # while it is copied, and has none
            raise AttributeError(name)
        return getattr(self.module, name)

    def apply(self, variables: dict, *arguments: Any, mutable: bool | str | Sequence[str] = False, **options: Any) -> Any:
        """`module.apply`."""
        if COLLECTION in variables:
            return self.module.apply(variables, *arguments, mutable=mutable, **options)
        variables = {**variables, COLLECTION: self.batch_stats}
        if not self._updates:
            return self.module.apply(variables, *arguments, mutable=mutable, **options)
        asked = [mutable] if isinstance(mutable, str) else list(mutable or ())
        with ops.use_mapped_axis(self._axis_name), self._frozen_as_in_evaluation():
            outputs, changed = self.module.apply(variables, *arguments, mutable=[*asked, COLLECTION], **options)
        changed, new = core.pop(changed, COLLECTION)
        if self._frozen:
            new = jax.tree_util.tree_map_with_path(
                lambda path, old, new: old if self._frozen(_name(path)) else new, self.batch_stats, new)
        self.batch_stats = new
        return (outputs, changed) if asked else outputs

    def _frozen_as_in_evaluation(self):
        if self._frozen is None:
            return contextlib.nullcontext()

        def call(method, arguments, options, context):
            module = context.module
            if isinstance(module, (nn.BatchNorm, linen.BatchNorm)) and context.method_name == '__call__' and (
                    self._frozen('/'.join((*module.path, 'mean')))):
                evaluation = dict(train=False) if isinstance(module, nn.BatchNorm) else dict(use_running_average=True)
                return method(arguments[0], **evaluation)
            return method(*arguments, **options)

        return linen.intercept_methods(call)


def _name(path):
    return jax.tree_util.keystr(path, simple=True, separator='/')
