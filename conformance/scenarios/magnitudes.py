"""Numbers far apart: a huge value under a tiny weight, scores below every mask, the ends of a dtype."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    HUGE,
    AttentionRows,
    LayerRows,
    Rows,
    appended,
    head_width,
    layer_config,
    store_rows,
)
from conformance.scenarios.storage import CAPACITY, trace
from conformance.trace.expect import Array, Same
from conformance.trace.model import CacheSpec, Operation, Trace
from conformance.values import AttentionConfig, LayerParameters

SMALLEST = {"float64": -1074, "float32": -149, "bfloat16": -133, "float16": -24}
"""The exponent of the smallest number above 0 of each dtype."""

FAR_DOWN = {"float64": (10.0, 133), "float32": (7.0, 70), "bfloat16": (7.0, 70), "float16": (3.0, 14)}
"""For the narrowest dtype in use: root of the gap between two scores, and the exponent of the value below."""

NARROW = ("float16", "bfloat16", "float32", "float64")


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    if declaration.levels[0] == "store":
        if declaration.precision.storage == declaration.dtypes[0]:
            yield _ends(declaration)
        return
    yield _far_down(declaration)
    if "chunks" in declaration.features and _narrowest(declaration) != "float16":
        yield _below_masks(declaration)


def _narrowest(declaration: Declaration) -> str:
    used = {declaration.dtypes[0], *vars(declaration.precision).values()}
    return next(name for name in NARROW if name in used)


def _ends(declaration: Declaration) -> Trace:
    """-0.0, the smallest number above 0 and about the largest come back as they went in."""
    rows = store_rows(declaration)
    dtype = declaration.dtypes[0]
    parts = []
    for given in (rows.keys, rows.values):
        part = given.copy()
        part[..., 0], part[..., 1], part[..., 2] = -0.0, np.ldexp(1.0, SMALLEST[dtype]), -HUGE[dtype]
        parts.append(part)
    ends = replace(rows, keys=parts[0], values=parts[1])
    steps = tuple(appended(ends, "main", n, n + 1) for n in range(3))
    return trace(ends, "ends-of-the-dtype", "-0.0, the smallest number and the largest", steps)


def _rows(declaration: Declaration, scores: tuple[Array, Array], values: Array) -> Rows:
    """One lane and one head; queries and keys stand in the pair that hardly turns, values in feature 0.

    scores: what stands in the query and in the key of each row. At level layer both are read from feature 0
    of the row, the key as it stands, the query divided by the first quotient.
    """
    width, count = head_width(declaration), len(values)
    query, key = scores
    if declaration.levels[0] == "attention":
        parts = np.zeros((3, 1, 1, count, width))
        parts[0, 0, 0, :, 2], parts[1, 0, 0, :, 2], parts[2, 0, 0, :, 0] = query, key, values
        return AttentionRows(declaration, AttentionConfig(1, 1, width, width), *parts)
    config = layer_config(1, 1, width, base=1e8)
    blank = np.zeros((width, width))
    weights = {name: blank.copy() for name in ("query", "key", "value", "output")}
    weights["query"][0, 2], weights["key"][0, 2] = query[0] / key[0], 1.0
    weights["value"][1, 0], weights["output"][0, 0] = 1.0, 1.0
    rows = np.zeros((1, count, width))
    rows[0, :, 0], rows[0, :, 1] = key, values
    return LayerRows(declaration, config, LayerParameters(**weights), rows)


def _far_down(declaration: Declaration) -> Trace:
    """Row 0 has next to no weight in row 1 and a value so large that it shows all the same."""
    root, exponent = FAR_DOWN[_narrowest(declaration)]
    content = root * np.array([-1.0, 1.0, 0.5, -0.5])
    rows = _rows(declaration, (content, content), np.array([2.0**exponent, 1.0, 0.5, -1.0]))
    steps = tuple(appended(rows, "main", n, n + 1) for n in range(4))
    return trace(rows, "far-down", "a huge value under a tiny weight", steps)


def _below_masks(declaration: Declaration) -> Trace:
    """A chunk whose visible scores all lie below any finite number that a mask is filled with.

    No error bound reaches so far; but whatever the last row is, the rows before it must not see it.
    """
    low = sqrt(HUGE[_narrowest(declaration)] ** 0.66)
    key = low * np.array([1.0, 0.5, 0.75])
    rows = _rows(declaration, (-key, key), np.array([1.0, -2.0, 3.0]))
    other = _rows(declaration, (-key, key), np.array([1.0, -2.0, -5.0]))
    first, label = _bare(rows, "main", "three rows at once"), "three rows at once"
    kept = Same("CHUNK-CAUSAL", "output", label, rows=(0, 2), other_rows=(0, 2), bound=1e-12)
    second = replace(_bare(other, "twin", "the last one changed"), expect=(kept,))
    caches = {name: CacheSpec("a", 1, CAPACITY) for name in ("main", "twin")}
    about = "scores below every mask, and another last row"
    return trace(
        rows, "below-masks", about, (first, second), caches=caches, needs=frozenset({"chunks"})
    )  # fmt: skip


def _bare(rows: Rows, cache: str, label: str) -> Operation:
    return Operation(op="append", target=cache, inputs=rows.inputs(), label=label)
