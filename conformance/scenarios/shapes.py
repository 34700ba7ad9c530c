"""Sizes at which kernels have edges: tails of vectors, lanes past eight, widths that need not be equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    AttentionRows,
    LayerRows,
    Rows,
    StoreRows,
    appended,
    fitting,
    head_width,
    layer_config,
    layer_parameters,
    material,
    row_block,
    store_rows,
)
from conformance.scenarios.storage import CAPACITY, trace
from conformance.trace.model import CacheSpec, Operation, Trace
from conformance.values import AttentionConfig, LayerConfig, StoreConfig

TAILED = 74
"""64 + 8 + 2: wider than one vector of 8, 16, 32 or 64 numbers, and a whole number of none of them."""

LANES = 9
"""One more than two vectors of four lanes, or one of eight."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    if declaration.levels[0] == "store":
        yield from _stores(declaration)
        return
    tailed = _rows(declaration, layer_config(1, 1, head_width(declaration, TAILED)), temper=4.0)
    yield _single(tailed, f"head-width-{TAILED}", "a head width that leaves a tail in every vector width")
    yield _single(material(declaration, lanes=LANES), "lanes-nine", "nine lanes")
    if "gqa" in declaration.features:
        by_three = _rows(declaration, layer_config(6, 2, head_width(declaration)))
        yield _single(by_three, "grouped-by-three", "three query heads to a key/value head", "GQA-ORDER")
    if declaration.levels[0] == "layer":
        yield from _layers(declaration)
    elif declaration.value_width != "key":
        wide = _values_wider(declaration)
        yield _single(wide, "values-wider", "values that are wider than keys")


def _rows(declaration: Declaration, config: LayerConfig, *, temper: float = 1.0) -> Rows:
    """Two lanes of a layer, or of its attention alone; weights are divided by `temper`."""
    parts = {name: part / temper for name, part in vars(layer_parameters(config)).items()}
    parameters = replace(layer_parameters(config), **parts)
    layer = LayerRows(declaration, config, parameters, row_block(2, 6, config.model_width))
    if declaration.levels[0] == "layer":
        return layer
    made = layer.expected
    attention = AttentionConfig(config.heads, config.kv_heads, config.head_width, config.head_width)
    handed = (fitting(part, declaration) for part in (made.rotated_query, made.rotated_key, made.value))
    return AttentionRows(declaration, attention, *handed)


def _layers(declaration: Declaration) -> Iterator[Trace]:
    """A model width that is not heads times head width, which some layers cannot have; a base in between."""
    config = layer_config(head_width=head_width(declaration))
    apart = _rows(declaration, replace(config, model_width=config.model_width + 2))
    made = _single(apart, "model-width-apart", "a model width that is not heads times head width")
    yield replace(made, optional=True)
    between = replace(config, rope=replace(config.rope, base=137.5))
    yield _single(_rows(declaration, between), "base-not-whole", "a RoPE base that is no whole number")


def _values_wider(declaration: Declaration) -> AttentionRows:
    keys, values = head_width(declaration), head_width(declaration, 6)
    shape = (2, 2, 6)
    parts = [
        row_block(4, 6, width, shift=n).reshape(*shape, width) for n, width in enumerate((keys, keys, values))
    ]
    return AttentionRows(declaration, AttentionConfig(2, 2, keys, values), *parts)


def _single(rows: Rows, name: str, about: str, output: str = "AGREE-OUTPUT") -> Trace:
    """Three rows, one a call."""
    steps = tuple(appended(rows, "main", n, n + 1, output=output) for n in range(3))
    return trace(
        rows, name, about, steps, caches={"main": CacheSpec("a", rows.lanes, CAPACITY)},
        needs=frozenset({"gqa"}) if output == "GQA-ORDER" else frozenset(),
    )  # fmt: skip


GROWN = (31, 2, 30, 3, 62, 5, 95, 40)
"""Rows a call into a store: across 32, 64 and 128 from inside a step of growth, and past 256."""


def _stores(declaration: Declaration) -> Iterator[Trace]:
    yield _single(store_rows(declaration, lanes=LANES), "lanes-nine", "nine lanes", "KEEP-PREFIX")
    total = sum(GROWN)
    rows = store_rows(declaration, lanes=1, rows=total)
    if declaration.value_width != "key":
        # Keys and values change places, so that values are the wider ones.
        turned = StoreConfig(1, rows.config.kv_heads, rows.config.value_width, rows.config.key_width)
        rows = StoreRows(declaration, turned, rows.values, rows.keys)
    sizes = GROWN if declaration.rows_per_append == "any" else (1,) * total
    steps: list[Operation] = []
    start = 0
    for size in sizes:
        steps.append(appended(rows, "main", start, start + size, output="KEEP-GROWTH"))
        start += size
    caches = {"main": CacheSpec("a", 1, total)}
    about = f"{total} rows, across every usual growth point, values wider than keys"
    yield trace(rows, "store-far", about, tuple(steps), caches=caches)
