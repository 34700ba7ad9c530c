"""Fewer key/value heads than query heads."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    AttentionRows,
    LayerRows,
    Rows,
    appended,
    fitting,
    head_width,
    layer_config,
    layer_parameters,
    row_block,
)
from conformance.scenarios.storage import CAPACITY, trace
from conformance.trace.expect import Custom, Expectation, Shapes
from conformance.trace.model import Operation, Trace
from conformance.values import AttentionConfig


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention: 6 over 3 heads, and 6 over 1."""
    if declaration.levels[0] == "store":
        return
    for kv_heads, name, order in ((3, "grouped", "GQA-ORDER"), (1, "multi-query", "GQA-MULTI-QUERY")):
        rows = grouped_rows(declaration, 6, kv_heads)
        yield _trace(rows, name, order)


def grouped_rows(declaration: Declaration, heads: int, kv_heads: int) -> Rows:
    """Three lanes, six rows; at level attention the values are narrower than the keys, where that may be."""
    config = layer_config(heads, kv_heads, head_width(declaration))
    layer = LayerRows(declaration, config, layer_parameters(config), row_block(3, 6, config.model_width))
    if declaration.levels[0] == "layer":
        return layer
    width = config.head_width if declaration.value_width == "key" else head_width(declaration, 2)
    attention = AttentionConfig(heads, kv_heads, config.head_width, width)
    made = layer.expected
    parts = (made.rotated_query, made.rotated_key, made.value[..., :width].copy())
    return AttentionRows(declaration, attention, *(fitting(part, declaration) for part in parts))


def _trace(rows: Rows, name: str, order: str) -> Trace:
    heads, key_width, value_width = rows.slot_shape
    steps: list[Operation] = []
    for n in range(5):
        shapes = {
            "keys": (rows.lanes, heads, n + 1, key_width),
            "values": (rows.lanes, heads, n + 1, value_width),
        }
        extra: tuple[Expectation, ...] = (Shapes("GQA-STORED-HEADS", shapes),)
        if "storage" in rows.declaration.features and rows.declaration.capacity == "exact":
            elements = rows.lanes * heads * CAPACITY * (key_width + value_width)
            extra += (Custom("GQA-STORED-HEADS", "storage_total", {"elements": elements}),)
        steps.append(appended(rows, "main", n, n + 1, output=order, extra=extra))
    return trace(
        rows,
        f"{name}-heads",
        f"6 query heads over {heads} key/value heads",
        tuple(steps),
        needs=frozenset({"gqa"}),
    )
