"""Traces that are made for a declaration: what no golden file can say for every implementation."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapter import Declaration
from conformance.scenarios import (
    binding,
    chunks,
    construction,
    decoder,
    edits,
    extreme,
    far,
    grouped,
    lifecycle,
    lineage,
    long,
    magnitudes,
    non_finite,
    numbers,
    order,
    paged,
    refusals,
    shapes,
    shortcuts,
    storage,
    store,
    two_layers,
    uneven,
    unseen,
)
from conformance.trace.model import Trace

FAMILIES = (
    storage,
    store,
    lifecycle,
    construction,
    refusals,
    order,
    non_finite,
    binding,
    chunks,
    grouped,
    edits,
    extreme,
    numbers,
    two_layers,
    paged,
    long,
    shapes,
    magnitudes,
    shortcuts,
    lineage,
    unseen,
    uneven,
    far,
)


def scenarios(declaration: Declaration) -> Iterator[Trace]:
    """Every scenario for the level of a declaration, in a fixed order, with bounds for its precision."""
    if declaration.levels[0] in ("store", "layer", "attention"):
        for family in FAMILIES:
            yield from family.traces(declaration)
    yield from decoder.traces(declaration)


AGREEMENT = (storage, store, chunks, grouped, extreme, numbers, long)
"""What compares numbers at levels that have no golden trace, or few."""


def of_further_dtypes(declaration: Declaration) -> Iterator[Trace]:
    """What is played beside the golden traces in a further dtype; `declaration` is that of the dtype."""
    families = {"attention": AGREEMENT, "store": AGREEMENT, "layer": (long,)}
    for family in families.get(declaration.levels[0], ()):
        yield from family.traces(declaration)
