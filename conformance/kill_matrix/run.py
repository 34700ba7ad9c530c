"""Plays every killer and every control on every trace, in a few processes, and keeps all findings."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial

from conformance.adapter import Declaration
from conformance.contract import requirement
from conformance.errors import AdapterError
from conformance.judge import judge
from conformance.judge.findings import Check
from conformance.judge.judge import frame_checks
from conformance.judge.kinds import FRAME, kind_of
from conformance.judge.rules import Sight
from conformance.kill_matrix.cells import Look, Matrix, Row, cells
from conformance.kill_matrix.clean import AgainstClean, findings, take_what_is_remembered
from conformance.kill_matrix.kept import TWIN, alike_key, kept_traces
from conformance.killers import killers
from conformance.killers.controls import controls
from conformance.killers.controls.model import Control
from conformance.killers.model import Killer
from conformance.player import Playthrough, play
from conformance.player.contain import interruptible
from conformance.trace.expect import Refused
from conformance.trace.model import Trace, named_by
from conformance.values import STEP_ARRAYS
from conformance.verdict import default_profiles, verdict

RARELY = 100_000
"""Objects after which a process looks for what can be collected: it keeps traces, which never can."""

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
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=gc.set_threshold, initargs=(RARELY,)
    ) as pool:
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
    with interruptible():
        return _controlled(subject) if isinstance(subject, Control) else (killed(subject), frozenset())


def killed(subject: Killer, *, everything: bool = False) -> Row:
    """The row of one killer. everything: play and judge also what its clean class has shown already."""
    adapter = subject.make()
    declaration: Declaration = adapter.declaration
    planned = kept_traces(declaration, twins=subject.violates == TWIN)
    whole = partial(findings, adapter, declaration)
    judged = whole if everything else AgainstClean(adapter, declaration).findings
    found = cells(check for trace in planned for check in judged(trace))
    return Row(
        subject.id, subject.level, False, subject.violates, subject.fault, says=subject.says, cells=found
    )


def _controlled(subject: Control) -> tuple[Row, frozenset[Look]]:
    adapter = subject.make()
    declaration: Declaration = adapter.declaration
    key = alike_key(declaration)
    take_what_is_remembered(adapter, declaration)
    checks: list[Check] = []
    looks: set[Look] = set()
    for trace in kept_traces(declaration):
        playthrough = play(trace, adapter)
        checks += judge(playthrough, declaration, measured=False)
        if key not in _looked:
            looks |= set(_looks(trace, playthrough, declaration))
    _looked.add(key)
    reasons = _flagged(subject, declaration, checks)
    row = Row(subject.id, subject.level, True, says=subject.says, reasons=reasons)
    return row, frozenset(looks)


_looked: set[str] = set()
"""Declarations of which a control has been looked at."""


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
