"""Caches in blocks. The clean class is the embedded paged layer; a killer changes its cache or its pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import reference_impl.layer as reference
from conformance.adapters.numpy_paged import NumpyPagedAdapter
from conformance.killers.model import killer
from conformance.rejections import Rejected
from conformance.values import Observation
from reference_impl import paged


class _Paged(NumpyPagedAdapter):
    """The embedded paged layer with a cache class of the killer's choice."""

    name = "paged layer"
    cache_class: type[paged.PagedLayerCache] = paged.PagedLayerCache

    def build_cache(self, layer: reference.Layer, batch_size: int, capacity: int) -> Any:
        """An empty cache over a pool of its own."""
        cache = super().build_cache(layer, batch_size, capacity)
        return self.cache_class(layer, batch_size, capacity, pool=cache.pool)

    def build_paged(self, layer: reference.Layer, batch_size: int, capacity: int, **wanted: Any) -> Any:
        """An empty cache over a pool as asked for."""
        cache = super().build_paged(layer, batch_size, capacity, **wanted)
        return self.cache_class(layer, batch_size, capacity, pool=cache.pool)


class _BlockLate(paged.PagedLayerCache):
    def _pieces(self, table: list[int], start: int, stop: int) -> Iterator[tuple[int, slice, slice]]:
        for block, inside, span in super()._pieces(table, start, stop):
            # The row that opens a block is put into the block before it.
            late = span.start > 0 and inside.start == 0 and span.stop - span.start == 1
            yield (table[span.start // self.pool.block_size - 1] if late else block), inside, span


@killer(
    "block_taken_late", fault="BLOCK-TAIL", violates="PAGED-EDGES",
    says="the row that opens a block is written into and read from the block before it",
)  # fmt: skip
class _TakenLate(_Paged):
    cache_class = _BlockLate


class _PoolOrder(paged.PagedLayerCache):
    def blocks(self, lane: int) -> Iterator[tuple[slice, Any, Any]]:
        table = sorted(self._tables[lane])
        for block, inside, span in self._pieces(table, 0, self._length):
            yield span, self.pool.keys[block, :, inside], self.pool.values[block, :, inside]


@killer(
    "blocks_read_in_pool_order", fault="LAYOUT-STRIDE", violates="PAGED-EDGES",
    says="blocks are read in the order of the pool, not of the table",
)  # fmt: skip
class _ReadsPoolOrder(_Paged):
    cache_class = _PoolOrder


@killer(
    "table_one_block_ahead", fault="BLOCK-TAIL", violates="PAGED-TABLE",
    says="a block is taken as soon as the last one is full, before there is a row for it",
)  # fmt: skip
class _OneAhead(_Paged):
    class cache_class(paged.PagedLayerCache):  # noqa: N801
        def append(self, keys: Any, values: Any) -> None:
            super().append(keys, values)
            if self._length % self.pool.block_size == 0 and self._length < self.capacity:
                for table in self._tables:
                    if self.pool.free:
                        table.append(self.pool.take())


@killer(
    "block_handed_out_twice", fault="BLOCK-REUSE-LEAK", violates="PAGED-TABLE",
    says="all lanes of a cache are given the same blocks",
)  # fmt: skip
class _HandedTwice(_Paged):
    class cache_class(paged.PagedLayerCache):  # noqa: N801
        def append(self, keys: Any, values: Any) -> None:
            super().append(keys, values)
            for lane, table in enumerate(self._tables[1:], start=1):
                for block in table:
                    self.pool.release(block)
                self._tables[lane] = [self.pool.share(block) for block in self._tables[0]]


@killer(
    "reset_keeps_blocks", fault="BLOCK-REUSE-LEAK", violates="PAGED-POOL",
    says="a reset empties the tables and does not give the blocks back",
)  # fmt: skip
class _KeepsBlocks(_Paged):
    def reset(self, cache: Any) -> None:
        cache._tables = [[] for _ in range(cache.batch_size)]
        cache._length = 0


class _ReadsTail(paged.PagedLayerCache):
    fresh = True

    def append(self, keys: Any, values: Any) -> None:
        opens = self._length % self.pool.block_size == 0
        super().append(keys, values)
        if opens and self.pool.block_size > 1:
            # The second row of a block that has been used before is taken for written.
            for table in self._tables:
                stale = self.pool.values[table[-1], :, 1].copy()
                if stale.any():
                    self.pool.values[table[-1], :, 0] += 0.5 * stale


@killer(
    "reused_block_shines_through", fault="BLOCK-REUSE-LEAK", violates="PAGED-REUSE",
    says="the first row of a block that had another owner is mixed with what was left in the block",
)  # fmt: skip
class _ShinesThrough(_Paged):
    cache_class = _ReadsTail


class _NoCopy(paged.PagedLayerCache):
    def _make_writable(self, table: list[int], stop: int) -> None:
        while len(table) < self._blocks_for(stop):
            table.append(self.pool.take())


@killer(
    "no_copy_on_write", fault="FORK-NO-COW", violates="PAGED-SHARE",
    says="a fork writes into the block that it shares with its origin",
)  # fmt: skip
class _NoCopyOnWrite(_Paged):
    cache_class = _NoCopy


@killer(
    "fork_copies_every_block", fault="FORK-NO-COW", violates="PAGED-SHARE",
    says="a fork copies every block instead of sharing them",
)  # fmt: skip
class _CopiesAll(_Paged):
    def fork(self, cache: Any) -> Any:
        child = cache.fork()
        if len(cache.pool.free) >= sum(len(table) for table in child._tables):
            child._tables = [[child.pool.own(block) for block in table] for table in child._tables]
        return child


class _FirstLaneFirst(paged.PagedLayerCache):
    def require_room(self, rows: int) -> None:
        try:
            super().require_room(rows)
        except Exception:
            if self.pool.free and self._tables[0]:
                self._tables[0].append(self.pool.take())
            raise


@killer(
    "first_lane_takes_its_block", fault="FAIL-NOT-ATOMIC", violates="PAGED-EXHAUSTED",
    says="the first lane has taken its block when the second one is refused",
)  # fmt: skip
class _TakesFirst(_Paged):
    cache_class = _FirstLaneFirst


@killer(
    "exhausted_pool_is_full", fault="REFUSAL-KIND", violates="PAGED-EXHAUSTED",
    says="a pool without free blocks is reported as a full cache",
)  # fmt: skip
class _Full(_Paged):
    def append(self, layer: Any, cache: Any, rows: Any) -> Any:
        try:
            return super().append(layer, cache, rows)
        except Rejected as refusal:
            if refusal.kind == "blocks_exhausted":
                raise Rejected("full", "no block is free") from refusal
            raise


@killer(
    "zero_block_size_taken_for_one", fault="CONSTRUCT-CLAMPED", violates="PAGED-ZERO-BLOCK",
    says="a block size of 0 is read as 1",
)  # fmt: skip
class _ZeroIsOne(_Paged):
    def build_paged(self, layer: Any, batch_size: int, capacity: int, **wanted: Any) -> Any:
        return super().build_paged(
            layer, batch_size, capacity, **{**wanted, "block_size": max(1, wanted["block_size"])}
        )


@killer(
    "free_blocks_counted_at_build", fault="BLOCK-REUSE-LEAK", violates="PAGED-POOL",
    says="the number of free blocks is told as it was when the pool was made",
)  # fmt: skip
class _CountedOnce(_Paged):
    def observe(self, cache: Any) -> Observation:
        seen = super().observe(cache)
        return Observation(
            seen.length, seen.capacity, seen.keys, seen.values,
            extra={**seen.extra, "free_blocks": cache.pool.blocks},
        )  # fmt: skip
