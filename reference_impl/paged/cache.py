"""The paged cache of one layer: a block table per lane over a shared pool, with copy on write.

To its reader it is a contiguous cache: rows 0..length - 1 of every lane, capacity in positions.
Source: Kwon et al. 2023; System 1 for length, capacity and atomicity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self

import numpy as np

from reference_impl.layer.memory import Array
from reference_impl.layer_errors import CacheFullError
from reference_impl.paged.pool import BlockPool
from reference_impl.row_checks import RowShape, require_exact, require_lanes, require_length, require_size


class PagedCache:
    """`batch_size` lanes of up to `capacity` rows each, in blocks taken from `pool` as rows arrive.

    Every lane has the same length. A call is refused before anything changes: `full` beyond the capacity,
    `blocks_exhausted` where the pool cannot give the blocks that the whole append needs.
    """

    def __init__(self, pool: BlockPool, batch_size: int, capacity: int) -> None:
        require_size(batch_size, capacity)
        self.pool, self.batch_size, self.capacity = pool, batch_size, capacity
        self._shape = RowShape(batch_size, pool.kv_heads, pool.keys.shape[3], pool.values.shape[3])
        self._tables: list[list[int]] = [[] for _ in range(batch_size)]
        self._length = 0

    @property
    def length(self) -> int:
        """Rows held by every lane."""
        return self._length

    @property
    def tables(self) -> tuple[tuple[int, ...], ...]:
        """The block table of each lane: physical blocks in logical order."""
        return tuple(tuple(table) for table in self._tables)

    def append(self, keys: Array, values: Array) -> None:
        """Append keys [B,G,T,dk] and values [B,G,T,dv], T at least 1, to all lanes or to none."""
        keys, values = np.asarray(keys), np.asarray(values)
        count = self._shape.require(keys, values)
        require_exact(keys, self.pool.keys.dtype)
        require_exact(values, self.pool.values.dtype)
        self.require_room(count)
        stop = self._length + count
        for lane, table in enumerate(self._tables):
            self._make_writable(table, stop)
            for block, inside, span in self._pieces(table, self._length, stop):
                rows = slice(span.start - self._length, span.stop - self._length)
                self.pool.keys[block, :, inside] = keys[lane, :, rows]
                self.pool.values[block, :, inside] = values[lane, :, rows]
        self._length = stop

    def require_room(self, rows: int) -> None:
        """Refuse as `full` or `blocks_exhausted` unless `rows` more rows fit in every lane."""
        stop = self._length + rows
        if stop > self.capacity:
            raise CacheFullError(self.capacity)
        grown = (self._blocks_for(stop) - self._blocks_for(self._length)) * self.batch_size
        self.pool.require(grown + self._copies_before_write())

    def blocks(self, lane: int) -> Iterator[tuple[slice, Array, Array]]:
        """The prefix of one lane block by block: positions, keys [G,s,dk] and values [G,s,dv], as views."""
        for block, inside, span in self._pieces(self._tables[lane], 0, self._length):
            yield span, self.pool.keys[block, :, inside], self.pool.values[block, :, inside]

    def snapshot(self) -> tuple[Array, Array]:
        """Fresh copies of the logical rows: keys [B,G,n,dk] and values [B,G,n,dv]."""
        lead = (self.batch_size, self.pool.kv_heads, self._length)
        keys = np.empty((*lead, self.pool.keys.shape[3]))
        values = np.empty((*lead, self.pool.values.shape[3]))
        for lane in range(self.batch_size):
            for span, block_keys, block_values in self.blocks(lane):
                keys[lane, :, span] = block_keys
                values[lane, :, span] = block_values
        return keys, values

    def truncate(self, length: int) -> None:
        """Keep the first `length` rows, 0 to the present length; blocks no longer needed go back."""
        require_length(length, self._length)
        for table in self._tables:
            for block in table[self._blocks_for(length) :]:
                self.pool.release(block)
            del table[self._blocks_for(length) :]
        self._length = length

    def fork(self) -> Self:
        """A cache with the same history in the same blocks; whoever writes into a shared one copies it."""
        child = copy(self)
        child._tables = [[self.pool.share(block) for block in table] for table in self._tables]
        return child

    def reorder(self, lanes: Sequence[int]) -> None:
        """Lane b continues what lane `lanes[b]` held; lanes may repeat (they share blocks) or be left out."""
        chosen = require_lanes(lanes, self.batch_size)
        # Shared before the old tables let go, so that no block passes through the free list.
        taken = [[self.pool.share(block) for block in self._tables[lane]] for lane in chosen]
        length = self._length
        self.free()
        self._tables, self._length = taken, length

    def free(self) -> None:
        """Give every block back to the pool; the cache is empty and can be used again."""
        self.truncate(0)

    def reset(self) -> None:
        """Length 0: forget every row. Same pool, same capacity."""
        self.free()

    def poison(self, value: float) -> None:
        """Fill every stored number that nobody may read: free blocks, and the tails of unshared ones."""
        for block in self.pool.free:
            self.pool.keys[block] = value
            self.pool.values[block] = value
        tail = self._length % self.pool.block_size
        for table in self._tables if tail else []:
            if self.pool.references[table[-1]] == 1:
                self.pool.keys[table[-1], :, tail:] = value
                self.pool.values[table[-1], :, tail:] = value

    def _blocks_for(self, rows: int) -> int:
        return -(-rows // self.pool.block_size)

    def _copies_before_write(self) -> int:
        """Blocks that copy on write will take before the next row can be written into a part-filled block."""
        if self._length % self.pool.block_size == 0:
            return 0
        holders = Counter(table[-1] for table in self._tables)
        # Where only our own lanes share a block, the last of them to write keeps it.
        return sum(min(ours, self.pool.references[block] - 1) for block, ours in holders.items())

    def _make_writable(self, table: list[int], stop: int) -> None:
        if self._length % self.pool.block_size:
            table[-1] = self.pool.own(table[-1])
        while len(table) < self._blocks_for(stop):
            table.append(self.pool.take())

    def _pieces(self, table: list[int], start: int, stop: int) -> Iterator[tuple[int, slice, slice]]:
        """Positions start..stop cut at block edges: block, rows inside it, positions."""
        size = self.pool.block_size
        while start < stop:
            end = min(stop, (start // size + 1) * size)
            first = start - start // size * size
            yield table[start // size], slice(first, first + end - start), slice(start, end)
            start = end
