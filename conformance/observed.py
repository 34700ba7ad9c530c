"""What a run saw of one trace."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.judge import Check
from conformance.player import Playthrough


@dataclass(frozen=True, eq=False)
class Observed:
    """A playthrough of the implementation with what the judge said of it."""

    playthrough: Playthrough
    checks: tuple[Check, ...]

    def findings(self, counted: frozenset[str] | None = None) -> tuple[Check, ...]:
        """Every check that failed or broke, of these requirements where any are named."""
        return tuple(
            c
            for c in self.checks
            if c.status in ("fail", "error") and (counted is None or c.requirement in counted)
        )

    def failed(self, counted: frozenset[str] | None = None) -> bool:
        """Whether anything failed or broke."""
        return bool(self.findings(counted))

    def breaks_a_rule(self, counted: frozenset[str] | None = None) -> bool:
        """Whether a rule was seen to be violated; an adapter that only ever broke shows none."""
        return any(check.status == "fail" for check in self.findings(counted))
