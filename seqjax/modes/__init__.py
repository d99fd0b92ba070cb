"""The modes of launch.py, each with the flags and the fields of the config that it reads."""

from seqjax.modes.command.mode import CHECKPOINT, INPUT, Flag, Mode, Request
from seqjax.registry import Registry

MODES = Registry('mode', {  # each is imported when it is asked for: its file needs jax, and help does not
    'train': 'seqjax.modes.train:MODE',
    'eval': 'seqjax.modes.eval:MODE',
    'generate': 'seqjax.modes.generate:MODE',
    'predict': 'seqjax.modes.predict:MODE',
    'score': 'seqjax.modes.translate:SCORE',
    'xray': 'seqjax.modes.xray:MODE',
    'cells': 'seqjax.modes.interpretable_units:MODE',
    'probe': 'seqjax.modes.vision.probe:MODE',
    'zero_shot': 'seqjax.modes.vision.zero_shot:MODE',
    'embed': 'seqjax.modes.vision.embed:MODE',
    'average': 'seqjax.modes.average:MODE',
    'export': 'seqjax.modes.export:MODE',
    'hugging_face': 'seqjax.modes.hugging_face:MODE',
    'cost': 'seqjax.modes.cost:MODE',
    'describe': 'seqjax.modes.describe:MODE',
})

__all__ = ['CHECKPOINT', 'Flag', 'INPUT', 'MODES', 'Mode', 'Request']
