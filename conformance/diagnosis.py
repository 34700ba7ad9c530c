"""Looks like: which known faults would have shown exactly what was observed.

Killers of the level are played on traces that failed and on some beside them that passed. A killer matches
where it shows the same: the same findings of the judge, refusals, lengths, and arrays that differ from the
implementation's by rounding alone. A fault that no killer has is said to match none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.budget.units import unit_roundoff
from conformance.contract import requirement
from conformance.judge import Check, judge
from conformance.killers import killers
from conformance.killers.model import Killer
from conformance.observed import Observed
from conformance.player import CacheView, Errored, Playthrough, RefusedCall, Returned, StepRecord, play
from conformance.trace.expect import Refused

CLOSE = 1e-11
"""Relative to the largest number of an array: a fault repeats to rounding, two faults differ by more."""

ROUNDINGS = 2.0**8
"""The same in roundings of a coarser precision, where one is declared: killers compute in float64."""

FAILING, PASSING = 10, 6
"""How many traces of either kind are compared."""

SECONDS = 1.0
MOST_NAMED = 3

STAGES = (
    ("AGREE-PROJECTED", "projection"),
    ("AGREE-ROTATED-QUERY", "rotation of the query"),
    ("AGREE-ROTATED-KEY", "rotation of the key"),
    ("STORE-KEYS", "stored keys"),
    ("POSITION-OFFSET", "stored keys"),
    ("STORE-VALUES", "stored values"),
    ("AGREE-WEIGHTS", "weights (score, scale, mask or softmax)"),
    ("AGREE-HEADS", "mix of the values"),
    ("AGREE-MERGED", "merge of the heads"),
    ("AGREE-OUTPUT", "output projection"),
)
"""In the order of computation: the first that differs is where to look."""


def explain(
    observed: Sequence[Observed], declaration: Declaration, counted: frozenset[str]
) -> tuple[str, ...]:
    """What a run with failures looks like, as lines for a report; said plainly where nothing known fits.

    counted: the requirements that the implementation is held to; what it shows of others is its own affair.
    """
    known = [killer for killer in killers() if killer.level == declaration.levels[0]]
    found = looks_like(observed, known, declaration, counted)
    lines = [_line(killer) for killer in found[:MOST_NAMED]]
    if len(found) > MOST_NAMED:
        lines.append(f"and {len(found) - MOST_NAMED} more that show the same here")
    if not lines:
        lines.append(
            f"none of the {len(known)} known faults of level {declaration.levels[0]} shows exactly this"
        )
    stage = first_stage(c for seen in observed for c in seen.findings(counted))
    return (*lines, *([f"first stage that differs: {stage}"] if stage else []))


def _line(killer: Killer) -> str:
    look = requirement(killer.violates).look
    return f"{killer.id} ({killer.fault}): {killer.says}" + (f"; look at: {look}" if look else "")


def looks_like(
    observed: Sequence[Observed],
    known: Iterable[Killer],
    declaration: Declaration,
    counted: frozenset[str],
) -> tuple[Killer, ...]:
    """The killers that show what was observed, most specific first; empty where none does.

    After a second of processor time what was found so far is returned.
    """
    failed = {c.requirement for seen in observed for c in seen.findings(counted) if c.status == "fail"}
    compared = chosen(observed, counted)
    deadline = time.process_time() + SECONDS
    found = []
    for killer in sorted(known, key=lambda k: k.violates not in failed):
        if time.process_time() > deadline:
            break
        if all(_shows(killer, seen, declaration, counted) for seen in compared):
            found.append(killer)
    return tuple(sorted(found, key=lambda k: (k.violates not in failed, len(k.equal_to))))


def chosen(observed: Sequence[Observed], counted: frozenset[str]) -> list[Observed]:
    """Failing traces, evenly spread, and the passing ones that stand next to them in the plan.

    A trace on which the implementation differs in what it is not held to says nothing about its fault.
    """
    failing = [number for number, seen in enumerate(observed) if seen.failed(counted)]
    failing = [number for number in failing if _owed(observed[number], counted)] or failing
    step = max(1, -(-len(failing) // FAILING))
    taken = failing[::step]
    beside = {n for number in taken for n in (number - 1, number + 1) if 0 <= n < len(observed)}
    passing = sorted(n for n in beside if not observed[n].failed())
    return [observed[n] for n in (*taken, *passing[:: max(1, -(-len(passing) // PASSING))])]


def _owed(seen: Observed, counted: frozenset[str]) -> bool:
    """Whether the implementation owes every refusal that a trace asks for."""
    asked = (e for step in seen.playthrough.trace.steps for e in step.expect if isinstance(e, Refused))
    return all(e.requirement in counted for e in asked)


def _shows(killer: Killer, seen: Observed, declaration: Declaration, counted: frozenset[str]) -> bool:
    """Whether a killer shows what an implementation showed on one trace."""
    played = play(seen.playthrough.trace, killer.make())
    if not repeats(played, seen.playthrough, closeness(declaration)):
        return False
    blind = {c.requirement for c in seen.checks if c.status == "unobserved"}
    looked_at = {c.requirement for c in seen.checks if c.requirement in counted} - blind
    return _findings(judge(played, declaration), looked_at) == _findings(seen.checks, looked_at)


def _findings(checks: Iterable[Check], looked_at: set[str]) -> set[tuple[str, str, int]]:
    """What failed where, as far as the implementation could be seen."""
    return {
        (c.requirement, c.status, c.step)
        for c in checks
        if c.status in ("fail", "error") and c.requirement in looked_at
    }


def first_stage(checks: Iterable[Check]) -> str:
    """The first stage of the calculation that differs, where evidence shows it; "" elsewhere."""
    failed = {c.requirement for c in checks if c.status == "fail" and c.difference is not None}
    if not any(name in failed for name, _ in STAGES if name.startswith("AGREE") and name != "AGREE-OUTPUT"):
        return ""
    return next((stage for name, stage in STAGES if name in failed), "")


def closeness(declaration: Declaration) -> float:
    """How far apart, relative to the largest number, two runs of one fault may lie."""
    dtypes = {*vars(declaration.precision).values(), declaration.dtypes[0]} - {"float64"}
    return max([CLOSE, *(ROUNDINGS * unit_roundoff(dtype) for dtype in dtypes)])


def repeats(killer: Playthrough, seen: Playthrough, close: float) -> bool:
    """Whether one playthrough shows what another showed, to `close`."""
    if len(killer.records) != len(seen.records) or (killer.broken is None) != (seen.broken is None):
        return False
    return all(_alike(own, other, close) for own, other in zip(killer.records, seen.records, strict=True))


def _alike(own: StepRecord, other: StepRecord, close: float) -> bool:
    if not _same_outcome(own.outcome, other.outcome, close) or own.changed_inputs != other.changed_inputs:
        return False
    names = own.after.keys() & other.after.keys()
    return all(_same_view(own.after[name], other.after[name], close) for name in names)


def _same_outcome(own: Any, other: Any, close: float) -> bool:
    if isinstance(own, RefusedCall) or isinstance(other, RefusedCall):
        return isinstance(own, RefusedCall) and isinstance(other, RefusedCall) and own.kind == other.kind
    if isinstance(own, Errored) or isinstance(other, Errored):
        return isinstance(own, Errored) and isinstance(other, Errored)
    if not isinstance(own, Returned) or not isinstance(other, Returned):
        return False
    shared = own.fields.keys() & other.fields.keys()
    return all(_near(own.fields[name], other.fields[name], close) for name in shared)


def _same_view(own: CacheView, other: CacheView, close: float) -> bool:
    if own.length != other.length:
        return False
    pairs = ((own.keys, other.keys), (own.values, other.values))
    return all(_near(a, b, close) for a, b in pairs if a is not None and b is not None)


def _near(own: NDArray[Any], other: NDArray[Any], close: float) -> bool:
    if own.shape != other.shape:
        return False
    left, right = np.asarray(own, np.float64), np.asarray(other, np.float64)
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(right), initial=0.0, where=np.isfinite(right))
        near = np.abs(left - right) <= close * scale
    return bool(np.all(near | (left == right) | (np.isnan(left) & np.isnan(right))))
