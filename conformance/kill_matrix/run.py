"""Plays every killer and every control on every trace, in a few processes, and keeps all findings."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache

from conformance.adapter import Declaration
from conformance.contract import requirement
from conformance.errors import AdapterError
from conformance.judge import judge
from conformance.judge.findings import Check
from conformance.judge.judge import frame_checks
from conformance.judge.kinds import FRAME, kind_of
from conformance.judge.rules import Sight
from conformance.kill_matrix.cells import Look, Matrix, Row, cells
from conformance.killers import killers
from conformance.killers.controls import controls
from conformance.killers.controls.model import Control
from conformance.killers.model import Killer
from conformance.player import Playthrough, play
from conformance.suite import traces
from conformance.trace.expect import Refused
from conformance.trace.model import Trace, named_by
from conformance.values import STEP_ARRAYS
from conformance.verdict import default_profiles, verdict

TWIN = "AGREE-TWIN"
"""Twins find what has learnt the golden files, and nothing that the golden files do not find."""

EVIDENCE = tuple(name for name in STEP_ARRAYS if name != "output")
"""Fields that nobody sees where no evidence is declared."""

Progress = Callable[[int, int, str], None]
"""Called with subjects done, subjects planned, and the id of the one that was done."""

Subject = Killer | Control


def subjects() -> tuple[Subject, ...]:
    """Every killer, then every control."""
    return (*killers(), *controls())


def run(*, processes: int = 2, only: str = "", progress: Progress | None = None) -> Matrix:
    """Play all of them, or those whose id contains `only`; nothing is stopped early."""
    wanted = [number for number, subject in enumerate(subjects()) if only in subject.id]
    done: dict[int, tuple[Row, frozenset[Look]]] = {}
    for number, result in _results(wanted, processes):
        done[number] = result
        if progress is not None:
            progress(len(done), len(wanted), result[0].id)
    looks = frozenset().union(*(found for _, found in done.values()))
    return Matrix(tuple(done[number][0] for number in wanted), looks)


def _results(wanted: list[int], processes: int) -> Iterator[tuple[int, tuple[Row, frozenset[Look]]]]:
    if processes <= 1 or len(wanted) <= 1:
        for number in wanted:
            yield number, played(subjects()[number])
        return
    # A fresh interpreter each: a copy of a running one would take over the locks of its threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting = {pool.submit(_played_at, number): number for number in wanted}
        for future in as_completed(waiting):
            try:
                yield waiting[future], future.result()
            except BrokenProcessPool as ended:
                raise AdapterError(
                    "a process of the kill matrix was ended from outside, perhaps for want of memory; "
                    "run it again, with --processes 1 where it ends again"
                ) from ended


def _played_at(number: int) -> tuple[Row, frozenset[Look]]:
    return played(subjects()[number])


def played(subject: Subject) -> tuple[Row, frozenset[Look]]:
    """The row of one killer or control, and the looks that its traces take where a control is the first."""
    adapter = subject.make()
    declaration: Declaration = adapter.declaration
    control = isinstance(subject, Control)
    key = _key(declaration)
    new = control and key not in _looked
    checks: list[Check] = []
    looks: set[Look] = set()
    for trace in _traces(declaration):
        if TWIN in trace.requirements() and getattr(subject, "violates", TWIN) != TWIN:
            continue
        playthrough = play(trace, adapter)
        checks += judge(playthrough, declaration, findings_only=not control)
        if new:
            looks |= set(_looks(trace, playthrough, declaration))
    row = Row(subject.id, subject.level, control, says=subject.says)
    if isinstance(subject, Control):
        _looked.add(key)
        return replace(row, reasons=_flagged(subject, declaration, checks)), frozenset(looks)
    return replace(row, violates=subject.violates, fault=subject.fault, cells=cells(checks)), frozenset()


_kept: dict[str, tuple[Trace, ...]] = {}
_looked: set[str] = set()


def _key(declaration: Declaration) -> str:
    """What traces are made from: everything that is declared but names, versions and exceptions."""
    plain = replace(declaration, name="", version="", rejections={}, features=frozenset())
    return repr(plain) + repr(sorted(declaration.features))


def _traces(declaration: Declaration) -> tuple[Trace, ...]:
    """The traces of a declaration, made once for all that declare the same: they are values."""
    key = _key(declaration)
    if key not in _kept:
        _kept[key] = tuple(traces(declaration))
    return _kept[key]


def _flagged(subject: Control, declaration: Declaration, checks: list[Check]) -> tuple[str, ...]:
    """Why a control does not end conformant under what it claims; empty where it does."""
    profiles = default_profiles(declaration, embedded=False)
    wanted = ("strict", *profiles[1:]) if subject.strict else profiles
    found = verdict(wanted, declaration, checks)
    if found.text == "conformant":
        return ()
    return tuple(
        f"{result.requirement.id} {result.standing}: {_said(result.findings) or result.reason}"
        for profile in found.profiles
        if profile.exit_code
        for result in profile.results
        if result.standing not in ("pass", "waived", "pending")
    )


def _said(findings: tuple[Check, ...]) -> str:
    return f"{findings[0].trace} step {findings[0].step}: {findings[0].message}" if findings else ""


@cache
def _kind(requirement: str, kind: str, level: str) -> Look:
    return Look(level, requirement, kind)


def _looks(trace: Trace, playthrough: Playthrough, declaration: Declaration) -> Iterator[Look]:
    """Every look that is taken under a requirement which is asked of the level, at what can be seen."""
    hidden = () if "evidence" in declaration.features else EVIDENCE
    for look in _all_looks(trace, playthrough, declaration):
        asked = trace.level in requirement(look.requirement).levels
        if asked and look.kind.partition(" ")[2] not in hidden:
            yield look


def _all_looks(trace: Trace, playthrough: Playthrough, declaration: Declaration) -> Iterator[Look]:
    for step in trace.steps:
        for expectation in step.expect:
            for name in named_by(expectation):
                yield _kind(name, kind_of(expectation), trace.level)
            if isinstance(expectation, Refused) and expectation.details:
                yield _kind("REJECT-DETAILS", kind_of(expectation), trace.level)
    for record in playthrough.records:
        for check in frame_checks(Sight(playthrough, record, declaration)):
            yield _kind(check.requirement, FRAME, trace.level)
