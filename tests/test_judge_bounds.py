"""The bound is the line: what lies inside passes, what lies outside fails, on every golden step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance.adapter import FEATURES, Declaration
from conformance.judge import judge
from conformance.player.records import CacheView, Playthrough, Returned, StepRecord
from conformance.suite import golden_traces
from conformance.trace.expect import Close
from conformance.trace.model import Operation, Trace

DECLARED = Declaration(name="stand-in", features=frozenset(FEATURES), rows_per_append="any")
GOLDEN = [t for t in golden_traces(DECLARED) if any(isinstance(e, Close) for s in t.steps for e in s.expect)]


def close_expectations(trace: Trace) -> list[tuple[Operation, Close]]:
    return [(step, e) for step in trace.steps for e in step.expect if isinstance(e, Close)]


def seen(trace: Trace, step: Operation, expected: Close, value: np.ndarray) -> list[str]:
    """The statuses of a step that shows `value` for one field and nothing else."""
    alone = replace(step, expect=(expected,), op="observe")
    field = expected.field
    stored = {field: value} if field in ("keys", "values") else {}
    view = CacheView(length=0, **stored)
    outcome = Returned({} if stored else {field: value})
    record = StepRecord(0, alone, outcome, {step.target: view}, {step.target: view})
    return [c.status for c in judge(Playthrough(trace, (record,)), DECLARED)]


def moved(expected: Close, share: float) -> np.ndarray:
    """The golden value with its largest element moved by a share of the bound, measured as it is rounded."""
    value = expected.value.copy()
    index = np.unravel_index(int(np.argmax(np.abs(value))), value.shape)
    bound = float(np.broadcast_to(np.asarray(expected.bound), value.shape)[index])
    value[index] += share * bound
    return value


@pytest.mark.parametrize("trace", GOLDEN, ids=lambda t: t.id)
def test_nine_tenths_of_the_bound_pass_and_eleven_tenths_fail(trace: Trace) -> None:
    checked = 0
    for step, expected in close_expectations(trace):
        if expected.value.size == 0:
            continue
        assert seen(trace, step, expected, moved(expected, 0.9)) == ["pass"], step.label
        assert seen(trace, step, expected, moved(expected, -0.9)) == ["pass"], step.label
        assert seen(trace, step, expected, moved(expected, 1.1)) == ["fail"], step.label
        assert seen(trace, step, expected, moved(expected, -1.1)) == ["fail"], step.label
        checked += 1
    assert checked


def test_the_bound_itself_passes() -> None:
    expected = Close("AGREE-OUTPUT", "output", np.zeros((1, 1, 2)), 1e-12)
    trace = GOLDEN[0]
    step = Operation(op="observe", target="main", expect=(expected,))
    assert seen(trace, step, expected, np.array([[[0.0, 1e-12]]])) == ["pass"]
    assert seen(trace, step, expected, np.array([[[0.0, np.nextafter(1e-12, 1)]]])) == ["fail"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_never_passes(bad: float) -> None:
    expected = Close("AGREE-OUTPUT", "output", np.zeros((1, 1, 2)), 1e300)
    step = Operation(op="observe", target="main", expect=(expected,))
    assert seen(GOLDEN[0], step, expected, np.array([[[0.0, bad]]])) == ["fail"]


def test_another_shape_fails_and_is_named() -> None:
    expected = Close("AGREE-OUTPUT", "output", np.zeros((1, 1, 2)), 1.0)
    step = Operation(op="observe", target="main", expect=(expected,))
    assert seen(GOLDEN[0], step, expected, np.zeros((1, 2))) == ["fail"]
