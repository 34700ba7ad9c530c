"""Reset and isolation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import Rows, appended, changed, huge, material
from conformance.scenarios.storage import CAPACITY, poisoned, shown, trace
from conformance.trace.expect import (
    Apart,
    Array,
    Close,
    Expectation,
    InputsKept,
    Length,
    Same,
    Unchanged,
)
from conformance.trace.model import CacheSpec, Operation, Trace


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    rows, others = material(declaration), material(declaration, shift=1)
    yield _replay(rows)
    yield _other_rows(rows, others)
    yield _reset_empty(rows)
    yield _poisoned(rows, others)
    if rows.level != "store":
        yield _lanes(material(declaration, lanes=3))
    yield _interleaved(rows, others)
    yield _inputs(rows)
    yield _caller_array(rows)
    if rows.level != "store":
        yield _handed_out(rows)


def _reset(cache: str = "main", label: str = "reset") -> Operation:
    return Operation(
        op="reset",
        target=cache,
        label=label,
        expect=(
            Length("RESET-LENGTH", 0),
            Unchanged(cache, storage="RESET-BYTES", addresses="RESET-ADDRESSES", capacity="RESET-CAPACITY"),
        ),
    )


def _identical(rows: Rows, requirement: str, other: str) -> tuple[Expectation, ...]:
    return tuple(Same(requirement, name, other, bound=_loose(rows, name)) for name in shown(rows))


def _loose(rows: Rows, name: str) -> float:
    """What two runs of a non-deterministic implementation may differ by: twice the gate."""
    field = name if name in rows.fields else "output"
    return 2.0 * float(np.max(rows.field(field, 0, 5)[1]))


def _stored_keys(rows: Rows) -> str:
    return "POSITION-AFTER-RESET" if rows.level == "layer" else "STORE-KEYS"


def _replay(rows: Rows) -> Trace:
    first = tuple(appended(rows, "main", n, n + 1, label=f"row {n}") for n in range(4))
    again = tuple(
        appended(
            rows,
            "main",
            n,
            n + 1,
            label=f"row {n} again",
            keys=_stored_keys(rows),
            extra=_identical(rows, "RESET-REPLAY", f"row {n}"),
        )
        for n in range(4)
    )
    return trace(rows, "reset-replay", "the same rows after a reset", (*first, _reset(), *again))


def _other_rows(rows: Rows, others: Rows) -> Trace:
    """A long history, a reset, and a shorter one of other rows beside a fresh cache."""
    first = tuple(appended(rows, "main", n, n + 1) for n in range(5))
    steps: list[Operation] = []
    for n in range(3):
        steps.append(appended(others, "fresh", n, n + 1, label=f"fresh row {n}"))
        steps.append(
            appended(
                others,
                "main",
                n,
                n + 1,
                label=f"other row {n}",
                keys=_stored_keys(rows),
                output="RESET-INFLUENCE",
                extra=_identical(others, "RESET-INFLUENCE", f"fresh row {n}"),
            )
        )
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "fresh")}
    return trace(
        rows,
        "reset-other-rows",
        "other rows after a reset, beside a fresh cache",
        (*first, _reset(), *steps),
        caches=specs,
    )


def _reset_empty(rows: Rows) -> Trace:
    steps = (
        _reset(label="reset of a new cache"),
        appended(rows, "main", 0, 1),
        _reset(label="first reset"),
        _reset(label="second reset"),
        appended(rows, "main", 0, 1),
        appended(rows, "main", 1, 2),
    )
    return trace(rows, "reset-empty", "a reset of an empty cache, and two in a row", steps)


def _poisoned(rows: Rows, others: Rows) -> Trace:
    steps: list[Operation] = [appended(others, "fresh", n, n + 1, label=f"fresh row {n}") for n in range(3)]
    for value in (float("nan"), huge(rows.declaration)):
        steps += [appended(rows, "main", n, n + 1) for n in range(4)]
        steps.append(_reset(label=f"reset before {value}"))
        steps.append(poisoned("main", value, "RESET-POISONED", f"every slot holds {value}"))
        steps += [
            appended(
                others,
                "main",
                n,
                n + 1,
                keys=_stored_keys(rows),
                output="RESET-POISONED",
                extra=_identical(others, "RESET-POISONED", f"fresh row {n}"),
            )
            for n in range(3)
        ]
        steps.append(_reset(label=f"reset after {value}"))
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "fresh")}
    return trace(
        rows,
        "reset-poisoned",
        "reset, unused storage poisoned, replay",
        tuple(steps),
        caches=specs,
        needs=frozenset({"poison"}),
    )


def _lanes(rows: Rows) -> Trace:
    """Three lanes; the same lanes in another order; one lane changed."""
    order = (2, 0, 1)

    def other_lane(given: Array) -> Array:
        given[1] = 0.25 - given[1]
        return given

    permuted = changed(rows, lambda given: given[list(order)])
    other = changed(rows, other_lane)
    steps: list[Operation] = []
    for n in range(4):
        steps.append(appended(rows, "main", n, n + 1, label=f"row {n}"))
        steps.append(
            appended(
                permuted, "permuted", n, n + 1, label=f"permuted row {n}", output="ISOLATE-LANES"
            )
        )
        kept = Same(
            "ISOLATE-LANES", "output", f"row {n}", lanes=(0, 2), other_lanes=(0, 2),
            bound=_loose(rows, "output"),
        )  # fmt: skip
        steps.append(
            appended(
                other, "changed", n, n + 1, label=f"row {n} with lane 1 changed", output="ISOLATE-LANES",
                extra=(kept,),
            )
        )  # fmt: skip
    specs = {name: CacheSpec("a", 3, CAPACITY) for name in ("main", "permuted", "changed")}
    return trace(rows, "lanes", "lanes permuted, and one lane changed", tuple(steps), caches=specs)


def _interleaved(rows: Rows, others: Rows) -> Trace:
    steps: list[Operation] = []
    for n in range(4):
        for name, own in (("main", rows), ("other", others)):
            step = appended(
                own,
                name,
                n,
                n + 1,
                label=f"{name} row {n}",
                output="ISOLATE-CACHES",
                keys="ISOLATE-CACHES",
                values="ISOLATE-CACHES",
            )
            steps.append(step)
    steps.append(_reset("other", "reset of the other"))
    steps += [
        appended(
            rows, "main", n, n + 1, output="ISOLATE-CACHES", keys="ISOLATE-CACHES", values="ISOLATE-CACHES"
        )
        for n in (4, 5)
    ]
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "other")}
    return trace(rows, "two-caches", "two caches of one layer, used alternately", tuple(steps), caches=specs)


def _inputs(rows: Rows) -> Trace:
    kept = (InputsKept("ISOLATE-INPUTS"),)
    steps = tuple(appended(rows, "main", n, n + 1, extra=kept) for n in range(3))
    return trace(rows, "inputs-kept", "the arrays of the caller are only read", steps)


def _caller_array(rows: Rows) -> Trace:
    steps: list[Operation] = []
    for n in range(3):
        steps.append(
            appended(
                rows,
                "main",
                n,
                n + 1,
                label=f"row {n}",
                output="ISOLATE-CALLER-ARRAY" if n else "AGREE-OUTPUT",
            )
        )
        steps.append(
            Operation(
                op="overwrite_input",
                target="main",
                arguments={"step": f"row {n}"},
                label=f"the caller writes over the array of row {n}",
                expect=(
                    Unchanged(
                        "main",
                        length="ISOLATE-CALLER-ARRAY",
                        rows="ISOLATE-CALLER-ARRAY",
                        storage="ISOLATE-CALLER-ARRAY" if "storage" in rows.declaration.features else "",
                    ),
                ),
            )
        )
    return trace(rows, "caller-array", "the caller reuses its own array after each call", tuple(steps))


def _handed_out(rows: Rows) -> Trace:
    """Everything that a step hands out is written over after it, and snapshots where they are declared."""
    apart = (Apart("ISOLATE-HANDED-OUT", "main"),) if "storage" in rows.declaration.features else ()
    steps: list[Operation] = []
    for n in range(2):
        label = f"row {n}"
        output = "ISOLATE-HANDED-OUT" if n else "AGREE-OUTPUT"
        steps.append(appended(rows, "main", n, n + 1, label=label, output=output, extra=apart))
        steps.append(_written_over(label))
        if "snapshot" in rows.declaration.features:
            label = f"snapshot {n}"
            seen = tuple(
                Close(filed, f"snapshot_{name}", *rows.field(name, n, n + 1))
                for name, filed in (("keys", "STORE-KEYS"), ("values", "STORE-VALUES"))
            )
            steps.append(
                Operation(
                    op="observe", target="main", arguments={"snapshot": True}, label=label,
                    expect=(*seen, *apart),
                )
            )  # fmt: skip
            steps.append(_written_over(label))
    steps.append(appended(rows, "main", 2, 3, output="ISOLATE-HANDED-OUT"))
    about = "the caller writes over everything that it was handed"
    return trace(rows, "handed-out", about, tuple(steps))


def _written_over(label: str) -> Operation:
    kept = Unchanged("main", length="ISOLATE-HANDED-OUT", rows="ISOLATE-HANDED-OUT")
    return Operation(
        op="overwrite_output", target="main", arguments={"step": label}, label=f"{label} written over",
        expect=(kept,),
    )  # fmt: skip
