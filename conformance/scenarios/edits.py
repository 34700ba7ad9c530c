"""Rollback, fork and reorder: each beside a cache that lived the same life without the edit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import Rows, appended, changed, material
from conformance.scenarios.storage import CAPACITY, trace, unchanged
from conformance.trace.expect import Array, Close, Expectation, Length, Refused, Same
from conformance.trace.model import CacheSpec, Operation, Trace

TRUNCATE, FORK, REORDER = (frozenset({name}) for name in ("truncate", "fork", "reorder"))


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention."""
    rows, others = material(declaration), material(declaration, shift=1)
    for length in (0, 1, 3, 5):
        yield _truncated(rows, others, length)
    yield _truncate_refused(rows)
    yield _forked(rows, others)
    wide = material(declaration, lanes=3)
    for name, lanes in (
        ("permuted", (2, 0, 1)),
        ("doubled", (0, 0, 2)),
        ("dropped", (1, 1, 1)),
        ("kept", (0, 1, 2)),
    ):
        yield _reordered(wide, name, lanes)
    yield _reorder_refused(wide)


def _alike(rows: Rows, requirement: str, label: str) -> tuple[Expectation, ...]:
    gate = 2.0 * float(rows.field(rows.fields[0], 0, 6)[1].max())
    return tuple(Same(requirement, name, label, bound=gate) for name in rows.fields)


def _truncated(rows: Rows, others: Rows, length: int) -> Trace:
    """Five rows cut to `length`, then two other rows, beside a cache that only ever had `length` rows."""
    mixed = _joined(rows, others, length)
    steps = [appended(rows, "main", n, n + 1, label=f"row {n}") for n in range(5)]
    kept = tuple(
        Same("TRUNCATE-KEEPS", name, "row 4", rows=(0, length), other_rows=(0, length))
        for name in ("keys", "values")
    )
    steps.append(
        Operation(
            op="truncate", target="main", arguments={"length": length}, label=f"truncated from 5 to {length}",
            expect=(Length("TRUNCATE-LENGTH", length), *kept),
        )
    )  # fmt: skip
    steps += [appended(rows, "lone", n, n + 1) for n in range(length)]
    for n in range(length, min(length + 2, 6)):
        steps.append(appended(mixed, "lone", n, n + 1, label=f"lone row {n}"))
        steps.append(
            appended(
                mixed, "main", n, n + 1, output="TRUNCATE-FORGETS", keys="TRUNCATE-FORGETS",
                values="TRUNCATE-FORGETS", extra=_alike(mixed, "TRUNCATE-FORGETS", f"lone row {n}"),
            )
        )  # fmt: skip
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "lone")}
    return trace(
        rows, f"truncate-to-{length}", f"five rows truncated to {length}, then other rows", tuple(steps),
        caches=specs, needs=TRUNCATE,
    )  # fmt: skip


def _joined(rows: Rows, others: Rows, length: int) -> Rows:
    """The first `length` rows of one, then those of the other."""
    theirs = others.inputs()

    def joined(name: str, given: Array) -> Array:
        return np.concatenate([given[..., :length, :], theirs[name][..., length:, :]], axis=-2)

    return rows.with_inputs({name: joined(name, given) for name, given in rows.inputs().items()})


def _truncate_refused(rows: Rows) -> Trace:
    steps = [appended(rows, name, n, n + 1) for n in range(3) for name in ("main", "lone")]
    steps += [
        Operation(
            op="truncate", target="main", arguments={"length": length}, label=f"truncate 3 rows to {length}",
            expect=(Refused("TRUNCATE-REFUSED", ("invalid_length",)), unchanged("main")),
        )
        for length in (4, CAPACITY + 1, -1, -3)
    ]  # fmt: skip
    steps.append(appended(rows, "lone", 3, 4, label="lone row 3"))
    steps.append(appended(rows, "main", 3, 4, extra=_alike(rows, "ATOMIC-FUTURE", "lone row 3")))
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "lone")}
    return trace(
        rows, "truncate-refused", "lengths that are not there", tuple(steps), caches=specs, needs=TRUNCATE
    )


