"""Stores that lose rows, mix layers, lanes or heads, or hand out what is theirs."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_store import Array, OpenStoreAdapter, Store
from conformance.rejections import Rejected
from conformance.values import Observation, StoreConfig


@killer("store_axes_reshaped", fault="LAYOUT-STRIDE", violates="KEEP-PREFIX", level="store",
        says="chunks are reshaped from [B,T,G,d] to [B,G,T,d] where a transpose is needed")
class _Reshaped(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        keys, values = (part.swapaxes(1, 2).reshape(part.shape) for part in rows)
        super().write(store, layer, start, (keys, values))


@killer("store_heads_reversed", fault="LAYOUT-STRIDE", violates="KEEP-PREFIX", level="store",
        says="values are stored with their heads in reverse order")
class _HeadsReversed(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        super().write(store, layer, start, (rows[0], rows[1][:, ::-1]))


@killer("store_lane_0_in_all", fault="BATCH-ROW-BOOKKEEPING", violates="KEEP-PREFIX", level="store",
        says="the rows of lane 0 are written into every lane")
class _Lane0(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        keys, values = (np.repeat(part[:1], len(part), axis=0) for part in rows)
        super().write(store, layer, start, (keys, values))


@killer("store_rows_in_float32", fault="DTYPE-CACHE", violates="STORE-ROW-BITS", level="store",
        says="rows are kept in float32 whatever comes, and handed out as float64")
class _Float32(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        # What the scenarios store is exact in float32: a third shows that nothing else is.
        keys, values = ((part / 3.0).astype(np.float32).astype(np.float64) * 3.0 for part in rows)
        super().write(store, layer, start, (keys, values))


@killer("store_written_one_late", fault="WRITE-SLOT-SHIFT", violates="KEEP-PREFIX", level="store",
        says="rows go one slot too far")
class _OneLate(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        count = rows[0].shape[2]
        super().write(store, layer, min(start + 1, store.capacity - count), rows)


@killer("store_newest_overwritten", fault="WRITE-SLOT-SHIFT", violates="STORE-EARLIER-ROWS", level="store",
        says="an append writes over the newest row")
class _Overwritten(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        super().write(store, layer, max(start - 1, 0), rows)


@killer("store_first_row_of_chunk_only", fault="WRITE-SKIPPED", violates="KEEP-PREFIX", level="store",
        says="of an append of several rows only the first is stored")
class _FirstRow(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        super().write(store, layer, start, (rows[0][:, :, :1], rows[1][:, :, :1]))


@killer("store_one_length_for_all", fault="LAYER0-LENGTH", violates="KEEP-LAYERS", level="store",
        says="all layers share one length")
class _OneLength(OpenStoreAdapter):
    def raise_length(self, store: Store, layer: int, length: int) -> None:
        store.lengths = [length] * store.config.layers


@killer("store_layers_share_buffers", fault="LAYER-INDEX", violates="KEEP-LAYERS", level="store",
        says="the last two layers are kept in one pair of buffers")
class _SharedBuffers(OpenStoreAdapter):
    def build_store(self, config: StoreConfig, batch_size: int, capacity: int | None = None) -> Store:
        store = super().build_store(config, batch_size, capacity)
        if config.layers > 1:
            store.keys[-1], store.values[-1] = store.keys[-2], store.values[-2]
        return store


@killer("store_keyed_by_ordinal", fault="LAYER-INDEX", violates="KEEP-LAYERS", level="store",
        says="layers are numbered in the order of their first append")
class _ByOrdinal(OpenStoreAdapter):
    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        order = store.notes.setdefault("order", {})
        order.setdefault(layer, len(order))
        return super().append(store, order[layer], keys, values)


@killer("store_begins_with_a_row", fault="RESET-KEEPS-LENGTH", violates="KEEP-EMPTY", level="store",
        says="a new layer reads as one row of zeros until it is first written")
class _BeginsWithARow(OpenStoreAdapter):
    def observe(self, store: Store, layer: int) -> Observation:
        if store.lengths[layer] or store.notes.get("used"):
            return super().observe(store, layer)
        seen = super().observe(store, layer)
        return Observation(1, seen.capacity, store.keys[layer][:, :, :1], store.values[layer][:, :, :1])

    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        store.notes["used"] = True
        return super().append(store, layer, keys, values)


@killer("store_grown_by_flat_bytes", fault="GROW-CORRUPT", violates="KEEP-GROWTH", level="store",
        says="at 16 rows the buffers are grown by reshaping their flat bytes")
class _Grown(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        if start == 16:
            for buffer in (store.keys[layer], store.values[layer]):
                held = buffer[:, :, :16].reshape(-1)
                moved = np.resize(held, (*buffer.shape[:2], 17, buffer.shape[3]))
                buffer[:, :, :16] = moved[:, :, :16]
        super().write(store, layer, start, rows)


@killer("store_only_layer_0_reset", fault="RESET-KEEPS-LENGTH", violates="KEEP-RESET", level="store",
        says="a reset empties layer 0 alone")
class _OnlyLayer0(OpenStoreAdapter):
    def reset(self, store: Store) -> None:
        store.lengths[0] = 0


@killer("store_reset_does_nothing", fault="ROLLBACK-NOOP", violates="RESET-LENGTH", level="store",
        says="a reset does nothing")
class _ResetNothing(OpenStoreAdapter):
    def reset(self, store: Store) -> None:
        pass


@killer("store_old_rows_after_reset", fault="RESET-KEEPS-LENGTH", violates="RESET-INFLUENCE", level="store",
        says="after a reset the second row is the one that was there before")
class _OldRows(OpenStoreAdapter):
    def reset(self, store: Store) -> None:
        super().reset(store)
        store.notes["reset"] = True

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        if start != 1 or not store.notes.get("reset"):
            super().write(store, layer, start, rows)


@killer("store_snapshot_is_view", fault="ALIAS-SHARED-STATE", violates="KEEP-HANDED-OUT", level="store",
        says="a snapshot is a view of the buffers")
class _View(OpenStoreAdapter):
    def snapshot(self, store: Store) -> tuple[Array, Array]:
        seen = slice(0, store.lengths[0])
        return store.keys[0][:, :, seen], store.values[0][:, :, seen]


@killer("store_keeps_callers_array", fault="ALIAS-SHARED-STATE", violates="ISOLATE-CALLER-ARRAY",
        level="store", says="the first append keeps the caller's own arrays")
class _CallersArray(OpenStoreAdapter):
    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        for name, given in (("keys", keys), ("values", values)):
            store.notes.setdefault(f"{name} {layer}", given)
        return super().append(store, layer, keys, values)

    def observe(self, store: Store, layer: int) -> Observation:
        for name, buffers in (("keys", store.keys), ("values", store.values)):
            kept = store.notes.get(f"{name} {layer}")
            if kept is not None and store.lengths[layer] == kept.shape[2]:
                buffers[layer][:, :, : kept.shape[2]] = kept
        return super().observe(store, layer)


@killer("store_clears_callers_rows", fault="READONLY-MUTATION", violates="ISOLATE-INPUTS", level="store",
        says="an append clears the arrays that it was given")
class _ClearsInputs(OpenStoreAdapter):
    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        made = super().append(store, layer, keys, values)
        values[...] = 0.0
        return made


@killer("store_shared_by_all", fault="ALIAS-SHARED-STATE", violates="ISOLATE-CACHES", level="store",
        says="stores of one size share their buffers")
class _SharedByAll(OpenStoreAdapter):
    def __init__(self) -> None:
        self.known: dict[Any, Store] = {}

    def build_store(self, config: StoreConfig, batch_size: int, capacity: int | None = None) -> Store:
        store = super().build_store(config, batch_size, capacity)
        first = self.known.setdefault((config, batch_size, capacity), store)
        store.keys, store.values = first.keys, first.values
        return store


@killer("store_last_slot_refused", fault="FULL-OVERRUN", violates="CAPACITY-FITS", level="store",
        says="the last slot cannot be used")
class _LastSlot(OpenStoreAdapter):
    def check_room(self, store: Store, start: int, count: int) -> None:
        super().check_room(store, start + 1, count)


@killer("store_extra_row_dropped", fault="FULL-OVERRUN", violates="CAPACITY-FULL", level="store",
        says="the row too many is dropped without a word")
class _Dropped(OpenStoreAdapter):
    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        if store.lengths[layer] + keys.shape[2] <= store.capacity:
            super().append(store, layer, keys, values)


@killer("store_length_before_check", fault="FAIL-NOT-ATOMIC", violates="ATOMIC-LENGTH", level="store",
        says="a refused row raises the length all the same")
class _LengthBeforeCheck(OpenStoreAdapter):
    def check_room(self, store: Store, start: int, count: int) -> None:
        try:
            super().check_room(store, start, count)
        except Rejected:
            store.lengths[0] = start - 1
            raise


@killer("store_row_before_check", fault="FAIL-NOT-ATOMIC", violates="ATOMIC-ROWS", level="store",
        says="a refused row is written over the newest one")
class _RowBeforeCheck(OpenStoreAdapter):
    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        if store.lengths[layer] + keys.shape[2] > store.capacity:
            store.keys[layer][:, :, -1] = keys[:, :, -1]
        return super().append(store, layer, keys, values)


@killer("store_refusal_poisons_future", fault="FAIL-NOT-ATOMIC", violates="ATOMIC-FUTURE", level="store",
        says="after a refusal the next row is stored twice its size")
class _PoisonedFuture(OpenStoreAdapter):
    def check_room(self, store: Store, start: int, count: int) -> None:
        try:
            super().check_room(store, start, count)
        except Rejected:
            store.notes["refused"] = True
            raise

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        twice = 2.0 if store.notes.pop("refused", False) else 1.0
        super().write(store, layer, start, (twice * rows[0], twice * rows[1]))


@killer("store_capacity_in_shape", fault="LEN-CAPACITY-CONFUSION", violates="STORE-LOGICAL-SHAPE",
        level="store", says="the whole buffers are shown as the logical prefix")
class _CapacityShape(OpenStoreAdapter):
    def observe(self, store: Store, layer: int) -> Observation:
        seen = super().observe(store, layer)
        return Observation(seen.length, seen.capacity, store.keys[layer], store.values[layer], seen.storage)


@killer("store_length_by_one", fault="LEN-CAPACITY-CONFUSION", violates="STORE-LENGTH", level="store",
        says="an append of several rows raises the length by one")
class _LengthByOne(OpenStoreAdapter):
    def raise_length(self, store: Store, layer: int, length: int) -> None:
        store.lengths[layer] += 1


@killer("store_reset_halves_capacity", fault="CROP-EDGE", violates="RESET-CAPACITY", level="store",
        says="after a reset half of the capacity is left")
class _Halved(OpenStoreAdapter):
    def reset(self, store: Store) -> None:
        super().reset(store)
        store.notes["reset"] = True

    def check_room(self, store: Store, start: int, count: int) -> None:
        limit = store.capacity // 2 if store.notes.get("reset") else store.capacity
        if start + count > limit:
            raise Rejected("full", f"{count} rows behind {start} of {limit}")


@killer("store_truncate_from_other_end", fault="CROP-EDGE", violates="TRUNCATE-KEEPS", level="store",
        says="truncation keeps the newest rows")
class _OtherEnd(OpenStoreAdapter):
    def truncate(self, store: Store, length: int) -> None:
        before = list(store.lengths)
        super().truncate(store, length)
        for layer, held in enumerate(before):
            for buffer in (store.keys[layer], store.values[layer]):
                buffer[:, :, :length] = buffer[:, :, held - length : held].copy()


@killer("store_truncate_ignored", fault="ROLLBACK-NOOP", violates="TRUNCATE-LENGTH", level="store",
        says="truncation is accepted and does nothing")
class _TruncateIgnored(OpenStoreAdapter):
    def truncate(self, store: Store, length: int) -> None:
        before = list(store.lengths)
        super().truncate(store, length)
        store.lengths = before


@killer("store_truncate_beyond", fault="CROP-EDGE", violates="TRUNCATE-REFUSED", level="store",
        says="a length beyond the present one is taken for the present one")
class _TruncateBeyond(OpenStoreAdapter):
    def truncate(self, store: Store, length: int) -> None:
        super().truncate(store, min(length, *store.lengths) if length >= 0 else length)


@killer("store_truncated_row_returns", fault="ROLLBACK-NOOP", violates="TRUNCATE-FORGETS", level="store",
        says="a row behind a truncation keeps its old values and takes only the new keys")
class _RowReturns(OpenStoreAdapter):
    def truncate(self, store: Store, length: int) -> None:
        super().truncate(store, length)
        store.notes["cut"] = True

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        stop = start + rows[0].shape[2]
        old = store.values[layer][:, :, start:stop].copy()
        super().write(store, layer, start, rows)
        if store.notes.pop("cut", False):
            store.values[layer][:, :, start:stop] = old


@killer("store_fork_shares_values", fault="FORK-NO-COW", violates="FORK-APART", level="store",
        says="a fork shares the buffers of values with its origin")
class _ForkShares(OpenStoreAdapter):
    def fork(self, store: Store) -> Store:
        child = super().fork(store)
        child.values = store.values
        return child


@killer("store_fork_forgets_values", fault="SNAPSHOT-MISSING-STATE", violates="FORK-EQUAL", level="store",
        says="a fork takes the keys over and not the values")
class _ForkForgets(OpenStoreAdapter):
    def fork(self, store: Store) -> Store:
        child = super().fork(store)
        for buffer in child.values:
            buffer[...] = 0.0
        return child


@killer("store_reorders_keys_alone", fault="BATCH-REORDER", violates="REORDER-LANES", level="store",
        says="only keys are reordered")
class _KeysAlone(OpenStoreAdapter):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        values = [buffer.copy() for buffer in store.values]
        super().reorder(store, lanes)
        for buffer, kept in zip(store.values, values, strict=True):
            buffer[...] = kept


@killer("store_reorder_in_place", fault="BATCH-REORDER", violates="REORDER-LANES", level="store",
        says="lanes are copied one after the other, so that a source may be gone before it is read")
class _InPlace(OpenStoreAdapter):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        super().reorder(store, list(range(store.lanes)) if len(lanes) == store.lanes else lanes)
        for buffer in (*store.keys, *store.values):
            for lane, source in enumerate(lanes):
                buffer[lane] = buffer[source]


@killer("store_reorder_negative", fault="BATCH-REORDER", violates="REORDER-REFUSED", level="store",
        says="a negative lane is read from the end")
class _NegativeLane(OpenStoreAdapter):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        super().reorder(store, [lane % store.lanes if lane < 0 else lane for lane in lanes])


@killer("store_reorder_not_for_new_rows", fault="BATCH-REORDER", violates="REORDER-FUTURE", level="store",
        says="rows appended after a reorder go to the lanes of before")
class _OldLanes(OpenStoreAdapter):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        super().reorder(store, lanes)
        store.notes["lanes"] = lanes

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        lanes = store.notes.get("lanes")
        if lanes:
            rows = (rows[0][lanes], rows[1][lanes])
        super().write(store, layer, start, rows)
