"""One step: check, compute everything, and only then write."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.layer.cache import LayerCache
from reference_impl.layer.calculation import calculate
from reference_impl.layer.layer import Layer
from reference_impl.layer.memory import Array
from reference_impl.layer.result import Prepared, StepResult
from reference_impl.layer_errors import (
    CacheFullError,
    EmptyChunkError,
    InputBatchMismatchError,
    InputRankError,
    InputWidthMismatchError,
    SingleTokenRequiredError,
)

RowsPerAppend = Literal["one", "any"]


def append(
    layer: Layer,
    cache: LayerCache,
    rows: ArrayLike,
    *,
    rows_per_append: RowsPerAppend = "one",
    evidence: bool = True,
) -> StepResult:
    """Append rows [B,T,D] at positions n to n + T - 1; T is 1 unless `rows_per_append` is `"any"`.

    Attention of a chunk is causal inside the chunk. Refusals are those of `check_append`, then StepError of
    the stage that failed; every one of them leaves length, storage and layer as they were.
    """
    result, ticket = prepare(layer, cache, rows, rows_per_append=rows_per_append, evidence=evidence)
    cache._write(ticket)  # nothing has come between, so the ticket need not be tested
    return result


def prepare(
    layer: Layer,
    cache: LayerCache,
    rows: ArrayLike,
    *,
    rows_per_append: RowsPerAppend = "one",
    evidence: bool = True,
) -> Prepared:
    """Check and compute a step without writing it: the result, and a ticket for `commit`."""
    given = np.asarray(rows, dtype=np.float64)
    check_append(layer, cache, given, rows_per_append)
    return prepare_unchecked(layer, cache, given, evidence=evidence)


def check_append(layer: Layer, cache: LayerCache, rows: Array, rows_per_append: RowsPerAppend) -> None:
    """Everything that is known before the calculation, in the order of System 1, Rejections 1 to 11.

    Raises InputRankError, SingleTokenRequiredError (EmptyChunkError where chunks are taken),
    InputBatchMismatchError, InputWidthMismatchError, the refusals of `Binding.check`, CacheFullError.
    """
    if rows.ndim != 3:
        raise InputRankError(rows.ndim)
    batch_size, tokens, width = rows.shape
    if rows_per_append == "one" and tokens != 1:
        raise SingleTokenRequiredError(tokens)
    if tokens == 0:
        raise EmptyChunkError
    if batch_size != cache.batch_size:
        raise InputBatchMismatchError(cache.batch_size, batch_size)
    if width != layer.config.model_width:
        raise InputWidthMismatchError(layer.config.model_width, width)
    cache.binding.check(layer)
    if cache.length + tokens > cache.capacity:
        raise CacheFullError(cache.capacity)


def prepare_unchecked(layer: Layer, cache: LayerCache, rows: Array, *, evidence: bool = True) -> Prepared:
    """The calculation of `prepare` for callers that have established every condition of `check_append`.

    A whole-model session checks its binding once, when it binds. Raises StepError of the stage that failed.
    """
    return calculate(layer, cache, rows, evidence=evidence)
