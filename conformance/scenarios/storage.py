"""Storage, reuse and capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    AttentionRows,
    LayerRows,
    Rows,
    StoreRows,
    appended,
    huge,
    material,
)
from conformance.trace.expect import (
    Accepted,
    Close,
    Custom,
    Declares,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace

EVIDENCE = {
    "query": "AGREE-PROJECTED",
    "key": "AGREE-PROJECTED",
    "value": "AGREE-PROJECTED",
    "rotated_query": "AGREE-ROTATED-QUERY",
    "rotated_key": "AGREE-ROTATED-KEY",
    "weights": "AGREE-WEIGHTS",
    "heads": "AGREE-HEADS",
    "merged": "AGREE-MERGED",
}
"""Under which requirement each field of evidence is filed."""

CAPACITY = 8


PROBING = (3.0, -2.0, 1.5, 4.0, -1.0, 2.5, 0.5, -3.5)
"""What a stored row is overwritten with: numbers that every dtype keeps."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    rows = material(declaration)
    yield _fresh(rows)
    yield _frame(rows)
    yield _capacity(rows)
    if declaration.capacity == "rounded":
        yield _rounded(rows)
    if not isinstance(rows, StoreRows):
        yield _reuse(rows)
        yield _unused(rows)
    if isinstance(rows, LayerRows):
        yield _evidence(rows)
        yield _work(rows)
        yield _own_full_prefix(rows)


def trace(
    rows: Rows,
    name: str,
    about: str,
    steps: tuple[Operation, ...],
    *,
    layers: Mapping[str, Source | Derived] | None = None,
    caches: Mapping[str, CacheSpec] | None = None,
    needs: frozenset[str] = frozenset(),
    optional: bool = False,
) -> Trace:
    """A trace with one source `a` and, unless told otherwise, one cache `main`."""
    return Trace(
        id=name,
        level=rows.level,
        about=about,
        layers={"a": rows.source} if layers is None else layers,
        caches={"main": CacheSpec("a", rows.lanes, CAPACITY)} if caches is None else caches,
        steps=steps,
        needs=needs,
        optional=optional,
    )


def _fresh(rows: Rows) -> Trace:
    heads, key_width, value_width = rows.slot_shape
    seen = Operation(
        op="observe",
        target="main",
        label="new cache",
        expect=(
            Length("STORE-LENGTH", 0),
            Shapes(
                "STORE-LOGICAL-SHAPE",
                {"keys": (rows.lanes, heads, 0, key_width), "values": (rows.lanes, heads, 0, value_width)},
            ),
            *physical(rows, CAPACITY),
        ),
    )
    return trace(rows, "fresh-cache", "what a new cache looks like", (seen,))


def shown(rows: Rows) -> tuple[str, ...]:
    """The fields by which two lives of the same rows are compared."""
    evidence = isinstance(rows, LayerRows) and "evidence" in rows.declaration.features
    return (*rows.fields, *(EVIDENCE if evidence else ()))


def physical(rows: Rows, capacity: int) -> tuple[Custom, ...]:
    """What the physical buffers of a new cache hold, asked where storage is declared."""
    if "storage" not in rows.declaration.features or not isinstance(rows, LayerRows):
        return ()
    heads, width, _ = rows.slot_shape
    shape = (rows.lanes, heads, capacity, width)
    return (
        Custom("STORE-TWO-BUFFERS", "two_buffers", {"shape": shape}),
        Custom("STORE-TOTAL", "storage_total", {"elements": 2 * int(np.prod(shape))}),
        Custom("STORE-ZERO-FILLED", "zero_filled"),
    )


def _frame(rows: Rows) -> Trace:
    steps = tuple(
        appended(
            rows,
            "main",
            n,
            n + 1,
            label=f"row {n}",
            keys="POSITION-OFFSET" if n and _rotates(rows) else "STORE-KEYS",
        )
        for n in range(5)
    )
    return trace(
        rows, "append-five", "five rows, one a call: each slot written once, nothing else touched", steps
    )


