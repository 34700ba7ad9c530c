"""The whole-model session in NumPy, float64: System 3 with its whole contract.

`DecoderModel` holds parameters, `DecoderCache` one layer cache per block; `DecoderSession` ties the two.
`prefill` and `decode` are the checked calls on a model and a cache without a session.
"""

from reference_impl.decoder.cache import DecoderCache, DecoderWork
from reference_impl.decoder.config import DecoderConfig
from reference_impl.decoder.generate import Generation, generate, generate_uncached
from reference_impl.decoder.model import DecoderModel
from reference_impl.decoder.session import DecoderSession
from reference_impl.decoder.step import commit_tokens, decode, prefill, prepare_tokens
from reference_impl.decoder.uncached import full_prefix

__all__ = [
    "DecoderCache",
    "DecoderConfig",
    "DecoderModel",
    "DecoderSession",
    "DecoderWork",
    "Generation",
    "commit_tokens",
    "decode",
    "full_prefix",
    "generate",
    "generate_uncached",
    "prefill",
    "prepare_tokens",
]
