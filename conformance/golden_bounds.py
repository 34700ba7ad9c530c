"""Bounds of golden expectations for a declaration.

In float64 the promise is 1e-12, or the bound that the file itself states. For coarser precisions, and where
keys are kept unrotated, value and bound are computed from the rows of the trace. What a precision is too
coarse for is not asked, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration, Precision
from conformance.golden_decoder_bounds import decoder_bounded
from conformance.scenarios.material import PROMISE, LayerRows
from conformance.trace.expect import Close, Custom, Expectation
from conformance.trace.model import Derived, Operation, Source, Trace
from conformance.values import LayerConfig, LayerParameters

BEFORE_THE_SCORES = ("query", "key", "value", "rotated_query", "rotated_key", "keys", "values")
"""Fields whose bound says something however large the scores are."""

TOO_COARSE = "the precision is too coarse for scores of this size, a bound on it would allow any mixture"


def bounded(trace: Trace, declaration: Declaration) -> Trace:
    """The trace with a bound on every expectation that has none."""
    if trace.level == "decoder":
        return decoder_bounded(trace, declaration)
    exact = declaration.precision == Precision() and declaration.dtypes[0] == "float64"
    if exact and declaration.keys == "rotated":
        return trace.with_steps(tuple(_promised(step) for step in trace.steps))
    return trace.with_steps(tuple(_computed(trace, declaration, exact=exact)))


def _promised(step: Operation) -> Operation:
    expect = tuple(
        replace(e, bound=PROMISE) if isinstance(e, Close) and e.bound is None else e for e in step.expect
    )
    return replace(step, expect=expect)


def _computed(trace: Trace, declaration: Declaration, *, exact: bool) -> Iterator[Operation]:
    """Every step, its bounds from the whole history of its cache since the last reset."""
    histories = _histories(trace, declaration)
    held: dict[str, int] = {}
    for number, step in enumerate(trace.steps):
        if step.op == "reset":
            held[step.target] = 0
        rows = histories.get(number)
        if rows is None:
            yield _promised(step)
            continue
        start = held.get(step.target, 0)
        held[step.target] = stop = start + step.inputs["rows"].shape[1]
        expect = tuple(_own(e, rows, start, stop, exact=exact) for e in step.expect)
        yield replace(step, expect=expect)


def _own(e: Expectation, rows: LayerRows, start: int, stop: int, *, exact: bool) -> Expectation:
    if not isinstance(e, Close):
        return e
    value, gate = rows.field(e.field, start, stop)
    unrotated = e.field == "keys" and rows.declaration.keys == "unrotated"
    if exact and not unrotated:
        return replace(e, bound=PROMISE if e.bound is None else e.bound)
    if e.field not in BEFORE_THE_SCORES and not rows.tolerance.applicable:
        return Custom(e.requirement, "not_asked", {"reason": f"{e.field}: {TOO_COARSE}"})
    return replace(e, value=value, bound=gate if e.bound is None else np.maximum(gate, e.bound))


def _histories(trace: Trace, declaration: Declaration) -> dict[int, LayerRows]:
    """For every append with expectations: all rows of its cache's life between two resets."""
    lives: dict[str, list[int]] = {}
    found: dict[int, LayerRows] = {}
    for number, step in enumerate(trace.steps):
        if step.op == "reset":
            found.update(_life(trace, declaration, lives.pop(step.target, [])))
        elif step.op == "append" and any(isinstance(e, Close) for e in step.expect):
            lives.setdefault(step.target, []).append(number)
    for numbers in lives.values():
        found.update(_life(trace, declaration, numbers))
    return found


def _life(trace: Trace, declaration: Declaration, numbers: list[int]) -> dict[int, LayerRows]:
    if not numbers:
        return {}
    first = trace.steps[numbers[0]]
    source = trace.layers[first.layer or trace.caches[first.target].layer]
    if isinstance(source, Derived) or not _is_layer(source):
        return {}
    rows = np.concatenate([trace.steps[n].inputs["rows"] for n in numbers], axis=1)
    own = LayerRows(declaration, source.config, source.parameters, rows)  # type: ignore[arg-type]
    return dict.fromkeys(numbers, own)


def _is_layer(source: Source) -> bool:
    return isinstance(source.config, LayerConfig) and isinstance(source.parameters, LayerParameters)
