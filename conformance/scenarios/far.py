"""A decode past 256 rows, and a new life after it: one-byte counters, positions in eight bits, long blocks.

One narrow head, because an exact implementation pays for every pair of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapter import Declaration
from conformance.scenarios.long import long_rows
from conformance.scenarios.material import appended, head_width, layer_config
from conformance.scenarios.storage import trace
from conformance.trace.expect import Close, Expectation, Length
from conformance.trace.model import CacheSpec, Operation, Trace

ROWS = 261
AT_ONCE = 100
"""Rows that are taken in one call where that is declared: the long decode takes as many one by one."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention; nothing is observed but at the end of each life."""
    if declaration.levels[0] not in ("layer", "attention"):
        return
    config = layer_config(1, 1, head_width(declaration, 2), positions=ROWS)
    rows = long_rows(declaration, ROWS, config=config)
    if not rows.tolerance.applicable:
        return  # the long decode says so
    last = ROWS - 1
    steps: list[Operation] = []
    at_once = AT_ONCE if "chunks" in declaration.features else 1
    for start, stop in ((0, at_once), *((n, n + 1) for n in range(at_once, last))):
        output: tuple[Expectation, ...] = (
            Close("AGREE-OUTPUT", "output", *rows.field("output", start, stop)),
        )
        steps.append(
            Operation(op="append", target="main", inputs=rows.inputs(start, stop), expect=output, watch=())
        )
    steps.append(appended(rows, "main", last, ROWS))
    empty = (Length("RESET-LENGTH", 0),)
    steps.append(Operation(op="reset", target="main", label="reset after a long life", expect=empty))
    keys = "POSITION-AFTER-RESET" if rows.level == "layer" else "STORE-KEYS"
    steps += [appended(rows, "main", n, n + 1, keys=keys) for n in range(3)]
    about = f"{ROWS} rows, the last {last - at_once + 1} one a call; a reset; the first rows again"
    yield trace(rows, "far-decode", about, tuple(steps), caches={"main": CacheSpec("a", rows.lanes, ROWS)})
