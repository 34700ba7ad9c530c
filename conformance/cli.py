"""The command `kv-conformance`. Each subcommand is a module of its own, imported when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import importlib.resources
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from conformance.adapters.naming import BUILT_IN
from conformance.errors import ConformanceError, UsageError

# 1 and 4 come from verdicts alone, and stand with them in conformance.verdict, which brings NumPy.
EXIT_USAGE, EXIT_ERROR = 2, 3
EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 130, 141


class Command(NamedTuple):
    """Where a subcommand lives: a module with `add_arguments(parser)` and `run(options) -> int`.

    own_parser: the module has `main(argv) -> int` instead, because it has subcommands of its own.
    """

    module: str
    help: str
    own_parser: bool = False


COMMANDS: Mapping[str, Command] = {
    "check": Command("conformance.commands.check", "hold an implementation against the contract"),
    "list": Command("conformance.commands.listing", "print the requirements of the contract"),
    "explain": Command("conformance.commands.explain", "one requirement: source, traces, what to look at"),
    "replay": Command("conformance.commands.replay", "play one trace on an implementation, step by step"),
    "new": Command("conformance.commands.new", "write an adapter to fill in"),
    "golden": Command("conformance.golden_files.command", "check, regenerate or show the golden traces"),
    "wire": Command(
        "conformance.wire.command", "serve an adapter over a pipe, or try a driver", own_parser=True
    ),
    "killers": Command(
        "conformance.kill_matrix.command", "faulty implementations on purpose: what catches which"
    ),
    "search": Command("conformance.search.command", "search for a counterexample and shrink it"),
}

DESCRIPTION = """\
Says whether a KV cache is right, and if not, which rule it breaks, where, and what the fault looks like.

ADAPTER is pkg.mod:factory, path/to/file.py:factory, cmd:./driver for a program in any language, or one of
the built-in names:"""

EPILOG = """\
how one works with it:
  kv-conformance check                          the embedded NumPy layer: see a verdict
  kv-conformance new layer > my_adapter.py      an adapter for your own cache, to fill in
  kv-conformance check my_adapter.py:adapter    the verdict, and what is still missing
  kv-conformance explain AGREE-OUTPUT           what a failed requirement asks, and where to look
  kv-conformance replay TRACE my_adapter.py:adapter
                                                one trace again, while you mend the fault
  kv-conformance search my_adapter.py:adapter --budget 60s --save found
                                                what no trace foresaw, shrunk to a few steps
  kv-conformance check my_adapter.py:adapter --json report.json --junit report.xml
                                                the same in CI

exit status of check: 0 conformant, 1 not conformant, 2 wrong usage, 3 incomplete because the
adapter broke, 4 incomplete because something was declined, could not be seen, or was not run."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. Nothing but SystemExit of argparse is raised."""
    given = list(sys.argv[1:] if argv is None else argv)
    _never_fail_to_print()
    try:
        code = _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; what is still buffered must not raise once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except UsageError as error:
        return _told(error, EXIT_USAGE)
    except ConformanceError as error:
        return _told(error, EXIT_ERROR, *getattr(error, "__notes__", ()))
    return code


def _run(argv: Sequence[str]) -> int:
    command = COMMANDS.get(argv[0]) if argv else None
    if command is not None and command.own_parser:
        return int(importlib.import_module(command.module).main(argv[1:]))
    options, unknown = parser_for(argv).parse_known_args(argv)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return int(options.run(options))


def parser_for(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the command that `argv` names is imported and given its arguments."""
    parser = argparse.ArgumentParser(
        prog="kv-conformance",
        description=f"{DESCRIPTION}\n{textwrap.fill(', '.join(BUILT_IN), 100)}.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    asked = next((word for word in argv if not word.startswith("-")), "")
    for name, command in COMMANDS.items():
        if not is_there(command.module):
            continue
        own = commands.add_parser(
            name,
            help=command.help,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == asked:
            module = importlib.import_module(command.module)
            own.description = module.__doc__
            module.add_arguments(own)
            own.set_defaults(run=module.run, parser=own)
    return parser


def is_there(module: str) -> bool:
    """True where the module exists, without importing the packages above it."""
    package, *path = module.split(".")
    return importlib.resources.files(package).joinpath(*path[:-1], f"{path[-1]}.py").is_file()


def _version() -> str:
    from conformance import __version__  # noqa: PLC0415
    from conformance.contract import CONTRACT_VERSION  # noqa: PLC0415

    return f"kv-conformance {__version__} (contract {CONTRACT_VERSION})"


def _told(error: ConformanceError, code: int, *notes: str) -> int:
    print(f"kv-conformance: {error}", *notes, sep="\n", file=sys.stderr)
    return code


def _never_fail_to_print() -> None:
    """A terminal that lacks a sign gets its escape instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
