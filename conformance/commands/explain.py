"""One requirement: its sentence and source, who is held to it, which traces judge it, where to look."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

from conformance.contract import Requirement, requirement

SHOWN = 6
WATCHED_IN = 12
"""How many traces are played to see whether a requirement is looked at although they do not name it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `explain`."""
    parser.add_argument("requirement", metavar="ID", help="for example AGREE-OUTPUT; 'list' prints them all")


def run(options: argparse.Namespace) -> int:
    """Print one requirement; 0. Raises UsageError with near ids where there is none of that id."""
    from conformance.report.finding import row  # noqa: PLC0415 - brings numpy

    entry = requirement(options.requirement)
    lines = [f"{entry.id}  ({entry.strength}, since contract {entry.since})"]
    for name, text in _told(entry):
        lines += row(name, text)
    print("\n".join([*lines, *_example(entry)]))
    return 0


def _told(entry: Requirement) -> Iterator[tuple[str, str]]:
    yield "rule", entry.sentence
    yield "source", entry.source
    if entry.untestable:
        yield "not judged", entry.untestable
        yield "covered by", entry.covered_by
        return
    yield "asked of", ", ".join(entry.levels)
    allowed = "; where it cannot be seen it may stay unobserved" if entry.where_observable else ""
    yield "profiles", ", ".join(entry.profiles) + allowed
    if entry.needs:
        yield "needs", ", ".join(f"{name}: {_feature(name)}" for name in sorted(entry.needs))
    judged = _judged_by(entry)
    for number, text in enumerate(judged[:SHOWN]):
        yield "judged by" if number == 0 else "", text
    if len(judged) > SHOWN:
        yield "", f"and {len(judged) - SHOWN} more traces"
    if _watched(entry, WATCHED_IN if judged else None):
        yield "" if judged else "judged by", "every call of every trace to which it applies"
    elif not judged:
        yield "judged by", "no trace of the embedded implementations"
    if entry.look:
        yield "look at", entry.look
    if entry.example:
        yield "a failure", entry.example


def _example(entry: Requirement) -> list[str]:
    from conformance.commands.example import example  # noqa: PLC0415
    from conformance.report.finding import finding_lines  # noqa: PLC0415
    from conformance.report.model import Report  # noqa: PLC0415
    from conformance.report.style import Style  # noqa: PLC0415
    from conformance.suite import traces  # noqa: PLC0415
    from conformance.verdict import Verdict  # noqa: PLC0415

    for adapter in () if entry.untestable else _embedded(entry):
        found = example(entry.id, adapter, traces(adapter.declaration))
        if found is not None:
            report = Report("my_adapter.py:adapter", adapter.declaration, Verdict("not conformant", 1))
            return ["", "a failure reads like this:", "", *finding_lines(found, report, Style())]
    return []


def _feature(name: str) -> str:
    from conformance.adapter import FEATURES  # noqa: PLC0415

    return FEATURES[name]


def _judged_by(entry: Requirement) -> list[str]:
    """Traces of the embedded implementations whose steps name the requirement, with what they must show."""
    from conformance.commands.words import words  # noqa: PLC0415
    from conformance.suite import traces  # noqa: PLC0415
    from conformance.trace.model import named_by  # noqa: PLC0415

    found: dict[str, str] = {}
    for adapter in _embedded(entry):
        for trace in traces(adapter.declaration):
            for index, step in enumerate(trace.steps):
                asked = [words(e) for e in step.expect if entry.id in named_by(e)]
                if asked and trace.id not in found:
                    found[trace.id] = f"{trace.id}, step {index} ({step.label or step.op}): {asked[0]}"
    return list(found.values())


def _watched(entry: Requirement, tried: int | None) -> bool:
    """Whether it is looked at in calls of the first traces that do not name it; None tries them all."""
    from conformance.judge import judge  # noqa: PLC0415
    from conformance.player import play  # noqa: PLC0415
    from conformance.suite import traces  # noqa: PLC0415

    for adapter in _embedded(entry):
        others = (t for t in traces(adapter.declaration) if entry.id not in t.requirements())
        for trace in itertools.islice(others, tried):
            if any(c.requirement == entry.id for c in judge(play(trace, adapter), adapter.declaration)):
                return True
    return False


def _embedded(entry: Requirement) -> Iterator[Any]:
    from conformance.adapters.naming import embedded_names, resolve  # noqa: PLC0415

    for name in embedded_names():
        adapter = resolve(name)
        if adapter.declaration.levels[0] in entry.levels:
            yield adapter
