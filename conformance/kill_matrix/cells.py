"""What one run of the matrix gives: a row for every killer and control, a cell for every requirement."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.judge.findings import Check

FAINT = 16.0
"""A share of the bound below which another machine may round to the other side of it."""

ROUNDING = 1e-9
"""Relative size of a difference in bits below which another machine may show none."""


@dataclass(frozen=True)
class Look:
    """One way of checking one requirement: `close output`, `same keys`, `refused`, the name of a rule."""

    level: str
    requirement: str
    kind: str

    def __str__(self) -> str:
        return f"{self.level} {self.requirement}: {self.kind}"


@dataclass(frozen=True)
class Cell:
    """What a requirement found of an implementation.

    findings: how many checks failed. margin: the largest share of an error bound, infinite where a bit or a
    rule was broken. trace and step: of the first finding that any machine must show. faint: every finding
    could be rounded away elsewhere. kinds: the looks that found something.
    """

    requirement: str
    findings: int
    margin: float
    trace: str
    step: int
    faint: bool
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A killer or a control as it was played. reasons: why a control is flagged."""

    id: str
    level: str
    control: bool
    violates: str = ""
    fault: str = ""
    says: str = ""
    cells: tuple[Cell, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def caught(self) -> tuple[str, ...]:
        """The requirements that found something."""
        return tuple(cell.requirement for cell in self.cells)

    def cell(self, requirement: str) -> Cell | None:
        """The cell of one requirement, None where it found nothing."""
        return next((cell for cell in self.cells if cell.requirement == requirement), None)


@dataclass(frozen=True)
class Matrix:
    """Everything that was played, and every look that was taken."""

    rows: tuple[Row, ...]
    looks: frozenset[Look] = field(default_factory=frozenset)

    @property
    def killers(self) -> tuple[Row, ...]:
        """The rows of killers."""
        return tuple(row for row in self.rows if not row.control)

    @property
    def controls(self) -> tuple[Row, ...]:
        """The rows of controls."""
        return tuple(row for row in self.rows if row.control)


def cells(checks: Iterable[Check]) -> tuple[Cell, ...]:
    """One cell for every requirement that found something, sorted."""
    found: dict[str, list[Check]] = {}
    for check in checks:
        if check.status in ("fail", "error"):
            found.setdefault(check.requirement, []).append(check)
    return tuple(_cell(name, found[name]) for name in sorted(found))


def _cell(requirement: str, findings: list[Check]) -> Cell:
    plain = [check for check in findings if not _is_faint(check)]
    first = (plain or findings)[0]
    margin = max(math.inf if check.difference is None else check.share for check in findings)
    kinds = tuple(sorted({check.kind for check in findings}))
    return Cell(requirement, len(findings), margin, first.trace, first.step, not plain, kinds)


def _is_faint(check: Check) -> bool:
    """Whether rounding alone decides that this check fails."""
    found = check.difference
    if found is None:
        return False
    if math.isinf(found.share):
        return 0.0 < found.difference <= ROUNDING * max(1.0, abs(found.expected))
    return found.share < FAINT
