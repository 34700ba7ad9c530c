"""The paged cache and its pool: block tables, sharing, copy on write, exhaustion, reuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reference_impl.layer_errors import CacheError
from reference_impl.paged.cache import PagedCache
from reference_impl.paged.pool import BlockPool

Array = np.ndarray[Any, Any]
B, G, DK, DV = 2, 3, 4, 5


def rows(count: int, seed: int = 0, batch: int = B) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, G, count, DK)), rng.normal(size=(batch, G, count, DV))


def pool(block_size: int = 4, blocks: int = 20, seed: int = 3) -> BlockPool:
    widths = {"kv_heads": G, "key_width": DK, "value_width": DV}
    return BlockPool(blocks=blocks, block_size=block_size, seed=seed, **widths)


def then(first: tuple[Array, Array], more: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.concatenate([first[0], more[0]], axis=2), np.concatenate([first[1], more[1]], axis=2)


def state(cache: PagedCache) -> tuple[Any, ...]:
    blocks = cache.pool
    return cache.tables, blocks.free, blocks.references, blocks.keys.tobytes(), blocks.values.tobytes()


def holds(cache: PagedCache, keys: Array, values: Array) -> bool:
    mine = cache.snapshot()
    return mine[0].tobytes() == keys.tobytes() and mine[1].tobytes() == values.tobytes()


def whole(blocks: BlockPool) -> bool:
    return sorted(blocks.free) == list(range(blocks.blocks)) and not any(blocks.references)


def refusal(call: Any) -> str:
    with pytest.raises(CacheError) as caught:
        call()
    return caught.value.kind


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 5, 8, 9, 16])
@pytest.mark.parametrize("parts", [[9], [1] * 9, [4, 1, 4], [3, 6]])
def test_any_block_size_holds_what_a_contiguous_cache_holds(block_size: int, parts: list[int]) -> None:
    keys, values = rows(9)
    blocks = pool(block_size)
    cache, start = PagedCache(blocks, B, 9), 0
    for count in parts:
        cache.append(keys[:, :, start : start + count], values[:, :, start : start + count])
        start += count
        assert holds(cache, keys[:, :, :start], values[:, :, :start])
        assert all(len(table) == -(-start // block_size) for table in cache.tables)
    assert refusal(lambda: cache.append(*rows(1))) == "full"
    cache.free()
    assert whole(blocks)


def test_physical_order_is_shuffled_and_follows_the_seed() -> None:
    tables = []
    for seed in (0, 0, 1):
        cache = PagedCache(pool(1, seed=seed), 1, 9)
        cache.append(*rows(9, batch=1))
        tables.append(cache.tables[0])
    assert tables[0] == tables[1] != tables[2]
    assert list(tables[0]) != sorted(tables[0])
    assert list(tables[0]) != sorted(tables[0], reverse=True)


def test_blocks_are_views_in_logical_order_that_end_at_the_length() -> None:
    blocks = pool(4)
    cache = PagedCache(blocks, B, 9)
    keys, values = rows(6)
    cache.append(keys, values)
    pieces = list(cache.blocks(1))
    assert [(span.start, span.stop) for span, _, _ in pieces] == [(0, 4), (4, 6)]
    for span, block_keys, block_values in pieces:
        assert np.array_equal(block_keys, keys[1, :, span])
        assert np.array_equal(block_values, values[1, :, span])
        assert np.shares_memory(block_keys, blocks.keys)
        assert np.shares_memory(block_values, blocks.values)


def test_an_append_writes_its_own_slots_only() -> None:
    blocks = pool(4)
    cache = PagedCache(blocks, B, 16)
    cache.append(*rows(5))
    held = cache.tables
    blocks_before = blocks.keys.copy()
    cache.append(*rows(1, seed=1))
    changed = np.argwhere((blocks.keys != blocks_before).any(axis=(1, 3))).tolist()
    assert sorted(changed) == sorted([table[1], 1] for table in held)


@pytest.mark.parametrize("length", [3, 4, 5, 8, 9])
def test_a_fork_inside_or_at_the_edge_of_a_block_copies_on_write(length: int) -> None:
    blocks = pool(4)
    parent = PagedCache(blocks, B, 16)
    keys, values = rows(length)
    parent.append(keys, values)
    taken = blocks.blocks - len(blocks.free)
    child = parent.fork()
    assert child.tables == parent.tables
    assert len(blocks.free) == blocks.blocks - taken
    child.append(*rows(1, seed=1))
    assert holds(parent, keys, values)
    parent.append(*rows(2, seed=2))
    for cache, seed, count in ((child, 1, 1), (parent, 2, 2)):
        assert holds(cache, *then((keys, values), rows(count, seed)))
    complete = length // 4
    for mine, its in zip(parent.tables, child.tables, strict=True):
        assert mine[:complete] == its[:complete]
        assert set(mine[complete:]).isdisjoint(its[complete:])
    parent.free()
    assert holds(child, *then((keys, values), rows(1, 1)))
    child.free()
    assert whole(blocks)


def test_the_last_holder_of_a_block_writes_without_a_copy() -> None:
    blocks = pool(4)
    parent = PagedCache(blocks, B, 16)
    parent.append(*rows(2))
    child = parent.fork()
    parent.free()
    before = child.tables
    child.append(*rows(1))
    assert child.tables == before


def test_lanes_that_share_a_block_after_a_reorder_part_on_the_next_write() -> None:
    blocks = pool(4, blocks=3)
    cache = PagedCache(blocks, 2, 8)
    keys, values = rows(2)
    cache.append(keys, values)
    cache.reorder([1, 1])
    assert cache.tables[0] == cache.tables[1]
    assert len(blocks.free) == 2
    cache.append(*rows(1, seed=1))
    assert holds(cache, *then((keys[[1, 1]], values[[1, 1]]), rows(1, seed=1)))
    # One of the two kept the block: sharing among the lanes alone costs one copy, not two.
    assert len(blocks.free) == 1


@pytest.mark.parametrize("lanes", [(2, 0, 1), (1, 1, 1), (0, 2, 2), (0, 1, 2)])
def test_reorder_equals_gathering_the_lanes(lanes: tuple[int, ...]) -> None:
    blocks = pool(4)
    cache = PagedCache(blocks, 3, 8)
    keys, values = rows(6, batch=3)
    cache.append(keys, values)
    cache.reorder(lanes)
    assert holds(cache, keys[list(lanes)], values[list(lanes)])
    assert cache.length == 6
    cache.free()
    assert whole(blocks)


def test_bad_lanes_and_lengths_are_refused() -> None:
    cache = PagedCache(pool(), B, 8)
    keys, values = rows(6)
    cache.append(keys, values)
    for lanes in ((0, 2), (-1, 0), (0,), (0, 1, 1)):
        assert refusal(lambda lanes=lanes: cache.reorder(lanes)) == "lane_out_of_range"
    for length in (7, -1):
        assert refusal(lambda length=length: cache.truncate(length)) == "invalid_length"
    assert holds(cache, keys, values)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 9])
def test_truncate_gives_whole_blocks_back_and_goes_on(length: int) -> None:
    blocks = pool(4)
    cache = PagedCache(blocks, B, 16)
    keys, values = rows(9)
    cache.append(keys, values)
    cache.truncate(length)
    assert blocks.blocks - len(blocks.free) == B * -(-length // 4)
    cache.append(*rows(3, seed=1))
    assert holds(cache, *then((keys[:, :, :length], values[:, :, :length]), rows(3, seed=1)))


def test_truncating_a_fork_inside_a_shared_block_spares_the_parent() -> None:
    blocks = pool(4)
    parent = PagedCache(blocks, B, 16)
    keys, values = rows(7)
    parent.append(keys, values)
    child = parent.fork()
    child.truncate(5)
    child.append(*rows(1, seed=1))
    child.truncate(2)
    child.poison(np.nan)
    assert holds(parent, keys, values)
    assert holds(child, keys[:, :, :2], values[:, :, :2])


def test_exhausted_blocks_refuse_and_nothing_has_happened() -> None:
    blocks = pool(4, blocks=5)
    cache = PagedCache(blocks, B, 100)
    keys, values = rows(7)
    cache.append(keys, values)
    before = state(cache)
    assert refusal(lambda: cache.append(*rows(2))) == "blocks_exhausted"
    assert state(cache) == before
    cache.append(*rows(1, seed=1))
    assert cache.length == 8


def test_copies_on_write_count_as_blocks_needed() -> None:
    blocks = pool(4, blocks=3)
    parent = PagedCache(blocks, B, 8)
    parent.append(*rows(2))
    child = parent.fork()
    before = (parent.tables, child.tables, blocks.free, blocks.references)
    assert refusal(lambda: child.append(*rows(1))) == "blocks_exhausted"
    assert (parent.tables, child.tables, blocks.free, blocks.references) == before
    parent.free()
    child.append(*rows(1))


def test_full_is_reported_before_exhaustion() -> None:
    cache = PagedCache(pool(4, blocks=1), B, 8)
    assert refusal(lambda: cache.append(*rows(9))) == "full"
    assert refusal(lambda: cache.append(*rows(8))) == "blocks_exhausted"


def test_reused_blocks_leak_nothing() -> None:
    blocks = pool(4, blocks=4)
    first, second = PagedCache(blocks, B, 8), PagedCache(blocks, B, 8)
    first.append(np.full((B, G, 8, DK), np.nan), np.full((B, G, 8, DV), 1e300))
    first.free()
    keys, values = rows(5)
    second.append(keys, values)
    assert holds(second, keys, values)
    assert [span.stop - span.start for span, _, _ in second.blocks(0)] == [4, 1]
    assert first.length == 0
    assert first.tables == ((),) * B


def test_poison_spares_every_row_that_is_held() -> None:
    blocks = pool(4)
    cache = PagedCache(blocks, B, 16)
    keys, values = rows(6)
    cache.append(keys, values)
    cache.poison(np.nan)
    assert holds(cache, keys, values)
    assert int(np.isnan(blocks.keys).sum()) == (20 * 4 - B * 6) * G * DK
    assert int(np.isnan(blocks.values).sum()) == (20 * 4 - B * 6) * G * DV


def test_construction_is_checked() -> None:
    assert refusal(lambda: pool(0)) == "zero_block_size"
    assert refusal(lambda: pool(-1)) == "zero_block_size"
    assert refusal(lambda: pool(1, blocks=0)) == "zero_capacity"
    assert refusal(lambda: PagedCache(pool(), 0, 0)) == "zero_batch_size"
    assert refusal(lambda: PagedCache(pool(), 1, 0)) == "zero_capacity"


def test_bad_rows_take_no_block() -> None:
    blocks = pool()
    cache = PagedCache(blocks, B, 8)
    keys, values = rows(2)
    for kind, bad in {
        "input_rank": (keys[0], values),
        "input_batch_mismatch": (keys[:1], values),
        "cache_head_count_mismatch": (keys, values[:, :1]),
        "cache_head_width_mismatch": (keys[..., :1], values),
        "empty_chunk": (keys[:, :, :0], values[:, :, :0]),
    }.items():
        assert refusal(lambda bad=bad: cache.append(*bad)) == kind
    with pytest.raises(TypeError, match="rounded"):
        cache.append(keys, values.astype(np.complex128))
    assert whole(blocks)


def test_a_pool_refuses_to_share_or_release_a_free_block() -> None:
    blocks = pool()
    block = blocks.take()
    blocks.release(block)
    with pytest.raises(ValueError, match="released once too often"):
        blocks.release(block)
    with pytest.raises(ValueError, match="only a held block"):
        blocks.share(block)
    assert whole(blocks)


class Sequences(RuleBasedStateMachine):
    """Any order of calls on caches of one pool, each beside plain arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = pool(3, blocks=14)
        self.caches: list[tuple[PagedCache, tuple[Array, Array]]] = []
        self.seed = 0

    def pick(self, index: int) -> int:
        return index % len(self.caches)

    @precondition(lambda self: len(self.caches) < 4)
    @rule()
    def create(self) -> None:
        self.caches.append((PagedCache(self.pool, B, 10), rows(0)))

    @precondition(lambda self: self.caches)
    @rule(index=st.integers(0, 3), count=st.integers(1, 5))
    def append(self, index: int, count: int) -> None:
        cache, held = self.caches[self.pick(index)]
        self.seed += 1
        new = rows(count, self.seed)
        before = state(cache)
        try:
            cache.append(*new)
        except CacheError as error:
            refused = error.kind
        else:
            self.caches[self.pick(index)] = (cache, then(held, new))
            return
        assert refused == ("full" if held[0].shape[2] + count > 10 else "blocks_exhausted")
        assert state(cache) == before

    @precondition(lambda self: self.caches)
    @rule(index=st.integers(0, 3), length=st.integers(0, 10))
    def truncate(self, index: int, length: int) -> None:
        cache, (keys, values) = self.caches[self.pick(index)]
        length = min(length, cache.length)
        cache.truncate(length)
        self.caches[self.pick(index)] = (cache, (keys[:, :, :length], values[:, :, :length]))

    @precondition(lambda self: 0 < len(self.caches) < 4)
    @rule(index=st.integers(0, 3))
    def fork(self, index: int) -> None:
        cache, held = self.caches[self.pick(index)]
        self.caches.append((cache.fork(), held))

    @precondition(lambda self: self.caches)
    @rule(index=st.integers(0, 3), lanes=st.tuples(st.integers(0, B - 1), st.integers(0, B - 1)))
    def reorder(self, index: int, lanes: tuple[int, int]) -> None:
        cache, (keys, values) = self.caches[self.pick(index)]
        cache.reorder(lanes)
        self.caches[self.pick(index)] = (cache, (keys[list(lanes)], values[list(lanes)]))

    @precondition(lambda self: self.caches)
    @rule(index=st.integers(0, 3))
    def free(self, index: int) -> None:
        self.caches.pop(self.pick(index))[0].free()

    @invariant()
    def every_cache_holds_its_rows(self) -> None:
        assert all(holds(cache, *held) for cache, held in self.caches)

    @invariant()
    def every_block_is_counted(self) -> None:
        tables = [block for cache, _ in self.caches for table in cache.tables for block in table]
        assert self.pool.references == tuple(tables.count(block) for block in range(self.pool.blocks))
        assert sorted(self.pool.free) == [b for b in range(self.pool.blocks) if b not in tables]


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