def _rotates(rows: Rows) -> bool:
    return rows.level == "layer"


def _reuse(rows: LayerRows | AttentionRows) -> Trace:
    before = tuple(appended(rows, "main", n, n + 1, label=f"row {n}") for n in range(3))
    heads, _, width = rows.slot_shape
    numbers = np.resize(PROBING, width)
    lane, head, slot = rows.lanes - 1, heads - 1, 1
    value, gate = rows.changed_value(4, slot, lane, head, numbers)
    write = Operation(
        op="overwrite_row",
        target="main",
        inputs={"numbers": numbers},
        label="one stored value row changed from outside",
        arguments={
            "buffer": 1,
            "lane": lane,
            "head": head,
            "slot": slot,
            "kv_heads": heads,
            "capacity": CAPACITY,
        },
    )
    last = appended(
        rows,
        "main",
        3,
        4,
        label="row 3",
        quiet=True,
        extra=(
            Custom(
                "REUSE-STORED-ROW",
                "moves_as_formula",
                {
                    "write": write.label,
                    "value": value,
                    "bound": gate,
                    "unmoved": rows.field("output", 3, 4)[0],
                },
            ),
        ),
    )
    return trace(
        rows,
        "reuse-probe",
        "a stored value row is changed; the next output must move with it",
        (*before, write, last),
        needs=frozenset({"storage"}),
    )


def _unused(rows: Rows) -> Trace:
    steps: list[Operation] = []
    for n in range(2):
        steps.append(appended(rows, "main", n, n + 1))
        steps.append(appended(rows, "twin", n, n + 1))
    for n, value in ((2, float("nan")), (3, huge(rows.declaration)), (4, float("inf"))):
        steps.append(poisoned("main", value, "STORE-UNUSED", f"unused slots hold {value}"))
        steps.append(appended(rows, "twin", n, n + 1, label=f"twin row {n}"))
        steps.append(
            appended(
                rows,
                "main",
                n,
                n + 1,
                output="STORE-UNUSED",
                keys="STORE-UNUSED",
                values="STORE-UNUSED",
                extra=(Same("STORE-UNUSED", "output", f"twin row {n}", bound=1e-12),),
            )
        )
    specs = {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "twin")}
    return trace(
        rows,
        "unused-slots",
        "unused slots hold NaN, a huge number, infinity; nothing of it shows",
        tuple(steps),
        caches=specs,
        needs=frozenset({"poison"}),
    )


def poisoned(cache: str, value: float, requirement: str, label: str) -> Operation:
    """Every slot at or after the length is filled; nothing that is used may change."""
    return Operation(
        op="poison", target=cache, arguments={"value": value}, label=label,
        expect=(Unchanged(cache, length=requirement, rows=requirement),),
    )  # fmt: skip


def _capacity(rows: Rows) -> Trace:
    """Four rows into four slots, twice."""
    fixed = rows.declaration.capacity == "exact"
    steps: list[Operation] = []
    for fits, full in (("CAPACITY-FITS", "CAPACITY-FULL"), ("RESET-CAPACITY", "RESET-CAPACITY")):
        for n in range(4):
            # Row 3 files its output there, and with it that it was taken.
            last = (Accepted(fits),) if n < 3 and fits == "RESET-CAPACITY" else ()
            steps.append(
                appended(
                    rows,
                    "main",
                    n,
                    n + 1,
                    label=f"row {n} of 4",
                    extra=last,
                    output=fits if n == 3 else "AGREE-OUTPUT",
                )
            )
        if fixed:
            steps.append(
                Operation(
                    op="append",
                    target="main",
                    inputs=rows.inputs(4, 5),
                    label="row 5 of 4",
                    expect=(Refused(full, ("full",)), unchanged("main")),
                )
            )
        if fits == "CAPACITY-FITS":
            steps.append(
                Operation(op="reset", target="main", label="reset", expect=(Length("RESET-LENGTH", 0),))
            )
    return trace(
        rows,
        "capacity",
        "exactly C rows fit, before and after a reset",
        tuple(steps),
        caches={"main": CacheSpec("a", rows.lanes, 4)},
    )


