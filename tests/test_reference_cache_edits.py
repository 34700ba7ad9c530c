"""Truncate, fork and reorder of the contiguous layer cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reference_impl.cache_edits import fork, reorder, truncate
from reference_impl.layer import Layer, LayerCache, LayerConfig, RopeConfig, append
from reference_impl.layer_errors import CacheError

Array = np.ndarray[Any, Any]
B, CAPACITY = 3, 8


def layer() -> Layer:
    config = LayerConfig(10, 6, 3, 4, RopeConfig(100.0, "half", 12))
    rng = np.random.default_rng(1)
    names = ("query", "key", "value", "output")
    return Layer.build(config, **{name: rng.integers(-6, 7, config.shape_of(name)) / 8 for name in names})


def rows(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-12, 13, (B, count, 10)) / 8


def held(owner: Layer, given: Array) -> LayerCache:
    cache = LayerCache(owner, B, CAPACITY)
    for t in range(given.shape[1]):
        append(owner, cache, given[:, t : t + 1])
    return cache


def logical(cache: LayerCache) -> list[bytes]:
    return [array.tobytes() for array in cache.snapshot()]


def storage(cache: LayerCache) -> list[tuple[int, bytes]]:
    return [(buffer.ctypes.data, buffer.tobytes()) for buffer in (cache.key_storage, cache.value_storage)]


@pytest.mark.parametrize("length", [0, 1, 4, 5])
def test_truncate_and_append_equals_never_having_had_the_rows(length: int) -> None:
    owner = layer()
    cache, other = held(owner, rows(5)), held(owner, rows(5)[:, :length])
    before = storage(cache)
    truncate(cache, length)
    assert storage(cache) == before
    assert (cache.length, cache.capacity) == (length, CAPACITY)
    assert logical(cache) == logical(other)
    for t in range(3):
        ours, its = (append(owner, each, rows(3, seed=2)[:, t : t + 1]) for each in (cache, other))
        assert ours.output.tobytes() == its.output.tobytes()
    assert logical(cache) == logical(other)


@pytest.mark.parametrize("length", [-5, -1, 6, CAPACITY])
def test_a_length_that_the_cache_does_not_have_is_refused(length: int) -> None:
    cache = held(layer(), rows(5))
    before = storage(cache)
    with pytest.raises(CacheError) as caught:
        truncate(cache, length)
    assert (caught.value.kind, caught.value.carried()) == ("invalid_length", (length, 5))
    assert (cache.length, storage(cache)) == (5, before)


def test_a_fork_shares_nothing_but_the_past() -> None:
    owner = layer()
    parent = held(owner, rows(3))
    child = fork(parent)
    assert child == parent
    for cache, seed in ((child, 1), (parent, 2)):
        lone = held(owner, rows(3))
        for t in range(2):
            ours, its = (append(owner, each, rows(2, seed)[:, t : t + 1]) for each in (cache, lone))
            assert ours.output.tobytes() == its.output.tobytes()
        assert logical(cache) == logical(lone)
    truncate(parent, 0)
    assert child.length == 5


@pytest.mark.parametrize("lanes", [(2, 0, 1), (1, 1, 1), (0, 2, 2), (0, 1, 2)])
def test_reordered_lanes_go_on_where_their_sources_were(lanes: tuple[int, ...]) -> None:
    owner = layer()
    cache, other = held(owner, rows(4)), held(owner, rows(4)[list(lanes)])
    unused = [buffer[:, :, 4:].tobytes() for buffer in (cache.key_storage, cache.value_storage)]
    addresses = [address for address, _ in storage(cache)]
    reorder(cache, lanes)
    assert logical(cache) == logical(other)
    assert [buffer[:, :, 4:].tobytes() for buffer in (cache.key_storage, cache.value_storage)] == unused
    assert [address for address, _ in storage(cache)] == addresses
    ours, its = (append(owner, each, rows(1, seed=3)) for each in (cache, other))
    assert ours.output.tobytes() == its.output.tobytes()


@pytest.mark.parametrize(
    ("lanes", "carried"),
    [((0, 1, 3), (3, 3)), ((-1, 0, 1), (-1, 3)), ((0, 1), (2, 3)), ((0, 1, 2, 0), (4, 3))],
)
def test_lanes_that_the_cache_does_not_have_are_refused(lanes: tuple[int, ...], carried: Any) -> None:
    cache = held(layer(), rows(4))
    before = storage(cache)
    with pytest.raises(CacheError) as caught:
        reorder(cache, lanes)
    assert (caught.value.kind, caught.value.carried()) == ("lane_out_of_range", carried)
    assert storage(cache) == before
