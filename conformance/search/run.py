"""The search itself: draw, play, judge, shrink, within a budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.adapter import Declaration
from conformance.contract import PROFILES, requirement_ids
from conformance.judge import Check, judge
from conformance.player import play
from conformance.player.records import Errored
from conformance.search.program import AnyProgram, programs
from conformance.trace.model import Trace
from conformance.verdict import default_profiles, strict_features

Progress = Callable[[int, float], None]
"""Called with the programs played so far and the seconds left."""


@dataclass(frozen=True, eq=False)
class Found:
    """The smallest program that failed, its trace, and what was seen there.

    after: how many programs had been played when the first one failed; the rest of the search shrank it.
    """

    program: AnyProgram
    trace: Trace
    findings: tuple[Check, ...]
    after: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a search did. found is None where nothing failed."""

    found: Found | None
    played: int
    seconds: float
    seed: int


class _OutOfTimeError(BaseException):
    """Ends hypothesis from inside without being taken for a failure."""


class _SeenError(Exception):
    """A program failed; hypothesis shrinks what raises it."""


def search(
    adapter: Any,
    *,
    budget: float = 60.0,
    seed: int = 0,
    profiles: Sequence[str] | None = None,
    progress: Progress | None = None,
    shrink: bool = True,
) -> Outcome:
    """Drive an adapter with lawful and unlawful operations until something fails or the budget is spent.

    budget is in seconds. profiles: only findings under these count; None takes core, strict where it is
    fully declared, and every profile whose features are declared. shrink: after the first failure go on for
    the smallest program that fails.
    """
    declaration: Declaration = adapter.declaration
    counted = _counted(declaration, profiles)
    hunt = _Hunt(adapter, declaration, counted, time.monotonic() + budget, progress)
    begun = time.monotonic()
    _drive(hunt, seed, shrink=shrink)
    return Outcome(hunt.best, hunt.played, time.monotonic() - begun, seed)


def _counted(declaration: Declaration, profiles: Sequence[str] | None) -> frozenset[str]:
    level = declaration.levels[0]
    wanted = tuple(profiles or default_profiles(declaration, embedded=True))
    if not profiles and level in PROFILES["strict"].levels and declaration.features >= strict_features(level):
        wanted = ("strict", *wanted)
    return requirement_ids(wanted, level)


@dataclass
class _Hunt:
    adapter: Any
    declaration: Declaration
    counted: frozenset[str]
    deadline: float
    progress: Progress | None
    played: int = 0
    first: int = 0
    best: Found | None = None

    def attempt(self, program: AnyProgram) -> None:
        """Play one program. Raises _SeenError where it fails, _OutOfTimeError where time is up."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise _OutOfTimeError
        if self.progress is not None:
            self.progress(self.played, left)
        self.played += 1
        trace = program.trace(self.declaration, "found")
        findings = self.findings(trace)
        if not findings:
            return
        # What stands behind the first failing step says nothing more.
        short = trace.with_steps(trace.steps[: findings[0].step + 1])
        if found := self.findings(short):
            trace, findings = short, found
        self.first = self.first or self.played
        if self.best is None or _size(program) <= _size(self.best.program):
            self.best = Found(program, trace, findings, self.first)
        raise _SeenError(findings[0].requirement)

    def findings(self, trace: Trace) -> tuple[Check, ...]:
        """What counts of that which a trace shows.

        A call that broke where it had to be refused leaves a state that nobody has promised: what follows
        shows nothing that the broken refusal does not.
        """
        playthrough = play(trace, self.adapter)
        broke = (r.index for r in playthrough.records if isinstance(r.outcome, Errored))
        last = next(broke, len(trace.steps))
        checks = (c for c in judge(playthrough, self.declaration) if c.step <= last)
        return tuple(c for c in checks if c.status in ("fail", "error") and c.requirement in self.counted)


def _size(program: AnyProgram) -> tuple[int, int]:
    return len(program.commands), len(repr(program))


def _drive(hunt: _Hunt, seed: int, *, shrink: bool) -> None:
    """Hypothesis without its database and without its printing: the hunt keeps what it needs."""
    import hypothesis  # noqa: PLC0415 - heavy, and needed for searching only

    phases = [hypothesis.Phase.generate, *([hypothesis.Phase.shrink] if shrink else [])]
    chosen = hypothesis.settings(
        max_examples=10_000_000,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
    )

    @hypothesis.seed(seed)
    @chosen
    @hypothesis.given(programs(hunt.declaration))
    def attempt(program: AnyProgram) -> None:
        hunt.attempt(program)

    try:
        attempt()
    except (_OutOfTimeError, _SeenError):
        return
    except hypothesis.errors.HypothesisException:
        # An implementation that does not fail the same way twice: what was seen stands all the same.
        if hunt.best is None:
            raise
