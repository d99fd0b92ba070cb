"""Networks that read images."""

from seqjax.models.vision.captioner import Captioner, TransformerCaptioner
from seqjax.models.vision.clip import CLIP, DualEncoder
from seqjax.models.vision.presets import IMAGE_PRESETS
from seqjax.models.vision.resnet import ResNet
from seqjax.models.vision.video import VideoReader
from seqjax.models.vision.vit import CCT, ImageTransformer, ViT

__all__ = ['CCT', 'CLIP', 'Captioner', 'DualEncoder', 'IMAGE_PRESETS', 'ImageTransformer', 'ResNet', 'TransformerCaptioner', 'VideoReader',
           'ViT']
