"""Checks of rows, lengths and lanes that stores, paged caches and cache edits share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_impl.layer_errors import (
    EmptyChunkError,
    InputBatchMismatchError,
    ZeroBatchSizeError,
    ZeroCapacityError,
)
from reference_impl.row_errors import (
    InvalidLengthError,
    LaneCountError,
    LaneOutOfRangeError,
    RowsHeadCountError,
    RowsHeadWidthError,
    RowsRankError,
)

Array = NDArray[Any]


@dataclass(frozen=True)
class RowShape:
    """What every row must fit: B lanes, G key/value heads, key width dk, value width dv."""

    batch_size: int
    kv_heads: int
    key_width: int
    value_width: int

    def require(self, keys: Array, values: Array) -> int:
        """T of keys [B,G,T,dk] and values [B,G,T,dv]; refuse other shapes and T = 0."""
        for rows, width in ((keys, self.key_width), (values, self.value_width)):
            if rows.ndim != 4:
                raise RowsRankError(rows.ndim)
            if rows.shape[0] != self.batch_size:
                raise InputBatchMismatchError(self.batch_size, rows.shape[0])
            if rows.shape[1] != self.kv_heads:
                raise RowsHeadCountError(self.kv_heads, rows.shape[1])
            if rows.shape[3] != width:
                raise RowsHeadWidthError(width, rows.shape[3])
        count, value_count = int(keys.shape[2]), int(values.shape[2])
        if count != value_count:
            raise ValueError(f"{count} key rows came with {value_count} value rows; give one value a key")
        if count == 0:
            raise EmptyChunkError()
        return count


def require_size(batch_size: int, capacity: int) -> None:
    """Refuse a cache without lanes, then one without room."""
    if batch_size < 1:
        raise ZeroBatchSizeError(batch_size)
    if capacity < 1:
        raise ZeroCapacityError(capacity)


def require_exact(rows: Array, dtype: np.dtype[Any]) -> None:
    """Raise TypeError for rows that storage of `dtype` would round."""
    if not np.can_cast(rows.dtype, dtype, "safe"):
        raise TypeError(f"rows of {rows.dtype} would be rounded to {dtype}; convert them first")


def require_length(length: int, held: int) -> None:
    """Refuse a truncation to anything but 0 to `held` rows."""
    if not 0 <= length <= held:
        raise InvalidLengthError(length, held)


def require_lanes(lanes: Sequence[int], batch_size: int) -> NDArray[np.intp]:
    """The lanes as indices; refuse unless each of `batch_size` lanes names one source among them."""
    chosen = np.asarray(lanes, dtype=np.intp)
    if chosen.shape != (batch_size,):
        raise LaneCountError(chosen.size, batch_size)
    outside = chosen[(chosen < 0) | (chosen >= batch_size)]
    if outside.size:
        raise LaneOutOfRangeError(int(outside[0]), batch_size)
    return chosen
