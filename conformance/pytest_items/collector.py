"""The collector of the suite and its three sorts of items.

`TRACE[REQUIREMENT]` judges what one trace shows of one requirement; `verdict[REQUIREMENT]` one requirement
over all traces; `verdict[PROFILE]` the profile. The ids hang on names alone, so that they stay the same from
run to run and are the same in every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import AdapterError, ConformanceError
from conformance.pytest_items.run import Run

ROOT = "kv-conformance"


class ConformanceSuite(pytest.Collector):
    """Every item of one adapter. An adapter that cannot be had becomes one item, which fails and says why."""

    run: Run

    @classmethod
    def of(cls, session: pytest.Session, adapter: str, profiles: tuple[str, ...]) -> ConformanceSuite:
        """The suite of an adapter beneath a session."""
        suite: ConformanceSuite = cls.from_parent(session, name=ROOT, nodeid=ROOT)
        suite.run = Run(adapter, profiles)
        return suite

    def collect(self) -> Iterator[pytest.Item]:
        """The items in the order of the suite, those of verdicts last."""
        try:
            planned, traces = self.run.planned, self.run.traces
        except ConformanceError as error:
            yield self._item("adapter", _broken(self.run.adapter, error))
            return
        asked = {r.requirement.id: None for profile in planned.profiles for r in profile.results}
        for trace in traces.values():
            for name in trace.requirements():
                if name in asked:
                    judged = _Judged(self.run, trace.id, name)
                    yield self._item(f"{trace.id}[{name}]", judged, file=trace.file, line=trace.line)
        for name in asked:
            yield self._item(f"verdict[{name}]", _Stands(self.run, name), verdict=True)
        for profile in planned.profiles:
            yield self._item(f"verdict[{profile.profile}]", _Verdict(self.run, profile.profile), verdict=True)

    def _item(
        self, name: str, work: Callable[[], Any], *, verdict: bool = False, file: str = "", line: int = 0
    ) -> pytest.Item:
        item: ConformanceItem = ConformanceItem.from_parent(self, name=name)
        item.work, item.file, item.line = work, file, line
        item.add_marker("kv_conformance")
        if verdict:
            item.add_marker("kv_verdict")
        return item


class ConformanceItem(pytest.Item):
    """One item; `work` fails, skips or returns."""

    work: Callable[[], Any]
    file: str = ""
    line: int = 0

    def runtest(self) -> None:
        """Do the work."""
        __tracebackhide__ = True
        told = self.work()
        self.user_properties.extend(told or ())

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file and line of the trace, where it stands in one."""
        path = Path(self.file) if self.file else self.config.rootpath
        return path, max(self.line - 1, 0) if self.file else None, self.name


class _Judged:
    """What one trace shows of one requirement."""

    def __init__(self, run: Run, trace: str, requirement: str) -> None:
        self.run, self.trace, self.requirement = run, trace, requirement

    def __call__(self) -> list[tuple[str, object]]:
        __tracebackhide__ = True
        from conformance.report.finding import finding_lines  # noqa: PLC0415
        from conformance.report.style import Style  # noqa: PLC0415

        checks = [c for c in self.run.checks(self.trace) if c.requirement == self.requirement]
        found = [c for c in checks if c.status in ("fail", "error")]
        if found:
            first = next((c for c in found if c.status == "fail"), found[0])
            rest = [c for c in found if c is not first]
            lines = finding_lines(first, self.run.report_of(found), Style(), more=rest)
            pytest.fail("\n".join([*lines, *([first.detail] if first.detail else [])]), pytrace=False)
        if not checks:
            pytest.skip("not judged: the trace ended before, see its other items")
        if all(c.status == "unobserved" for c in checks):
            pytest.skip(f"unobserved: {checks[0].message}")
        share = max(c.share for c in checks)
        return [("kv_requirement", self.requirement), ("kv_trace", self.trace), ("kv_share_of_bound", share)]


class _Stands:
    """How one requirement stands after all traces; what is not judged is skipped, with the reason."""

    def __init__(self, run: Run, requirement: str) -> None:
        self.run, self.requirement = run, requirement

    def __call__(self) -> list[tuple[str, object]]:
        __tracebackhide__ = True
        from conformance.report.finding import finding_lines  # noqa: PLC0415
        from conformance.report.style import Style  # noqa: PLC0415

        result = self.run.result(self.requirement)
        if result.findings:
            first = next((c for c in result.findings if c.status == "fail"), result.findings[0])
            rest = [c for c in result.findings if c is not first]
            pytest.fail("\n".join(finding_lines(first, self.run.report, Style(), more=rest)), pytrace=False)
        if result.standing != "pass":
            pytest.skip(f"{result.standing}: {result.reason}" if result.reason else result.standing)
        return [("kv_requirement", self.requirement), ("kv_share_of_bound", result.share)]


class _Verdict:
    """The verdict of one profile; everything but conformant fails and says what is wrong or missing."""

    def __init__(self, run: Run, profile: str) -> None:
        self.run, self.profile = run, profile

    def __call__(self) -> list[tuple[str, object]]:
        __tracebackhide__ = True
        from conformance.report.text import profile_text  # noqa: PLC0415

        reached = next(p for p in self.run.report.verdict.profiles if p.profile == self.profile)
        if reached.text != "conformant":
            pytest.fail(profile_text(reached), pytrace=False)
        return [("kv_profile", self.profile), ("kv_verdict", reached.text)]


def _broken(adapter: str, error: ConformanceError) -> Callable[[], Any]:
    def tell() -> None:
        __tracebackhide__ = True
        notes = getattr(error, "__notes__", []) if isinstance(error, AdapterError) else []
        pytest.fail(
            "\n".join([f"no adapter could be had for {adapter!r}", str(error), *notes]), pytrace=False
        )

    return tell
