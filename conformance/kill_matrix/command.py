"""Run every killer and every control, and print which requirement catches which fault.

Ends with 1 where a killer survives, a control is flagged, a requirement has no killer, or a check finds
nothing; and where the committed matrix is another. After a deliberate change:

  kv-conformance killers --write       make matrix.json and docs/kill-matrix.md again
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.errors import UsageError

if TYPE_CHECKING:
    from conformance.kill_matrix.cells import Matrix

FULL, NOT_FULL = 0, 1

TIMED_EVERY = 16
"""Of how many killers one is timed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `killers`."""
    parser.add_argument(
        "-k", dest="only", default="", metavar="TEXT", help="only those whose id contains TEXT"
    )
    parser.add_argument("--whole", action="store_true", help="print every requirement that catches a killer")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write matrix.json, and docs/kill-matrix.md where docs is; with --confusion, docs/confusion.md",
    )
    parser.add_argument(
        "--processes", type=int, default=max(2, os.cpu_count() or 2), metavar="N",
        help="how many at once (default: as many as there are cores)",
    )  # fmt: skip
    parser.add_argument(
        "--time", action="store_true", help="how soon the default gate sees a killer, and nothing else"
    )
    parser.add_argument(
        "--confusion",
        action="store_true",
        help='how often "looks like" names the own class of a killer first, and nothing else',
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="with --confusion: take every Nth killer only"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="print the summary only")


def run(options: argparse.Namespace) -> int:
    """Run the matrix, print it, compare or write it; 0 where it is full and the one that was committed."""
    if options.time:
        return _time()
    if options.confusion:
        return _confusion(options)
    from conformance.commands.progress import Progress  # noqa: PLC0415
    from conformance.kill_matrix.assess import assess  # noqa: PLC0415
    from conformance.kill_matrix.render import matrix_text, summary  # noqa: PLC0415
    from conformance.kill_matrix.run import run as run_matrix  # noqa: PLC0415 - brings every killer

    if options.processes < 1:
        raise UsageError(f"--processes {options.processes}: at least one is needed")
    if options.write and options.only:
        raise UsageError("--write needs the whole matrix; leave -k out")
    begun = time.perf_counter()
    with Progress(sys.stderr, quiet=options.quiet, what="implementations") as progress:
        matrix = run_matrix(processes=options.processes, only=options.only, progress=progress.show)
    if not matrix.rows:
        raise UsageError(f"no killer and no control has {options.only!r} in its id")
    assessment = assess(matrix)
    if options.only:
        # A part of the matrix cannot say what is missing in the whole.
        print(matrix_text(matrix, assessment, whole=options.whole).partition("\n\n")[0])
        return NOT_FULL if assessment.survivors or assessment.unmeant or assessment.flagged else FULL
    shown = (
        "\n".join(summary(matrix, assessment)) + "\n"
        if options.quiet
        else matrix_text(matrix, assessment, whole=options.whole)
    )
    print(shown, end="")
    print(f"{time.perf_counter() - begun:.0f} s with {options.processes} processes")
    changed = _write(matrix) if options.write else list(_changes(matrix))
    for change in changed:
        print(f"not the committed matrix: {change}")
    if changed:
        print("after a deliberate change: kv-conformance killers --write")
    return FULL if assessment.clean and not changed else NOT_FULL


def _time() -> int:
    from conformance.kill_matrix.timing import median_seconds  # noqa: PLC0415
    from conformance.killers import killers  # noqa: PLC0415

    drawn = killers()[::TIMED_EVERY]
    print(f"{median_seconds(drawn):.2f} s to the first finding, in the median of {len(drawn)} killers")
    return FULL


def _confusion(options: argparse.Namespace) -> int:
    """Diagnose killers as if they were unknown; 1 where fewer than nine in ten are told rightly."""
    from conformance.commands.progress import Progress  # noqa: PLC0415
    from conformance.confusion import GOAL, confusion, page, told  # noqa: PLC0415
    from conformance.kill_matrix.files import CONFUSION  # noqa: PLC0415
    from conformance.killers import killers  # noqa: PLC0415

    if options.write and (options.only or options.every > 1):
        raise UsageError("--write needs every killer; leave -k and --every out")
    if options.every < 1 or options.processes < 1:
        raise UsageError("--every and --processes take a whole number from 1")
    names = [killer.id for killer in killers() if options.only in killer.id][:: options.every]
    if not names:
        raise UsageError(f"no killer has {options.only!r} in its id")
    with Progress(sys.stderr, quiet=options.quiet, what="killers") as progress:
        found = confusion(names, processes=options.processes, progress=progress.show)
    print(told(found))
    if options.write:
        place = CONFUSION if CONFUSION.parent.is_dir() else Path(CONFUSION.name)
        place.write_text(page(found, str(datetime.date.today())), encoding="utf-8")
        print(f"written: {place}")
    return FULL if sum(one.right for one in found) >= GOAL * len(found) else NOT_FULL


def _write(matrix: Matrix) -> list[str]:
    from conformance.kill_matrix import files  # noqa: PLC0415
    from conformance.kill_matrix.assess import assess  # noqa: PLC0415
    from conformance.kill_matrix.page import page  # noqa: PLC0415

    assessment = assess(matrix)
    written: list[Path] = [files.COMMITTED]
    files.COMMITTED.write_text(files.text(files.document(matrix, assessment)), encoding="utf-8")
    if files.PAGE.parent.is_dir():
        files.PAGE.write_text(page(matrix, assessment), encoding="utf-8")
        written.append(files.PAGE)
    print("written: " + ", ".join(str(path) for path in written))
    return []


def _changes(matrix: Matrix) -> Iterator[str]:
    from conformance.kill_matrix import files  # noqa: PLC0415
    from conformance.kill_matrix.assess import assess  # noqa: PLC0415

    if not files.COMMITTED.is_file():
        yield f"{files.COMMITTED} is not there"
        return
    yield from files.differences(files.committed(), files.document(matrix, assess(matrix)))
