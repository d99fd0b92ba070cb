"""Trees of parameters: paths, freezing, LoRA, 8 bits, layouts of layers. Pure functions of trees; no config.

A module's init returns boxes that name the axes of a parameter; `unbox` gives the plain arrays:

    v = params.unbox(nn.LSTM(16).init(key, x))
    v['params']['layer_0']['bias'] + 1
"""

from flax.core.meta import unbox

from seqjax.params.digest import digest
from seqjax.params.freezing import join, split
from seqjax.params.low_rank import FROZEN as LORA_FROZEN
from seqjax.params.low_rank import LoRA, lora
from seqjax.params.low_rank import merge as merge_lora
from seqjax.params.quantisation import quantise, size_in_bytes

__all__ = ['LORA_FROZEN', 'LoRA', 'digest', 'join', 'lora', 'merge_lora', 'quantise', 'size_in_bytes', 'split', 'unbox']
