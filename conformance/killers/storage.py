"""Storage: the dtype of rows, the slots they are written to, and the end of the buffer."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Work
from conformance.killers.rounding import to_bfloat16

# -- dtype --------------------------------------------------------------------------------------------------


@killer("f32_cache", fault="DTYPE-CACHE", violates="STORE-ROW-BITS", says="rows are stored in float32")
class _Float32Rows(OpenLayerAdapter):
    storage_dtype = np.float32


@killer("f16_cache", fault="DTYPE-CACHE", violates="STORE-ROW-BITS", says="rows are stored in float16")
class _Float16Rows(OpenLayerAdapter):
    storage_dtype = np.float16


@killer("bf16_cache", fault="DTYPE-CACHE", violates="STORE-KEYS", says="rows are stored in bfloat16")
class _Bfloat16Rows(OpenLayerAdapter):
    def stored_keys(self, work: Work) -> Array:
        return to_bfloat16(super().stored_keys(work))

    def stored_values(self, work: Work) -> Array:
        return to_bfloat16(super().stored_values(work))


@killer(
    "f32_values_of_chunks",
    fault="DTYPE-CACHE",
    violates="STORE-ROW-BITS",
    says="the values of a chunk pass through float32 on their way into storage",
)
class _Float32Chunks(OpenLayerAdapter):
    def stored_values(self, work: Work) -> Array:
        made = super().stored_values(work)
        return made.astype(np.float32) if work.count > 1 else made


@killer(
    "minus_zero_lost",
    fault="DTYPE-CACHE",
    violates="STORE-ROW-BITS",
    says="rows are added to cleared slots: -0.0 is stored as +0.0",
)
class _MinusZeroLost(OpenLayerAdapter):
    def stored_keys(self, work: Work) -> Array:
        return super().stored_keys(work) + 0.0

    def stored_values(self, work: Work) -> Array:
        return super().stored_values(work) + 0.0


# -- slots --------------------------------------------------------------------------------------------------


@killer(
    "write_one_late",
    fault="WRITE-SLOT-SHIFT",
    violates="STORE-KEYS",
    says="rows are written one slot too far, clipped to the last",
)
class _OneLate(OpenLayerAdapter):
    def slot(self, work: Work) -> int:
        return min(work.start + 1, work.cache.capacity - work.count)


@killer(
    "overwrite_last",
    fault="WRITE-SLOT-SHIFT",
    violates="STORE-EARLIER-ROWS",
    says="each call after the first writes one slot too early",
)
class _OneEarly(OpenLayerAdapter):
    def slot(self, work: Work) -> int:
        return max(work.start - 1, 0)


@killer(
    "next_slot_cleared",
    fault="WRITE-SLOT-SHIFT",
    violates="STORE-LATER-SLOTS",
    says="the slot behind the new row is written too",
)
class _NextSlotWritten(OpenLayerAdapter):
    def write(self, work: Work) -> None:
        super().write(work)
        work.cache.keys[:, :, work.start + work.count :][:, :, :1] = 1.0


@killer(
    "first_single_row_not_stored",
    fault="WRITE-SKIPPED",
    violates="STORE-ROW-BITS",
    says="the length rises without a write when a single row meets an empty cache",
)
class _FirstRowNotStored(OpenLayerAdapter):
    def write(self, work: Work) -> None:
        if work.start or work.count > 1:
            super().write(work)


@killer(
    "chunk_stores_first_row",
    fault="WRITE-SKIPPED",
    violates="CHUNK-ROWS",
    says="only the first row of a chunk is stored",
)
class _FirstRowOfChunk(OpenLayerAdapter):
    def write(self, work: Work) -> None:
        at = self.slot(work)
        work.cache.keys[:, :, at : at + 1] = self.stored_keys(work)[:, :, :1]
        work.cache.values[:, :, at : at + 1] = self.stored_values(work)[:, :, :1]


@killer(
    "chunk_tail_of_one_head_dropped",
    fault="WRITE-SKIPPED",
    violates="CHUNK-ROWS",
    says="of a chunk that is no whole number of blocks the last row of the last head is not stored",
)
class _TailDropped(OpenLayerAdapter):
    def write(self, work: Work) -> None:
        last = work.cache.keys[:, -1, self.slot(work) + work.count - 1].copy()
        super().write(work)
        if work.count > 1 and work.count % 4:
            work.cache.keys[:, -1, self.slot(work) + work.count - 1] = last


@killer(
    "v_stale",
    fault="WRITE-SKIPPED",
    violates="AGREE-HEADS",
    says="the newest value row is replaced by the one before it",
)
class _StaleValue(OpenLayerAdapter):
    def all_values(self, work: Work) -> Array:
        made = super().all_values(work).copy()
        if made.shape[2] > 1:
            made[:, :, -1] = made[:, :, -2]
        return made


@killer(
    "heads_written_as_positions",
    fault="LAYOUT-STRIDE",
    violates="CHUNK-ROWS",
    says="a chunk is written [B,T,G,d] into [B,G,T,d] without a transpose",
)
class _WrittenWithoutTranspose(OpenLayerAdapter):
    def stored_values(self, work: Work) -> Array:
        made = super().stored_values(work)
        return np.ascontiguousarray(made.swapaxes(1, 2)).reshape(made.shape)


# -- capacity -----------------------------------------------------------------------------------------------


class _Unlimited(OpenLayerAdapter):
    """Without the check for room."""

    dropped = ("room",)

    def write(self, work: Work) -> None:
        for row in range(work.count):
            at = self.place(work.start + row, work.cache.capacity)
            work.cache.keys[:, :, at : at + 1] = self.stored_keys(work)[:, :, row : row + 1]
            work.cache.values[:, :, at : at + 1] = self.stored_values(work)[:, :, row : row + 1]

    def place(self, position: int, capacity: int) -> int:
        """The slot of a position."""
        raise NotImplementedError


@killer(
    "full_clips_slot",
    fault="FULL-OVERRUN",
    violates="CAPACITY-FULL",
    says="the row too many is written over the last one",
)
class _Clipped(_Unlimited):
    def place(self, position: int, capacity: int) -> int:
        return min(position, capacity - 1)


@killer(
    "full_wraps",
    fault="FULL-OVERRUN",
    violates="CAPACITY-FULL",
    says="the row too many is written over the first one",
)
class _Wrapped(_Unlimited):
    def place(self, position: int, capacity: int) -> int:
        return position % capacity


@killer(
    "full_drops_row",
    fault="FULL-OVERRUN",
    violates="CAPACITY-FULL",
    says="the row too many vanishes: slices are cut at the end of the buffer",
)
class _Dropped(_Unlimited):
    def write(self, work: Work) -> None:
        free = max(work.cache.capacity - work.start, 0)
        work.cache.keys[:, :, work.start :][:, :, : work.count] = self.stored_keys(work)[:, :, :free]
        work.cache.values[:, :, work.start :][:, :, : work.count] = self.stored_values(work)[:, :, :free]

    def advance(self, work: Work) -> None:
        work.cache.length = min(work.start + work.count, work.cache.capacity)


@killer(
    "ring_wrap",
    fault="FULL-OVERRUN",
    violates="CAPACITY-FULL",
    says="slots wrap at capacity - 1 instead of refusing",
)
class _Ring(_Unlimited):
    def place(self, position: int, capacity: int) -> int:
        return position % max(capacity - 1, 1)
