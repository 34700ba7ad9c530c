"""The collector of the suite and its items.

`TRACE[REQUIREMENT]` judges what one trace shows of one requirement; `verdict[REQUIREMENT]` one requirement
over all traces; `verdict[PROFILE]` the profile. The ids hang on names alone, so that they stay the same from
run to run and are the same in every worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from conformance.errors import ConformanceError
from conformance.pytest_items.outcomes import (
    Properties,
    judge_profile,
    judge_requirement,
    judge_trace,
    tell_broken,
)
from conformance.pytest_items.run import Run

ROOT = "kv-conformance"


class ConformanceSuite(pytest.Collector):
    """Every item of one adapter. An adapter that cannot be had becomes one item, which fails and says why."""

    run: Run

    @classmethod
    def of(cls, session: pytest.Session, run: Run) -> ConformanceSuite:
        """The suite of a run beneath a session."""
        suite: ConformanceSuite = cls.from_parent(session, name=ROOT, nodeid=ROOT)
        suite.run = run
        return suite

    def collect(self) -> Iterator[pytest.Item]:
        """The items in the order of the suite, those of verdicts last."""
        run = self.run
        try:
            planned, traces = run.planned, run.traces
        except ConformanceError as error:
            yield self._item("adapter", partial(tell_broken, error))
            return
        asked = {r.requirement.id: None for profile in planned.profiles for r in profile.results}
        for trace in traces.values():
            for name in trace.requirements():
                if name in asked:
                    item = self._item(f"{trace.id}[{name}]", partial(judge_trace, run, trace.id, name))
                    item.file, item.line = trace.file, trace.line
                    yield item
        for name in asked:
            yield self._verdict(name, partial(judge_requirement, run, name))
        for profile in planned.profiles:
            yield self._verdict(profile.profile, partial(judge_profile, run, profile.profile))

    def _item(self, name: str, work: Callable[[], Properties]) -> ConformanceItem:
        # A given id is parsed as one from pytest's cache is, so that --lf knows the item again.
        item: ConformanceItem = ConformanceItem.from_parent(self, name=name, nodeid=f"{ROOT}::{name}")
        item.work = work
        item.add_marker("kv_conformance")
        return item

    def _verdict(self, name: str, work: Callable[[], Properties]) -> ConformanceItem:
        item = self._item(f"verdict[{name}]", work)
        item.add_marker("kv_verdict")
        return item


class ConformanceItem(pytest.Item):
    """One item; `work` fails, skips, or returns what pytest shall keep with the outcome."""

    work: Callable[[], Properties]
    file: str = ""
    line: int = 0

    def runtest(self) -> None:
        """Do the work."""
        __tracebackhide__ = True
        self.user_properties.extend(self.work())

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file and line of the trace, where it stands in one."""
        path = Path(self.file) if self.file else self.config.rootpath
        return path, max(self.line - 1, 0) if self.file else None, self.name
