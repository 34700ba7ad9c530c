"""Numbers that are easily lost: a scale that is no power of two, and zeros with a sign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    material,
    row_block,
)
from conformance.scenarios.storage import trace
from conformance.trace.model import Trace
from conformance.values import AttentionConfig


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels layer and attention."""
    if declaration.levels[0] == "store":
        return
    rows = _width_six(declaration)
    steps = tuple(appended(rows, "main", n, n + 1) for n in range(4))
    yield trace(rows, "head-width-six", "a head width whose root no narrow dtype holds", steps)
    given = material(declaration)
    if isinstance(given, AttentionRows):
        yield _signed_zeros(given)


def _width_six(declaration: Declaration) -> Rows:
    """Two heads of width 6, where that may be; 1/sqrt(6) is rounded in every dtype."""
    config = layer_config(head_width=head_width(declaration, 6))
    layer = LayerRows(declaration, config, layer_parameters(config), row_block(2, 4, config.model_width))
    if declaration.levels[0] == "layer":
        return layer
    made = layer.expected
    attention = AttentionConfig(config.heads, config.kv_heads, config.head_width, config.head_width)
    parts = (made.rotated_query, made.rotated_key, made.value)
    return AttentionRows(declaration, attention, *(fitting(part, declaration) for part in parts))


def _signed_zeros(rows: AttentionRows) -> Trace:
    """Keys and values that hold -0.0; at level layer the rotation makes them of itself."""
    key, value = rows.key.copy(), rows.value.copy()
    key[..., 1], value[..., 2] = -0.0, -0.0
    signed = replace(rows, key=key, value=value)
    steps = tuple(appended(signed, "main", n, n + 1) for n in range(3))
    return trace(signed, "signed-zeros", "rows that hold -0.0", steps)
