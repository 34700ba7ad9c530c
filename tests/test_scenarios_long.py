"""Long decodes: every row against one pass, nothing observed between the looks, memory that grows as n."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance import Declaration, LayerConfig, Precision, check
from conformance.adapters.numpy_layer import numpy, numpy_attention, numpy_chunks
from conformance.budget import attend, long_bound
from conformance.dtypes import rounded
from conformance.judge import judge
from conformance.player import play
from conformance.scenarios import scenarios
from conformance.scenarios.long import LOOKS, ROWS, long_decode, long_rows, scattered
from conformance.trace.expect import Close, Custom
from conformance.trace.model import Trace
from tests.small_layer import Cache, Layer, SmallLayer


def declared(**said: Any) -> Declaration:
    return Declaration(**{"name": "d", "levels": ("layer",), **said})


def outputs(trace: Trace) -> list[Close]:
    return [e for step in trace.steps for e in step.expect if isinstance(e, Close) and e.field == "output"]


@pytest.mark.parametrize("level", ["layer", "attention"])
@pytest.mark.parametrize("features", [frozenset(), frozenset({"chunks"})])
def test_the_suite_decodes_past_the_blocks_of_common_kernels(level: str, features: frozenset[str]) -> None:
    found = {t.id: t for t in scenarios(declared(levels=(level,), features=features)) if "long" in t.id}
    assert set(found) == {"long-decode", *(["long-chunks"] if features else [])}
    for trace in found.values():
        assert sum(e.value.shape[-2] for e in outputs(trace)) == ROWS > 64


def test_a_store_is_not_asked() -> None:
    assert not [t for t in scenarios(declared(levels=("store",))) if "long" in t.id]
    with pytest.raises(ValueError, match="level layer or attention, not store"):
        long_decode(declared(levels=("store",)), 8)
    with pytest.raises(ValueError, match="0 rows"):
        long_decode(declared(), 0)


@pytest.mark.parametrize(
    "adapter", [numpy(), numpy_chunks(), numpy_attention()], ids=lambda a: a.declaration.name
)
@pytest.mark.parametrize("rows", [1, 3, 200])
def test_right_implementations_pass_at_any_length(adapter: Any, rows: int) -> None:
    trace = long_decode(adapter.declaration, rows, lanes=2, heads=4, kv_heads=2, head_width=6)
    checks = judge(play(trace, adapter), adapter.declaration)
    assert {c.status for c in checks} == {"pass"}
    assert len([c for c in checks if c.requirement == "AGREE-OUTPUT"]) == rows
    assert max(c.share for c in checks) < 0.1


class Counting:
    """The embedded layer; counts what it is asked."""

    def __init__(self) -> None:
        self.adapter, self.counts = numpy(), dict.fromkeys(("append", "observe"), 0)
        self.declaration = self.adapter.declaration

    def __getattr__(self, name: str) -> Any:
        if name in self.counts:
            self.counts[name] += 1
        return getattr(self.adapter, name)


def test_nothing_is_observed_between_the_looks() -> None:
    adapter = Counting()
    played = play(long_decode(adapter.declaration, 100), adapter)
    assert adapter.counts == {"append": 100, "observe": LOOKS}
    assert all(record.outcome.fields.keys() <= {"output"} for record in played.records)  # type: ignore[union-attr]


def test_one_walk_serves_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[int] = []

    def counted(query: Any, key: Any) -> Any:
        walks.append(query.shape[3])
        return attend.causal_blocks(query, key)

    monkeypatch.setattr(long_bound, "causal_blocks", counted)
    long_decode(declared(), 90)
    assert walks == [90]


def peak(rows: int) -> int:
    adapter = numpy()
    tracemalloc.start()
    try:
        trace = long_decode(adapter.declaration, rows)
        judge(play(trace, adapter), adapter.declaration)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_as_the_rows() -> None:
    peak(100)  # what is imported and remembered once is no part of it
    smaller, larger = peak(300), peak(600)
    assert larger < 2.2 * smaller


class OneByte(SmallLayer):
    """Counts positions in a signed byte, which starts again at -128."""

    def rotated(self, rows: Any, position: int, config: LayerConfig) -> Any:
        return super().rotated(rows, (position + 128) % 256 - 128, config)


class Window(SmallLayer):
    """Forgets the first row as soon as there are more than 64."""

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        if cache.length == 64:
            cache.values[:, :, 0] = 0.0
        return super().append(layer, cache, rows)


@pytest.mark.parametrize(
    ("wrong", "first", "requirements"),
    [
        (OneByte, 128, {"AGREE-OUTPUT", "STORE-KEYS"}),
        (Window, 64, {"AGREE-OUTPUT", "STORE-VALUES", "STORE-EARLIER-ROWS"}),
    ],
)
def test_a_fault_that_comes_late_is_found(
    wrong: type[SmallLayer], first: int, requirements: set[str]
) -> None:
    short = [t for t in scenarios(wrong.declaration) if not t.id.startswith(("long", "far"))]
    near = check(wrong, "core", only=short, diagnose=False).verdict.profiles[0]
    assert not [r for r in near.results if r.standing == "fail"]
    report = check(wrong, "core", only=[long_decode(wrong.declaration, 140)], diagnose=False)
    assert {c.requirement for c in report.findings} == requirements
    rows = [int(c.place.split()[0]) if "rows" in c.place else c.step for c in report.findings]
    assert min(rows) >= first


def test_rows_have_no_period_and_fit_every_dtype() -> None:
    rows = scattered(2, 4096, 8)
    assert len(np.unique(rows.reshape(-1, 8), axis=0)) > 8000
    assert (rounded(rows, "bfloat16") == rows).all()
    assert np.abs(rows).max() == 0.75


def test_scores_of_wide_layers_are_no_larger_than_those_of_narrow_ones() -> None:
    narrow = long_rows(declared(), 40)
    wide = long_rows(declared(), 40, config=replace(narrow.config, model_width=512, head_width=256))  # type: ignore[call-arg, arg-type, type-var]
    sizes = [np.abs(rows.expected.value).max() for rows in (narrow, wide)]
    assert sizes[1] < 4 * sizes[0]


def test_a_precision_too_coarse_for_so_many_rows_is_asked_for_stored_rows_alone() -> None:
    trace = long_decode(declared(dtypes=("bfloat16",), precision=Precision.of("bfloat16")), 200)
    fields = {e.field for step in trace.steps for e in step.expect if isinstance(e, Close)}
    assert fields == {"keys", "values"}
    assert [e.rule for e in trace.steps[-1].expect if isinstance(e, Custom)] == ["not_asked"]
