"""The matrix as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.kill_matrix.assess import Assessment
from conformance.kill_matrix.cells import Matrix, Row
from conformance.kill_matrix.files import margin_text

WIDTH = 40


def matrix_text(matrix: Matrix, assessment: Assessment, *, whole: bool = False) -> str:
    """Every killer with what catches it, then the summary. whole: every requirement that catches it."""
    lines = [line for row in matrix.killers for line in _killer(row, whole=whole)]
    return "\n".join((*lines, "", *summary(matrix, assessment))) + "\n"


def _killer(row: Row, *, whole: bool) -> Iterator[str]:
    cell = row.cell(row.violates)
    name = row.id if row.id.startswith(row.level) else f"{row.level} {row.id}"
    if cell is None:
        others = ", ".join(row.caught) or "nothing"
        yield f"MISSED  {name:{WIDTH}} {row.violates}; caught by {others}"
        return
    more = len(row.cells) - 1
    also = f", and {more} more" if more else ""
    yield (
        f"caught  {name:{WIDTH}} {row.violates:24} {margin_text(cell.margin):>14} "
        f"{cell.trace} step {cell.step}{also}"
    )
    if whole:
        for other in row.cells:
            if other is not cell:
                yield f"        {'':{WIDTH}} {other.requirement:24} {margin_text(other.margin):>14}"


def summary(matrix: Matrix, assessment: Assessment) -> Iterator[str]:
    """What must not be there, and how much there is of everything."""
    guarded = {(row.level, name) for row in matrix.killers for name in row.caught}
    yield (
        f"{len(matrix.killers)} killers, {len(matrix.controls)} controls; "
        f"{len(guarded)} requirements by level, {len(matrix.looks)} looks"
    )
    yield from _listed(
        "no requirement catches", (f"{r.id} (meant: {r.violates})" for r in assessment.survivors)
    )
    yield from _listed(
        "caught by requirements alone that were not meant",
        (f"{row.id}: meant {row.violates}, caught by {', '.join(row.caught)}" for row in assessment.unmeant),
    )
    yield from _listed(
        "controls that are flagged",
        (f"{row.id}: {reason}" for row in assessment.flagged for reason in row.reasons),
    )
    yield from _listed(
        "requirements without a killer", (f"{n} at level {level}" for level, n in assessment.unguarded)
    )
    yield from _listed("looks that nothing needs", map(str, assessment.needless))
    yield from _listed("looks that find nothing alone (allowed)", map(str, assessment.shadowed))
    yield "the matrix is full" if assessment.clean else "the matrix is NOT full"


def _listed(title: str, entries: Iterator[str] | map[str]) -> Iterator[str]:
    found = list(entries)
    if found:
        yield f"{title}:"
        yield from (f"  {entry}" for entry in found)
