"""The adapters of the NumPy layer: every feature, every refusal with what it carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.adapter import FEATURE_METHODS
from conformance.adapters.numpy_layer import numpy, numpy_attention, numpy_chunks, rejecting
from conformance.rejections import Rejected
from conformance.values import (
    STEP_ARRAYS,
    AttentionConfig,
    LayerConfig,
    LayerParameters,
    RopeConfig,
    Step,
    Work,
)
from reference_impl import layer_errors

STRICT = {"full_prefix", "update_parameters", "rewire", "poison", "evidence", "work", "storage"}
CONFIG = LayerConfig(8, 4, 2, 4, RopeConfig(100.0, "adjacent", 8))


def parameters() -> LayerParameters:
    random = np.random.default_rng(5)
    shapes = {"query": (8, 16), "key": (8, 8), "value": (8, 8), "output": (16, 8)}
    return LayerParameters(**{name: random.standard_normal(shape) for name, shape in shapes.items()})


def rows(count: int) -> Any:
    return np.random.default_rng(6).standard_normal((2, count, 8))


@pytest.mark.parametrize("factory", [numpy, numpy_chunks, numpy_attention])
def test_every_declared_feature_has_its_method(factory: Any) -> None:
    adapter = factory()
    for feature in adapter.declaration.features:
        if feature in FEATURE_METHODS:
            assert callable(getattr(adapter, FEATURE_METHODS[feature]))


def test_the_two_declarations_of_the_layer() -> None:
    one, any_number = numpy().declaration, numpy_chunks().declaration
    assert one.features == STRICT | {"gqa", "snapshot"}
    assert any_number.features == one.features | {"chunks", "truncate", "fork", "reorder"}
    assert (one.rows_per_append, any_number.rows_per_append) == ("one", "any")
    assert (one.name, any_number.name) == ("numpy", "numpy-chunks")


def test_a_step_carries_every_field() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 4)
    step = adapter.append(layer, cache, rows(1))
    assert isinstance(step, Step)
    assert all(isinstance(getattr(step, name), np.ndarray) for name in STEP_ARRAYS)
    assert (step.length, step.work) == (1, Work(0, 1, 1, 0))


def test_chunks_agree_with_the_full_prefix() -> None:
    adapter = numpy_chunks()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 8)
    sequence = rows(5)
    outputs = [adapter.append(layer, cache, sequence[:, a:b]).output for a, b in ((0, 2), (2, 5))]
    whole = adapter.full_prefix(layer, sequence)
    assert np.abs(np.concatenate(outputs, axis=1) - whole).max() <= 1e-12


def test_weights_are_copied_when_the_layer_is_built() -> None:
    adapter, given = numpy(), parameters()
    layer = adapter.build_layer(CONFIG, given)
    before = adapter.full_prefix(layer, rows(2))
    given.query[:] = 0.0
    assert adapter.full_prefix(layer, rows(2)).tobytes() == before.tobytes()


def test_the_observed_storage_is_the_writable_memory_itself() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 4)
    adapter.append(layer, cache, rows(1))
    twin = cache.clone()
    seen = adapter.observe(cache)
    assert (seen.length, seen.capacity) == (1, 4)
    keys, values = seen.storage
    assert (keys.ctypes.data, values.ctypes.data) == (cache.key_address, cache.value_address)
    assert np.array_equal(seen.keys, keys[:, :, :1])
    assert np.array_equal(seen.values, values[:, :, :1])
    values[1, 1, 0, 2] += 1.0
    changed, plain = adapter.append(layer, cache, rows(1)), adapter.append(layer, twin, rows(1))
    # Query heads 2 and 3 read key/value head 1; only lane 1 and only feature 2 of them move.
    moved = changed.heads - plain.heads
    assert np.allclose(moved[1, 2:, 0, 2], plain.weights[1, 2:, 0, 0], atol=1e-14)
    moved[1, 2:, 0, 2] = 0.0
    assert not moved.any()


def test_poison_fills_unused_slots_and_only_those() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 4)
    adapter.append(layer, cache, rows(1))
    held = adapter.snapshot(cache)
    adapter.poison(cache, np.nan)
    for storage, kept in zip(adapter.observe(cache).storage, held, strict=True):
        assert np.isnan(storage[:, :, 1:]).all()
        assert np.array_equal(storage[:, :, :1], kept)


def test_reset_sets_the_length_to_zero_and_keeps_every_byte() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 4)
    adapter.append(layer, cache, rows(1))
    before = [storage.copy() for storage in adapter.observe(cache).storage]
    adapter.reset(cache)
    seen = adapter.observe(cache)
    assert seen.length == 0
    assert all(np.array_equal(a, b) for a, b in zip(seen.storage, before, strict=True))


def test_rollback_fork_and_reorder() -> None:
    adapter = numpy_chunks()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 4)
    adapter.append(layer, cache, rows(3))
    keys, _ = adapter.snapshot(cache)
    twin = adapter.fork(cache)
    adapter.truncate(cache, 1)
    assert (adapter.observe(cache).length, adapter.observe(twin).length) == (1, 3)
    adapter.reorder(twin, [1, 1])
    assert np.array_equal(adapter.snapshot(twin)[0], keys[[1, 1]])
    with pytest.raises(Rejected) as refused:
        adapter.truncate(cache, 5)
    assert refused.value.kind == "invalid_length"


def _carried(refusal: Rejected) -> dict[str, Any]:
    names = ("stage", "index", "value", "parameter", "expected", "found")
    return {name: getattr(refusal, name) for name in names if getattr(refusal, name) is not None}


def _refused(call: Any, *operands: Any) -> tuple[str, dict[str, Any]]:
    with pytest.raises(Rejected) as refused:
        call(*operands)
    assert refused.value.message == str(refused.value.__cause__)
    return refused.value.kind, _carried(refused.value)


def test_refusals_of_construction_carry_what_the_reference_says() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    build = adapter.build_cache
    assert _refused(build, layer, 0, 4) == ("zero_batch_size", {"found": 0})
    assert _refused(build, layer, 1, 0) == ("zero_capacity", {"found": 0})
    assert _refused(build, layer, 1, 9) == ("capacity_exceeds_positions", {"expected": 8, "found": 9})
    assert _refused(build, layer, 2**62, 8) == ("element_count_overflow", {"found": (2**62, 2, 8, 4)})
    assert _refused(build, layer, 2**52, 8) == ("allocation_failed", {"found": 2**58})


def test_refusals_of_an_append_carry_what_the_reference_says() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 1)
    row = rows(1)
    refused = lambda given, on=layer: _refused(adapter.append, on, cache, given)  # noqa: E731
    assert refused(row[0]) == ("input_rank", {"expected": 3, "found": 2})
    assert refused(rows(2)) == ("single_token_required", {"expected": 1, "found": 2})
    assert refused(row[:1]) == ("input_batch_mismatch", {"expected": 2, "found": 1})
    assert refused(row[..., :4]) == ("input_width_mismatch", {"expected": 8, "found": 4})
    assert refused(row, adapter.rewire(layer, fresh=("key",))) == ("cache_layer_mismatch", {})
    other = LayerConfig(8, 4, 2, 4, RopeConfig(200.0, "adjacent", 8))
    kind, carried = refused(row, adapter.rewire(layer, config=other))
    assert (kind, carried["expected"].base, carried["found"].base) == ("cache_rope_mismatch", 100.0, 200.0)
    wider = LayerConfig(8, 2, 1, 8, CONFIG.rope)
    kind_and_sides = refused(row, adapter.rewire(layer, config=wider))
    assert kind_and_sides == ("cache_head_count_mismatch", {"expected": 4, "found": 2})
    adapter.append(layer, cache, row)
    assert refused(row) == ("full", {"expected": 1})
    adapter.update_parameters(layer, {"value": parameters().value})
    assert refused(row) == (
        "cache_layer_revision_mismatch",
        {"parameter": 2, "expected": 0, "found": 1},
    )


def test_a_row_that_is_not_finite_carries_stage_index_and_value() -> None:
    adapter = numpy()
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 2, 4)
    row = rows(1)
    row[1, 0, 0] = np.inf
    kind, carried = _refused(adapter.append, layer, cache, row)
    assert (kind, carried["stage"], carried["index"]) == ("non_finite", "query", 16)
    assert np.isinf(carried["value"])


def test_chunks_without_rows_are_refused_by_their_own_kind() -> None:
    adapter = numpy_chunks()
    layer = adapter.build_layer(CONFIG, parameters())
    assert _refused(adapter.append, layer, adapter.build_cache(layer, 2, 4), rows(0))[0] == "empty_chunk"


def test_a_refusal_outside_the_contract_stays_an_error() -> None:
    with pytest.raises(layer_errors.TicketMismatchError), rejecting():
        raise layer_errors.TicketMismatchError(0, "used")


def test_the_attention_adapter() -> None:
    adapter = numpy_attention()
    cache = adapter.build_cache(AttentionConfig(4, 2, 3, 5), 2, 3)
    random = np.random.default_rng(7)
    query, key, value = (random.standard_normal((2, h, 2, w)) for h, w in ((4, 3), (2, 3), (2, 5)))
    step = adapter.append(cache, query, key, value)
    assert (step.output.shape, step.weights.shape, step.length) == ((2, 4, 2, 5), (2, 4, 2, 2), 2)
    seen = adapter.observe(cache)
    assert np.array_equal(seen.keys, key)
    assert seen.storage[1].flags.writeable
    adapter.poison(cache, np.inf)
    assert np.isinf(seen.storage[0][:, :, 2]).all()
    assert adapter.snapshot(cache)[1].tobytes() == value.tobytes()
    assert _refused(adapter.append, cache, query, key, value) == ("full", {"expected": 3})
    assert _refused(adapter.append, cache, query[0], key, value)[1] == {"expected": 4, "found": 3}
    adapter.reset(cache)
    assert adapter.observe(cache).length == 0
