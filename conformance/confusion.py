"""How well "looks like" tells faults apart: every killer diagnosed as an unknown implementation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from conformance.contract import PROFILES, requirement_ids
from conformance.diagnosis import looks_like
from conformance.judge import judge
from conformance.kill_matrix.kept import kept_traces
from conformance.killers import killers
from conformance.killers.groups import GROUPS, TAKEN_FOR_ANOTHER
from conformance.observed import Observed
from conformance.player import play

GOAL = 0.9
"""The share of killers whose own class must come first."""


@dataclass(frozen=True)
class Diagnosis:
    """What one killer was taken for: the ids that match, most specific first."""

    killer: str
    fault: str
    named: tuple[str, ...]
    first_fault: str

    @property
    def right(self) -> bool:
        """Whether its own class came first."""
        return self.first_fault == self.fault


def diagnose(name: str) -> Diagnosis:
    """Diagnose one killer against all killers of its level, itself included as one of many."""
    killer = next(k for k in killers() if k.id == name)
    adapter = killer.make()
    declaration = adapter.declaration
    observed = []
    for trace in kept_traces(declaration):
        played = play(trace, adapter)
        observed.append(Observed(played, tuple(judge(played, declaration))))
    asked = [
        p.name for p in PROFILES.values() if killer.level in p.levels and p.features <= declaration.features
    ]
    counted = requirement_ids(asked, killer.level)
    known = [k for k in killers() if k.level == killer.level]
    found = looks_like(observed, known, declaration, counted)
    return Diagnosis(name, killer.fault, tuple(k.id for k in found), found[0].fault if found else "")


def confusion(
    names: Sequence[str], *, processes: int = 2, progress: Callable[[int, int, str], None] | None = None
) -> list[Diagnosis]:
    """The diagnoses of many killers, in their order. progress is told done, planned and the next id."""
    found = []
    with ProcessPoolExecutor(processes) as pool:
        for done, one in enumerate(pool.map(diagnose, names)):
            found.append(one)
            if progress is not None:
                progress(done + 1, len(names), one.killer)
    return found


def told(found: Sequence[Diagnosis]) -> str:
    """The result in words: how often the own class came first, and every confusion with its reason."""
    wrong = [one for one in found if not one.right]
    lines = [*_shares(found)]
    kinds = Counter((one.fault, one.first_fault or "none") for one in wrong)
    for (fault, taken), count in kinds.most_common():
        lines.append(f"  {fault} taken for {taken}: {count}")
        lines += [
            f"    {_reason(one)}" for one in wrong if (one.fault, one.first_fault or "none") == (fault, taken)
        ]
    return "\n".join(lines)


def page(found: Sequence[Diagnosis], date: str) -> str:
    """The result as a page of the documentation."""
    lines = [
        "# Confusion",
        "",
        f"Written by `kv-conformance killers --confusion --write` on {date}. Every killer is diagnosed as if",
        "it were an unknown implementation, against all killers of its level, in the second that a failing",
        "run has for it.",
        "",
        *(f"- {share}" for share in _shares(found)),
        "",
        "## Taken for another class, or for none",
        "",
        *(f"- {_reason(one, '`')}" for one in found if not one.right),
        "",
        "## Groups",
        "",
        "Killers that show the same to rounding, so that a report names them together.",
        "",
        "| group | members | what they differ in |",
        "| --- | --- | --- |",
        *(f"| {g.name} | {', '.join(f'`{m}`' for m in g.members)} | {g.why} |" for g in GROUPS),
    ]
    return "\n".join(lines) + "\n"


def _shares(found: Sequence[Diagnosis]) -> Iterator[str]:
    counts = {
        "own class first": sum(one.right for one in found),
        "the killer itself, and no other": sum(one.named == (one.killer,) for one in found),
    }
    for what, count in counts.items():
        yield f"{what}: {count} of {len(found)} ({100 * count / len(found):.1f} %)"


def _reason(one: Diagnosis, quote: str = "") -> str:
    named = ", ".join(f"{quote}{name}{quote}" for name in one.named[:4]) or "no match"
    why = TAKEN_FOR_ANOTHER.get(one.killer, "")
    return f"{quote}{one.killer}{quote}: {named}" + (f"; {why}" if why else "")
