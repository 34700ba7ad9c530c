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

    @property
    def failed(self) -> bool:
        """Whether anything failed or broke."""
        return any(c.status in ("fail", "error") for c in self.checks)
