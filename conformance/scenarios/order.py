"""Calls that break two rules at once: the earlier one must be reported.

Of the 55 pairs of the eleven checks 51 can be built: with H*d = D a head width that differs never comes
first, so the four pairs of check 7 with a later one do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from conformance.adapter import Declaration
from conformance.rejections import APPEND_KINDS
from conformance.scenarios.material import LayerRows, appended, layer_config, layer_parameters, material
from conformance.scenarios.storage import trace, unchanged
from conformance.trace.expect import Array, Refused
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace
from conformance.values import LayerConfig

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


def _pair(rows: LayerRows, first: int, second: int) -> Trace:
    both = (first, second)
    foreign = _geometry(both)
    config = foreign or rows.config
    if ROPE in both:
        config = replace(config, rope=replace(config.rope, base=config.rope.base * 2))
    layers, layer = _layers(rows, both, config if foreign or ROPE in both else None, foreign is not None)
    steps = [appended(rows, "main", n, n + 1) for n in range(CAPACITY if FULL in both else 1)]
    if REVISION in both:
        steps.append(_update(layer_parameters(config, shift=2).query, layer))
    shape = (rows.lanes + (BATCH in both), 1 + (TOKENS in both), config.model_width + (WIDTH in both))
    given = _rows_of(shape, wrong_rank=RANK in both)
    steps.append(_refused(given, layer, CHECKS[first], f"{CHECKS[first]} before {CHECKS[second]}"))
    return trace(
        rows, f"order-{CHECKS[first]}-{CHECKS[second]}".replace("_", "-"),
        f"a call that is both {CHECKS[first]} and {CHECKS[second]}", tuple(steps),
        layers=layers, caches={"main": CacheSpec("a", rows.lanes, CAPACITY)}, needs=NEEDS,
    )  # fmt: skip


def _geometry(both: tuple[int, int]) -> LayerConfig | None:
    """Another geometry, where one is needed to break these two rules."""
    if MODEL in both:
        return layer_config(heads=2, head_width=8) if HEAD_WIDTH in both else layer_config(heads=4)
    if HEADS in both or HEAD_WIDTH in both:
        return layer_config(heads=4, head_width=2)
    return None


def _layers(
    rows: LayerRows, both: tuple[int, int], config: LayerConfig | None, foreign: bool
) -> tuple[dict[str, Source | Derived], str]:
    """The layers that stand, and the one that the call names."""
    own: dict[str, Source | Derived] = {"a": rows.source}
    if foreign and config is not None:
        return {**own, "b": Source(config, layer_parameters(config))}, "b"
    if config is not None or IDENTITY in both:
        fresh = ("value",) if IDENTITY in both else ()
        return {**own, "b": Derived("a", config=config, fresh=fresh)}, "b"
    return own, "a"


def _rows_of(shape: tuple[int, int, int], *, wrong_rank: bool) -> Array:
    lanes, tokens, width = shape
    if not wrong_rank:
        return np.full((lanes, tokens, width), 0.5)
    # A row of rank 4 still shows two tokens; one of rank 2 has no token axis at all.
    return np.full((lanes, tokens, 1, width) if tokens > 1 else (lanes, width), 0.5)


def _update(query: Array, layer: str) -> Operation:
    label = "query updated in place"
    return Operation(op="update", layer=layer, inputs={"query": query}, watch=(), label=label)


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
            steps.append(_update(layer_parameters(rows.config, shift=2).query, "a"))
        steps.append(_refused(given, "a", kind, f"{kind} before non_finite"))
        yield trace(
            rows, f"order-{kind}-non-finite".replace("_", "-"), f"a NaN row on a cache that is {kind}",
            tuple(steps), caches={"main": CacheSpec("a", rows.lanes, CAPACITY)}, needs=NEEDS,
        )  # fmt: skip
