"""What must not be in a matrix: a survivor, a flagged control, a rule without a killer, a needless check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.contract import all_requirements
from conformance.kill_matrix.cells import Look, Matrix, Row


@dataclass(frozen=True)
class Assessment:
    """survivors: killers that nothing catches. unmeant: killers that only other requirements catch than the
    one that they violate. flagged: controls that do not end conformant. unguarded: (level, requirement)
    without a killer. needless: looks whose removal changes no cell. shadowed: looks that find something, but
    never alone.
    """

    survivors: tuple[Row, ...]
    unmeant: tuple[Row, ...]
    flagged: tuple[Row, ...]
    unguarded: tuple[tuple[str, str], ...]
    needless: tuple[Look, ...]
    shadowed: tuple[Look, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing of what must not be there is there."""
        return not (self.survivors or self.unmeant or self.flagged or self.unguarded or self.needless)


def assess(matrix: Matrix) -> Assessment:
    """Judge a whole matrix. A shadowed look is told and does not make it unclean."""
    killers = matrix.killers
    needless, shadowed = _drill(matrix)
    return Assessment(
        survivors=tuple(row for row in killers if not row.cells),
        unmeant=tuple(row for row in killers if row.cells and row.violates not in row.caught),
        flagged=tuple(row for row in matrix.controls if row.reasons),
        unguarded=tuple(_unguarded(killers)),
        needless=needless,
        shadowed=shadowed,
    )


def _unguarded(killers: tuple[Row, ...]) -> Iterable[tuple[str, str]]:
    """Requirements of each level that no killer of that level fails: the drill for whole requirements."""
    levels = tuple(dict.fromkeys(row.level for row in killers))
    caught = {(row.level, name) for row in killers for name in row.caught}
    for entry in all_requirements():
        if entry.untestable or entry.pending:
            continue
        for level in entry.levels:
            if level in levels and (level, entry.id) not in caught:
                yield level, entry.id


def _drill(matrix: Matrix) -> tuple[tuple[Look, ...], tuple[Look, ...]]:
    """Each look off in turn: does a cell go from caught to missed? Computed from the findings of one run."""
    hit: set[Look] = set()
    alone: set[Look] = set()
    for row in matrix.killers:
        for cell in row.cells:
            found = [Look(row.level, cell.requirement, kind) for kind in cell.kinds]
            hit.update(found)
            if len(found) == 1:
                alone.update(found)
    ordered = sorted(matrix.looks, key=str)
    return (
        tuple(look for look in ordered if look not in hit),
        tuple(look for look in ordered if look in hit and look not in alone),
    )
