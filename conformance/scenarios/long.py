"""Long decodes: every output row of n appends against one pass, and the stored rows a few times on the way.

By causality one full-prefix pass holds what every append of a decode must give, so that n rows cost one pass
and one bound, not n; between the looks nothing is observed, because each observation copies the whole cache.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformance.adapter import Declaration
from conformance.dialect import spoken
from conformance.scenarios.material import (
    AttentionRows,
    LayerRows,
    head_width,
    layer_config,
    layer_parameters,
)
from conformance.trace.expect import Array, Close, Custom, Expectation, Length, Same, Shapes
from conformance.trace.model import CacheSpec, Operation, Trace
from conformance.values import AttentionConfig, LayerConfig, LayerParameters

ROWS = 100
"""Of the decode in the suite: past 64, where blocks and tiles end; `far` goes on with a narrower layer."""

CHUNKS = (40, 1, 37, 22)
"""Of the prefill in the suite: none of them ends where a block of 16, 32 or 64 does."""

LOOKS = 3
"""How often the stored rows are looked at, the last time behind the last row."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention; no store has outputs, and its rows are the same near and far."""
    if declaration.levels[0] not in ("layer", "attention"):
        return
    rows = long_rows(declaration, ROWS)
    yield _trace(rows, "long-decode", (1,) * ROWS, output="AGREE-OUTPUT")
    if "chunks" in declaration.features:
        yield _trace(rows, "long-chunks", CHUNKS, output="CHUNK-AGREE")


def long_decode(
    declaration: Declaration,
    rows: int,
    *,
    lanes: int = 1,
    heads: int = 2,
    kv_heads: int | None = None,
    head_width: int = 4,
    base: float = 100.0,
) -> Trace:
    """A decode of that many rows, one a call, for `check(adapter, only=[long_decode(...)])`.

    For a declaration of level layer or attention; kv_heads, by default as many as heads, divides them. What
    is made here takes memory for rows * width numbers, a few times over, and the time of three full-prefix
    passes. Raises ValueError for another level or for no rows.
    """
    if declaration.levels[0] not in ("layer", "attention"):
        raise ValueError(f"a long decode is of level layer or attention, not {declaration.levels[0]}")
    if rows < 1:
        raise ValueError(f"a decode of {rows} rows was asked for; at least one is needed")
    config = layer_config(heads, kv_heads, head_width, base=base, positions=rows)
    given = long_rows(declaration, rows, lanes=lanes, config=config)
    return decode_of(given)


def decode_of(given: LayerRows | AttentionRows) -> Trace:
    """`long_decode` for rows of one's own."""
    count = given.inputs()["rows" if isinstance(given, LayerRows) else "query"].shape[-2]
    made = _trace(given, f"long-decode-{count}", (1,) * count, output="AGREE-OUTPUT")
    return spoken(made, given.declaration)


def long_rows(
    declaration: Declaration, rows: int, *, lanes: int = 1, config: LayerConfig | None = None
) -> LayerRows | AttentionRows:
    """Material without a period, for the level of the declaration; by default two heads."""
    config = config or layer_config(head_width=head_width(declaration), positions=rows)
    if declaration.levels[0] == "layer":
        inputs = scattered(lanes, rows, config.model_width)
        return LayerRows(declaration, config, _tempered(layer_parameters(config)), inputs)
    heads, kv_heads, width = config.heads, config.kv_heads, config.head_width
    parts = scattered(lanes * (heads + 2 * kv_heads), rows, width).reshape(lanes, -1, rows, width)
    query, key, value = np.split(parts, [heads, heads + kv_heads], axis=1)
    return AttentionRows(declaration, AttentionConfig(heads, kv_heads, width, width), query, key, value)


def scattered(lanes: int, rows: int, width: int) -> Array:
    """Rows [B,T,D], eighths from -6/8 to 6/8 by a rule without a period."""
    mixed = np.arange(lanes * rows * width, dtype=np.uint64)
    for factor, shift in ((0x9E3779B97F4A7C15, 31), (0xBF58476D1CE4E5B9, 29)):
        mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(shift)
    eighths = (mixed % np.uint64(13)).astype(np.float64) - 6.0
    return eighths.reshape(lanes, rows, width) / 8.0


def _tempered(given: LayerParameters) -> LayerParameters:
    """Weights divided by a power of two, so that wide layers have scores of the size of narrow ones."""
    factor = 2.0 ** -round(np.log2(np.sqrt(given.query.shape[0] / 8.0)))
    parts = {name: part * factor for name, part in vars(given).items()}
    return LayerParameters(**parts)


def _trace(rows: LayerRows | AttentionRows, name: str, sizes: tuple[int, ...], *, output: str) -> Trace:
    stops = np.cumsum(sizes).tolist()
    looks = {stops[-(-len(stops) * look // LOOKS) - 1] for look in range(1, LOOKS + 1)}
    seen: list[int] = []
    steps: list[Operation] = []
    asked = rows.tolerance.applicable
    for size, stop in zip(sizes, stops, strict=True):
        expect = (Close(output, "output", *rows.field("output", stop - size, stop)),) if asked else ()
        given = rows.inputs(stop - size, stop)
        steps.append(Operation(op="append", target="main", inputs=given, expect=expect, watch=()))
        if stop in looks:
            steps.append(_look(rows, stop, seen))
            seen.append(stop)
    if not asked:
        reason = "the precision is too coarse for a bound on so many rows"
        steps.append(
            Operation(op="observe", target="main", expect=(Custom(output, "not_asked", {"reason": reason}),))
        )
    return Trace(
        id=name,
        level=rows.level,
        about=f"{stops[-1]} rows in {len(sizes)} calls, each output held against one full-prefix pass",
        layers={"a": rows.source},
        caches={"main": CacheSpec("a", rows.lanes, stops[-1])},
        steps=tuple(steps),
    )


def _look(rows: LayerRows | AttentionRows, stop: int, earlier: list[int]) -> Operation:
    """The stored rows are the exact ones, and those of the look before are bit for bit what they were."""
    heads, key_width, value_width = rows.slot_shape
    shapes = {
        "keys": (rows.lanes, heads, stop, key_width),
        "values": (rows.lanes, heads, stop, value_width),
    }
    expect: list[Expectation] = [Length("STORE-LENGTH", stop), Shapes("STORE-LOGICAL-SHAPE", shapes)]
    for field, requirement in (("keys", "STORE-KEYS"), ("values", "STORE-VALUES")):
        expect.append(Close(requirement, field, *rows.field(field, 0, stop)))
        if earlier:
            kept = (0, earlier[-1])
            before = f"{earlier[-1]} rows"
            expect.append(Same("STORE-EARLIER-ROWS", field, before, rows=kept, other_rows=kept))
    return Operation(op="observe", target="main", expect=tuple(expect), label=f"{stop} rows")
