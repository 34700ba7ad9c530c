"""Appends of several rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from conformance.adapter import Declaration
from conformance.scenarios.material import Rows, StoreRows, appended, changed, material
from conformance.scenarios.refusals import twins
from conformance.scenarios.storage import CAPACITY, trace, unchanged
from conformance.trace.expect import Accepted, Array, Custom, Length, Refused, Same
from conformance.trace.model import CacheSpec, Operation, Trace

ROWS = 6
NEEDS = frozenset({"chunks"})


def partitions(count: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut `count` rows into chunks, 2**(count - 1) of them."""
    for cuts in product((False, True), repeat=count - 1):
        sizes, size = [], 1
        for cut in cuts:
            if cut:
                sizes.append(size)
                size = 1
            else:
                size += 1
        yield (*sizes, size)


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention."""
    rows = material(declaration)
    if isinstance(rows, StoreRows):
        return
    for sizes in partitions(ROWS):
        yield _partition(rows, sizes)
    yield _causal(rows)
    yield _empty(rows)
    yield _capacity(rows)


def _partition(rows: Rows, sizes: tuple[int, ...]) -> Trace:
    steps, start = [], 0
    for size in sizes:
        chunk = size > 1
        steps.append(
            appended(
                rows, "main", start, start + size,
                output="CHUNK-AGREE" if chunk else "CHUNK-PARTITIONS",
                keys="CHUNK-ROWS" if chunk else "CHUNK-PARTITIONS",
                values="CHUNK-ROWS" if chunk else "CHUNK-PARTITIONS",
                extra=(Length("CHUNK-PARTITIONS", start + size),),
            )
        )  # fmt: skip
        start += size
    name = "-".join(str(size) for size in sizes)
    return trace(rows, f"chunks-{name}", f"six rows as {name}", tuple(steps), needs=NEEDS)


def _last_row_changed(given: Array) -> Array:
    given[..., 4, :] = 0.5 - given[..., 4, :]
    return given


def _causal(rows: Rows) -> Trace:
    """The same chunk twice, onto the same history, with another last row."""
    other = changed(rows, _last_row_changed)
    steps: list[Operation] = []
    gate = 2.0 * float(rows.field("output", 0, 5)[1].max())
    for start, stop in ((0, 2), (2, 5)):
        steps.append(appended(rows, "main", start, stop, label=f"rows {start} to {stop - 1}"))
        part = (0, 2) if stop == 5 else None
        steps.append(
            appended(
                other, "twin", start, stop, label=f"rows {start} to {stop - 1}, the last one changed",
                extra=(
                    Same(
                        "CHUNK-CAUSAL", "output", f"rows {start} to {stop - 1}", rows=part, other_rows=part,
                        bound=gate,
                    ),
                ),
            )
        )  # fmt: skip
    steps.insert(0, _probe_empty(rows, other)[0])
    steps.insert(1, _probe_empty(rows, other)[1])
    specs = {n: CacheSpec("a", rows.lanes, CAPACITY) for n in ("main", "twin", "whole", "whole changed")}
    return trace(
        rows, "chunk-causal", "a later row of a chunk is changed", tuple(steps), caches=specs, needs=NEEDS
    )


def _probe_empty(rows: Rows, other: Rows) -> tuple[Operation, Operation]:
    """The same on an empty cache: five rows at once."""
    gate = 2.0 * float(rows.field("output", 0, 5)[1].max())
    return (
        appended(rows, "whole", 0, 5, label="five rows at once"),
        appended(
            other, "whole changed", 0, 5, label="five rows at once, the last one changed",
            extra=(
                Same(
                    "CHUNK-CAUSAL", "output", "five rows at once", rows=(0, 4), other_rows=(0, 4), bound=gate
                ),
            ),
        ),
    )  # fmt: skip


def _empty(rows: Rows) -> Trace:
    steps: list[Operation] = []
    kinds = ("empty_chunk", "single_token_required")
    for held in (0, 2):
        if held:
            steps += [appended(rows, name, 0, held) for name in ("main", "twin")]
        steps.append(
            Operation(
                op="append", target="main", inputs=rows.inputs(held, held), label=f"no rows onto {held}",
                expect=(Custom("CHUNK-EMPTY", "refused_or_unchanged", {"kinds": kinds}), unchanged("main")),
            )
        )  # fmt: skip
    steps += [appended(rows, "twin", 2, 4, label="twin goes on")]
    steps += [
        appended(rows, "main", 2, 4, extra=(Same("ATOMIC-FUTURE", "output", "twin goes on", bound=1e-12),))
    ]
    return trace(rows, "chunk-empty", "a chunk of no rows", tuple(steps), caches=twins(rows), needs=NEEDS)


def _capacity(rows: Rows) -> Trace:
    """Capacity 4: 3 + 2 is refused whole, 3 + 1 and, after a reset, 4 at once fit."""
    steps = [appended(rows, "main", 0, 3)]
    if rows.declaration.capacity == "exact":
        steps.append(_too_many(rows, 3, 5))
    steps.append(appended(rows, "main", 3, 4, extra=(Accepted("CHUNK-CAPACITY"),)))
    if rows.declaration.capacity == "exact":
        steps.append(_too_many(rows, 4, 6))
    steps.append(Operation(op="reset", target="main", label="reset"))
    if rows.declaration.capacity == "exact":
        steps.append(_too_many(rows, 0, 5))
    steps.append(appended(rows, "main", 0, 4, output="CHUNK-CAPACITY", extra=(Accepted("CHUNK-CAPACITY"),)))
    return trace(
        rows, "chunk-capacity", "chunks that fit and chunks that do not", tuple(steps), needs=NEEDS,
        caches={"main": CacheSpec("a", rows.lanes, 4)},
    )  # fmt: skip


def _too_many(rows: Rows, start: int, stop: int) -> Operation:
    return Operation(
        op="append", target="main", inputs=rows.inputs(start, stop),
        label=f"{stop - start} rows onto {start} of 4",
        expect=(Refused("CHUNK-CAPACITY", ("full",)), unchanged("main")),
    )  # fmt: skip
