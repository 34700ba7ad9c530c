"""One finding in words: rule, place, numbers, likeness, and the command that shows it again."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path

from conformance.adapters.naming import is_name
from conformance.contract import requirement
from conformance.errors import UsageError
from conformance.judge.findings import Check, Difference
from conformance.report.model import Report
from conformance.report.style import Style

WIDTH = 100
GOLDEN = "golden/"
"""How the files begin whose traces stand in the suite under their ids."""

_KIT = Path(__file__).parents[1]
_COLUMN = 12


def finding_lines(
    check: Check, report: Report, style: Style, *, more: Sequence[Check] = (), likeness: bool = True
) -> list[str]:
    """The whole of one finding; `more` are the others of the same requirement, which are counted.

    likeness: say what it looks like, where the report knows.
    """
    lines = [f"{style.standing(check.status, check.requirement)}  {check.status}"]
    lines += textwrap.wrap(sentence(check.requirement), WIDTH, initial_indent="  ", subsequent_indent="  ")
    lines += row("where", place(check))
    if check.message:
        lines += row("what", check.message)
    raised = raised_at(check.detail)
    if raised:
        lines += row("raised at", raised)
    if check.difference is not None:
        lines += numbers(check.difference)
    if likeness:
        lines += likeness_lines(report.looks_like.get((check.trace, check.step)))
    lines += row("reproduce", reproduce(check.trace, report))
    lines += _source(check.trace, report)
    if more:
        lines += row("also", f"{count(len(more), 'more finding')} in {_traces(check, more)}")
    return lines


def likeness_lines(known: Sequence[str] | None) -> list[str]:
    """What it looks like, a row each; nothing where nobody has looked."""
    if known is None:
        return []
    rows = known or ("none of the known faults",)
    return [line for number, text in enumerate(rows) for line in row("" if number else "looks like", text)]


def _traces(check: Check, more: Sequence[Check]) -> str:
    names = list(dict.fromkeys(other.trace for other in more))
    if names == [check.trace]:
        return "this trace"
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{count(len(names), 'trace')}: {shown}"


def sentence(name: str) -> str:
    """The sentence of a requirement."""
    try:
        return requirement(name).sentence
    except UsageError:
        return "(this requirement is not in the contract)"


def place(check: Check) -> str:
    """Trace, step, lane, head and position of a finding."""
    parts = [check.trace, "while building" if check.step < 0 else f"step {check.step} ({check.place})"]
    found = check.difference
    if found is not None:
        axes = (("lane", found.lane), ("head", found.head), ("position", found.position))
        parts += [f"{name} {at}" for name, at in axes if at is not None]
        parts.append(f"{found.field}[{','.join(map(str, found.index))}]")
    return ", ".join(parts)


def numbers(found: Difference) -> list[str]:
    """Expected, observed and difference, each a row."""
    if found.bound > 0:
        used = f"{_short(found.share)} of the bound {found.bound:.3g}"
    else:
        used = "not one bit may differ" if found.share else "no difference"
    ulps = f", {_short(found.ulps)} ulps" if math.isfinite(found.ulps) and found.ulps else ""
    return [
        *row("expected", f"{found.expected:.17g}"),
        *row("observed", f"{found.observed:.17g}"),
        *row("difference", f"{found.difference:.3g} ({used}{ulps})"),
    ]


def row(name: str, text: str) -> list[str]:
    """A name and its text, wrapped below itself; a command is never broken over lines."""
    first = f"  {name:<{_COLUMN}}"
    if name == "reproduce":
        return [first + text]
    lines = [line for part in text.splitlines() or [""] for line in _wrapped(part)]
    return [(first if number == 0 else " " * len(first)) + line for number, line in enumerate(lines)]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - _COLUMN, break_long_words=False, break_on_hyphens=False) or [""]


def raised_at(detail: str) -> str:
    """Where a traceback left the implementation's own code: file, line, function; "" where it has none.

    Frames of installed packages are passed over: they are rarely where the fault is.
    """
    frames = [line.strip() for line in detail.splitlines() if line.startswith('  File "')]
    places = [frame.removeprefix("File ").replace('"', "") for frame in frames]
    foreign = [place for place in places if not place.startswith(str(_KIT))]
    own = [place for place in foreign if "site-packages" not in place]
    return (own or foreign or [""])[-1]


def reproduce(trace: str, report: Report) -> str:
    """One command that plays this trace again: by id, with the seed if it was drawn, or by a user's file."""
    known = report.traces.get(trace)
    adapter = report.adapter if is_name(report.adapter) else "MODULE:FACTORY"
    words = ["kv-conformance", "replay", trace, adapter]
    if known is not None and known.file and not known.file.startswith(GOLDEN):
        words[2] = known.file
    elif known is not None and known.seed is not None:
        words += ["--seed", str(known.seed)]
    return shlex.join(words) + ("" if is_name(report.adapter) else f"  (of {report.adapter})")


def _source(trace: str, report: Report) -> list[str]:
    known = report.traces.get(trace)
    if known is None or not known.file:
        return []
    return row("trace file", f"{known.file}:{known.line}" if known.line else known.file)


def _short(value: float) -> str:
    return f"{value:.3g}"


def count(number: int, noun: str) -> str:
    """`1 trace`, `2 traces`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
