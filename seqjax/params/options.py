"""`config.lora` and `config.quantise`."""

import dataclasses

from seqjax.fields import POSITIVE, at_least, field, one_of
from seqjax.ops.quantisation import EIGHT_BITS


@dataclasses.dataclass(frozen=True)
class LoRAOptions:
    """W + (alpha / rank) a b: only a and b are trained, and what optimizer.freeze='!...' names."""

    rank: int = field(0, 'LoRA rank; 0: off.', at_least(0))
    alpha: float = field(16.0, 'LoRA alpha.', POSITIVE)
    targets: str = field('*/query/kernel,*/value/kernel', 'LoRA targets: patterns of the kernels W.')


@dataclasses.dataclass(frozen=True)
class QuantiseOptions:
    """A trained model in 8 bits, for --mode=eval|generate|predict|score|export: docs/quantisation.md."""

    weights: str = field('', "Weight quantization: 'int8' or 'float8'; '': as trained.", one_of('', *EIGHT_BITS))
    activations: bool = field(False, 'Activation quantization: what is multiplied by them is in 8 bits, too.')
