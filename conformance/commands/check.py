"""Hold an implementation against the contract and print the findings and the verdict.

Without --profile: strict for the embedded NumPy layer, otherwise core; and every profile whose features the
adapter declares. Without ADAPTER a profile runs on the embedded implementation of its level.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from conformance.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `check`."""
    from conformance.contract import PROFILES  # noqa: PLC0415

    parser.add_argument("adapter", nargs="?", metavar="ADAPTER", help="what to check (default: numpy)")
    parser.add_argument(
        "--profile",
        action="append",
        metavar="P",
        help=f"hold it to this profile; may be given again: {', '.join(PROFILES)}",
    )
    parser.add_argument(
        "-k",
        dest="keyword",
        default="",
        metavar="TEXT",
        help="play only traces whose id or requirements contain TEXT; the verdict is then at best incomplete",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the whole report as JSON")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write it as JUnit XML, a case a requirement"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="draw the twins of the golden traces from N; else from a number that the report tells",
    )
    parser.add_argument(
        "--isolate",
        action="store_true",
        help="run a Python adapter in a process of its own, which may crash or hang",
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="print the verdict only")


def run(options: argparse.Namespace) -> int:
    """Check, print, write; the exit status is that of the verdict."""
    from conformance.adapters.naming import ISOLATED  # noqa: PLC0415
    from conformance.check import check  # noqa: PLC0415 - brings numpy
    from conformance.commands.progress import Progress  # noqa: PLC0415
    from conformance.report.files import check_writable  # noqa: PLC0415
    from conformance.report.style import style_for  # noqa: PLC0415
    from conformance.report.text import report_text, verdict_line  # noqa: PLC0415

    for path, flag in ((options.json, "--json"), (options.junit, "--junit")):
        if path is not None:
            check_writable(path, flag)
    name = options.adapter if options.adapter is not None else _embedded(options.profile)
    if options.isolate and not name.startswith(("cmd:", ISOLATED)):
        name = f"{ISOLATED}{name}"
    with Progress(sys.stderr, quiet=options.quiet) as progress:
        report = check(
            name, options.profile, keyword=options.keyword, progress=progress.show, seed=options.seed
        )
    style = style_for(sys.stdout)
    if options.quiet:
        print(verdict_line(report, style))
    else:
        print(report_text(report, style=style), end="")
    _write(report, options)
    return report.verdict.exit_code


def _write(report: Any, options: argparse.Namespace) -> None:
    if options.json is not None:
        from conformance.report.json import write_report  # noqa: PLC0415

        write_report(report, options.json)
    if options.junit is not None:
        from conformance.report.junit import write_junit  # noqa: PLC0415

        write_junit(report, options.junit)


def _embedded(profiles: list[str] | None) -> str:
    """The embedded implementation that profiles run on where no adapter is named."""
    from conformance.contract import PROFILES  # noqa: PLC0415

    names = list(dict.fromkeys(PROFILES[name].embedded for name in profiles or () if name in PROFILES))
    if len(names) > 1:
        raise UsageError(
            f"without ADAPTER the profiles {', '.join(profiles or ())} run on {' and '.join(names)}; "
            f"name one of them, or run check once for each"
        )
    return names[0] if names else "numpy"
