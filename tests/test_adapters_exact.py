"""The exact adapter: golden traces, refusals in order and without a trace, staleness."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.adapters.exact import ExactLayerAdapter, exact
from conformance.golden_bounds import bounded
from conformance.golden_files import load, traces
from conformance.judge import judge
from conformance.player import play
from conformance.rejections import Rejected
from conformance.values import PARAMETERS, LayerConfig, LayerParameters, RopeConfig

CONFIG = LayerConfig(8, 4, 2, 2, RopeConfig(100.0, "adjacent", 6))


def eighths(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-6, 7, shape) / 8


def parameters(config: LayerConfig = CONFIG) -> LayerParameters:
    wide, narrow = config.heads * config.head_width, config.kv_heads * config.head_width
    D = config.model_width
    key, value = eighths(D, narrow, seed=1), eighths(D, narrow, seed=2)
    return LayerParameters(eighths(D, wide), key, value, eighths(wide, D))


class Bench:
    """A layer and a cache of two lanes and four rows."""

    def __init__(self) -> None:
        self.adapter = exact()
        self.layer = self.adapter.build_layer(CONFIG, parameters())
        self.cache = self.adapter.build_cache(self.layer, 2, 4)

    def append(self, rows: Any, layer: Any = None) -> Any:
        return self.adapter.append(layer or self.layer, self.cache, rows)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_every_golden_trace_of_its_level_passes() -> None:
    adapter = exact()
    asked = list(traces(adapter.declaration))
    assert len(asked) == 19
    for trace in asked:
        checks = judge(play(bounded(trace, adapter.declaration), adapter), adapter.declaration)
        assert {check.status for check in checks} <= {"pass", "unobserved"}, trace.id
        assert sum(check.status == "pass" for check in checks) > 10


def test_outputs_are_the_golden_float64_themselves() -> None:
    document, adapter = load("mod-gqa6"), exact()
    source, first = document.layers["main"], document.sequences["first"]
    layer = adapter.build_layer(source.config, source.parameters)  # type: ignore[arg-type, union-attr]
    cache = adapter.build_cache(layer, first.batch_size, 5)
    for t in range(first.length):
        step = adapter.append(layer, cache, first.inputs["rows"][:, t : t + 1])
        assert np.array_equal(step.output, first.exact["output"][:, t : t + 1])
        assert np.array_equal(step.weights[:, :, 0], first.exact["weights"][:, :, t, : t + 1])
    seen = adapter.observe(cache)
    assert np.array_equal(seen.keys, first.exact["keys"])
    assert np.array_equal(seen.values, first.exact["values"])


def test_chunks_and_single_rows_agree_to_the_bit(bench: Bench) -> None:
    rows = eighths(2, 4, 8, seed=5)
    singly = [bench.append(rows[:, t : t + 1]) for t in range(4)]
    bench.adapter.reset(bench.cache)
    chunked = [bench.append(rows[:, :1]), bench.append(rows[:, 1:4])]
    for field in ("output", "query", "key", "value", "rotated_query", "rotated_key", "heads", "merged"):
        axis = 1 if field in ("output", "merged") else 2
        one, other = (
            np.concatenate([getattr(step, field) for step in steps], axis=axis) for steps in (singly, chunked)
        )
        assert np.array_equal(one, other), field
    assert chunked[1].weights.shape == (2, 4, 3, 4)
    assert np.array_equal(chunked[1].weights[:, :, 1, :3], singly[2].weights[:, :, 0])
    assert not chunked[1].weights[:, :, 0, 2:].any()
    assert chunked[1].length == 4


def other(change: dict[str, Any]) -> Any:
    config = replace(CONFIG, **change)
    return exact().build_layer(config, parameters(config))


NAN = np.full((2, 1, 8), np.nan)
ROW = eighths(2, 1, 8, seed=7)


def test_every_refusal_in_its_order(bench: Bench) -> None:
    """Each call breaks its own rule and every later one that can be broken at once."""
    adapter = bench.adapter
    bench.append(np.concatenate([ROW] * 4, axis=1))
    rebased = replace(CONFIG, rope=replace(CONFIG.rope, base=np.nextafter(100.0, 101.0)))
    twisted = adapter.rewire(bench.layer, config=rebased)
    fresh = adapter.rewire(twisted, fresh=("value",))
    calls: list[tuple[str, Any, Any]] = [
        ("input_rank", NAN[0], other({"model_width": 16})),
        ("empty_chunk", NAN[:1, :0], other({"model_width": 16})),
        ("input_batch_mismatch", NAN[:1], other({"model_width": 16})),
        ("input_width_mismatch", NAN, other({"model_width": 16})),
        ("cache_model_width_mismatch", np.full((2, 1, 16), np.nan), other({"model_width": 16, "heads": 2})),
        ("cache_head_count_mismatch", NAN, other({"heads": 2, "head_width": 4})),
        ("cache_head_count_mismatch", NAN, other({"kv_heads": 4, "head_width": 4})),
        ("cache_head_width_mismatch", NAN, other({"head_width": 4})),
        ("cache_layer_mismatch", NAN, fresh),
        ("cache_rope_mismatch", NAN, twisted),
        ("full", NAN, None),
    ]
    before = adapter.observe(bench.cache)
    for kind, rows, layer in calls:
        with pytest.raises(Rejected) as caught:
            bench.append(rows, layer)
        assert caught.value.kind == kind
    after = adapter.observe(bench.cache)
    assert after.length == before.length == 4
    assert np.array_equal(after.keys, before.keys)
    assert np.array_equal(after.values, before.values)


@pytest.mark.parametrize(("index", "name"), list(enumerate(PARAMETERS)))
def test_an_update_makes_the_cache_stale_and_reset_cures_nothing(bench: Bench, index: int, name: str) -> None:
    bench.append(ROW)
    adapter = bench.adapter
    adapter.update_parameters(bench.layer, {name: getattr(parameters(), name)})
    for _ in range(2):
        with pytest.raises(Rejected, match="have been updated") as caught:
            bench.append(NAN)
        assert (caught.value.kind, caught.value.parameter) == ("cache_layer_revision_mismatch", index)
        assert (caught.value.expected, caught.value.found) == (0, 1)
        adapter.reset(bench.cache)
    assert adapter.append(bench.layer, adapter.build_cache(bench.layer, 2, 4), ROW).length == 1


def test_identities_come_before_revisions(bench: Bench) -> None:
    bench.adapter.update_parameters(bench.layer, {"query": parameters().query})
    with pytest.raises(Rejected) as caught:
        bench.append(ROW, bench.adapter.rewire(bench.layer, fresh=("output",)))
    assert (caught.value.kind, caught.value.parameter) == ("cache_layer_mismatch", 3)


def test_new_weights_are_used_by_a_new_cache(bench: Bench) -> None:
    old = bench.append(ROW).output
    bench.adapter.update_parameters(bench.layer, {"output": parameters().output * 2})
    new = bench.adapter.append(bench.layer, bench.adapter.build_cache(bench.layer, 2, 4), ROW).output
    assert np.array_equal(new, 2 * old)


@pytest.mark.parametrize(
    ("weights", "rows", "stage"),
    [
        ({}, np.where(np.arange(16).reshape(2, 1, 8) == 9, np.nan, ROW), "input"),
        ({"query": np.full((8, 8), 1.7e308)}, np.full((2, 1, 8), 2.0), "query"),
        ({"key": np.full((8, 4), 1.7e308)}, np.full((2, 1, 8), 2.0), "key"),
        ({"value": np.full((8, 4), 1.7e308)}, np.full((2, 1, 8), 2.0), "value"),
        ({"query": np.full((8, 8), 1e200), "key": np.full((8, 4), 1e200)}, np.ones((2, 1, 8)), "scores"),
        ({"query": np.full((8, 8), 1e200), "key": np.full((8, 4), -1e200)}, np.ones((2, 1, 8)), "scores"),
        ({"output": np.full((8, 8), 1.7e308), "value": np.full((8, 4), 1.0)}, np.ones((2, 1, 8)), "output"),
    ],
)
def test_what_does_not_fit_into_float64_is_refused_and_leaves_nothing(
    weights: dict[str, Any], rows: Any, stage: str
) -> None:
    adapter = exact()
    layer = adapter.build_layer(CONFIG, replace(parameters(), **weights))
    cache = adapter.build_cache(layer, 2, 4)
    with pytest.raises(Rejected) as caught:
        adapter.append(layer, cache, rows)
    assert (caught.value.kind, caught.value.stage) == ("non_finite", stage)
    assert caught.value.index == (9 if stage == "input" else 0)
    assert not np.isfinite(caught.value.value)  # type: ignore[arg-type]
    assert adapter.observe(cache).length == 0


@pytest.mark.parametrize(
    ("batch", "capacity", "kind"),
    [
        (0, 0, "zero_batch_size"),
        (1, 0, "zero_capacity"),
        (1, 7, "capacity_exceeds_positions"),
        (2**62, 7, "capacity_exceeds_positions"),
        (2**62, 6, "element_count_overflow"),
    ],
)
def test_construction_is_refused_in_order(bench: Bench, batch: int, capacity: int, kind: str) -> None:
    with pytest.raises(Rejected) as caught:
        bench.adapter.build_cache(bench.layer, batch, capacity)
    assert caught.value.kind == kind


def test_a_capacity_of_all_positions_works_to_the_last_row(bench: Bench) -> None:
    cache = bench.adapter.build_cache(bench.layer, 1, 6)
    for _ in range(6):
        bench.adapter.append(bench.layer, cache, ROW[:1])
    assert bench.adapter.observe(cache).length == 6


def test_the_callers_arrays_are_its_own(bench: Bench) -> None:
    given, rows = parameters(), ROW.copy()
    layer = bench.adapter.build_layer(CONFIG, given)
    cache = bench.adapter.build_cache(layer, 2, 4)
    bench.adapter.append(layer, cache, rows)
    given.query[:] = 0.0
    rows[:] = 0.0
    untouched = Bench()
    untouched.append(ROW)
    assert np.array_equal(bench.adapter.append(layer, cache, ROW).output, untouched.append(ROW).output)


def test_weights_that_are_not_finite_or_do_not_fit_make_no_layer() -> None:
    with pytest.raises(ValueError, match="value weights hold NaN"):
        exact().build_layer(CONFIG, replace(parameters(), value=np.full((8, 4), np.inf)))
    with pytest.raises(ValueError, match=r"key weights must be \[8, 4\]"):
        exact().build_layer(CONFIG, replace(parameters(), key=np.ones((4, 8))))


def test_its_declaration() -> None:
    declaration = ExactLayerAdapter().declaration
    assert declaration.name == "exact"
    assert declaration.features == {"chunks", "gqa", "evidence", "update_parameters", "rewire"}
    assert (declaration.rows_per_append, declaration.capacity) == ("any", "exact")
    assert declaration.keys == "rotated"
