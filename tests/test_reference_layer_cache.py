"""The cache between steps: snapshots, equality, clones, reset."""

from __future__ import annotations

import numpy as np
import pytest

from reference_impl.layer import LayerCache, append
from reference_impl.layer import cache as cache_module
from reference_impl.layer_errors import AllocationFailedError
from tests.reference_layer_samples import filled, image, layer, rows


def test_physical_buffers_are_the_memory_itself_and_read_only() -> None:
    made = layer()
    cache = LayerCache(made, 2, 4)
    keys = cache.key_storage
    append(made, cache, rows(made, 1))
    assert keys[:, :, 0].all()
    for storage in (cache.key_storage, cache.value_storage):
        with pytest.raises(ValueError, match="read-only"):
            storage[0, 0, 0, 0] = 1.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            storage.setflags(write=True)
    assert cache.key_storage.ctypes.data == cache.key_address
    assert cache.value_storage.ctypes.data == cache.value_address


def test_a_snapshot_is_a_fresh_copy_of_the_logical_rows() -> None:
    cache = filled(layer(), 3)
    before = image(cache)
    keys, values = cache.snapshot()
    assert keys.shape == values.shape == (2, 2, 3, 6)
    assert np.array_equal(keys, cache.key_storage[:, :, :3])
    assert np.array_equal(values, cache.value_storage[:, :, :3])
    keys[:], values[:] = 7.0, 8.0
    assert image(cache) == before
    assert not np.shares_memory(cache.snapshot()[0], cache.key_storage)


def test_a_snapshot_of_an_empty_cache_has_no_rows() -> None:
    keys, values = LayerCache(layer(), 2, 4).snapshot()
    assert keys.shape == values.shape == (2, 2, 0, 6)


@pytest.mark.parametrize(("copying", "elements"), [("snapshot", 2 * 2 * 3 * 6), ("clone", 2 * 2 * 8 * 6)])
def test_a_copy_that_cannot_be_had_is_refused(
    copying: str, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = filled(layer(), 3)

    def refuse(shape: tuple[int, ...], *, zeroed: bool = True) -> None:
        assert not zeroed
        raise AllocationFailedError(int(np.prod(shape)))

    monkeypatch.setattr(cache_module, "allocate", refuse)
    before = image(cache)
    with pytest.raises(AllocationFailedError) as refused:
        getattr(cache, copying)()
    assert refused.value.elements == elements
    assert image(cache) == before


def test_a_clone_equals_its_original_in_memory_of_its_own_and_goes_its_own_way() -> None:
    made = layer()
    cache = filled(made, 3)
    twin = cache.clone()
    assert twin == cache
    assert twin.key_address not in {cache.key_address, cache.value_address}
    row = rows(made, 1, seed=9)
    mine, its = append(made, cache, row), append(made, twin, row)
    assert mine.output.tobytes() == its.output.tobytes()
    assert twin == cache
    append(made, twin, row)
    assert twin != cache


def test_equality_looks_at_length_and_at_whole_buffers_also_at_unused_slots() -> None:
    made = layer()
    used = filled(made, 3)
    used.reset()
    assert used != LayerCache(made, 2, 8)
    shorter = filled(made, 3)
    shorter._length = 2
    assert shorter != filled(made, 3)
    assert filled(made, 3) == filled(made, 3)


def test_equality_compares_numbers_as_numbers() -> None:
    made = layer()
    one, other = LayerCache(made, 2, 4), LayerCache(made, 2, 4)
    other._keys[0, 0, 3, 5] = -0.0
    assert one == other
    other._values[1, 1, 3, 5] = 1e-300
    assert one != other


def test_equality_looks_at_batch_size_capacity_and_binding() -> None:
    made = layer()
    cache = LayerCache(made, 2, 4)
    assert cache != LayerCache(made, 1, 4)
    assert cache != LayerCache(made, 2, 5)
    assert cache != LayerCache(made.rewired(fresh=("value",)), 2, 4)
    assert cache == LayerCache(made.rewired(), 2, 4)
    made.update({"query": made.node("query").value})
    assert cache != LayerCache(made, 2, 4)
    assert cache != "a cache"


def test_caches_of_two_layers_with_equal_weights_are_never_equal() -> None:
    assert LayerCache(layer(), 2, 4) != LayerCache(layer(), 2, 4)


def test_caches_are_mutable_and_have_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(LayerCache(layer(), 2, 4))


def test_reset_sets_the_length_to_zero_and_nothing_else() -> None:
    cache = filled(layer(), 8)
    assert cache.is_full
    before = image(cache)
    cache.reset()
    assert cache.is_empty
    assert image(cache)[1:] == before[1:]


def test_replay_after_reset_is_bit_identical_and_other_rows_are_right() -> None:
    made = layer()
    cache = LayerCache(made, 2, 5)
    sequence, other = rows(made, 5), rows(made, 5, seed=8)
    first = [append(made, cache, sequence[:, t : t + 1]) for t in range(5)]
    stored = cache.snapshot()
    cache.reset()
    again = [append(made, cache, sequence[:, t : t + 1]) for t in range(5)]
    for one, two in zip(first, again, strict=True):
        assert one.output.tobytes() == two.output.tobytes()
        assert one.evidence is not None
        assert two.evidence is not None
        for name in ("query", "key", "value", "rotated_query", "rotated_key", "weights", "heads", "merged"):
            assert getattr(one.evidence, name).tobytes() == getattr(two.evidence, name).tobytes(), name
        assert (one.length, one.work) == (two.length, two.work)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(stored, cache.snapshot(), strict=True))
    cache.reset()
    third = np.concatenate([append(made, cache, other[:, t : t + 1]).output for t in range(3)], axis=1)
    assert np.abs(third - made.full_prefix(other[:, :3])).max() <= 1e-12


@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e300])
def test_stale_and_unused_slots_are_never_read(poison: float) -> None:
    made = layer()
    fresh, dirty = LayerCache(made, 2, 6), filled(made, 5, capacity=6)
    dirty.reset()
    dirty._keys[:], dirty._values[:] = poison, poison
    sequence = rows(made, 4, seed=5)
    for t in range(4):
        row = sequence[:, t : t + 1]
        assert append(made, fresh, row).output.tobytes() == append(made, dirty, row).output.tobytes()
