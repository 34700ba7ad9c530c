"""Drive an implementation with lawful and unlawful operations until something fails.

What fails is shrunk to the smallest trace that still fails. With --save it is written as a trace file, which
replays in a fresh process and against any adapter:

  kv-conformance search my_adapter.py:adapter --budget 60s --save found
  kv-conformance replay found/counterexample-7.yaml my_adapter.py:adapter
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from conformance.errors import UsageError

if TYPE_CHECKING:
    from conformance.search.run import Outcome

NOTHING, FOUND, NOT_PLAYED = 0, 1, 4
IN_FULL = 2
"""Findings that are told in full; the others are named."""
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `search`."""
    parser.add_argument("adapter", metavar="ADAPTER", help="what to drive")
    parser.add_argument(
        "--budget", default="60s", metavar="TIME", help="how long: 30s, 5m, 1h (default: 60s)"
    )
    parser.add_argument("--save", type=Path, metavar="DIR", help="write what is found into this folder")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat the search of this seed")
    parser.add_argument(
        "--profile", action="append", metavar="P", help="count only what breaks this profile; may be repeated"
    )


def run(options: argparse.Namespace) -> int:
    """Search and print; 0 where nothing was found, 1 where something was, 4 where nothing was played."""
    from conformance.adapters.naming import resolve  # noqa: PLC0415 - brings numpy
    from conformance.check import declared  # noqa: PLC0415
    from conformance.search.run import search  # noqa: PLC0415 - brings hypothesis

    budget = seconds_of(options.budget)
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    adapter = resolve(options.adapter)
    try:
        declared(adapter)
        show = _Shown(sys.stderr)
        outcome = search(adapter, budget=budget, seed=seed, profiles=options.profile, progress=show.progress)
        show.wipe()
    finally:
        getattr(adapter, "close_process", int)()
    return _tell(outcome, options)


def seconds_of(text: str) -> float:
    """`30s`, `5m` or `1h` in seconds. Raises UsageError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"--budget {text!r} is no length of time; write 30s, 5m or 1h")
    return float(match[1]) * UNITS[match[2]]


def _tell(outcome: Outcome, options: argparse.Namespace) -> int:
    told = f"{outcome.played} programs in {outcome.seconds:.0f} s, seed {outcome.seed}"
    if outcome.played == 0:
        print(f"nothing was played: the budget of {options.budget} was spent before the first program")
        return NOT_PLAYED
    if outcome.found is None:
        print(f"nothing found: {told}")
        return NOTHING
    found = outcome.found
    print(f"found in program {found.after}, shrunk to {len(found.trace.steps)} steps ({told})")
    for number, step in enumerate(found.trace.steps):
        operands = ", ".join(f"{k} {list(v.shape)}" for k, v in step.inputs.items())
        plain = ", ".join(f"{k} {v}" for k, v in step.arguments.items())
        print(f"  {number:>3}  {step.op} {step.target} {operands} {plain}".rstrip())
    _print_findings(outcome, options)
    if options.save is not None:
        from conformance.search.saved import save  # noqa: PLC0415

        print(f"saved as {save(outcome, options.adapter, options.save)}")
    return FOUND


def _print_findings(outcome: Outcome, options: argparse.Namespace) -> None:
    from conformance.report.finding import finding_lines  # noqa: PLC0415
    from conformance.report.model import Report  # noqa: PLC0415
    from conformance.report.style import style_for  # noqa: PLC0415
    from conformance.verdict import EXIT_INCOMPLETE, Verdict  # noqa: PLC0415

    if outcome.found is None:
        return
    findings = outcome.found.findings
    report = Report(options.adapter, None, Verdict("incomplete", EXIT_INCOMPLETE), checks=findings)
    by_requirement = {check.requirement: check for check in reversed(findings)}
    told = list(reversed(by_requirement.values()))
    for check in told[:IN_FULL]:
        lines = finding_lines(check, report, style_for(sys.stdout))
        print("", *(line for line in lines if not line.strip().startswith("reproduce")), sep="\n")
    if told[IN_FULL:]:
        print(f"\nalso under {', '.join(check.requirement for check in told[IN_FULL:])}")


class _Shown:
    """How far a search has come, once a second where a person looks on, else every ten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._terminal = stream, stream.isatty()
        self._next, self._width = time.monotonic() + 1.0, 0

    def progress(self, played: int, left: float) -> None:
        """Called before every program."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (1.0 if self._terminal else 10.0)
        text = f"{played} programs played, {left:.0f} s left"
        end = "" if self._terminal else "\n"
        self._stream.write(("\r" if self._terminal else "") + text.ljust(self._width) + end)
        self._stream.flush()
        self._width = len(text)

    def wipe(self) -> None:
        """Leave a clean line."""
        if self._terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
