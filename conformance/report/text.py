"""The report as text: findings first, then the standing of every profile, the verdict last."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator

from conformance.judge.findings import NOT_ASKED, Check
from conformance.report.finding import count, finding_lines, row
from conformance.report.model import Report
from conformance.report.style import Style
from conformance.verdict import ProfileVerdict, Result, Standing

_NUMBERS = re.compile(r"[\d.,+\-\[\]\se]+")
NOT_PASSED: tuple[Standing, ...] = (
    "fail",
    "error",
    "declined",
    "unobserved",
    "not run",
    "waived",
    "pending",
)
FULL = 8
"""How many kinds of finding are told in full; the others get a line each."""


def report_text(report: Report, *, style: Style | None = None, full: int = FULL) -> str:
    """The whole report, ending in the verdict; plain text unless a style with colour is given."""
    paint = style or Style()
    if report.broken:
        return "\n".join([*_broken(report, paint), "", verdict_line(report, paint)]) + "\n"
    parts = [
        *_findings(report, paint, full),
        *_profiles(report, paint),
        *_not_asked(report),
        *_rounding(report),
        _run(report),
        verdict_line(report, paint),
    ]
    return "\n".join(parts) + "\n"


def verdict_line(report: Report, style: Style | None = None) -> str:
    """The verdict with its counts, one line."""
    paint = style or Style()
    text = paint.standing(report.verdict.text)
    if report.broken:
        return f"{text}: no adapter could be had"
    counted = "; ".join(f"{p.profile}: {_counts(p)}" for p in report.verdict.profiles)
    narrowed = f" (only traces with {report.keyword!r} were played)" if report.keyword else ""
    return f"{text}: {report.adapter}; {counted}{narrowed}" if counted else f"{text}: nothing was asked"


def _counts(profile: ProfileVerdict) -> str:
    total = len(profile.results)
    others = [f"{number} {name}" for name in NOT_PASSED if (number := profile.count(name))]
    return ", ".join([f"{profile.count('pass')} of {total} pass", *others])


def _broken(report: Report, style: Style) -> list[str]:
    lines = [
        style.standing("error", "no adapter"),
        *row("asked", report.adapter),
        *row("what", report.broken),
    ]
    if report.broken_detail:
        lines += ["", textwrap.indent(report.broken_detail.rstrip(), "  ")]
    return lines


def failing(report: Report) -> list[tuple[str, tuple[Check, ...]]]:
    """Every requirement of the profiles that has findings, with them, in the order of the contract."""
    asked = {r.requirement.id: r for p in report.verdict.profiles for r in p.results}
    return [(name, r.findings) for name, r in asked.items() if r.findings]


def _findings(report: Report, style: Style, full: int) -> Iterator[str]:
    """The first requirement of every kind of message in full, the others a line each."""
    told: set[str] = set()
    short: list[str] = []
    likenesses: list[tuple[str, ...] | None] = []
    for findings, others in _merged(failing(report)):
        first = next((c for c in findings if c.status == "fail"), findings[0])
        if first.message in told or len(told) == full:
            short.append(_short(first, len(findings), style, told=first.message in told))
            continue
        told.add(first.message)
        more = [c for c in findings if c is not first]
        explained = report.looks_like.get((first.trace, first.step))
        yield from finding_lines(first, report, style, more=more, likeness=explained not in likenesses)
        likenesses.append(explained)
        if others:
            yield from row("same under", some(others, 6))
        yield ""
    if short:
        yield "and, perhaps of the same cause, under"
        yield from short
        yield ""
    outside = _outside(report)
    if outside:
        yield from row("outside", f"these profiles, and not counted, findings stand under {some(outside, 8)}")
        yield ""


def _short(check: Check, findings: int, style: Style, *, told: bool) -> str:
    name = style.standing(check.status, f"{check.requirement:<26}")
    used = ""
    if check.difference is not None and check.difference.bound:
        used = f", {check.share:.3g} bounds off" if math.isfinite(check.share) else ", not finite"
    message = "" if told else f": {check.message}"
    return f"  {name} {count(findings, 'finding')}, first in {check.trace} step {check.step}{used}{message}"


def _merged(failures: list[tuple[str, tuple[Check, ...]]]) -> list[tuple[tuple[Check, ...], list[str]]]:
    """Findings by requirement; a breakdown that stands under many requirements stands once."""
    groups: dict[str, tuple[tuple[Check, ...], list[str]]] = {}
    for name, findings in failures:
        broke = findings[0].status == "error"
        cause = _NUMBERS.sub("#", findings[0].message) if broke else f"under {name}"
        if cause in groups:
            groups[cause][1].append(name)
        else:
            groups[cause] = (findings, [])
    return list(groups.values())


def _outside(report: Report) -> list[str]:
    asked = {r.requirement.id for p in report.verdict.profiles for r in p.results}
    return list(dict.fromkeys(c.requirement for c in report.findings if c.requirement not in asked))


def profile_text(profile: ProfileVerdict) -> str:
    """How one profile stands: counts, what failed, what is missing and why."""
    failed = [r.requirement.id for r in profile.results if r.findings]
    lines = [f"profile {profile.profile}: {profile.text}, {_counts(profile)}"]
    return "\n".join(
        [
            *lines,
            *(row("findings", some(failed, 40)) if failed else []),
            *_missing(profile),
            *_advice(profile),
        ]
    )


def _profiles(report: Report, style: Style) -> Iterator[str]:
    for profile in report.verdict.profiles:
        name = style.paint(profile.profile, "bold")
        yield f"profile {name}: {style.standing(profile.text)}, {_counts(profile)}"
        yield from _missing(profile)
        used = max((r for r in profile.results if r.standing == "pass"), key=lambda r: r.share, default=None)
        if used is not None and used.share > 0 and profile.text == "conformant":
            yield from row(
                "margin", f"at most {used.share:.3g} of an error bound was used ({used.requirement.id})"
            )
        if profile.text == "incomplete":
            yield from _advice(profile)
    if report.verdict.profiles:
        yield ""


def _not_asked(report: Report) -> Iterator[str]:
    """What was left out of traces that were played, because it would say nothing of this implementation."""
    by_reason: dict[str, dict[str, None]] = {}
    for check in report.checks:
        if check.kind == NOT_ASKED:
            by_reason.setdefault(check.message, {})[check.trace] = None
    for reason, traces in by_reason.items():
        yield from row("not asked", f"{some(list(traces), 6)}: {reason}")
    if by_reason:
        yield ""


def _missing(profile: ProfileVerdict) -> Iterator[str]:
    for standing in NOT_PASSED[2:]:
        by_reason: dict[str, list[str]] = {}
        for entry in profile.results:
            if entry.standing == standing:
                by_reason.setdefault(_reason(entry), []).append(entry.requirement.id)
        for reason, names in by_reason.items():
            yield from row(standing, f"{some(names, 12)}{f' ({reason})' if reason else ''}")


def _reason(entry: Result) -> str:
    allowed = entry.standing == "unobserved" and entry.requirement.where_observable
    return ", ".join(filter(None, (entry.reason, "allowed" if allowed else "")))


def _advice(profile: ProfileVerdict) -> list[str]:
    wanted = sorted(
        {
            part
            for r in profile.results
            if r.standing == "declined"
            for part in r.reason.removeprefix("not declared: ").split(", ")
        }
    )
    if wanted and profile.profile != "core":
        return row("next", f"write and declare {', '.join(wanted)}, or hold it to less: --profile core")
    if wanted:
        return row("next", f"write and declare {', '.join(wanted)}")
    return []


def _rounding(report: Report) -> list[str]:
    """Where the bounds allow coarser rounding than float64: a verdict is worth no more than that."""
    declaration = report.declaration
    if declaration is None:
        return []
    coarse: dict[str, list[str]] = {}
    for place, dtype in vars(declaration.precision).items():
        if dtype != "float64":
            coarse.setdefault(dtype, []).append(place)
    if not coarse:
        return []
    told = "; ".join(f"{dtype} in {', '.join(places)}" for dtype, places in coarse.items())
    return [*row("rounding", f"fed with {declaration.dtypes[0]}; as declared the bounds allow {told}"), ""]


def _run(report: Report) -> str:
    own = f", {report.adapter_seconds:.2f} s of it in the adapter" if report.adapter_seconds else ""
    digest = f", digest {report.digest[:12]}" if report.digest else ""
    seeds = "".join(f", seed {seed} of the {name}" for name, seed in report.seeds.items())
    odd = "" if report.planned == report.reported else f" of {report.planned} planned"
    return (
        f"contract {report.contract_version}, {report.reported} traces{odd}{digest}{seeds}, "
        f"{len(report.checks)} checks, {report.seconds:.2f} s{own}"
    )


def some(names: list[str], limit: int) -> str:
    """The first `limit` names, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
