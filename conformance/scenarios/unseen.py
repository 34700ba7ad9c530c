"""Calls between which nobody looks: what a look completes must be complete without one.

An implementation that writes late (a queue, a lazy copy, a row not yet flushed) and catches up when it is
observed is right in every other trace, because the kit observes after every call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import Rows, appended, changed, material
from conformance.scenarios.storage import trace
from conformance.trace.expect import Array, Close, Expectation, Length
from conformance.trace.model import Operation, Trace

HELD = 3


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    rows = material(declaration)
    if "snapshot" in declaration.features:
        yield _snapshot(rows)
    for name, make in (("fork", _fork), ("reorder", _reorder), ("truncate", _truncate)):
        if name in declaration.features:
            yield make(rows)


def _unseen(step: Operation) -> Operation:
    """The same call, before and after which nobody looks: only what it hands out is asked for."""
    kept = tuple(e for e in step.expect if isinstance(e, Close) and e.field == "output")
    return replace(step, watch=(), expect=kept)


def _held(rows: Rows) -> list[Operation]:
    return [_unseen(appended(rows, "main", n, n + 1)) for n in range(HELD)]


def _look(rows: Rows, cache: str, filed: str, stop: int) -> Operation:
    """The first look: the exact rows are there."""
    expect: list[Expectation] = [Length("STORE-LENGTH", stop)]
    expect += [Close(filed, name, *rows.field(name, 0, stop)) for name in ("keys", "values")]
    return Operation(op="observe", target=cache, label=f"first look at {cache}", expect=tuple(expect))


def _snapshot(rows: Rows) -> Trace:
    """A snapshot right after an append holds the newest row."""
    filed = ("KEEP-HANDED-OUT",) * 2 if rows.level == "store" else ("STORE-KEYS", "STORE-VALUES")
    seen = tuple(
        Close(requirement, f"snapshot_{name}", *rows.field(name, 0, HELD))
        for requirement, name in zip(filed, ("keys", "values"), strict=True)
    )
    taken = Operation(op="observe", target="main", arguments={"snapshot": True}, watch=(), expect=seen)
    return trace(
        rows, "unseen-snapshot", "a snapshot before anyone looked", (*_held(rows), taken),
        needs=frozenset({"snapshot"}),
    )  # fmt: skip


def _after(rows: Rows, filed: str, start: int, *, cache: str = "main") -> list[Operation]:
    """Another row, and the first look."""
    return [
        _unseen(appended(rows, cache, start, start + 1, output=filed)),
        _look(rows, cache, filed, start + 1),
    ]


def _fork(rows: Rows) -> Trace:
    fork = Operation(op="fork", target="main", arguments={"name": "child"}, watch=(), label="fork")
    steps = (*_held(rows), fork, *_after(rows, "FORK-APART", HELD, cache="child"))
    return trace(rows, "unseen-fork", "a fork before anyone looked", steps, needs=frozenset({"fork"}))


def _reorder(rows: Rows) -> Trace:
    """Both lanes continue what lane 1 held, the newest row included."""

    def taken(given: Array) -> Array:
        given[..., :HELD, :] = given[[1, 1]][..., :HELD, :]
        return given

    after = changed(rows, taken)
    reorder = Operation(op="reorder", target="main", arguments={"lanes": (1, 1)}, watch=(), label="reorder")
    steps = (*_held(rows), reorder, *_after(after, "REORDER-FUTURE", HELD))
    about = "a reorder before anyone looked"
    return trace(rows, "unseen-reorder", about, steps, needs=frozenset({"reorder"}))


def _truncate(rows: Rows) -> Trace:
    """The newest row is given up before anyone saw it; another takes its place."""

    def other_row(given: Array) -> Array:
        given[..., HELD - 1, :] = 0.25 - given[..., HELD - 1, :]
        return given

    other = changed(rows, other_row)
    back = {"length": HELD - 1}
    truncate = Operation(op="truncate", target="main", arguments=back, watch=(), label="truncate")
    steps = (*_held(rows), truncate, *_after(other, "TRUNCATE-FORGETS", HELD - 1))
    about = "a truncation before anyone looked"
    return trace(rows, "unseen-truncate", about, steps, needs=frozenset({"truncate"}))
