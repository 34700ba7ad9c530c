"""From checks to a verdict: computed from a profile's full list, never from what happened to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from conformance.adapter import Declaration
from conformance.contract import PROFILES, Requirement, profile_requirements
from conformance.judge.findings import Check

Standing = Literal["pass", "fail", "error", "declined", "unobserved", "waived", "pending", "not run"]
Text = Literal["conformant", "not conformant", "incomplete"]

EXIT_CONFORMANT, EXIT_NOT_CONFORMANT, EXIT_USAGE, EXIT_ERROR, EXIT_INCOMPLETE = 0, 1, 2, 3, 4
_WORST_LAST = (EXIT_CONFORMANT, EXIT_INCOMPLETE, EXIT_ERROR, EXIT_NOT_CONFORMANT)


@dataclass(frozen=True)
class Result:
    """How one requirement stands. share is the largest share of the error bound that any check used."""

    requirement: Requirement
    standing: Standing
    checks: int = 0
    share: float = 0.0
    findings: tuple[Check, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class ProfileVerdict:
    """The verdict under one profile, with the result of every requirement that the profile lists."""

    profile: str
    text: Text
    exit_code: int
    results: tuple[Result, ...]

    def count(self, standing: Standing) -> int:
        """How many requirements stand so."""
        return sum(result.standing == standing for result in self.results)


@dataclass(frozen=True)
class Verdict:
    """The verdict over all profiles that were asked for: the worst one."""

    text: Text
    exit_code: int
    profiles: tuple[ProfileVerdict, ...] = field(default=())

    def __str__(self) -> str:
        return self.text


def default_profiles(declaration: Declaration, *, embedded: bool) -> tuple[str, ...]:
    """The profiles of a run that names none.

    `strict` for the embedded implementations that declare all it needs, `decoder` for any decoder that
    declares all that this needs, `store` for a store, otherwise `core`; and every profile whose features are
    declared. A decoder of its own architecture is asked for `self-agreement` alone.
    """
    level = declaration.levels[0]
    first = "store" if level == "store" else "core"
    if level == "decoder" and declaration.weights == "own":
        return ("self-agreement",)
    if level == "decoder" and declaration.features >= profile_features("decoder", level):
        first = "decoder"
    if embedded and level == "layer" and declaration.features >= strict_features(level):
        first = "strict"
    opened = tuple(
        profile.name
        for profile in PROFILES.values()
        if profile.features and profile.features <= declaration.features and level in profile.levels
    )
    return (first, *opened)


def strict_features(level: str) -> frozenset[str]:
    """Every feature that the strict profile asks of a level."""
    return profile_features("strict", level)


def profile_features(profile: str, level: str) -> frozenset[str]:
    """Every feature without which a profile cannot end conformant at a level."""
    return frozenset().union(
        *(e.needs for e in profile_requirements(profile, level) if not _may_be_unseen(e))
    )


def verdict(profiles: Iterable[str], declaration: Declaration, checks: Iterable[Check]) -> Verdict:
    """The verdict of a run. Raises UsageError for a profile that is not there or not for the level.

    `checks` are all that the run made; a requirement without any stands as not run.
    """
    by_requirement: dict[str, list[Check]] = {}
    for check in checks:
        by_requirement.setdefault(check.requirement, []).append(check)
    found = tuple(_profile(name, declaration, by_requirement) for name in profiles)
    if not found:
        return Verdict("incomplete", EXIT_INCOMPLETE, ())
    code = max((p.exit_code for p in found), key=_WORST_LAST.index)
    return Verdict(_text(code), code, found)


def _profile(name: str, declaration: Declaration, checks: Mapping[str, list[Check]]) -> ProfileVerdict:
    level = declaration.levels[0]
    results = tuple(
        result(entry, declaration, checks.get(entry.id, [])) for entry in profile_requirements(name, level)
    )
    code = _exit_code(results)
    return ProfileVerdict(name, _text(code), code, results)


def result(entry: Requirement, declaration: Declaration, checks: list[Check]) -> Result:
    """How one requirement stands after these checks."""
    findings = tuple(c for c in checks if c.status in ("fail", "error"))
    share = max((c.share for c in checks), default=0.0)
    missing = sorted(entry.needs - declaration.features)
    growing = entry.fixed_only and declaration.capacity == "growing"
    reason = ""
    standing: Standing
    if entry.pending:
        standing = "pending"
    elif any(c.status == "fail" for c in checks):
        standing = "fail"
    elif any(c.status == "error" for c in checks):
        standing = "error"
    elif growing:
        standing, reason = "unobserved", "asked only of caches of fixed capacity"
    elif missing:
        standing = "unobserved" if entry.where_observable else "declined"
        reason = f"not declared: {', '.join(missing)}"
    elif any(c.status == "pass" for c in checks):
        standing = "pass"
    elif checks:
        standing, reason = "unobserved", checks[0].message
    elif entry.after_refusal and declaration.capacity == "growing":
        standing, reason = "unobserved", "no call of this cache has to be refused"
    else:
        standing = "not run"
    return Result(entry, standing, len(checks), share, findings, reason)


def _exit_code(results: tuple[Result, ...]) -> int:
    standings = {r.standing for r in results}
    if "fail" in standings:
        return EXIT_NOT_CONFORMANT
    if "error" in standings:
        return EXIT_ERROR
    blind = any(r.standing == "unobserved" and not _may_be_unseen(r.requirement) for r in results)
    counted = [r for r in results if r.standing != "pending"]
    if not counted or blind or standings & {"declined", "not run"}:
        return EXIT_INCOMPLETE
    if not any(r.standing == "pass" for r in counted):
        return EXIT_INCOMPLETE
    return EXIT_CONFORMANT


def _may_be_unseen(entry: Requirement) -> bool:
    return entry.where_observable or entry.fixed_only


def _text(code: int) -> Text:
    if code == EXIT_CONFORMANT:
        return "conformant"
    return "not conformant" if code == EXIT_NOT_CONFORMANT else "incomplete"