def _forked(rows: Rows, others: Rows) -> Trace:
    """Three rows, a fork, two continuations turn by turn; then the origin is reset and the fork goes on."""
    mixed = _joined(rows, others, 3)
    steps = [appended(rows, "main", n, n + 1, label=f"row {n}") for n in range(3)]
    keys, values = rows.field("keys", 2, 3), rows.field("values", 2, 3)
    same = tuple(Same("FORK-EQUAL", name, "row 2") for name in ("keys", "values"))
    steps.append(
        Operation(
            op="fork", target="main", arguments={"name": "child"}, label="fork",
            expect=(
                Length("FORK-EQUAL", 3, "child"),
                Close("FORK-EQUAL", "keys:child", *keys),
                Close("FORK-EQUAL", "values:child", *values),
                *same,
            ),
        )
    )  # fmt: skip
    filed = {"output": "FORK-APART", "keys": "FORK-APART", "values": "FORK-APART"}
    for n in (3, 4):
        steps.append(appended(mixed, "child", n, n + 1, **filed))  # type: ignore[arg-type]
        steps.append(appended(rows, "main", n, n + 1, **filed))  # type: ignore[arg-type]
    steps.append(Operation(op="reset", target="main", label="origin reset"))
    steps.append(appended(others, "main", 0, 1, **filed))  # type: ignore[arg-type]
    steps.append(appended(mixed, "child", 5, 6, **filed))  # type: ignore[arg-type]
    steps.append(appended(others, "main", 1, 2, **filed))  # type: ignore[arg-type]
    return trace(rows, "fork", "a fork and two continuations", tuple(steps), needs=FORK)


def _lanes_of(rows: Rows, lanes: tuple[int, ...], start: int) -> Rows:
    """Lane i holds lane lanes[i] up to row start; later rows stay where they are."""

    def taken(given: Array) -> Array:
        given[..., :start, :] = given[list(lanes)][..., :start, :]
        return given

    return changed(rows, taken)


def _reordered(rows: Rows, name: str, lanes: tuple[int, ...]) -> Trace:
    """Three rows, a reorder, two more rows: each lane against the exact value of its own history."""
    after = _lanes_of(rows, lanes, 3)
    steps = [appended(rows, "main", n, n + 1, label=f"row {n}") for n in range(3)]
    own = tuple(range(rows.lanes))
    moved = tuple(
        Same("REORDER-LANES", field, "row 2", lanes=own, other_lanes=lanes) for field in ("keys", "values")
    )
    steps.append(
        Operation(
            op="reorder", target="main", arguments={"lanes": lanes}, label=f"lanes {list(lanes)}",
            expect=(Length("REORDER-LANES", 3), *moved),
        )
    )  # fmt: skip
    steps += [
        appended(
            after, "main", n, n + 1, output="REORDER-FUTURE", keys="REORDER-FUTURE", values="REORDER-FUTURE"
        )
        for n in (3, 4)
    ]
    return trace(
        rows, f"reorder-{name}", f"three lanes taken from {list(lanes)}", tuple(steps), needs=REORDER,
        caches={"main": CacheSpec("a", rows.lanes, CAPACITY)},
    )  # fmt: skip


def _reorder_refused(rows: Rows) -> Trace:
    steps = [appended(rows, name, n, n + 1) for n in range(2) for name in ("main", "lone")]
    steps += [
        Operation(
            op="reorder", target="main", arguments={"lanes": lanes}, label=f"lanes {list(lanes)} of 3",
            expect=(Refused("REORDER-REFUSED", ("lane_out_of_range",)), unchanged("main")),
        )
        for lanes in ((0, 1, 3), (-1, 0, 1))
    ]  # fmt: skip
    steps.append(appended(rows, "lone", 2, 3, label="lone row 2"))
    steps.append(appended(rows, "main", 2, 3, extra=_alike(rows, "ATOMIC-FUTURE", "lone row 2")))
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "lone")}
    return trace(
        rows, "reorder-refused", "lanes that are not there", tuple(steps), caches=specs, needs=REORDER
    )
