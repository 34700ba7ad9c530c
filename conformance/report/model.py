"""What a run tells: verdict, results, findings, and everything needed to read them later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from conformance.adapter import Declaration
from conformance.judge.findings import Check
from conformance.trace.model import Trace
from conformance.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Report:
    """One run of the kit against one adapter.

    adapter: the name it was asked for by. declaration: None where no adapter could be had, then `broken`
    says why. planned and reported count traces; where they differ the run is not conformant. digest is of
    the traces. keyword is the `-k` of the run. traces: those with findings, for replaying and saving.
    looks_like: for a finding's (trace, step) the killers whose output matches, most specific first.
    """

    adapter: str
    declaration: Declaration | None
    verdict: Verdict
    checks: tuple[Check, ...] = ()
    planned: int = 0
    reported: int = 0
    contract_version: str = ""
    digest: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    adapter_seconds: float = 0.0
    keyword: str = ""
    broken: str = ""
    broken_detail: str = ""
    traces: Mapping[str, Trace] = field(default_factory=dict)
    looks_like: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Check, ...]:
        """Every check that failed or broke, in the order of the run."""
        return tuple(c for c in self.checks if c.status in ("fail", "error"))
