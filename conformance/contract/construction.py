"""Refusals of construction."""

from __future__ import annotations

from conformance.contract.model import Requirement

LAYER = ("layer",)


def _construct(name: str, sentence: str, source: str, *, where_observable: bool = False) -> Requirement:
    return Requirement(
        id=f"CONSTRUCT-{name}",
        sentence=sentence,
        levels=LAYER,
        profiles=("strict",),
        source=f"System 1, Rejections, construction: {source}",
        where_observable=where_observable,
    )


REQUIREMENTS = (
    _construct("ZERO-BATCH", "A batch of 0 MUST be refused as zero_batch_size.", "first check"),
    _construct("ZERO-CAPACITY", "A capacity of 0 MUST be refused as zero_capacity.", "second check"),
    _construct(
        "POSITIONS",
        "A capacity above the position capacity MUST be refused as capacity_exceeds_positions.",
        "third check",
    ),
    _construct(
        "POSITIONS-EQUAL",
        "A capacity equal to the position capacity MUST work, to the last row.",
        "equal is allowed",
    ),
    _construct(
        "OVERFLOW",
        "More than 2^63 - 1 elements MUST be refused as element_count_overflow.",
        "fourth check",
        where_observable=True,
    ),
    _construct(
        "ALLOCATION",
        "Storage that cannot be had MUST be refused as allocation_failed.",
        "last check",
        where_observable=True,
    ),
    _construct("ORDER", "Of two reasons to refuse a construction the earlier one MUST be reported.", "order"),
)
