"""One adapter in one process: every trace is played once, whichever items ask for it, in whatever order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from conformance.adapter import Declaration
from conformance.adapters.naming import is_embedded, resolve
from conformance.check import declared
from conformance.contract import CONTRACT_VERSION, requirement_ids
from conformance.judge import Check, judge
from conformance.observed import Observed
from conformance.player import play
from conformance.report.environment import environment
from conformance.report.model import Report
from conformance.suite import digest, traces
from conformance.trace.model import Trace
from conformance.verdict import Result, Verdict, default_profiles, verdict


class Run:
    """What the items share. The adapter is made when first needed; AdapterError where it cannot be.

    profiles () means the default of the declaration; seed is that of the twins.
    """

    def __init__(self, adapter: str, profiles: tuple[str, ...], seed: int) -> None:
        self.adapter, self._profiles, self._seed = adapter, profiles, seed
        self._observed: dict[str, Observed] = {}
        self._seconds = 0.0

    @cached_property
    def implementation(self) -> Any:
        """The adapter object."""
        return resolve(self.adapter)

    @cached_property
    def declaration(self) -> Declaration:
        """What it declares."""
        return declared(self.implementation)

    @cached_property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that it is held to. Raises UsageError for one that is not there."""
        wanted = self._profiles or default_profiles(self.declaration, embedded=is_embedded(self.adapter))
        verdict(wanted, self.declaration, ())
        return wanted

    @cached_property
    def traces(self) -> Mapping[str, Trace]:
        """The traces of the plan by id, in the order of the suite."""
        return {trace.id: trace for trace in traces(self.declaration, seed=self._seed)}

    @cached_property
    def planned(self) -> Verdict:
        """The verdict before anything has run: it names every requirement of the profiles."""
        return verdict(self.profiles, self.declaration, ())

    def checks(self, trace: str) -> tuple[Check, ...]:
        """Every check of one trace, which is played when it is first asked for."""
        if trace not in self._observed:
            begun = time.perf_counter()
            played = play(self.traces[trace], self.implementation)
            self._seconds += time.perf_counter() - begun
            self._observed[trace] = Observed(played, tuple(judge(played, self.declaration)))
        return self._observed[trace].checks

    def result(self, requirement: str) -> Result:
        """How one requirement stands after all traces."""
        results = (r for profile in self.report.verdict.profiles for r in profile.results)
        return next(r for r in results if r.requirement.id == requirement)

    @cached_property
    def report(self) -> Report:
        """The report over all traces; plays those that have not been played."""
        checks = [check for trace in self.traces for check in self.checks(trace)]
        return self._report_of(checks, verdict(self.profiles, self.declaration, checks))

    @cached_property
    def likeness(self) -> tuple[str, ...]:
        """What the findings over all traces look like; () where there is none."""
        from conformance.diagnosis import explain  # noqa: PLC0415 - loads every killer

        observed = self._all_observed()
        counted = requirement_ids(self.profiles, self.declaration.levels[0])
        if not any(seen.breaks_a_rule(counted) for seen in observed):
            return ()
        return explain(observed, self.declaration, counted)

    def report_of(self, checks: Iterable[Check]) -> Report:
        """A report that carries these checks only, for telling one finding."""
        return self._report_of(list(checks), self.planned)

    def _all_observed(self) -> list[Observed]:
        """In the order of the suite, in whatever order they were played."""
        return [self._observed[trace] for trace in self.traces]

    def _report_of(self, checks: list[Check], reached: Verdict) -> Report:
        return Report(
            adapter=self.adapter,
            declaration=self.declaration,
            verdict=reached,
            checks=tuple(checks),
            planned=len(self.traces),
            reported=len(self._observed),
            contract_version=CONTRACT_VERSION,
            digest=digest(self.traces.values()),
            environment=environment(),
            seconds=self._seconds,
            adapter_seconds=self._seconds,
            seeds={"twins": self._seed},
            traces=self.traces,
        )

    def close(self) -> None:
        """End the process behind the adapter, if it has one and was started."""
        end = getattr(self.__dict__.get("implementation"), "close_process", None)
        if end is not None:
            end()
