"""Caches in blocks."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapter import Declaration
from conformance.scenarios.material import LayerRows, appended, material
from conformance.scenarios.storage import trace, unchanged
from conformance.trace.expect import Custom, Expectation, Length, Refused, Same
from conformance.trace.model import Operation, Trace

NEEDS = frozenset({"paged"})
ROWS = 7
"""Past two blocks of three rows, and past three of two."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level layer."""
    rows, others = (material(declaration, rows=ROWS + 2, shift=shift) for shift in (0, 1))
    if not isinstance(rows, LayerRows) or not isinstance(others, LayerRows):
        return
    for block_size in (1, 2, 3, 4, ROWS, ROWS + 3):
        yield _edges(rows, block_size)
    yield _reuse(rows, others)
    if "fork" in declaration.features:
        for held in (3, 4, 5):
            yield _shared(rows, held)
    yield _exhausted(rows)
    yield _zero_block(rows)


def _build(name: str, lanes: int, block_size: int, blocks: int, *, beside: str = "") -> Operation:
    """A cache over a pool of its own, or in the pool of the cache `beside`."""
    return Operation(
        op="build",
        target=name,
        layer="a",
        label=f"{name} in {blocks} blocks of {block_size}" + (f", beside {beside}" if beside else ""),
        arguments={
            "batch_size": lanes,
            "capacity": ROWS + 1,
            "block_size": block_size,
            "blocks": blocks,
            "shared_with": beside,
        },
    )


