"""Calls that break two rules at once: the earlier one must be reported.

Of the 55 pairs of the eleven checks 51 can be built: with H*d = D a head width that differs never comes
first, so the four pairs of check 7 with a later one do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from conformance.adapter import Declaration
from conformance.rejections import APPEND_KINDS
from conformance.scenarios.material import LayerRows, appended, layer_config, layer_parameters, material
from conformance.scenarios.storage import trace, unchanged
from conformance.trace.expect import Array, Refused
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace

CHECKS = APPEND_KINDS[:11]
RANK, TOKENS, BATCH, WIDTH, MODEL, HEADS, HEAD_WIDTH, IDENTITY, REVISION, ROPE, FULL = range(11)
NEEDS = frozenset({"rewire", "update_parameters"})
CAPACITY = 2


def pairs(*, one_row: bool) -> Iterator[tuple[int, int]]:
    """Every pair of checks that can be built; without `one_row` two tokens are lawful."""
    for first, second in combinations(range(11), 2):
        if first == HEAD_WIDTH or (TOKENS in (first, second) and not one_row):
            continue
        yield first, second


def traces(declaration: Declaration) -> Iterator[Trace]:
    """One trace a pair."""
    rows = material(declaration)
    if not isinstance(rows, LayerRows):
        return
    one_row = "chunks" not in declaration.features
    for first, second in pairs(one_row=one_row):
        yield _pair(rows, first, second)
    yield from _non_finite_later(rows)


@dataclass
class _Call:
    """A call under construction, on a cache of layer `a`."""

    shape: list[int]
    config: object = None
    fresh: tuple[str, ...] = ()
    derived: bool = False
    foreign: bool = False
    updated: bool = False
    held: int = 1


def _pair(rows: LayerRows, first: int, second: int) -> Trace:
    call = _Call([rows.lanes, 1, rows.config.model_width])
    config = rows.config
    for check in (first, second):
        if check == MODEL:
            config, call.foreign = layer_config(heads=4), True
        elif check == HEADS:
            # Beside another model width the head count differs anyway; alone it keeps the width.
            config = config if call.foreign else layer_config(heads=4, head_width=2)
            call.foreign = True
        elif check == HEAD_WIDTH:
            heads = config.heads
            config, call.foreign = (config if heads == 4 else layer_config(heads=2, head_width=8)), True
        elif check == IDENTITY:
            call.fresh = ("value",)
        elif check == REVISION:
            call.updated = True
        elif check == ROPE:
            config = replace(config, rope=replace(config.rope, base=config.rope.base * 2))
            call.derived = True
        elif check == FULL:
            call.held = CAPACITY
    if second == HEAD_WIDTH and first < MODEL:
        config, call.foreign = layer_config(heads=4, head_width=2), True
    call.shape[2] = config.model_width
    for check in (first, second):
        if check == TOKENS:
            call.shape[1] = 2
        elif check == BATCH:
            call.shape[0] += 1
        elif check == WIDTH:
            call.shape[2] += 1
    given = _rows_of(call.shape, RANK in (first, second), TOKENS in (first, second))
    layers: dict[str, Source | Derived] = {"a": rows.source}
    layer = "a"
    if call.foreign:
        layers["b"], layer = Source(config, layer_parameters(config)), "b"
    elif call.derived or call.fresh:
        layers["b"] = Derived("a", config=config if call.derived else None, fresh=call.fresh)
        layer = "b"
    steps = [appended(rows, "main", n, n + 1) for n in range(call.held)]
    if call.updated:
        steps.append(_update(rows, layer if not call.foreign else "a"))
    steps.append(_refused(given, layer, CHECKS[first], f"{CHECKS[first]} before {CHECKS[second]}"))
    return trace(
        rows, f"order-{CHECKS[first]}-{CHECKS[second]}".replace("_", "-"),
        f"a call that is both {CHECKS[first]} and {CHECKS[second]}", tuple(steps),
        layers=layers, caches={"main": CacheSpec("a", rows.lanes, CAPACITY)}, needs=NEEDS,
    )  # fmt: skip


def _rows_of(shape: list[int], wrong_rank: bool, two_tokens: bool) -> Array:
    lanes, tokens, width = shape
    if not wrong_rank:
        return np.full((lanes, tokens, width), 0.5)
    # A row of rank 4 still shows two tokens; one of rank 2 has no token axis at all.
    return np.full((lanes, tokens, 1, width), 0.5) if two_tokens else np.full((lanes, width), 0.5)


def _update(rows: LayerRows, layer: str) -> Operation:
    changed = layer_parameters(rows.config, shift=2)
    return Operation(
        op="update", layer=layer, inputs={"query": changed.query}, watch=(), label="query updated in place"
    )


def _refused(given: Array, layer: str, kind: str, label: str) -> Operation:
    return Operation(
        op="append", target="main", layer=layer, inputs={"rows": given}, label=label,
        expect=(Refused("REJECT-ORDER", (kind,)), unchanged("main")),
    )  # fmt: skip


def _non_finite_later(rows: LayerRows) -> Iterator[Trace]:
    """A row that is not finite, on a full and on a stale cache: the checks of the call come first."""
    given = rows.rows[:, :1].copy()
    given[0, 0, 3] = np.nan
    for kind, held in (("full", CAPACITY), ("cache_layer_revision_mismatch", 1)):
        steps = [appended(rows, "main", n, n + 1) for n in range(held)]
        if kind != "full":
            steps.append(_update(rows, "a"))
        steps.append(_refused(given, "a", kind, f"{kind} before non_finite"))
        yield trace(
            rows, f"order-{kind}-non-finite".replace("_", "-"), f"a NaN row on a cache that is {kind}",
            tuple(steps), caches={"main": CacheSpec("a", rows.lanes, CAPACITY)}, needs=NEEDS,
        )  # fmt: skip