def _rounded(rows: Rows) -> Trace:
    """Filled to the capacity that is shown; then one row too many, twice."""
    if isinstance(rows, LayerRows):
        far = replace(rows.config, rope=replace(rows.config.rope, max_positions=2**13))
        rows = replace(rows, config=far)
    row = rows.inputs(3, 4)
    fits = (Accepted("CAPACITY-FITS"),)
    fill = Operation(op="fill", target="main", inputs=row, label="filled", expect=fits)
    steps = tuple(
        Operation(
            op="append", target="main", inputs=row, label=f"a row too many, {time}",
            expect=(Refused("CAPACITY-FULL", ("full",)), unchanged("main")),
        )
        for time in ("first time", "second time")
    )  # fmt: skip
    return trace(
        rows, "capacity-rounded", "the cache is filled to the capacity that it shows", (fill, *steps),
        caches={"main": CacheSpec("a", rows.lanes, 4)},
    )  # fmt: skip


def unchanged(cache: str) -> Unchanged:
    """What a refused call must leave alone."""
    return Unchanged(
        cache,
        length="ATOMIC-LENGTH",
        rows="ATOMIC-ROWS",
        storage="ATOMIC-BYTES",
        addresses="ATOMIC-ADDRESSES",
    )


def _evidence(rows: LayerRows) -> Trace:
    """Every field of `Step` against the exact value."""
    steps = []
    for n in range(4):
        seen = {name: rows.field(name, n, n + 1) for name in EVIDENCE}
        extra = tuple(Close(EVIDENCE[name], name, value, gate) for name, (value, gate) in seen.items())
        shapes = {name: value.shape for name, (value, _) in seen.items()}
        steps.append(appended(rows, "main", n, n + 1, extra=(*extra, Shapes("SHAPE-EVIDENCE", shapes))))
    return trace(
        rows, "evidence", "every field that a step offers", tuple(steps), needs=frozenset({"evidence"})
    )


def _work(rows: LayerRows) -> Trace:
    steps = []
    for n in range(3):
        figures = {"position": n, "full_prefix_rows": n + 1, "incremental_rows": 1, "reused_rows": n}
        declared = [Declares("REUSE-WORK-STEP", f"work.{name}", value) for name, value in figures.items()]
        totals = {"full": 6, "incremental": 3, "reused": 3, "avoided": 6}
        labels = tuple(f"row {i}" for i in range(3))
        total = (
            (Custom("REUSE-WORK-TOTAL", "work_total", {"steps": labels, "totals": totals}),) if n == 2 else ()
        )
        steps.append(appended(rows, "main", n, n + 1, label=f"row {n}", extra=(*declared, *total)))
    return trace(
        rows, "work-counts", "declared work of lengths 1, 2, 3", tuple(steps), needs=frozenset({"work"})
    )


def _own_full_prefix(rows: LayerRows) -> Trace:
    steps = [appended(rows, "main", n, n + 1, label=f"row {n}") for n in range(6)]
    value, gate = rows.field("output", 0, 6)
    steps.append(
        Operation(
            op="full_prefix",
            layer="a",
            inputs={"rows": rows.rows},
            watch=("main",),
            label="own full-prefix pass",
            expect=(
                Unchanged("main", length="STORE-LENGTH", rows="STORE-EARLIER-ROWS"),
                Close("AGREE-FULL-PREFIX", "output", value, gate),
                Custom(
                    "AGREE-FULL-PREFIX",
                    "agrees_with_own",
                    {"steps": tuple(f"row {n}" for n in range(6)), "bound": gate},
                ),
            ),
        )
    )
    return trace(
        rows,
        "own-full-prefix",
        "six cached rows against the implementation's own uncached pass",
        tuple(steps),
        needs=frozenset({"full_prefix"}),
    )
