"""The committed matrix: written as JSON, read again, and compared with a fresh run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.kill_matrix.assess import Assessment
from conformance.kill_matrix.cells import Cell, Matrix, Row

COMMITTED = Path(__file__).parent / "matrix.json"
"""The committed matrix, inside the package."""

PAGE = Path("docs") / "kill-matrix.md"
"""The generated page, in a checkout of the project."""

DECADE = 10.0
"""Margins that differ by less than this factor are the same: the last digits depend on the machine."""


def document(matrix: Matrix, assessment: Assessment) -> dict[str, Any]:
    """The matrix as plain data, the same on every machine but for what rounding decides."""
    return {
        "killers": {row.id: _killer(row) for row in matrix.killers},
        "controls": {row.id: list(row.reasons) or "conformant" for row in matrix.controls},
        "shadowed": [str(look) for look in assessment.shadowed],
    }


def text(data: Mapping[str, Any]) -> str:
    """As it stands in the file: one cell a line."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def committed(path: Path = COMMITTED) -> dict[str, Any]:
    """The committed matrix. Raises FileNotFoundError where there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _killer(row: Row) -> dict[str, Any]:
    return {
        "class": row.fault,
        "violates": row.violates,
        "caught": {cell.requirement: _cell_text(cell) for cell in row.cells},
    }


def _cell_text(cell: Cell) -> str:
    return f"{'(faint) ' if cell.faint else ''}{margin_text(cell.margin)} at {cell.trace} step {cell.step}"


def margin_text(margin: float) -> str:
    """To one digit: `3e+11 bounds`, or `broken` where a bit or a rule was."""
    return "broken" if math.isinf(margin) else f"{margin:.0e} bounds"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What has changed between two matrices, a sentence each; what rounding decides is left out."""
    for part in ("killers", "controls"):
        before, after = old.get(part, {}), new.get(part, {})
        yield from (f"{name} is new" for name in after if name not in before)
        yield from (f"{name} is gone" for name in before if name not in after)
    for name, killer in new["killers"].items():
        was = old.get("killers", {}).get(name)
        if was is not None:
            yield from (f"{name}: {change}" for change in _cells_changed(was, killer))
    for name, verdict in new["controls"].items():
        if old.get("controls", {}).get(name, verdict) != verdict:
            yield f"{name}: {verdict}"


def _cells_changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for field in ("class", "violates"):
        if was[field] != now[field]:
            yield f"{field} was {was[field]} and is {now[field]}"
    before, after = was["caught"], now["caught"]
    for requirement in sorted({*before, *after}):
        old, new = before.get(requirement), after.get(requirement)
        if old is None or new is None:
            seen = new or old
            if not seen.startswith("(faint)"):
                yield f"{requirement} {'catches it now' if old is None else 'no longer catches it'}"
        elif not _alike(old, new):
            yield f"{requirement} had {old}, has {new}"


def _alike(old: str, new: str) -> bool:
    if old == new or old.startswith("(faint)") or new.startswith("(faint)"):
        return True
    (left, at), (right, then) = old.split(" at ", 1), new.split(" at ", 1)
    if at != then or (left == "broken") != (right == "broken"):
        return False
    if left == "broken":
        return True
    ratio = float(left.split()[0]) / float(right.split()[0])
    return 1.0 / DECADE < ratio < DECADE
