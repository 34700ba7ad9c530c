"""What a call of a decoder session refuses before it computes anything, in the order of the source's list."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reference_impl.decoder.cache import DecoderCache
from reference_impl.decoder.errors import (
    EmptyPromptError,
    PrefillNotEmptyError,
    PrefillRequiredError,
    PromptExceedsCapacityError,
    TokenOutOfVocabularyError,
    TokensRankError,
)
from reference_impl.decoder.model import DecoderModel
from reference_impl.layer_errors import CacheFullError, InputBatchMismatchError

Tokens = NDArray[np.intp]


def check_prefill(model: DecoderModel, cache: DecoderCache, prompt: ArrayLike) -> Tokens:
    """The prompt [B,T] as indices, or the first refusal that applies.

    Raises TokensRankError, InputBatchMismatchError, EmptyPromptError, PromptExceedsCapacityError,
    TokenOutOfVocabularyError, PrefillNotEmptyError, then the refusals of `DecoderCache.check_binding` and
    `check_layers`.
    """
    given = _with_lanes(cache, prompt, axes=2)
    if given.shape[1] == 0:
        raise EmptyPromptError
    if given.shape[1] > cache.capacity:
        raise PromptExceedsCapacityError(given.shape[1], cache.capacity)
    tokens = _in_vocabulary(given, model.config.vocabulary)
    if cache.length or cache.prefilled:
        raise PrefillNotEmptyError(cache.length)
    cache.check_binding(model)
    cache.check_layers()
    return tokens


def check_decode(model: DecoderModel, cache: DecoderCache, tokens: ArrayLike) -> Tokens:
    """The tokens [B], one a lane, as indices [B,1], or the first refusal that applies.

    Raises TokensRankError, InputBatchMismatchError, TokenOutOfVocabularyError, PrefillRequiredError,
    CacheFullError, then the refusals of `DecoderCache.check_binding` and `check_layers`.
    """
    given = _in_vocabulary(_with_lanes(cache, tokens, axes=1), model.config.vocabulary)
    if not cache.prefilled:
        raise PrefillRequiredError
    if cache.length == cache.capacity:
        raise CacheFullError(cache.capacity)
    cache.check_binding(model)
    cache.check_layers()
    return given[:, None]


def _with_lanes(cache: DecoderCache, tokens: ArrayLike, *, axes: int) -> NDArray[np.generic]:
    given = np.asarray(tokens)
    if given.ndim != axes:
        raise TokensRankError(given.ndim)
    if given.shape[0] != cache.batch_size:
        raise InputBatchMismatchError(cache.batch_size, given.shape[0])
    return given


def _in_vocabulary(given: NDArray[np.generic], vocabulary: int) -> Tokens:
    """Whole numbers of any dtype are tokens; fractions and what is not finite are none."""
    numbers = given.astype(np.float64)
    lawful = (numbers >= 0) & (numbers < vocabulary) & (numbers == np.floor(numbers))
    if not lawful.all():
        index = int(np.flatnonzero(~lawful)[0])
        raise TokenOutOfVocabularyError(index, float(numbers.reshape(-1)[index]), vocabulary)
    return numbers.astype(np.intp)
