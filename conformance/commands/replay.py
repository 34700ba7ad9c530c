"""Play one trace on an implementation and show every step.

TRACE is a trace id as a report prints it, a golden name (all its schedules), or a trace file:

  kv-conformance replay mod-gqa-adjacent/single my_adapter.py:adapter
  kv-conformance replay found/counterexample.yaml my_adapter.py:adapter
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conformance.judge import Check
    from conformance.player import Playthrough, StepRecord
    from conformance.report.model import Report
    from conformance.report.style import Style
    from conformance.trace.model import Trace

CLEAN, FOUND, BROKE = 0, 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `replay`."""
    parser.add_argument("trace", metavar="TRACE", help="a trace id, a golden name, or a file")
    parser.add_argument("adapter", metavar="ADAPTER", help="what to play it on")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="draw a twin from N, as the report says"
    )
    parser.add_argument("--verbose", "-v", action="store_true", help="also say what every step must show")


def run(options: argparse.Namespace) -> int:
    """Play and print; 0 without findings, 1 with a violated rule, 3 where the adapter broke."""
    from conformance.adapters.naming import resolve  # noqa: PLC0415 - brings numpy
    from conformance.check import declared  # noqa: PLC0415
    from conformance.commands.lookup import find  # noqa: PLC0415

    adapter = resolve(options.adapter)
    try:
        declaration = declared(adapter)
        codes = [
            _replay(options, adapter, trace) for trace in find(options.trace, declaration, seed=options.seed)
        ]
    finally:
        getattr(adapter, "close_process", int)()
    return FOUND if FOUND in codes else max(codes)


def _replay(options: argparse.Namespace, adapter: Any, trace: Trace) -> int:
    from conformance.judge import judge  # noqa: PLC0415
    from conformance.player import play  # noqa: PLC0415
    from conformance.report.style import style_for  # noqa: PLC0415

    playthrough = play(trace, adapter)
    checks = judge(playthrough, adapter.declaration)
    lines = _lines(playthrough, checks, options, style_for(sys.stdout))
    print("\n".join(lines), end="\n\n")
    statuses = {c.status for c in checks}
    return FOUND if "fail" in statuses else BROKE if "error" in statuses else CLEAN


def _lines(
    playthrough: Playthrough, checks: Sequence[Check], options: argparse.Namespace, style: Style
) -> Iterator[str]:
    from conformance.report.finding import finding_lines, row  # noqa: PLC0415

    trace = playthrough.trace
    report = _report(options.adapter, trace, checks)
    yield f"{style.paint(trace.id, 'bold')}: {trace.about}"
    by_step: dict[int, list[Check]] = {}
    for check in checks:
        by_step.setdefault(check.step, []).append(check)
    if playthrough.broken is not None:
        yield "  could not be built"
    for record in playthrough.records:
        yield from _step(record, by_step.get(record.index, []), style, verbose=options.verbose)
    left = len(trace.steps) - len(playthrough.records)
    if left:
        yield f"  {left} more step{'s' if left > 1 else ''} not played: nothing behind would mean anything"
    told: set[str] = set()
    for check in checks:
        if check.status not in ("fail", "error") or check.requirement in told:
            continue
        own = [c for c in checks if c.status in ("fail", "error") and c.requirement == check.requirement]
        same = dict.fromkeys(
            c.requirement for c in checks if c.message == check.message and c.step == check.step
        )
        told |= {check.requirement, *(same if check.status == "error" else ())}
        yield ""
        yield from finding_lines(check, report, style, more=own[1:])
        if check.status == "error" and len(same) > 1:
            yield from row("same under", ", ".join(name for name in same if name != check.requirement))
        if check.detail:
            yield from ("  | " + line for line in check.detail.rstrip().splitlines())
    if not told:
        yield f"  {style.standing('pass', 'no findings')}, {len(checks)} checks"


def _step(record: StepRecord, checks: Sequence[Check], style: Style, *, verbose: bool) -> Iterator[str]:
    from conformance.commands.words import words  # noqa: PLC0415
    from conformance.player import Errored, RefusedCall  # noqa: PLC0415

    statuses = {c.status for c in checks}
    standing = next((s for s in ("fail", "error", "pass") if s in statuses), "-")
    outcome = record.outcome
    if isinstance(outcome, RefusedCall):
        what = f"refused as {outcome.kind}"
    else:
        what = f"raised {outcome.message}" if isinstance(outcome, Errored) else ""
    share = max((c.share for c in checks), default=0.0)
    margin = f"{share:.2g} of the bound" if share else ""
    noted = (c.message for c in checks if c.status == "pass")
    told = "; ".join(dict.fromkeys(filter(None, (what, margin, *noted))))
    mark = style.standing(standing, f"{standing:<5}")
    yield f"  {record.index:>3}  {mark} {record.place:<32} {told}".rstrip()
    if verbose:
        for expectation in record.operation.expect:
            yield f"{'':12}{words(expectation)}"


def _report(adapter: str, trace: Trace, checks: Sequence[Check]) -> Report:
    """A report of this trace alone, for telling its findings."""
    from conformance.report.model import Report  # noqa: PLC0415
    from conformance.verdict import Verdict  # noqa: PLC0415

    reached = Verdict("incomplete", BROKE)
    return Report(adapter, None, reached, checks=tuple(checks), traces={trace.id: trace})
