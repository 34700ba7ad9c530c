"""Refusals of construction, and the control that an allowed one works to the last row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    LayerRows,
    appended,
    head_width,
    layer_config,
    layer_parameters,
    material,
)
from conformance.scenarios.storage import trace
from conformance.trace.expect import Accepted, Refused
from conformance.trace.model import CacheSpec, Operation, Source, Trace

POSITIONS = 5
FAR = 2**48


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level layer."""
    rows = material(declaration)
    if not isinstance(rows, LayerRows):
        return
    config = replace(rows.config, rope=replace(rows.config.rope, max_positions=POSITIONS))
    short = replace(rows, config=config)
    refused = (
        ("zero-batch", "CONSTRUCT-ZERO-BATCH", 0, 2, "zero_batch_size"),
        ("zero-capacity", "CONSTRUCT-ZERO-CAPACITY", 2, 0, "zero_capacity"),
        ("beyond-positions", "CONSTRUCT-POSITIONS", 2, POSITIONS + 1, "capacity_exceeds_positions"),
        ("zero-batch-first", "CONSTRUCT-ORDER", 0, 0, "zero_batch_size"),
        ("zero-batch-before-positions", "CONSTRUCT-ORDER", 0, POSITIONS + 1, "zero_batch_size"),
        ("positions-before-overflow", "CONSTRUCT-ORDER", 2**20, FAR, "capacity_exceeds_positions"),
    )
    for name, requirement, lanes, capacity, kind in refused:
        yield trace(
            short, f"construct-{name}", f"batch {lanes}, capacity {capacity}, {POSITIONS} positions",
            (_build(requirement, lanes, capacity, kind), _after(short)), caches={},
        )  # fmt: skip
    yield _equal(short)
    yield from _out_of_reach(rows)


def _build(requirement: str, lanes: int, capacity: int, kind: str) -> Operation:
    return Operation(
        op="build", target="refused", layer="a", label=f"a cache of batch {lanes} and capacity {capacity}",
        arguments={"batch_size": lanes, "capacity": capacity}, expect=(Refused(requirement, (kind,)),),
    )  # fmt: skip


def _after(rows: LayerRows) -> Operation:
    """The control: a lawful cache of the same layer can still be had."""
    return Operation(
        op="build", target="lawful", layer="a", label="a lawful cache of the same layer",
        arguments={"batch_size": rows.lanes, "capacity": 2}, expect=(Accepted("CONSTRUCT-POSITIONS-EQUAL"),),
    )  # fmt: skip


def _equal(rows: LayerRows) -> Trace:
    steps = tuple(
        appended(
            rows, "main", n, n + 1, extra=(Accepted("CONSTRUCT-POSITIONS-EQUAL"),),
            output="CONSTRUCT-POSITIONS-EQUAL" if n == POSITIONS - 1 else "AGREE-OUTPUT",
        )
        for n in range(POSITIONS)
    )  # fmt: skip
    return trace(
        rows, "construct-equal-positions", "a capacity equal to the position capacity", steps,
        caches={"main": CacheSpec("a", rows.lanes, POSITIONS)},
    )  # fmt: skip


def _out_of_reach(rows: LayerRows) -> Iterator[Trace]:
    """Caches beyond any memory, of a layer with 2^48 positions (which some layers cannot be built with)."""
    config = layer_config(heads=2, head_width=head_width(rows.declaration, 2), positions=FAR)
    far = Source(config, layer_parameters(config))
    for name, requirement, lanes, kind in (
        ("overflow", "CONSTRUCT-OVERFLOW", 2**20, "element_count_overflow"),
        ("allocation", "CONSTRUCT-ALLOCATION", 2**7, "allocation_failed"),
    ):
        yield trace(
            rows, f"construct-{name}", f"batch {lanes}, capacity 2^48",
            (_build(requirement, lanes, FAR, kind),), layers={"a": far}, caches={}, optional=True,
        )  # fmt: skip
