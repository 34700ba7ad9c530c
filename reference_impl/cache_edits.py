"""Rollback, fork and reorder of a contiguous layer cache; each is refused whole or done whole."""

from __future__ import annotations

from collections.abc import Sequence

from reference_impl.layer import LayerCache
from reference_impl.row_checks import require_lanes, require_length


def truncate(cache: LayerCache, length: int) -> None:
    """Keep the first `length` rows, 0 to the present length. No byte changes, no storage moves.

    The next row takes slot and position `length`, so that truncating and appending again equals never
    having had the rows. Raises InvalidLengthError.
    """
    require_length(length, cache.length)
    cache._length = length


def fork(cache: LayerCache) -> LayerCache:
    """A cache with the same rows and binding in storage of its own. Raises AllocationFailedError."""
    return cache.clone()


def reorder(cache: LayerCache, lanes: Sequence[int]) -> None:
    """Lane b becomes a copy of what lane `lanes[b]` was; lanes may repeat or be left out.

    Only rows that are held move; unused slots and storage stay. Raises LaneCountError or
    LaneOutOfRangeError.
    """
    chosen = require_lanes(lanes, cache.batch_size)
    for buffer in (cache._keys, cache._values):
        # Indexing with an array copies before anything is written, so no source is overwritten too early.
        buffer[:, :, : cache.length] = buffer[chosen, :, : cache.length]
