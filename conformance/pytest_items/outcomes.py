"""What an item does when it is run: return properties, skip with a reason, or fail with the finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pytest

from conformance.errors import ConformanceError
from conformance.judge import Check
from conformance.pytest_items.run import Run
from conformance.report.finding import count, finding_lines, likeness_lines
from conformance.report.model import Report
from conformance.report.style import Style
from conformance.report.text import profile_text, some

Properties = list[tuple[str, object]]
"""Names and values that pytest hands on to JUnit and other reports."""


def judge_trace(run: Run, trace: str, requirement: str) -> Properties:
    """What one trace shows of one requirement."""
    __tracebackhide__ = True
    checks = [c for c in run.checks(trace) if c.requirement == requirement]
    found = [c for c in checks if c.status in ("fail", "error")]
    if found:
        _fail(found, run.report_of(found))
    if not checks:
        pytest.skip("not judged: the trace ended before, see its other items")
    if all(c.status == "unobserved" for c in checks):
        pytest.skip(f"unobserved: {checks[0].message}")
    share = max(c.share for c in checks)
    return [("kv_requirement", requirement), ("kv_trace", trace), ("kv_share_of_bound", share)]


def judge_requirement(run: Run, requirement: str) -> Properties:
    """How one requirement stands after all traces; what could not be judged is skipped, with the reason."""
    __tracebackhide__ = True
    result = run.result(requirement)
    if result.findings and any(requirement in trace.requirements() for trace in run.traces.values()):
        # The items of the traces tell each finding in full.
        traces = list(dict.fromkeys(c.trace for c in result.findings))
        told = f"{count(len(result.findings), 'finding')} in {count(len(traces), 'trace')}"
        pytest.fail(f"{requirement}: {result.standing}, {told}: {some(traces, 6)}", pytrace=False)
    if result.findings:
        _fail(result.findings, run.report)
    if result.standing != "pass":
        pytest.skip(f"{result.standing}: {result.reason}" if result.reason else result.standing)
    return [("kv_requirement", requirement), ("kv_share_of_bound", result.share)]


def judge_profile(run: Run, profile: str) -> Properties:
    """The verdict of one profile; everything but conformant fails and says what is wrong or missing."""
    __tracebackhide__ = True
    reached = next(p for p in run.report.verdict.profiles if p.profile == profile)
    if reached.text != "conformant":
        lines = likeness_lines(run.likeness) if run.likeness else []
        pytest.fail("\n".join([profile_text(reached), *lines]), pytrace=False)
    return [("kv_profile", profile), ("kv_verdict", reached.text)]


def tell_broken(error: ConformanceError) -> NoReturn:
    """Fail because there is no adapter, with the traceback of the code that broke."""
    __tracebackhide__ = True
    pytest.fail("\n".join([str(error), *getattr(error, "__notes__", ())]), pytrace=False)


def _fail(found: Sequence[Check], report: Report) -> NoReturn:
    __tracebackhide__ = True
    first = next((c for c in found if c.status == "fail"), found[0])
    lines = finding_lines(first, report, Style(), more=[c for c in found if c is not first])
    # pytest's summary shows the first line of the text alone.
    head = f"{first.requirement}: {first.message or first.status}"
    pytest.fail("\n".join([head, "", *lines, *filter(None, [first.detail])]), pytrace=False)
