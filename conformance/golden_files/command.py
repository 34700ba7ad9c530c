"""`kv-conformance golden check | regenerate | show NAME`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EXIT_CLEAN, EXIT_DIFFERENT = 0, 1

DESCRIPTION = """\
The golden files are traces whose expected values are proved: 40 digits that round to the right float64.

  kv-conformance golden show mod-square     one file, for a person to read
  kv-conformance golden check               are they what a fresh computation gives?
  kv-conformance golden regenerate          make them anew, all or none, after a rule has changed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `golden`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    commands = parser.add_subparsers(dest="golden_command", required=True, metavar="COMMAND")
    _add_check(commands.add_parser("check", help="compute every file anew and say where it differs"))
    _add_regenerate(commands.add_parser("regenerate", help="write every file and the manifest anew"))
    shown = commands.add_parser("show", help="print one file, its values rounded, and its published figures")
    shown.add_argument("name", metavar="NAME", nargs="?", help="without a name: print the names")
    _add_directory(shown)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="compute these alone (default: all)")
    _add_directory(parser)
    _add_proof(parser)


def _add_regenerate(parser: argparse.ArgumentParser) -> None:
    _add_directory(parser)
    _add_proof(parser)
    parser.add_argument(
        "--accept-figures", action="store_true",
        help="published figures were changed on purpose, because a quotation was wrong",
    )


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--directory", metavar="DIR", type=Path, help="the folder of the files (default: the installed ones)"
    )


def _add_proof(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proof", choices=("interval", "ball"), default="interval",
        help="what proves the digits: mpmath intervals, or the balls of python-flint where it is installed",
    )


def run(options: argparse.Namespace) -> int:
    """Run one of the three; 0 when all is well, 1 when files differ. Raises ConformanceError."""
    return {"check": _check, "regenerate": _regenerate, "show": _show}[options.golden_command](options)


def _check(options: argparse.Namespace) -> int:
    from conformance.golden_files.verification import check, counted  # noqa: PLC0415 - brings mpmath

    found = check(options.names, directory=options.directory, proof=options.proof, progress=_say)
    for difference in found:
        print(difference)
    print(f"golden files: {counted(len(found)) if found else 'clean'}")
    return EXIT_DIFFERENT if found else EXIT_CLEAN


def _regenerate(options: argparse.Namespace) -> int:
    from conformance.golden_files.regeneration import regenerate, shipped_folder  # noqa: PLC0415 - brings mpmath

    target = options.directory or shipped_folder()
    written = regenerate(target, proof=options.proof, accept_figures=options.accept_figures, progress=_say)
    print(f"golden files: {len(written)} written to {target}")
    return EXIT_CLEAN


def _show(options: argparse.Namespace) -> int:
    from conformance.golden_files.catalog import names  # noqa: PLC0415 - brings numpy and yaml
    from conformance.golden_files.display import show  # noqa: PLC0415

    if options.name is None:
        print("\n".join(names(directory=options.directory)))
    else:
        print(show(options.name, directory=options.directory), end="")
    return EXIT_CLEAN


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
