"""A layer on paged storage: what the contiguous layer computes, refuses and keeps, for every block size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from reference_impl import layer as contiguous
from reference_impl import paged
from reference_impl.layer import Layer, LayerCache, LayerConfig, RopeConfig
from reference_impl.layer_errors import CacheError
from reference_impl.paged import PagedLayerCache
from reference_impl.row_checks import RowShape

Array = np.ndarray[Any, Any]
B, CAPACITY = 2, 9


def layer(*, kv_heads: int = 3, pairing: Any = "half", width: int = 10) -> Layer:
    config = LayerConfig(width, 6, kv_heads, 4, RopeConfig(100.0, pairing, 12))
    rng = np.random.default_rng(1)
    names = ("query", "key", "value", "output")
    return Layer.build(config, **{name: rng.integers(-6, 7, config.shape_of(name)) / 8 for name in names})


def rows(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-12, 13, (B, count, 10)) / 8


def cache_of(owner: Layer, block_size: int = 4, **options: Any) -> PagedLayerCache:
    return PagedLayerCache(owner, B, CAPACITY, block_size=block_size, **options)


def refusal(call: Callable[[], Any]) -> CacheError:
    with pytest.raises(CacheError) as caught:
        call()
    return caught.value


def state(cache: PagedLayerCache) -> tuple[Any, ...]:
    pool = cache.pool
    return cache.length, cache.tables, pool.free, pool.references, pool.keys.tobytes(), pool.values.tobytes()


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 8, 9, 10, 32])
@pytest.mark.parametrize("parts", [[1] * 9, [4, 1, 4], [9], [3, 6]])
@pytest.mark.parametrize(("kv_heads", "pairing"), [(3, "half"), (1, "adjacent"), (6, "adjacent")])
def test_every_number_is_that_of_the_contiguous_layer(
    block_size: int, parts: list[int], kv_heads: int, pairing: str
) -> None:
    owner = layer(kv_heads=kv_heads, pairing=pairing)
    paged_cache, plain = cache_of(owner, block_size), LayerCache(owner, B, CAPACITY)
    given, start = rows(9), 0
    for count in parts:
        chunk = given[:, start : start + count]
        ours = paged.append(owner, paged_cache, chunk, rows_per_append="any")
        its = contiguous.append(owner, plain, chunk, rows_per_append="any")
        start += count
        assert (ours.length, ours.work) == (its.length, its.work) == (start, its.work)
        assert np.abs(ours.output - its.output).max() < 1e-13
        for field in fields(ours.evidence):
            mine, other = getattr(ours.evidence, field.name), getattr(its.evidence, field.name)
            assert mine.shape == other.shape, field.name
            assert np.abs(mine - other).max() < 1e-13, field.name
        for mine, other in zip(paged_cache.snapshot(), plain.snapshot(), strict=True):
            assert np.abs(mine - other).max() < 1e-13
    assert np.abs(owner.full_prefix(given)[:, -1] - ours.output[:, -1]).max() < 1e-13


def test_block_size_and_physical_order_change_no_logical_row() -> None:
    owner, found = layer(), []
    for block_size, seed in ((1, 0), (4, 0), (4, 9), (16, 0)):
        cache = cache_of(owner, block_size, seed=seed)
        for t in range(9):
            paged.append(owner, cache, rows(9)[:, t : t + 1])
        found.append([array.tobytes() for array in cache.snapshot()])
    # Keys and values do not depend on the history, so blocks cannot move a bit of them.
    assert all(other == found[0] for other in found)


BROKEN: dict[str, Callable[[Layer, PagedLayerCache], Any]] = {
    "input_rank": lambda owner, cache: paged.append(owner, cache, rows(1)[0]),
    "single_token_required": lambda owner, cache: paged.append(owner, cache, rows(2)),
    "empty_chunk": lambda owner, cache: paged.append(owner, cache, rows(0), rows_per_append="any"),
    "input_batch_mismatch": lambda owner, cache: paged.append(owner, cache, rows(1)[:1]),
    "input_width_mismatch": lambda owner, cache: paged.append(owner, cache, rows(1)[..., :9]),
    "cache_head_count_mismatch": lambda _, cache: paged.append(layer(kv_heads=6), cache, rows(1)),
    "cache_layer_mismatch": lambda owner, cache: paged.append(owner.rewired(fresh=["value"]), cache, rows(1)),
    "full": lambda owner, cache: paged.append(owner, cache, rows(5), rows_per_append="any"),
    "non_finite": lambda owner, cache: paged.append(owner, cache, np.full((B, 1, 10), np.nan)),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_refusals_are_those_of_the_contiguous_layer_and_change_nothing(kind: str) -> None:
    owner = layer()
    cache, twin = cache_of(owner), cache_of(owner)
    for each in (cache, twin):
        paged.append(owner, each, rows(5), rows_per_append="any")
    before = state(cache)
    assert refusal(lambda: BROKEN[kind](owner, cache)).kind == kind
    assert state(cache) == before
    after = [paged.append(owner, each, rows(1, seed=2)).output.tobytes() for each in (cache, twin)]
    assert after[0] == after[1]


def test_a_stale_weight_is_refused_also_after_a_reset() -> None:
    owner = layer()
    cache = cache_of(owner)
    paged.append(owner, cache, rows(1))
    owner.update({"key": owner.node("key").value})
    cache.reset()
    refused = refusal(lambda: paged.append(owner, cache, rows(1)))
    assert (refused.kind, refused.carried()) == ("cache_layer_revision_mismatch", (1, 0, 1))
    paged.append(owner, cache_of(owner), rows(1))


def test_exhaustion_comes_after_full_and_before_the_calculation() -> None:
    owner = layer()
    bad = np.full((B, 1, 10), np.nan)
    first = cache_of(owner)
    second = PagedLayerCache(owner, B, CAPACITY, pool=first.pool)
    paged.append(owner, first, rows(9), rows_per_append="any")
    before = state(second)
    assert refusal(lambda: paged.append(owner, first, bad)).kind == "full"
    assert refusal(lambda: paged.append(owner, second, bad)).kind == "blocks_exhausted"
    assert state(second) == before
    first.free()
    assert refusal(lambda: paged.append(owner, second, bad)).kind == "non_finite"
    paged.append(owner, second, rows(1))


@pytest.mark.parametrize("length", [3, 4, 5])
def test_a_forked_cache_and_its_parent_go_their_own_ways(length: int) -> None:
    owner = layer()
    parent = cache_of(owner, sequences=2)
    paged.append(owner, parent, rows(length), rows_per_append="any")
    child = parent.fork()
    for cache, seed in ((child, 1), (parent, 2)):
        lone = cache_of(owner)
        paged.append(owner, lone, rows(length), rows_per_append="any")
        for t in range(3):
            ours = paged.append(owner, cache, rows(3, seed)[:, t : t + 1])
            its = paged.append(owner, lone, rows(3, seed)[:, t : t + 1])
            assert ours.output.tobytes() == its.output.tobytes()


def test_lanes_move_under_reorder() -> None:
    owner = layer()
    cache, swapped = cache_of(owner), cache_of(owner)
    paged.append(owner, cache, rows(5), rows_per_append="any")
    paged.append(owner, swapped, rows(5)[::-1], rows_per_append="any")
    cache.reorder([1, 0])
    ours = paged.append(owner, cache, rows(1, seed=1))
    assert ours.output.tobytes() == paged.append(owner, swapped, rows(1, seed=1)).output.tobytes()


@pytest.mark.parametrize("poison", [np.nan, 1e300])
def test_what_freed_blocks_hold_has_no_influence(poison: float) -> None:
    owner = layer()
    used, fresh = cache_of(owner), cache_of(owner)
    paged.append(owner, used, rows(9, seed=4), rows_per_append="any")
    used.reset()
    used.poison(poison)
    for t in range(6):
        ours = paged.append(owner, used, rows(6)[:, t : t + 1])
        its = paged.append(owner, fresh, rows(6)[:, t : t + 1])
        assert ours.output.tobytes() == its.output.tobytes()
        used.poison(poison)


def test_a_later_row_of_a_chunk_moves_no_earlier_output() -> None:
    owner, changed, outputs = layer(), rows(4), []
    changed[:, 3] = 1e3
    for chunk in (rows(4), changed):
        cache = cache_of(owner, 2)
        paged.append(owner, cache, rows(3, seed=1), rows_per_append="any")
        outputs.append(paged.append(owner, cache, chunk, rows_per_append="any").output)
    assert outputs[0][:, :3].tobytes() == outputs[1][:, :3].tobytes()
    assert (outputs[0][:, 3] != outputs[1][:, 3]).any()


def test_a_score_that_no_query_sees_is_not_refused() -> None:
    owner = layer(width=2)
    first, second = np.zeros((2, 24)), np.zeros((2, 12))
    # Feature 0 makes queries, feature 1 keys: row 0 asks, row 1 answers, and row 0 does not see row 1.
    first[0], second[1] = 1e200, 1e200
    values = {"query": first, "key": second, "value": np.ones((2, 12)), "output": np.ones((24, 2))}
    owner.update(values)
    chunk = np.tile(np.array([[1.0, 0.0], [0.0, 1.0]]), (B, 1, 1))
    assert np.isfinite(paged.append(owner, cache_of(owner), chunk, rows_per_append="any").output).all()
    turned = chunk[:, ::-1]
    refused = refusal(lambda: paged.append(owner, cache_of(owner), turned, rows_per_append="any"))
    assert (refused.kind, refused.stage) == ("non_finite", "score")


def test_evidence_is_apart_from_the_storage() -> None:
    owner = layer()
    cache = cache_of(owner)
    found = paged.append(owner, cache, rows(1)).evidence
    arrays = [getattr(found, field.name) for field in fields(found)]
    assert not any(np.shares_memory(array, cache.pool.keys) for array in arrays)
    assert not any(np.shares_memory(array, cache.pool.values) for array in arrays)
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[i + 1 :])
    assert paged.append(owner, cache, rows(1), evidence=False).evidence is None


@pytest.mark.parametrize(
    ("batch_size", "capacity", "block_size", "kind"),
    [(0, 0, 0, "zero_batch_size"), (1, 0, 0, "zero_capacity"), (1, 13, 0, "capacity_exceeds_positions"),
     (1, 12, 0, "zero_block_size")],
)
def test_construction_is_checked_in_order(batch_size: int, capacity: int, block_size: int, kind: str) -> None:
    assert refusal(lambda: PagedLayerCache(layer(), batch_size, capacity, block_size=block_size)).kind == kind


def test_sizes_that_cannot_be_had_are_refused() -> None:
    config = LayerConfig(4, 2, 2, 2, RopeConfig(100.0, "half", 2**62))
    owner = Layer.build(config, **dict.fromkeys(("query", "key", "value", "output"), np.eye(4)))
    for batch_size, kind in ((2**20, "element_count_overflow"), (2**7, "allocation_failed")):
        assert refusal(lambda b=batch_size: PagedLayerCache(owner, b, 2**48)).kind == kind


def test_rows_of_the_cache_have_the_layers_shape() -> None:
    owner = layer()
    cache = cache_of(owner)
    assert cache._shape == RowShape(B, 3, 4, 4)
