"""Attention with a cache and nothing around it: queries, keys and values are handed in, already rotated.

The calculation is that of the layer (`reference_impl.layer.attend`), with key and value widths of their own.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.layer.attend import attend
from reference_impl.layer.memory import Array, allocate, element_count, read_only
from reference_impl.layer.stages import Stages
from reference_impl.layer.step import RowsPerAppend
from reference_impl.layer_errors import (
    CacheFullError,
    CacheHeadCountMismatchError,
    CacheHeadWidthMismatchError,
    EmptyChunkError,
    InputBatchMismatchError,
    InputRankError,
    SingleTokenRequiredError,
    ZeroBatchSizeError,
    ZeroCapacityError,
)


class HeadsRankError(InputRankError):
    """Query, key or value does not have four axes."""

    text = "query, key and value must be [B,heads,T,width]; got {rank} axes"


@dataclass(frozen=True)
class AttentionShape:
    """H query heads, G key/value heads (G divides H), widths dk and dv. Raises ValueError."""

    heads: int
    kv_heads: int
    key_width: int
    value_width: int

    def __post_init__(self) -> None:
        for name in ("heads", "kv_heads", "key_width", "value_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"AttentionShape: {name} is {getattr(self, name)}; at least 1 is needed")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"AttentionShape: {self.heads} query heads cannot share {self.kv_heads} "
                "key/value heads evenly"
            )


class AttentionCache:
    """Keys [B,G,C,dk] and values [B,G,C,dv] in two fixed row-major buffers, +0.0 at first.

    Raises, in this order: ZeroBatchSizeError, ZeroCapacityError, ElementCountOverflowError,
    AllocationFailedError.
    """

    def __init__(self, shape: AttentionShape, batch_size: int, capacity: int) -> None:
        self.shape = shape
        self.batch_size, self.capacity = operator.index(batch_size), operator.index(capacity)
        if self.batch_size < 1:
            raise ZeroBatchSizeError(self.batch_size)
        if self.capacity < 1:
            raise ZeroCapacityError(self.capacity)
        lanes = (self.batch_size, shape.kv_heads, self.capacity)
        for width in (shape.key_width, shape.value_width):
            element_count(*lanes, width)
        self._keys = allocate((*lanes, shape.key_width))
        self._values = allocate((*lanes, shape.value_width))
        self._length = 0

    @property
    def length(self) -> int:
        """n, the rows that each lane holds."""
        return self._length

    @property
    def key_storage(self) -> Array:
        """The whole key buffer, unused slots too; read-only, the memory itself."""
        return read_only(self._keys)

    @property
    def value_storage(self) -> Array:
        """The whole value buffer, unused slots too; read-only, the memory itself."""
        return read_only(self._values)

    def snapshot(self) -> tuple[Array, Array]:
        """Fresh copies of the logical keys [B,G,n,dk] and values [B,G,n,dv]."""
        return self._keys[:, :, : self._length].copy(), self._values[:, :, : self._length].copy()

    def reset(self) -> None:
        """Set the length to 0 and nothing else."""
        self._length = 0


@dataclass(frozen=True, eq=False)
class AttentionResult:
    """output [B,H,T,dv], weights [B,H,T,n] with n = length, the new logical length."""

    output: Array
    weights: Array
    length: int


def append(
    cache: AttentionCache,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    rows_per_append: RowsPerAppend = "any",
) -> AttentionResult:
    """Attend query [B,H,T,dk] over past and new rows, then keep key [B,G,T,dk] and value [B,G,T,dv].

    Causal, aligned at the bottom right; scores are dot products times 1/sqrt(dk). Raises, in this order and
    before anything changes: InputRankError, SingleTokenRequiredError or EmptyChunkError,
    InputBatchMismatchError, CacheHeadCountMismatchError, CacheHeadWidthMismatchError, CacheFullError, then
    StepError of the stages query, key, value, score, softmax and heads. Raises ValueError where query, key
    and value differ in T.
    """
    given = tuple(np.ascontiguousarray(rows, dtype=np.float64) for rows in (query, key, value))
    _check(cache, given, rows_per_append)
    queries, keys, values = given
    start, stop = cache._length, cache._length + keys.shape[2]
    stages = Stages()
    try:
        with np.errstate(all="ignore"):
            for name, rows in zip(("query", "key", "value"), given, strict=True):
                stages.enter(name, rows.size)
                stages.finite(rows)
            past = cache._keys[:, :, :start], cache._values[:, :, :start]
            weights, output = attend(stages, queries, past, (keys, values))
    except MemoryError:
        refusal = stages.out_of_memory()
        raise refusal from refusal.cause
    cache._keys[:, :, start:stop] = keys
    cache._values[:, :, start:stop] = values
    cache._length = stop
    return AttentionResult(output, weights, stop)


def _check(cache: AttentionCache, given: tuple[Array, ...], rows_per_append: RowsPerAppend) -> None:
    shape = cache.shape
    for rows in given:
        if rows.ndim != 4:
            raise HeadsRankError(rows.ndim)
    tokens = given[1].shape[2]
    if any(rows.shape[2] != tokens for rows in given):
        raise ValueError(f"query, key and value hold {[rows.shape[2] for rows in given]} rows; give as many")
    if rows_per_append == "one" and tokens != 1:
        raise SingleTokenRequiredError(tokens)
    if tokens == 0:
        raise EmptyChunkError
    for rows in given:
        if rows.shape[0] != cache.batch_size:
            raise InputBatchMismatchError(cache.batch_size, rows.shape[0])
    for heads, rows in zip((shape.heads, shape.kv_heads, shape.kv_heads), given, strict=True):
        if rows.shape[1] != heads:
            raise CacheHeadCountMismatchError(heads, rows.shape[1])
    for width, rows in zip((shape.key_width, shape.key_width, shape.value_width), given, strict=True):
        if rows.shape[3] != width:
            raise CacheHeadWidthMismatchError(width, rows.shape[3])
    if cache.length + tokens > cache.capacity:
        raise CacheFullError(cache.capacity)
