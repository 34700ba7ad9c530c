"""What the judge says: one `Check` for everything it looked at, with a `Difference` where numbers differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pass", "fail", "error", "unobserved"]

NOT_ASKED = "not asked"
"""The kind of a check that was left out because it would say nothing, with the reason as its message."""


@dataclass(frozen=True)
class Difference:
    """The worst element of a comparison.

    share is difference / bound: above 1 the bound is broken. ulps are of the expected value, for
    information. lane, head and position are None where the field has no such axis.
    """

    field: str
    index: tuple[int, ...]
    expected: float
    observed: float
    difference: float
    bound: float
    share: float
    ulps: float
    lane: int | None = None
    head: int | None = None
    position: int | None = None


@dataclass(frozen=True)
class Check:
    """One look at one step under one requirement. kind: how it looked, given where it did not pass."""

    requirement: str
    status: Status
    trace: str
    step: int
    place: str
    message: str = ""
    difference: Difference | None = None
    detail: str = ""
    kind: str = ""

    @property
    def share(self) -> float:
        """Share of the error bound that was used, 0 where nothing was measured."""
        return 0.0 if self.difference is None else self.difference.share
