"""Faults of stores and of paged caches that an outside tester planted and that passed: see `planted`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_store import Array, OpenStoreAdapter, Store
from conformance.killers.paged import _Paged
from conformance.rejections import Rejected
from reference_impl import paged


class _Joining(OpenStoreAdapter):
    """A store that joins arrays; `joined` makes the longer one."""

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        for part, new, buffers in zip((0, 1), rows, (store.keys, store.values), strict=True):
            made = self.joined(part, buffers[layer][:, :, :start], new, rows[0].shape[-1])
            buffers[layer][:, :, : made.shape[2]] = made

    def joined(self, part: int, old: Array, new: Array, key_width: int) -> Array:
        """Old rows, then new ones. part: 0 for keys, 1 for values."""
        return np.concatenate([old, new], axis=2)


@killer(
    "joined_behind_free_rows",
    fault="GROW-CORRUPT",
    violates="KEEP-GROWTH",
    level="store",
    says="storage grows in steps of 32; new rows that do not fit are joined behind the free ones",
)
class _BehindFreeRows(_Joining):
    def joined(self, part: int, old: Array, new: Array, key_width: int) -> Array:
        held, count = old.shape[2], new.shape[2]
        if held % 32 and (held - 1) // 32 != (held + count - 1) // 32:
            old = np.pad(old, ((0, 0), (0, 0), (0, -held % 32), (0, 0)))
        return np.concatenate([old, new], axis=2)[:, :, : held + count]


@killer(
    "growth_in_the_width_of_keys",
    fault="KDIM-VDIM",
    violates="KEEP-GROWTH",
    level="store",
    says="when storage is doubled values are copied in the width of keys",
)
class _InKeyWidth(_Joining):
    def joined(self, part: int, old: Array, new: Array, key_width: int) -> Array:
        held, total = old.shape[2], old.shape[2] + new.shape[2]
        if part and held and total > 16 and (held - 1).bit_length() != (total - 1).bit_length():
            old = old.copy()
            old[..., key_width:] = 0.0
        return np.concatenate([old, new], axis=2)


@killer(
    "reorder_as_far_as_layer_0",
    fault="LAYER0-LENGTH",
    violates="REORDER-LANES",
    level="store",
    says="a reorder moves as many rows of every layer as the first one holds",
)
class _AsFarAsLayer0(OpenStoreAdapter):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        kept = [buffer.copy() for buffer in (*store.keys, *store.values)]
        super().reorder(store, lanes)
        for buffer, was in zip((*store.keys, *store.values), kept, strict=True):
            buffer[:, :, store.lengths[0] :] = was[:, :, store.lengths[0] :]


@killer(
    "truncate_asks_the_longest",
    fault="LAYER0-LENGTH",
    violates="TRUNCATE-REFUSED",
    level="store",
    says="a truncation is held against the longest layer, and a shorter one grows",
)
class _AsksTheLongest(OpenStoreAdapter):
    def truncate(self, store: Store, length: int) -> None:
        if not 0 <= length <= max(store.lengths):
            raise Rejected("invalid_length", f"{length} of {max(store.lengths)}")
        store.lengths = [length] * store.config.layers


@killer(
    "store_adds_zero_to_keys",
    fault="DTYPE-CACHE",
    violates="STORE-ROW-BITS",
    level="store",
    says="keys are added to zeros: -0.0 is kept as +0.0",
)
class _AddsZero(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        super().write(store, layer, start, (rows[0] + 0.0, rows[1]))


@killer(
    "store_flushes_subnormals",
    fault="DTYPE-CACHE",
    violates="KEEP-PREFIX",
    level="store",
    says="numbers smaller than the smallest normal one are kept as 0",
)
class _FlushesSubnormals(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        tiny = np.finfo(np.float64).tiny
        keys, values = (np.where(np.abs(part) < tiny, np.copysign(0.0, part), part) for part in rows)
        super().write(store, layer, start, (keys, values))


@killer(
    "store_length_in_one_byte",
    fault="LONG-HISTORY",
    violates="KEEP-GROWTH",
    level="store",
    says="the length is kept in one byte",
)
class _OneByte(OpenStoreAdapter):
    def raise_length(self, store: Store, layer: int, length: int) -> None:
        store.lengths[layer] = length % 256


@killer(
    "store_snapshot_kept_by_length",
    fault="RESET-KEEPS-ROWS",
    violates="RESET-INFLUENCE",
    level="store",
    says="the last snapshot is handed out again where the length is the same",
)
class _SnapshotByLength(OpenStoreAdapter):
    def snapshot(self, store: Store) -> tuple[Array, Array]:
        kept = store.notes.get("snapshot")
        if kept is None or kept[0] != store.lengths[0]:
            kept = store.notes["snapshot"] = (store.lengths[0], *super().snapshot(store))
        return kept[1].copy(), kept[2].copy()


@killer(
    "store_lanes_in_fours",
    fault="LANE-MIXED",
    violates="KEEP-PREFIX",
    level="store",
    says="values are written four lanes at a time; the lanes that remain are given those of lane 3",
)
class _LanesInFours(OpenStoreAdapter):
    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        values = rows[1].copy()
        if len(values) > 4:
            values[len(values) // 4 * 4 :] = values[3]
        super().write(store, layer, start, (rows[0], values))


# -- in blocks --------------------------------------------------------------------------------------------


@killer(
    "cut_to_an_edge_keeps_a_block",
    fault="BLOCK-TAIL",
    violates="PAGED-SHARE",
    says="a truncation to the edge of a block keeps the block behind it, and a fork shares it unasked",
)
class _KeepsABlock(_Paged):
    class cache_class(paged.PagedLayerCache):  # noqa: N801
        def truncate(self, length: int) -> None:
            size = self.pool.block_size
            spare = [table[length // size : length // size + 1] for table in self._tables]
            if not length or length % size:
                super().truncate(length)
                return
            for block in (block for blocks in spare for block in blocks):
                self.pool.share(block)
            super().truncate(length)
            for table, blocks in zip(self._tables, spare, strict=True):
                table.extend(blocks)


@killer(
    "reset_frees_what_a_fork_holds",
    fault="BLOCK-REUSE-LEAK",
    violates="FORK-APART",
    says="a reset puts its blocks on the free list though a fork still reads them",
)
class _FreesSharedBlocks(_Paged):
    def reset(self, cache: Any) -> None:
        pool = cache.pool
        for block in {block for table in cache._tables for block in table}:
            if pool._references[block] > 1:
                pool._free.append(block)
        super().reset(cache)


@killer(
    "block_number_in_one_byte",
    fault="LAYOUT-STRIDE",
    violates="PAGED-EDGES",
    says="the number of a block is kept in one byte",
)
class _OneByteNumber(_Paged):
    class cache_class(paged.PagedLayerCache):  # noqa: N801
        def _pieces(self, table: list[int], start: int, stop: int) -> Iterator[tuple[int, slice, slice]]:
            for block, inside, span in super()._pieces(table, start, stop):
                yield block % 256, inside, span
