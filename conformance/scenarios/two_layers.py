"""Layers side by side that differ in what no shape shows: what is kept for one must not serve another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import LayerRows, appended, layer_config, layer_parameters, material
from conformance.scenarios.storage import CAPACITY, trace
from conformance.trace.expect import Expectation, Length
from conformance.trace.model import CacheSpec, Operation, Trace

FILED = "ISOLATE-CACHES"


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level layer."""
    rows = material(declaration)
    if isinstance(rows, LayerRows):
        narrow = layer_config(heads=4, head_width=rows.config.head_width // 2)
        config = replace(rows.config, rope=replace(rows.config.rope, base=10000.0))
        yield _alternating(rows, _other(rows, rows.config, shift=4), "weights")
        yield _alternating(rows, replace(rows, config=config), "base")
        yield _alternating(rows, _other(rows, narrow, shift=0), "heads")


def _other(rows: LayerRows, config: object, *, shift: int) -> LayerRows:
    made = replace(rows, config=config)  # type: ignore[arg-type]
    return replace(made, parameters=layer_parameters(made.config, shift=shift))


def _alternating(rows: LayerRows, other: LayerRows, what: str) -> Trace:
    """Four rows of each, turn by turn; the layers differ in `what` and share their model width."""
    steps: list[Operation] = []
    for n in range(4):
        for cache, own in (("main", rows), ("other", other)):
            extra: tuple[Expectation, ...] = (Length(FILED, n + 1),)
            step = appended(own, cache, n, n + 1, output=FILED, keys=FILED, values=FILED, extra=extra)
            steps.append(step)
    return trace(
        rows, f"two-layers-other-{what}", f"two layers of one model width, of other {what}, turn by turn",
        tuple(steps), layers={"a": rows.source, "b": other.source},
        caches={"main": CacheSpec("a", rows.lanes, CAPACITY), "other": CacheSpec("b", rows.lanes, CAPACITY)},
    )  # fmt: skip
