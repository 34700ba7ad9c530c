"""Writes that land late: right whenever someone looks, wrong where a fork, snapshot or reorder comes first.

The rows of an append stand in a queue until the cache is observed; attention reads the buffers with the queue
laid over them. Right in itself: each fault leaves the queue out of one operation.
"""

from __future__ import annotations

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, Work
from conformance.killers.open_store import OpenStoreAdapter, Store
from conformance.killers.planted import plant_at_attention
from conformance.values import Observation


class _Late(OpenLayerAdapter):
    def _queue(self, cache: OpenCache) -> dict[int, tuple[Array, Array]]:
        return cache.notes.setdefault("queue", {})

    def write(self, work: Work) -> None:
        keys, values = self.stored_keys(work), self.stored_values(work)
        for row in range(work.count):
            self.queued(work.cache, work.start + row, (keys[:, :, row].copy(), values[:, :, row].copy()))

    def queued(self, cache: OpenCache, slot: int, rows: tuple[Array, Array]) -> None:
        """One row into the queue."""
        self._queue(cache)[slot] = rows

    def flush(self, cache: OpenCache) -> None:
        """The queue into the buffers."""
        for slot, (key, value) in self._queue(cache).items():
            cache.keys[:, :, slot], cache.values[:, :, slot] = key, value
        self._queue(cache).clear()

    def _over(self, work: Work, part: int) -> Array:
        held = (work.cache.keys, work.cache.values)[part][:, :, : work.start].copy()
        for slot, rows in self._queue(work.cache).items():
            if slot < work.start:
                held[:, :, slot] = rows[part]
        return held

    def retained_keys(self, work: Work) -> Array:
        return self._over(work, 0)

    def retained_values(self, work: Work) -> Array:
        return self._over(work, 1)

    def observe(self, cache: OpenCache) -> Observation:
        self.flush(cache)
        return super().observe(cache)

    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        self.flush(cache)
        return super().snapshot(cache)

    def fork(self, cache: OpenCache) -> OpenCache:
        self.flush(cache)
        return super().fork(cache)

    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        self.flush(cache)
        super().reorder(cache, lanes)

    def poison(self, cache: OpenCache, value: float) -> None:
        self.flush(cache)
        super().poison(cache, value)


@killer(
    "snapshot_before_the_queue",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-VALUES",
    says="a snapshot is taken of the buffers while the newest rows still wait in a queue",
)
class _SnapshotBefore(_Late):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        return OpenLayerAdapter.snapshot(self, cache)


@killer(
    "fork_before_the_queue",
    fault="FORK-LOSES-STATE",
    violates="FORK-APART",
    says="a fork copies the buffers and leaves the queue of unwritten rows behind",
)
class _ForkBefore(_Late):
    def fork(self, cache: OpenCache) -> OpenCache:
        return OpenLayerAdapter.fork(self, cache)


@killer(
    "reorder_before_the_queue",
    fault="BATCH-REORDER",
    violates="REORDER-FUTURE",
    says="a reorder moves the buffers; rows that wait in a queue keep their old lanes",
)
class _ReorderBefore(_Late):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        OpenLayerAdapter.reorder(self, cache, lanes)


@killer(
    "first_in_the_queue_wins",
    fault="ROLLBACK-NOOP",
    violates="TRUNCATE-FORGETS",
    says="a truncation leaves its rows in a queue, and of two rows for one slot the first is written",
)
class _FirstWins(_Late):
    def queued(self, cache: OpenCache, slot: int, rows: tuple[Array, Array]) -> None:
        self._queue(cache).setdefault(slot, rows)

    def reset(self, cache: OpenCache) -> None:
        self.flush(cache)
        super().reset(cache)


plant_at_attention(
    "snapshot_before_the_queue", "fork_before_the_queue", "reorder_before_the_queue",
    "first_in_the_queue_wins",
)  # fmt: skip


class _LateStore(OpenStoreAdapter):
    """A store that writes when it is looked at."""

    def _queue(self, store: Store) -> list[tuple[int, int, tuple[Array, Array]]]:
        return store.notes.setdefault("queue", [])

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        self._queue(store).append((layer, start, (rows[0].copy(), rows[1].copy())))

    def flush(self, store: Store) -> None:
        """The queue into the buffers, in the order in which it came."""
        for layer, start, rows in self.in_order(store):
            super().write(store, layer, start, rows)
        self._queue(store).clear()

    def in_order(self, store: Store) -> list[tuple[int, int, tuple[Array, Array]]]:
        """The queue as it is written."""
        return self._queue(store)

    def observe(self, store: Store, layer: int) -> Observation:
        self.flush(store)
        return super().observe(store, layer)

    def snapshot(self, store: Store) -> tuple[Array, Array]:
        self.flush(store)
        return super().snapshot(store)

    def fork(self, store: Store) -> Store:
        self.flush(store)
        return super().fork(store)

    def reorder(self, store: Store, lanes: list[int]) -> None:
        self.flush(store)
        super().reorder(store, lanes)


@killer(
    "store_snapshot_before_the_queue",
    fault="UPDATE-NOT-VISIBLE",
    violates="KEEP-HANDED-OUT",
    level="store",
    says="a snapshot is taken of the buffers while the newest rows still wait in a queue",
)
class _StoreSnapshotBefore(_LateStore):
    def snapshot(self, store: Store) -> tuple[Array, Array]:
        return OpenStoreAdapter.snapshot(self, store)


@killer(
    "store_fork_before_the_queue",
    fault="FORK-LOSES-STATE",
    violates="FORK-APART",
    level="store",
    says="a fork copies the buffers and leaves the queue of unwritten rows behind",
)
class _StoreForkBefore(_LateStore):
    def fork(self, store: Store) -> Store:
        return OpenStoreAdapter.fork(self, store)


@killer(
    "store_reorder_before_the_queue",
    fault="BATCH-REORDER",
    violates="REORDER-FUTURE",
    level="store",
    says="a reorder moves the buffers; rows that wait in a queue keep their old lanes",
)
class _StoreReorderBefore(_LateStore):
    def reorder(self, store: Store, lanes: list[int]) -> None:
        OpenStoreAdapter.reorder(self, store, lanes)


@killer(
    "store_queue_written_backwards",
    fault="ROLLBACK-NOOP",
    violates="TRUNCATE-FORGETS",
    level="store",
    says="a truncation leaves its rows in a queue that is written from its end",
)
class _StoreBackwards(_LateStore):
    def in_order(self, store: Store) -> list[tuple[int, int, tuple[Array, Array]]]:
        return self._queue(store)[::-1]
