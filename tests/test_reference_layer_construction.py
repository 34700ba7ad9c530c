"""Layers and caches: what they are built from, and which requests are refused in which order."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import reference_impl.layer_errors as errors
from reference_impl.layer import Layer, LayerCache, LayerConfig, RopeConfig, append
from reference_impl.layer import cache as cache_module
from reference_impl.layer import memory as layer_memory
from tests.reference_layer_samples import Array, config, layer, rows

WIDE = {"model_width": 4, "heads": 2, "kv_heads": 2, "head_width": 2, "max_positions": 2**50}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kv_heads": 3}, "3 key/value heads"),
        ({"head_width": 5}, "5 is odd"),
        ({"model_width": 0}, "model_width is 0"),
        ({"heads": 0}, "heads is 0"),
        ({"kv_heads": 0}, "kv_heads is 0"),
        ({"base": 0.0}, "base is 0.0"),
        ({"base": float("nan")}, "base is nan"),
        ({"base": float("inf")}, "base is inf"),
        ({"pairing": "interleaved"}, "interleaved"),
        ({"max_positions": 0}, "max_positions is 0"),
    ],
)
def test_a_configuration_that_means_nothing_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        config(**changes)


def test_a_weight_of_the_wrong_shape_is_refused_by_name() -> None:
    good = layer()
    values = {name: good.node(name).value for name in ("query", "key", "value", "output")}
    with pytest.raises(ValueError, match=r"parameter key is \[10, 24\].*\[10, 12\]"):
        Layer.build(good.config, **{**values, "key": values["query"]})
    with pytest.raises(ValueError, match="'bias'"):
        good.node("bias")


def test_buffers_are_filled_with_positive_zero_and_laid_out_by_lane() -> None:
    cache = LayerCache(layer(), 3, 5)
    for storage in (cache.key_storage, cache.value_storage):
        assert storage.shape == (3, 2, 5, 6)
        assert storage.flags.c_contiguous
        assert storage.dtype == np.float64
        assert not np.signbit(storage).any()
        assert not storage.any()
    assert cache.key_address != cache.value_address


def test_what_can_be_read_of_a_cache() -> None:
    cache = LayerCache(layer(), 3, 5)
    assert (cache.batch_size, cache.model_width, cache.heads, cache.kv_heads) == (3, 10, 4, 2)
    assert (cache.head_width, cache.capacity, cache.length) == (6, 5, 0)
    assert cache.is_empty
    assert not cache.is_full
    assert repr(cache) == "LayerCache(storage=[3, 2, 5, 6], length=0)"


def test_keys_are_allocated_before_values(monkeypatch: pytest.MonkeyPatch) -> None:
    made = layer()
    places: list[int] = []

    def recording(shape: tuple[int, ...]) -> Array:
        array = np.zeros(shape)
        places.append(array.ctypes.data)
        return array

    monkeypatch.setattr(cache_module, "allocate", recording)
    cache = LayerCache(made, 3, 5)
    assert places == [cache.key_address, cache.value_address]


def test_values_that_cannot_be_had_after_the_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = layer(), iter([np.zeros((3, 2, 5, 6))])

    def once(shape: tuple[int, ...]) -> Array:
        for array in given:
            return array
        raise errors.AllocationFailedError(int(np.prod(shape)))

    monkeypatch.setattr(cache_module, "allocate", once)
    with pytest.raises(errors.AllocationFailedError) as refused:
        LayerCache(made, 3, 5)
    assert refused.value.elements == 3 * 2 * 5 * 6


@pytest.mark.parametrize(
    ("batch_size", "capacity", "expected"),
    [
        (0, 0, errors.ZeroBatchSizeError(0)),
        (0, 99, errors.ZeroBatchSizeError(0)),
        (-1, 4, errors.ZeroBatchSizeError(-1)),
        (1, 0, errors.ZeroCapacityError(0)),
        (2**62, 17, errors.CapacityExceedsPositionsError(17, 16)),
        (2**62, 16, errors.ElementCountOverflowError((2**62, 2, 16, 6))),
    ],
)
def test_construction_is_refused_in_order(
    batch_size: int, capacity: int, expected: errors.CacheError
) -> None:
    with pytest.raises(errors.CacheError) as refused:
        LayerCache(layer(), batch_size, capacity)
    assert refused.value == expected


def test_a_capacity_equal_to_the_position_capacity_works() -> None:
    short = layer(max_positions=3)
    cache = LayerCache(short, 2, 3)
    sequence = rows(short, 3)
    for t in range(3):
        append(short, cache, sequence[:, t : t + 1])
    assert cache.is_full


def test_element_counts_above_the_largest_index_are_an_overflow() -> None:
    with pytest.raises(errors.ElementCountOverflowError) as refused:
        LayerCache(layer(**WIDE), 2**20, 2**48)
    assert refused.value.factors == (2**20, 2, 2**48, 2)


@pytest.mark.parametrize("batch_size", [2**7, 2**11])
def test_storage_that_cannot_be_had_is_refused_at_once(batch_size: int) -> None:
    began = time.perf_counter()
    with pytest.raises(errors.AllocationFailedError) as refused:
        LayerCache(layer(**WIDE), batch_size, 2**48)
    assert refused.value.elements == batch_size * 2**50
    assert time.perf_counter() - began < 1.0


def test_the_largest_count_is_no_overflow() -> None:
    assert layer_memory.element_count(2**62 - 1 + 2**62) == 2**63 - 1
    with pytest.raises(errors.ElementCountOverflowError) as refused:
        layer_memory.element_count(2**21, 2**21, 2**21)
    assert refused.value.factors == (2**21, 2**21, 2**21)


def test_sizes_must_be_whole_numbers() -> None:
    with pytest.raises(TypeError):
        LayerCache(layer(), 1.5, 4)  # type: ignore[arg-type]


def test_rewired_layers_share_all_nodes_but_the_fresh_ones() -> None:
    first = layer()
    second = first.rewired(fresh=("key", "output"))
    shared = [mine is its for mine, its in zip(first.nodes, second.nodes, strict=True)]
    assert shared == [True, False, True, False]
    assert all(np.array_equal(a.value, b.value) for a, b in zip(first.nodes, second.nodes, strict=True))
    with pytest.raises(ValueError, match="'bias'"):
        first.rewired(fresh=("bias",))


def test_a_rewired_layer_may_have_other_heads_where_the_shapes_still_fit() -> None:
    first = layer(heads=4, kv_heads=4, head_width=2)
    second = first.rewired(config=config(heads=2, kv_heads=2, head_width=4))
    assert second.nodes == first.nodes
    with pytest.raises(ValueError, match="parameter query"):
        first.rewired(config=config(heads=2, kv_heads=2, head_width=2))


def test_an_update_is_made_for_all_named_nodes_or_for_none() -> None:
    made = layer()
    key = made.node("key")
    with pytest.raises(ValueError, match="output"):
        made.update({"key": np.zeros(key.value.shape), "output": np.zeros((1, 1))})
    assert key.revision == 0
    assert key.value.any()
    made.update({"key": np.zeros(key.value.shape)})
    assert made.revisions() == (0, 1, 0, 0)
    assert not key.value.any()


def test_configurations_are_values() -> None:
    assert config() == LayerConfig(10, 4, 2, 6, RopeConfig(100.0, "adjacent", 16))
