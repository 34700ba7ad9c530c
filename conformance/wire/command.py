"""The subcommands `wire serve`, `wire try` and `wire page`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

PAGE = "wire-protocol.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `serve ADAPTER`, `try ADAPTER` or `page`; returns the exit status.

    serve: 0 when the other end has said goodbye. try: 0 when every step went well, 1 when one was wrong,
    2 for wrong usage, 3 when the driver could not be spoken to.
    """
    parser = argparse.ArgumentParser(
        prog="kv-conformance wire",
        description="Speak the wire protocol, by which any language is judged over a pipe.",
        epilog="Writing a driver: read `wire page`, write hello and echo, run `wire try`, and go "
        "on as it tells you, until every step is ok; then run `check`.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="serve a Python adapter on stdin and stdout")
    serving.add_argument("adapter", help="pkg.mod:factory, or a built-in name such as numpy")
    trying = commands.add_parser("try", help="walk a driver through the protocol, step by step")
    trying.add_argument("adapter", help="cmd:./driver --flag, or any other adapter, which is then served")
    trying.add_argument("--time-limit", type=float, default=10.0, metavar="SECONDS", help="per request (10)")
    trying.add_argument("--numbers", choices=("decimal", "bits"), help="ask for this form of numbers")
    commands.add_parser("page", help="print the page from which a driver is written")
    options = parser.parse_args(argv)
    if options.command == "page":
        return _page()
    return _serve(options.adapter) if options.command == "serve" else _try(options, trying)


def _page() -> int:
    """The protocol page: shipped with the wheel, in a checkout it stands under docs."""
    package = resources.files("conformance")
    shipped, checkout = package / "docs" / PAGE, package / ".." / "docs" / PAGE
    print((shipped if shipped.is_file() else checkout).read_text("utf-8"), end="")
    return 0


def _serve(name: str) -> int:
    from conformance.wire.protect import protected_streams  # noqa: PLC0415 - before anything else can print

    stdin, stdout, recorder = protected_streams()
    from conformance.wire.serve import serve  # noqa: PLC0415

    serve(partial(_resolved, name), stdin, stdout, printed=recorder.take)
    return 0


def _resolved(name: str) -> Any:
    from conformance.adapters.naming import resolve  # noqa: PLC0415 - adapters stand above the wire

    return resolve(name)


def _try(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from conformance.wire.client import WireAdapter, isolated  # noqa: PLC0415
    from conformance.wire.walk import walk  # noqa: PLC0415

    settings = {"time_limit": options.time_limit, "numbers": options.numbers}
    name: str = options.adapter
    command = name.removeprefix("cmd:")
    if command == name and Path(name.partition(" ")[0]).is_file():
        parser.error(f"a program is named with cmd: in front of it: {shlex.quote(f'cmd:{name}')}")
    adapter = WireAdapter(command, **settings) if command != name else isolated(name, **settings)
    with adapter:
        return walk(adapter, print)


if __name__ == "__main__":
    sys.exit(main())
