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

CONFUSION = Path("docs") / "confusion.md"
"""The generated page on what "looks like" takes for another fault."""

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
    """As it stands in the file: one killer a line."""
    parts = []
    for name, entries in data.items():
        pairs = entries.items() if isinstance(entries, dict) else ((None, entry) for entry in entries)
        lines = [
            (f"{json.dumps(key)}: " if key is not None else "") + json.dumps(entry, ensure_ascii=False)
            for key, entry in pairs
        ]
        opening, closing = "{}" if isinstance(entries, dict) else "[]"
        parts.append(f"{json.dumps(name)}: {opening}\n" + ",\n".join(lines) + f"\n{closing}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def committed(path: Path = COMMITTED) -> dict[str, Any]:
    """The committed matrix. Raises FileNotFoundError where there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _killer(row: Row) -> dict[str, Any]:
    """The cell that matters in full; of the others the requirement, where any machine must show it."""
    cell = row.cell(row.violates)
    return {
        "class": row.fault,
        "violates": row.violates,
        "seen": "missed" if cell is None else _cell_text(cell),
        "also": [c.requirement for c in row.cells if c is not cell and not c.faint],
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
    if not _alike(was["seen"], now["seen"]):
        yield f"{now['violates']} had {was['seen']}, has {now['seen']}"
    before, after = set(was["also"]), set(now["also"])
    yield from (f"{name} catches it now" for name in sorted(after - before))
    yield from (f"{name} no longer catches it" for name in sorted(before - after))


def _alike(old: str, new: str) -> bool:
    if old == new or old.startswith("(faint)") or new.startswith("(faint)"):
        return True
    if "missed" in (old, new):
        return False
    (left, at), (right, then) = old.split(" at ", 1), new.split(" at ", 1)
    if at != then or (left == "broken") != (right == "broken"):
        return False
    if left == "broken":
        return True
    ratio = float(left.split()[0]) / float(right.split()[0])
    return 1.0 / DECADE < ratio < DECADE