def _needed(rows: int, block_size: int) -> int:
    return -(-rows // block_size)


def _tables(caches: tuple[str, ...], *, shared: bool = False) -> tuple[Expectation, ...]:
    """What block tables and pool must show, over every cache of the pool."""
    return (
        Custom("PAGED-TABLE", "block_tables", {"caches": caches, "shared": shared}),
        Custom("PAGED-POOL", "pool_adds_up", {"caches": caches}),
    )


def _append(
    rows: LayerRows, cache: str, n: int, filed: str, *extra: Expectation, label: str = ""
) -> Operation:
    return appended(rows, cache, n, n + 1, output=filed, keys=filed, values=filed, extra=extra, label=label)


def _edges(rows: LayerRows, block_size: int) -> Trace:
    """Every length up to the capacity, one row a call, then a reset and a pool that is whole."""
    blocks = rows.lanes * _needed(ROWS + 1, block_size)
    steps = [_build("main", rows.lanes, block_size, blocks)]
    steps += [_append(rows, "main", n, "PAGED-EDGES", *_tables(("main",))) for n in range(ROWS)]
    steps.append(_reset("main", blocks))
    return trace(
        rows, f"paged-blocks-of-{block_size}", f"blocks of {block_size} rows", tuple(steps), caches={},
        needs=NEEDS,
    )  # fmt: skip


def _reset(cache: str, free: int) -> Operation:
    whole = Custom("PAGED-POOL", "free_blocks", {"cache": cache, "free": free})
    return Operation(
        op="reset", target=cache, label=f"{cache} gives its blocks back",
        expect=(Length("RESET-LENGTH", 0), whole),
    )  # fmt: skip


def _reuse(rows: LayerRows, others: LayerRows) -> Trace:
    """A sequence fills the pool and goes; another takes its blocks, beside a cache with blocks of its own."""
    blocks = rows.lanes * 3
    steps = [_build("main", rows.lanes, 3, blocks), _build("fresh", rows.lanes, 3, blocks)]
    steps += [_append(rows, "main", n, "AGREE-OUTPUT") for n in range(ROWS)]
    steps.append(_build("later", rows.lanes, 3, blocks, beside="main"))
    steps.append(_reset("main", blocks))
    for n in range(5):
        steps.append(_append(others, "fresh", n, "AGREE-OUTPUT", label=f"fresh row {n}"))
        same = tuple(Same("PAGED-REUSE", name, f"fresh row {n}", bound=1e-12) for name in rows.fields)
        steps.append(_append(others, "later", n, "PAGED-REUSE", *same, *_tables(("main", "later"))))
    return trace(
        rows, "paged-reuse", "blocks that come back are handed to another sequence", tuple(steps), caches={},
        needs=NEEDS,
    )  # fmt: skip


def _shared(rows: LayerRows, held: int) -> Trace:
    """A fork at `held` rows in blocks of 4: inside a block, at its last row, at its edge."""
    given = rows.rows.copy()
    given[:, held:] = 0.5 - given[:, held:]
    mixed = rows.with_inputs({"rows": given})
    blocks = rows.lanes * 6
    steps = [_build("main", rows.lanes, 4, blocks)]
    steps += [_append(rows, "main", n, "AGREE-OUTPUT") for n in range(held)]
    used = rows.lanes * _needed(held, 4)
    both = ("main", "child")
    steps.append(
        Operation(
            op="fork", target="main", arguments={"name": "child"}, label=f"fork at {held} rows",
            expect=(
                Length("FORK-EQUAL", held, "child"),
                Custom("PAGED-SHARE", "free_blocks", {"cache": "child", "free": blocks - used}),
            ),
        )
    )  # fmt: skip
    for n in (held, held + 1):
        steps.append(_append(mixed, "child", n, "PAGED-SHARE", *_tables(both, shared=True)))
        steps.append(_append(rows, "main", n, "PAGED-SHARE", *_tables(both, shared=True)))
    steps.append(_append(mixed, "child", held + 2, "PAGED-SHARE"))
    steps.append(Operation(op="reset", target="main", label="origin gives its blocks back"))
    steps.append(_reset("child", blocks))
    return trace(
        rows, f"paged-fork-at-{held}", f"a fork at {held} rows in blocks of 4", tuple(steps), caches={},
        needs=NEEDS | {"fork"},
    )  # fmt: skip


def _exhausted(rows: LayerRows) -> Trace:
    """Two lanes, one free block: a new block for each lane cannot be had, so no lane gets one."""
    blocks = rows.lanes * 3 + rows.lanes - 1
    steps = [_build("main", rows.lanes, 2, blocks), _build("other", rows.lanes, 2, blocks, beside="main")]
    steps += [_append(rows, "main", n, "AGREE-OUTPUT") for n in range(4)]
    steps += [_append(rows, "other", n, "AGREE-OUTPUT") for n in range(2)]
    steps.append(
        Operation(
            op="append", target="other", inputs=rows.inputs(2, 3), label="a block a lane, one block free",
            expect=(
                Refused("PAGED-EXHAUSTED", ("blocks_exhausted",)),
                unchanged("other"),
                Custom("PAGED-EXHAUSTED", "free_blocks", {"cache": "other", "free": rows.lanes - 1}),
            ),
        )
    )  # fmt: skip
    steps.append(Operation(op="reset", target="main", label="main gives its blocks back"))
    steps += [_append(rows, "other", n, "PAGED-EXHAUSTED", *_tables(("main", "other"))) for n in (2, 3)]
    steps.append(_reset("other", blocks))
    return trace(
        rows,
        "paged-exhausted",
        "an append for which blocks are missing",
        tuple(steps),
        caches={},
        needs=NEEDS,
    )


def _zero_block(rows: LayerRows) -> Trace:
    refused = Operation(
        op="build", target="main", layer="a", label="blocks of no rows",
        arguments={
            "batch_size": rows.lanes, "capacity": 4, "block_size": 0, "blocks": 4, "shared_with": "",
        },
        expect=(Refused("PAGED-ZERO-BLOCK", ("zero_block_size",)),),
    )  # fmt: skip
    steps = (
        refused,
        _build("lawful", rows.lanes, 1, 8 * rows.lanes),
        _append(rows, "lawful", 0, "AGREE-OUTPUT"),
    )
    return trace(rows, "paged-zero-block", "a block size of 0", steps, caches={}, needs=NEEDS)
