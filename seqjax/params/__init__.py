"""Trees of parameters: paths, freezing, LoRA, 8 bits, layouts of layers. Pure functions of trees."""

from seqjax.params.lora import merge as merge_lora
from seqjax.params.quantisation import quantise, size_in_bytes

__all__ = ['merge_lora', 'quantise', 'size_in_bytes']
