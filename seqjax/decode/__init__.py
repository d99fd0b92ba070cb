"""Generation for every model through one step interface."""

from seqjax.decode.beam import BeamTrace, beam_search
from seqjax.decode.constraints import MinLength, NoRepeat, Prefix
from seqjax.decode.continuous import generate_many
from seqjax.decode.contrastive import contrastive_search
from seqjax.decode.decoder import Decoder, LanguageModelDecoder, decoder
from seqjax.decode.ensemble import Ensemble, ensemble
from seqjax.decode.exact import exact_search
from seqjax.decode.generate import generate
from seqjax.decode.hypotheses import Hypotheses
from seqjax.decode.sampling import Sampler, keep_min_p, keep_top_k, keep_top_p, sample
from seqjax.decode.scoring import score, score_pairs
from seqjax.decode.speculative import speculate
from seqjax.decode.translate import SHAPES, Search, Translation, translate

__all__ = ['BeamTrace', 'Decoder', 'Ensemble', 'Hypotheses', 'LanguageModelDecoder', 'MinLength', 'NoRepeat', 'Prefix',
           'SHAPES', 'Sampler', 'Search', 'Translation', 'beam_search', 'contrastive_search', 'decoder', 'ensemble',
           'exact_search', 'generate', 'generate_many', 'keep_min_p', 'keep_top_k', 'keep_top_p', 'sample', 'score',
           'score_pairs', 'speculate', 'translate']
