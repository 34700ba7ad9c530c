"""Looks like: which known faults would have shown exactly what was observed.

Every killer of the level is played on traces that failed (and on some that passed). A killer matches where
all that it shows, up to rounding, is what the implementation showed: returned arrays, stored rows, lengths,
refusals. A fault that no killer has is said to match none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.judge import Check
from conformance.killers.model import Killer
from conformance.player import CacheView, Errored, Playthrough, RefusedCall, Returned, StepRecord, play

CLOSE = 1e-6
"""Relative to the largest number of an array: a fault repeats to rounding, two faults differ by more."""

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


@dataclass(frozen=True)
class Match:
    """A killer that shows what was observed; `traces` of the compared traces agree, failing ones first."""

    killer: Killer
    traces: int


def looks_like(
    played: Sequence[Playthrough], killers: Iterable[Killer], *, seconds: float = 1.0
) -> tuple[Match, ...]:
    """The killers that agree with every given playthrough, most specific first; empty where none does.

    played: playthroughs of the implementation, the failing ones first. A killer that has no fault on the
    first of them is no explanation of it. After `seconds` what was found so far is returned.
    """
    deadline = time.monotonic() + seconds
    found = []
    for killer in killers:
        if time.monotonic() > deadline:
            break
        agreed = _agreement(played, killer)
        if agreed:
            found.append(Match(killer, agreed))
    best = max((m.traces for m in found), default=0)
    return tuple(sorted((m for m in found if m.traces == best), key=lambda m: len(m.killer.equal_to)))


def _agreement(played: Sequence[Playthrough], killer: Killer) -> int:
    """How many playthroughs the killer repeats, counted from the first; 0 where it misses the first."""
    adapter = killer.make()
    for number, seen in enumerate(played):
        if seen.trace.level != killer.level or not repeats(play(seen.trace, adapter), seen):
            return number
    return len(played)


def first_stage(checks: Iterable[Check]) -> str:
    """The first stage of the calculation that differs, where evidence shows it; "" elsewhere."""
    failed = {c.requirement for c in checks if c.status == "fail" and c.difference is not None}
    if "AGREE-PROJECTED" not in failed and not failed & {"AGREE-WEIGHTS", "AGREE-HEADS", "AGREE-ROTATED-KEY"}:
        return ""
    return next((stage for requirement, stage in STAGES if requirement in failed), "")


def repeats(killer: Playthrough, seen: Playthrough) -> bool:
    """Whether one playthrough shows what another showed."""
    if len(killer.records) != len(seen.records) or (killer.broken is None) != (seen.broken is None):
        return False
    return all(_alike(own, other) for own, other in zip(killer.records, seen.records, strict=True))


def _alike(own: StepRecord, other: StepRecord) -> bool:
    if not _same_outcome(own.outcome, other.outcome) or own.changed_inputs != other.changed_inputs:
        return False
    names = own.after.keys() & other.after.keys()
    return all(_same_view(own.after[name], other.after[name]) for name in names)


def _same_outcome(own: Any, other: Any) -> bool:
    if isinstance(own, RefusedCall) or isinstance(other, RefusedCall):
        return isinstance(own, RefusedCall) and isinstance(other, RefusedCall) and own.kind == other.kind
    if isinstance(own, Errored) or isinstance(other, Errored):
        return isinstance(own, Errored) and isinstance(other, Errored)
    if not isinstance(own, Returned) or not isinstance(other, Returned):
        return False
    shared = own.fields.keys() & other.fields.keys()
    return all(_near(own.fields[name], other.fields[name]) for name in shared)


def _same_view(own: CacheView, other: CacheView) -> bool:
    if own.length != other.length:
        return False
    pairs = ((own.keys, other.keys), (own.values, other.values))
    return all(_near(a, b) for a, b in pairs if a is not None and b is not None)


def _near(own: NDArray[Any], other: NDArray[Any]) -> bool:
    if own.shape != other.shape:
        return False
    left, right = np.asarray(own, np.float64), np.asarray(other, np.float64)
    with np.errstate(all="ignore"):
        scale = np.nanmax(np.abs(right), initial=0.0, where=np.isfinite(right))
        close = np.abs(left - right) <= CLOSE * scale
    return bool(np.all(close | (left == right) | (np.isnan(left) & np.isnan(right))))
