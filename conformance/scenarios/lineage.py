"""Forks whose origin goes first, and blocks whose number is large."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapter import Declaration
from conformance.scenarios.long import long_rows
from conformance.scenarios.material import LayerRows, Rows, appended, head_width, layer_config, material
from conformance.scenarios.storage import trace
from conformance.trace.expect import Array, Close, Custom, Expectation, Length
from conformance.trace.model import Operation, Trace

HELD = 3
MANY = 140
"""Rows of each of two lanes in blocks of one: more blocks than a byte can number, all of them taken."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    rows, others = material(declaration), material(declaration, shift=1)
    features = declaration.features
    if "fork" in features:
        yield _origin_first(rows, others)
    if "paged" in features and isinstance(rows, LayerRows):
        if {"fork", "truncate"} <= features:
            yield _cut_to_an_edge(rows)
        yield _many_blocks(declaration)


def _origin_first(rows: Rows, others: Rows) -> Trace:
    """The origin is reset and filled with other rows before the fork has written anything."""
    filed = "FORK-APART"
    steps = [appended(rows, "main", n, n + 1) for n in range(HELD)]
    steps.append(Operation(op="fork", target="main", arguments={"name": "child"}, label="fork"))
    empty = (Length("RESET-LENGTH", 0),)
    steps.append(Operation(op="reset", target="main", label="origin reset", expect=empty))
    steps += [
        appended(others, "main", n, n + 1, output=filed, keys=filed, values=filed) for n in range(HELD + 1)
    ]
    seen: list[Expectation] = [Length("STORE-LENGTH", HELD)]
    seen += [Close(filed, name, *rows.field(name, 0, HELD)) for name in ("keys", "values")]
    steps.append(Operation(op="observe", target="child", label="the fork", expect=tuple(seen)))
    steps += [
        appended(rows, "child", n, n + 1, output=filed, keys=filed, values=filed) for n in (HELD, HELD + 1)
    ]
    about = "the origin of a fork begins another life first"
    return trace(rows, "fork-origin-first", about, tuple(steps), needs=frozenset({"fork"}))


def _build(rows: LayerRows, capacity: int, block_size: int, blocks: int) -> Operation:
    wanted = {
        "batch_size": rows.lanes, "capacity": capacity, "block_size": block_size, "blocks": blocks,
        "shared_with": "",
    }  # fmt: skip
    label = f"main in {blocks} blocks of {block_size}"
    return Operation(op="build", target="main", layer="a", label=label, arguments=wanted)


def _cut_to_an_edge(rows: LayerRows) -> Trace:
    """Five rows in blocks of two are cut to two; a fork and its origin go on from the edge of a block."""

    def turned(given: Array) -> Array:
        given[:, 2:] = 0.5 - given[:, 2:]
        return given

    mixed = rows.with_inputs({"rows": turned(rows.rows.copy())})
    blocks = rows.lanes * 6
    steps = [_build(rows, 8, 2, blocks)]
    steps += [appended(rows, "main", n, n + 1) for n in range(5)]
    steps.append(
        Operation(
            op="truncate", target="main", arguments={"length": 2}, label="cut to the edge of a block",
            expect=(Length("TRUNCATE-LENGTH", 2),),
        )
    )  # fmt: skip
    steps.append(Operation(op="fork", target="main", arguments={"name": "child"}, label="fork"))
    pool = Custom("PAGED-POOL", "pool_adds_up", {"caches": ("main", "child")})
    for n in (2, 3):
        for cache, own in (("child", mixed), ("main", rows)):
            filed = "PAGED-SHARE"
            steps.append(
                appended(own, cache, n, n + 1, output=filed, keys=filed, values=filed, extra=(pool,))
            )
    about = "a fork at the edge of a block that was cut to"
    return trace(
        rows, "paged-cut-to-an-edge", about, tuple(steps), caches={},
        needs=frozenset({"paged", "fork", "truncate"}),
    )  # fmt: skip


def _many_blocks(declaration: Declaration) -> Trace:
    """Every block of a pool that is larger than a byte can number is taken and read back."""
    config = layer_config(1, 1, head_width(declaration, 2), positions=MANY)
    rows = long_rows(declaration, MANY, lanes=2, config=config)
    assert isinstance(rows, LayerRows)
    filed = "PAGED-EDGES"
    steps = [_build(rows, MANY, 1, 2 * MANY)]
    for n in range(MANY - 1):
        output = (Close(filed, "output", *rows.field("output", n, n + 1)),)
        steps.append(
            Operation(op="append", target="main", inputs=rows.inputs(n, n + 1), expect=output, watch=())
        )
    steps.append(appended(rows, "main", MANY - 1, MANY, output=filed, keys=filed, values=filed))
    about = f"{2 * MANY} blocks of one row, all of them taken"
    return trace(
        rows, "paged-many-blocks", about, tuple(steps), caches={}, needs=frozenset({"paged"})
    )  # fmt: skip
