"""Write an adapter to fill in, on stdout.

Untouched it runs and ends incomplete; the report then names the first method to fill in:

  kv-conformance new layer > my_adapter.py
  kv-conformance check my_adapter.py:adapter
"""

from __future__ import annotations

import argparse
import importlib.resources

from conformance.adapter import LEVELS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `new`."""
    parser.add_argument(
        "level", choices=LEVELS, metavar="LEVEL",
        help="store (rows in, rows out), attention (queries over past rows), layer (projections to output, "
        "with its cache), or decoder (tokens to logits)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print the template of a level; 0."""
    print(template(options.level), end="")
    return 0


def template(level: str) -> str:
    """The Python source of an adapter of that level with its methods to fill in."""
    return (
        importlib.resources.files("conformance")
        .joinpath("scaffold", f"{level}.txt")
        .read_text(encoding="utf-8")
    )
