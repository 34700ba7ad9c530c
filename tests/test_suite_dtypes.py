"""Every dtype that a declaration names is played and judged by the precision that it implies."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from conformance import Declaration, Precision, check
from conformance.dtypes import fed, implied, in_dtype, rounded
from conformance.report.text import report_text
from conformance.suite import golden_traces, traces
from conformance.trace.expect import Close, Custom
from conformance.trace.model import Trace
from tests.narrow_layer import HalfInside, HalfStored, NarrowLayer, Shouts, Stuck, only

HALF = Precision("float16", "float32", "float32", "float32")
ALL = ("float64", "float32", "float16", "bfloat16")


def declared(*dtypes: str, **said: Any) -> Declaration:
    return Declaration(name="d", levels=("layer",), features=frozenset({"gqa"}), dtypes=dtypes, **said)


@cache
def suite(*dtypes: str) -> tuple[Trace, ...]:
    """All that is played where these are declared."""
    return tuple(traces(declared(*dtypes)))


@pytest.mark.parametrize(
    ("dtype", "arithmetic"),
    [("float32", "float32"), ("float16", "float32"), ("bfloat16", "float32"), ("float64", "float64")],
)
def test_a_further_dtype_implies_what_it_is_computed_in(dtype: str, arithmetic: str) -> None:
    wanted = Precision(dtype, arithmetic, arithmetic, arithmetic)
    first = "float32" if dtype == "float64" else "float64"
    assert implied(declared(first, dtype), dtype) == wanted


def test_what_a_declaration_says_holds_in_every_dtype_that_is_finer() -> None:
    said = declared("float64", "float32", "bfloat16", precision=Precision(softmax="float16"))
    assert implied(said, "float32") == Precision("float32", "float32", "float16", "float32")
    assert implied(said, "bfloat16") == Precision("bfloat16", "float32", "float16", "float32")


def test_the_first_dtype_and_one_that_is_not_named_change_nothing() -> None:
    given = declared("float32", "float16")
    assert in_dtype(given, "float32") is given
    assert in_dtype(given, "float64") is given
    assert in_dtype(given, "float16").dtypes == ("float16",)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_is_that_of_numpy(dtype: str) -> None:
    numbers = np.random.default_rng(5).standard_normal(500) * 2.0 ** np.arange(-20, 10).repeat(17)[:500]
    assert (rounded(numbers, dtype) == numbers.astype(dtype).astype(np.float64)).all()


def test_rounding_to_bfloat16_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = np.random.default_rng(6).standard_normal(2000) * 2.0 ** np.arange(-50, 50).repeat(20)
    halfway = np.array([1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, -0.0, np.inf, -np.inf])
    for given in (numbers, halfway):
        single = given.astype(np.float32)  # so that both round once
        assert (rounded(single, "bfloat16") == single.astype(ml_dtypes.bfloat16).astype(np.float64)).all()


def test_every_golden_trace_is_played_in_every_dtype() -> None:
    golden = [trace.id for trace in golden_traces(declared(*ALL))]
    for dtype in ALL[1:]:
        own = [trace for trace in suite(*ALL) if trace.id.endswith(f"@{dtype}")]
        assert {trace.dtype for trace in own} == {dtype}
        assert {f"{name}@{dtype}" for name in golden} <= {trace.id for trace in own}
    assert len({trace.id for trace in suite(*ALL)}) == len(suite(*ALL))
    assert {trace.dtype for trace in suite(*ALL) if "@" not in trace.id} == {"float64"}


def test_other_levels_compare_numbers_in_every_dtype_too() -> None:
    for level, asked in (("attention", "AGREE-OUTPUT"), ("store", "KEEP-PREFIX")):
        played = traces(replace(declared("float64", "float32"), levels=(level,)))
        own = [trace for trace in played if trace.id.endswith("@float32")]
        assert any(asked in trace.requirements() for trace in own)


def closes(trace: Trace) -> list[Close]:
    return [e for step in trace.steps for e in step.expect if isinstance(e, Close)]


def test_fixtures_that_a_dtype_holds_keep_their_golden_values() -> None:
    name = "mod-square/single"
    plain = next(t for t in golden_traces(declared("float64")) if t.id == name)
    narrow = next(t for t in suite(*ALL) if t.id == f"{name}@float32")
    for exact, other in zip(closes(plain), closes(narrow), strict=True):
        np.testing.assert_allclose(other.value, exact.value, atol=1e-12)
        assert (np.asarray(other.bound) > 2.0**-25 * np.abs(other.value)).all()
        assert (np.asarray(other.bound) < 1e-4).all()


def test_fixtures_that_a_dtype_cannot_hold_are_computed_from_what_it_gets() -> None:
    name = "ch37/single"
    plain = next(t for t in golden_traces(declared("float64")) if t.id == name)
    narrow = next(t for t in suite(*ALL) if t.id == f"{name}@float16")
    moved = [np.abs(a.value - b.value).max() for a, b in zip(closes(plain), closes(narrow), strict=True)]
    assert max(moved) > 1e-5
    for step in narrow.steps:
        for given in step.inputs.values():
            assert (rounded(given, "float16") == given).all()
    assert fed(plain, "float64") is plain


@pytest.mark.parametrize(
    ("dtype", "coarse"), [("float16", {"extreme"}), ("bfloat16", {"extreme", "mod-gqa-half"})]
)
def test_what_a_dtype_is_too_coarse_for_is_not_asked(dtype: str, coarse: set[str]) -> None:
    silent = set()
    for trace in suite(*ALL):
        for step in trace.steps if trace.file and trace.id.endswith(f"@{dtype}") else ():
            asked = {e.field for e in step.expect if isinstance(e, Close)}
            if any(isinstance(e, Custom) and e.rule == "not_asked" for e in step.expect):
                silent.add(trace.id.partition("/")[0])
                assert asked == {"keys", "values"}
    assert silent == coarse


def held(adapter: Any) -> Any:
    return check(adapter, "core", seed=11, diagnose=False)


@pytest.mark.parametrize(
    "adapter",
    [NarrowLayer(), only("float32"), only("float16"), only("float16", precision=HALF)],
    ids=["several", "float32", "float16", "float16 in float32"],
)
def test_right_layers_are_conformant_in_their_dtypes(adapter: Any) -> None:
    report = held(adapter)
    assert report.verdict.text == "conformant"
    asked = {r.requirement.id for p in report.verdict.profiles for r in p.results}
    assert not [c for c in report.findings if c.requirement in asked]


@pytest.mark.parametrize(
    ("wrong", "requirements"),
    [
        (HalfInside, {"AGREE-OUTPUT", "STORE-KEYS", "STORE-VALUES"}),
        (HalfStored, {"AGREE-OUTPUT", "STORE-KEYS", "STORE-VALUES"}),
        (Stuck, {"AGREE-OUTPUT", "STORE-KEYS"}),
        (Shouts, {"SHAPE-OUTPUT"}),
    ],
)
def test_a_fault_in_a_further_dtype_is_found_there(wrong: type[NarrowLayer], requirements: set[str]) -> None:
    adapter = wrong()
    again = [trace for trace in suite(*adapter.declaration.dtypes) if trace.id.startswith(("mod", "ch37"))]
    report = check(adapter, "core", only=again, diagnose=False)
    assert report.verdict.text == "not conformant"
    asked = {r.requirement.id for p in report.verdict.profiles for r in p.results}
    found = [c for c in report.findings if c.requirement in asked]
    assert {c.requirement for c in found} == requirements
    assert all("@float" in c.trace for c in found)


@pytest.mark.parametrize("wrong", [HalfInside, HalfStored, Stuck])
def test_faults_of_a_float32_layer_are_found(wrong: type[NarrowLayer]) -> None:
    adapter = only("float32", wrong)
    some = [
        trace for trace in suite(*adapter.declaration.dtypes) if trace.id.startswith(("mod", "append-five"))
    ]
    report = check(adapter, "core", only=some, diagnose=False)
    failed = {r.requirement.id for p in report.verdict.profiles for r in p.results if r.standing == "fail"}
    assert {"AGREE-OUTPUT", "AGREE-TWIN", "STORE-KEYS", "POSITION-OFFSET"} <= failed


def test_the_report_says_what_was_not_asked() -> None:
    def told(adapter: Any) -> str:
        extreme = [trace for trace in suite(*adapter.declaration.dtypes) if trace.id.startswith("extreme")]
        return " ".join(report_text(check(adapter, only=extreme, diagnose=False)).split())

    assert "not asked extreme/single@float16: output: the precision is too coarse" in told(NarrowLayer())
    assert "not asked" not in told(only("float32"))
