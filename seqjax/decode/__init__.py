"""Decoding for every model through one step interface: `search(decoder, inputs, method)`."""

from seqjax.decode.batches import SHAPES, Limits, search
from seqjax.decode.beam import Beam, BeamTrace, Greedy
from seqjax.decode.constraints import MinLength, NoRepeat, Prefix
from seqjax.decode.continuous import serve
from seqjax.decode.contrastive import Contrastive
from seqjax.decode.decoder import Decoder, Ensemble, LanguageModelDecoder, make_decoder
from seqjax.decode.exact import Exact
from seqjax.decode.hypotheses import Hypotheses, log_softmax
from seqjax.decode.lengths import of_like_length
from seqjax.decode.methods import METHODS, limits_of, method_of
from seqjax.decode.problem import Problem
from seqjax.decode.sampling import Sample, keep_min_p, keep_top_k, keep_top_p, token_by_token
from seqjax.decode.scoring import score, score_pairs, score_texts
from seqjax.decode.speculative import Speculative

__all__ = ['Beam', 'BeamTrace', 'Contrastive', 'Decoder', 'Ensemble', 'Exact', 'Greedy', 'Hypotheses',
           'LanguageModelDecoder', 'Limits', 'METHODS', 'MinLength', 'NoRepeat', 'Prefix', 'Problem', 'SHAPES', 'Sample',
           'Speculative', 'keep_min_p', 'keep_top_k', 'keep_top_p', 'limits_of', 'log_softmax', 'make_decoder', 'method_of',
           'of_like_length', 'score', 'score_pairs', 'score_texts', 'search', 'serve', 'token_by_token']
