"""Stores: rows come back bit for bit, growing and fixed; every refusal leaves all as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.layer_errors import CacheError
from reference_impl.row_checks import RowShape
from reference_impl.store import FixedStore, GrowingStore, SlotCache

Array = np.ndarray[Any, Any]
SHAPE = RowShape(batch_size=2, kv_heads=3, key_width=5, value_width=7)
LAYERS = 4
MAKERS: dict[str, Callable[[], Any]] = {
    "growing": lambda: GrowingStore(LAYERS, SHAPE),
    "fixed": lambda: FixedStore(LAYERS, SHAPE, 11),
}
both = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def rows(count: int, seed: int = 0, shape: RowShape = SHAPE) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    lead = (shape.batch_size, shape.kv_heads, count)
    return rng.normal(size=(*lead, shape.key_width)), rng.normal(size=(*lead, shape.value_width))


def same_bits(left: Array, right: Array) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()


def holds(store: Any, layer: int, expected: tuple[Array, Array] | None) -> bool:
    pair = store.get(layer)
    if expected is None or pair is None:
        return pair is expected
    return same_bits(pair[0], expected[0]) and same_bits(pair[1], expected[1])


def cut(pair: tuple[Array, Array], start: int, stop: int) -> tuple[Array, Array]:
    return pair[0][:, :, start:stop], pair[1][:, :, start:stop]


def joined(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.concatenate([first[0], then[0]], axis=2), np.concatenate([first[1], then[1]], axis=2)


@both
@settings(max_examples=25, deadline=None)
@given(calls=st.lists(st.tuples(st.integers(0, LAYERS - 1), st.integers(1, 3)), max_size=9))
def test_every_layer_gives_back_exactly_its_own_rows(
    make: Callable[[], Any], calls: list[tuple[int, int]]
) -> None:
    store, expected = make(), {layer: rows(11, seed=layer) for layer in range(LAYERS)}
    lengths = [0] * LAYERS
    for layer, count in calls:
        if lengths[layer] + count > 11:
            continue
        store.append(layer, *cut(expected[layer], lengths[layer], lengths[layer] + count))
        lengths[layer] += count
    for layer, length in enumerate(lengths):
        assert store.length(layer) == length
        assert holds(store, layer, cut(expected[layer], 0, length) if length else None)


@both
def test_signed_zeros_nans_and_strided_rows_keep_their_bits(make: Callable[[], Any]) -> None:
    keys, values = rows(4)
    keys[0, 0, 0, :3] = [-0.0, np.nan, -np.inf]
    keys.view(np.uint64)[0, 0, 0, 3] = 0x7FF0_0000_0000_0BAD
    store = make()
    turned = np.ascontiguousarray(values.transpose(2, 0, 1, 3)).transpose(1, 2, 0, 3)
    store.append(0, keys[:, :, ::2], turned[:, :, :2])
    assert holds(store, 0, (keys[:, :, ::2], values[:, :, :2]))


@both
def test_nothing_aliases(make: Callable[[], Any]) -> None:
    store, (keys, values) = make(), rows(2)
    store.append(0, keys, values)
    before = (keys.copy(), values.copy())
    keys[:], values[:] = 9.0, 9.0
    assert holds(store, 0, before)
    for array in store.get(0):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 9.0


@both
def test_reset_empties_every_layer_and_leaves_no_influence(make: Callable[[], Any]) -> None:
    store = make()
    for layer in range(LAYERS):
        store.append(layer, *rows(3 + layer))
    store.reset()
    assert [store.get(layer) for layer in range(LAYERS)] == [None] * LAYERS
    store.append(2, *rows(2, seed=5))
    assert holds(store, 2, rows(2, seed=5))
    assert store.length(1) == 0


def filled(make: Callable[[], Any], *, length: int = 4) -> Any:
    store = make()
    for layer in range(LAYERS):
        store.append(layer, *rows(length, seed=layer))
    return store


BAD_ROWS = {
    "input_rank": (lambda k, v: (k[0], v)),
    "input_batch_mismatch": (lambda k, v: (k[:1], v)),
    "cache_head_count_mismatch": (lambda k, v: (k, v[:, :2])),
    "cache_head_width_mismatch": (lambda k, v: (k, v[..., :5])),
    "empty_chunk": (lambda k, v: (k[:, :, :0], v[:, :, :0])),
}


@both
@pytest.mark.parametrize("kind", BAD_ROWS)
def test_bad_rows_are_refused_and_change_nothing(make: Callable[[], Any], kind: str) -> None:
    store = filled(make)
    with pytest.raises(CacheError) as caught:
        store.append(1, *BAD_ROWS[kind](*rows(2)))
    assert caught.value.kind == kind
    assert all(holds(store, layer, rows(4, seed=layer)) for layer in range(LAYERS))
    store.append(1, *rows(2))
    assert store.length(1) == 6


@both
def test_rows_that_cannot_be_kept_are_refused(make: Callable[[], Any]) -> None:
    store = filled(make)
    keys, values = rows(2)
    with pytest.raises(ValueError, match="2 key rows came with 1 value rows"):
        store.append(0, keys, values[:, :, :1])
    with pytest.raises(TypeError, match="rounded"):
        store.append(0, keys, values.astype(np.complex128))
    for layer in (-1, LAYERS):
        with pytest.raises(IndexError, match="layers 0 to 3"):
            store.append(layer, keys, values)
        with pytest.raises(IndexError, match="layers 0 to 3"):
            store.get(layer)
    assert all(holds(store, layer, rows(4, seed=layer)) for layer in range(LAYERS))


@both
def test_truncate_and_append_equals_never_having_had_the_rows(make: Callable[[], Any]) -> None:
    store = filled(make)
    for length in (5, -1):
        with pytest.raises(CacheError) as caught:
            store.truncate(length)
        assert caught.value.kind == "invalid_length"
        assert holds(store, 3, rows(4, seed=3))
    store.truncate(4)
    assert holds(store, 3, rows(4, seed=3))
    store.truncate(1)
    store.append(3, *rows(2, seed=8))
    assert holds(store, 3, joined(cut(rows(4, seed=3), 0, 1), rows(2, seed=8)))
    assert holds(store, 0, cut(rows(4, seed=0), 0, 1))
    store.truncate(1)
    store.truncate(0)
    assert [store.get(layer) for layer in range(LAYERS)] == [None] * LAYERS


@both
def test_a_truncation_is_bounded_by_the_shortest_layer(make: Callable[[], Any]) -> None:
    store = filled(make)
    store.append(2, *rows(3))
    with pytest.raises(CacheError):
        store.truncate(5)
    assert [store.length(layer) for layer in range(LAYERS)] == [4, 4, 7, 4]


@both
def test_a_fork_has_the_history_and_a_future_of_its_own(make: Callable[[], Any]) -> None:
    parent = filled(make)
    child = parent.fork()
    parent.append(0, *rows(1, seed=20))
    child.append(0, *rows(2, seed=21))
    child.append(1, *rows(1, seed=22))
    for store, seed, count in ((parent, 20, 1), (child, 21, 2)):
        assert holds(store, 0, joined(rows(4, seed=0), rows(count, seed=seed)))
    assert (parent.length(1), child.length(1)) == (4, 5)
    parent.reset()
    assert holds(child, 3, rows(4, seed=3))


@both
@pytest.mark.parametrize("lanes", [(1, 0), (0, 0), (1, 1), (0, 1)])
def test_reorder_moves_lanes_of_every_layer(make: Callable[[], Any], lanes: tuple[int, ...]) -> None:
    store = filled(make)
    store.reorder(lanes)
    for layer in range(LAYERS):
        keys, values = rows(4, seed=layer)
        assert holds(store, layer, (keys[list(lanes)], values[list(lanes)]))


@both
@pytest.mark.parametrize("lanes", [(0, 2), (-1, 0), (0,), (0, 1, 0)])
def test_bad_lanes_are_refused(make: Callable[[], Any], lanes: tuple[int, ...]) -> None:
    store = filled(make)
    with pytest.raises(CacheError) as caught:
        store.reorder(lanes)
    assert caught.value.kind == "lane_out_of_range"
    assert holds(store, 2, rows(4, seed=2))


def test_a_fixed_store_refuses_the_row_too_many_and_goes_on() -> None:
    store = FixedStore(LAYERS, SHAPE, 5)
    store.append(1, *rows(4))
    before = [buffer.tobytes() for buffer in store.storage]
    with pytest.raises(CacheError) as caught:
        store.append(1, *rows(2, seed=1))
    assert (caught.value.kind, store.length(1)) == ("full", 4)
    assert [buffer.tobytes() for buffer in store.storage] == before
    store.append(1, *rows(1, seed=2))
    store.append(2, *rows(5, seed=3))
    assert store.length(1) == store.length(2) == 5


def test_a_fixed_store_keeps_its_buffers_and_writes_only_new_slots() -> None:
    store = FixedStore(LAYERS, SHAPE, 5)
    addresses = [buffer.ctypes.data for buffer in store.storage]
    assert [buffer.shape for buffer in store.storage[:2]] == [(2, 3, 5, 5), (2, 3, 5, 7)]
    assert not any(np.signbit(buffer).any() or buffer.any() for buffer in store.storage)
    for buffer in store.storage:
        buffer[:] = 7.0
    store.append(1, *rows(2))
    assert all((buffer[:, :, 2:] == 7.0).all() for buffer in store.storage)
    assert all((store.storage[i] == 7.0).all() for i in (0, 1, 4, 5, 6, 7))
    bytes_held = [buffer.tobytes() for buffer in store.storage]
    store.truncate(0)
    store.reset()
    assert [buffer.tobytes() for buffer in store.storage] == bytes_held
    assert [buffer.ctypes.data for buffer in store.storage] == addresses


def test_a_fixed_store_needs_lanes_room_and_memory() -> None:
    refused = {
        "zero_batch_size": (0, 0),
        "zero_capacity": (1, 0),
        "element_count_overflow": (2**20, 2**48),
        "allocation_failed": (2**7, 2**48),
    }
    for kind, (batch, capacity) in refused.items():
        with pytest.raises(CacheError) as caught:
            FixedStore(1, RowShape(batch, 1, 2, 2), capacity)
        assert caught.value.kind == kind


def test_growth_leaves_the_old_arrays_alone() -> None:
    store = GrowingStore(LAYERS, SHAPE)
    first = store.append(0, *rows(2))
    copy = first[0].copy()
    store.append(0, *rows(3, seed=1))
    assert same_bits(first[0], copy)
    assert same_bits(store.get(0)[0][:, :, :2], copy)  # type: ignore[index]


def test_a_growing_store_keeps_float32_and_refuses_to_round() -> None:
    store = GrowingStore(LAYERS, SHAPE)
    keys, values = (array.astype(np.float32) for array in rows(2))
    store.append(0, keys, values)
    assert holds(store, 0, (keys, values))
    with pytest.raises(TypeError, match="rounded"):
        store.append(0, *rows(1))
    assert store.length(0) == 2


def test_slots_are_a_list_that_checks_nothing() -> None:
    cache = SlotCache(3)
    pair = rows(2)
    assert [cache.get(layer) for layer in range(len(cache))] == [None, None, None]
    cache.update(1, pair)
    assert cache.get(1) is pair
    assert cache.get(0) is cache.get(2) is None
    slots = cache._slots
    cache.reset()
    assert (len(cache), cache.get(1)) == (3, None)
    assert cache._slots is not slots
    assert slots[1] is pair
