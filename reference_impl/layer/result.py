"""What a step hands back: arrays of its own, never views of the storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from reference_impl.layer.memory import Array
from reference_impl.layer.ticket import Ticket


class WorkCounts(NamedTuple):
    """Rows per projection. They follow from the old length and do not observe the calculation.

    Equal counts therefore prove neither that no row was recomputed nor any speed.
    """

    position: int
    full_prefix_rows: int
    incremental_rows: int
    reused_rows: int

    @classmethod
    def of(cls, position: int, rows: int) -> WorkCounts:
        """The counts of a step of so many rows that begins at `position`, the old length."""
        return cls(position, position + rows, rows, position)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything on the way to the output, each an array of its own.

    query, rotated_query and heads [B,H,T,d]; key, value and rotated_key [B,G,T,d]; weights [B,H,T,n];
    merged [B,T,H*d]. Scores are not kept.
    """

    query: Array
    key: Array
    value: Array
    rotated_query: Array
    rotated_key: Array
    weights: Array
    heads: Array
    merged: Array


@dataclass(frozen=True, eq=False)
class StepResult:
    """output [B,T,D]; length: the new logical length n; evidence: None where it was not asked for."""

    output: Array
    length: int
    work: WorkCounts
    evidence: Evidence | None = None


class Prepared(NamedTuple):
    """A step that has been computed and not yet written."""

    result: StepResult
    ticket: Ticket
