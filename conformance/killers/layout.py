"""Storage: how buffers lie, whether they are read again, and what is shown of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, Work
from conformance.values import LayerConfig, Observation, Step

# -- layout -------------------------------------------------------------------------------------------------


@killer(
    "queries_kept",
    fault="STORAGE-LAYOUT",
    violates="STORE-TOTAL",
    says="queries are kept beside keys and values",
)
class _QueriesKept(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        kept = cache.notes.setdefault("queries", np.zeros_like(cache.keys))
        return Observation(shown.length, shown.capacity, shown.keys, shown.values, (*shown.storage, kept))


@killer(
    "one_buffer",
    fault="STORAGE-LAYOUT",
    violates="STORE-TWO-BUFFERS",
    says="keys and values lie in one buffer",
)
class _OneBuffer(OpenLayerAdapter):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        both = np.zeros((2, batch_size, config.kv_heads, capacity, config.head_width))
        return both[0], both[1]

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        both = cache.keys.base if cache.keys.base is not None else cache.keys
        return Observation(shown.length, shown.capacity, shown.keys, shown.values, (both,))


@killer(
    "values_first",
    fault="STORAGE-LAYOUT",
    violates="STORE-ROW-MAJOR",
    says="values are allocated before keys, and are the first buffer",
)
class _ValuesFirst(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(shown.length, shown.capacity, shown.keys, shown.values, shown.storage[::-1])


@killer(
    "position_major",
    fault="STORAGE-LAYOUT",
    violates="STORE-ROW-MAJOR",
    says="rows lie position-major: [B,C,G,d]",
)
class _PositionMajor(OpenLayerAdapter):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        shape = (batch_size, capacity, config.kv_heads, config.head_width)
        return np.zeros(shape).swapaxes(1, 2), np.zeros(shape).swapaxes(1, 2)

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        lying = tuple(entry.swapaxes(1, 2).reshape(entry.shape) for entry in (cache.keys, cache.values))
        return Observation(shown.length, shown.capacity, shown.keys, shown.values, lying)


@killer(
    "capacity_doubled",
    fault="STORAGE-LAYOUT",
    violates="STORE-TOTAL",
    says="twice the rows that were asked for are allocated",
)
class _CapacityDoubled(OpenLayerAdapter):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        return super().allocate(config, batch_size, 2 * capacity)


@killer(
    "buffers_not_cleared",
    fault="STORAGE-LAYOUT",
    violates="STORE-ZERO-FILLED",
    says="new buffers hold whatever stood in memory",
)
class _NotCleared(OpenLayerAdapter):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        keys, values = super().allocate(config, batch_size, capacity)
        values[...] = 0.25
        return keys, values


@killer(
    "buffers_minus_zero", fault="STORAGE-LAYOUT", violates="STORE-ZERO-FILLED", says="new buffers hold -0.0"
)
class _MinusZeroFilled(OpenLayerAdapter):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        keys, values = super().allocate(config, batch_size, capacity)
        return -keys, values


@killer(
    "rows_concatenated",
    fault="STORAGE-REPLACED",
    violates="STORE-ADDRESSES",
    says="every append makes new buffers and copies the history into them",
)
class _Concatenated(OpenLayerAdapter):
    def write(self, work: Work) -> None:
        cache = work.cache
        cache.keys, cache.values = cache.keys.copy(), cache.values.copy()
        super().write(work)


@killer(
    "grown_by_reshape",
    fault="GROW-CORRUPT",
    violates="STORE-EARLIER-ROWS",
    says="the buffer is grown flat, which keeps the bytes in order but not the axes",
)
class _GrownFlat(OpenLayerAdapter):
    """Holds two rows at first; the buffer is grown to the capacity when the third comes."""

    def write(self, work: Work) -> None:
        if work.start <= 2 < work.start + work.count:
            work.cache.keys[...] = np.resize(work.cache.keys[:, :, : work.start], work.cache.keys.shape)
        super().write(work)


# -- reuse --------------------------------------------------------------------------------------------------


@killer(
    "recomputes_prefix",
    fault="CACHE-NOT-USED",
    violates="REUSE-STORED-ROW",
    says="every call computes the whole prefix again and never reads what it has stored",
)
class _Recomputes(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        own = np.concatenate([self.retained_values(work), work.stages["value"]], axis=2).copy()
        work.cache.notes["seen"] = own
        return super().step(work)

    def retained_values(self, work: Work) -> Array:
        seen = work.cache.notes.get("seen")
        if seen is None or not work.start:
            return super().retained_values(work)
        return seen[:, :, : work.start]


@killer(
    "length_raised_twice",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-LENGTH",
    says="the length that is shown counts every row twice",
)
class _CountedTwice(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(2 * shown.length, shown.capacity, shown.keys, shown.values, shown.storage)


@killer(
    "length_reads_zero",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-LENGTH",
    says="rows are kept, but a flag stays unset and the length reads 0",
)
class _LengthReadsZero(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(0, shown.capacity, shown.keys, shown.values, shown.storage)


@killer(
    "append_works_on_copy",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-LENGTH",
    says="the call appends to a copy of the cache and the caller keeps the old one",
)
class _WorksOnCopy(OpenLayerAdapter):
    def commit(self, work: Work) -> None:
        work.cache = self.fork(work.cache)
        super().commit(work)


@killer(
    "capacity_shown_as_length",
    fault="LEN-CAPACITY-CONFUSION",
    violates="STORE-LOGICAL-SHAPE",
    says="the logical rows that are shown are the whole buffer",
)
class _BufferShown(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(shown.length, shown.capacity, cache.keys, cache.values, shown.storage)


@killer(
    "values_allocated_as_keys",
    fault="KDIM-VDIM",
    violates="STORE-LOGICAL-SHAPE",
    says="the values that are shown have the head width of the model",
)
class _ValuesTooWide(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        values = np.concatenate([shown.values, np.zeros_like(shown.values)], axis=-1)
        return Observation(shown.length, shown.capacity, shown.keys, values, shown.storage)


@killer(
    "observation_kept",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-VALUES",
    says="values are shown as they stood at the first look",
)
class _ObservationKept(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        kept: Any = cache.notes.setdefault("first look", cache.values.copy())
        return Observation(
            shown.length, shown.capacity, shown.keys, kept[:, :, : shown.length], shown.storage
        )
