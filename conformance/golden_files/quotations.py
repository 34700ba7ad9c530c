"""Figures as a source prints them: found in the file that holds them, and held against exact values.

A quotation cannot be made anew. It is carried over from the file that exists, and every figure that follows
from the inputs is compared, digit for digit, with what the exact value rounds to.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.golden_files.numbers import Tree
from conformance.trace.yaml_tree import Parsed, Path

_ROOT = ("published",)


def quotations(given: Parsed) -> Tree:
    """What stands under `published`. Raises TraceError where nothing does."""
    figures = given.tree.get("published") if isinstance(given.tree, dict) else None
    if not isinstance(figures, dict):
        raise given.error("no published figures; they cannot be made anew, so restore the file", _ROOT)
    return dict(figures)


def require_figures(given: Parsed, computed: Tree) -> None:
    """Raise TraceError, with its line, for the first figure that lacks or contradicts what was computed."""
    for path, printed, exact in differing(quotations(given), computed, _ROOT):
        found = "is missing" if printed is None else f"is {printed!r}"
        raise given.error(f"the published figure {found}, the exact value gives {exact!r}", path)


def differing(given: object, computed: object, path: Path) -> Iterator[tuple[Path, object, object]]:
    """(path, given, computed) wherever `given` lacks or contradicts what was computed."""
    if isinstance(given, dict) and isinstance(computed, dict):
        for key, value in computed.items():
            yield from differing(given.get(key), value, (*path, key))
    elif isinstance(given, list) and isinstance(computed, list) and len(given) == len(computed):
        for index, value in enumerate(computed):
            yield from differing(given[index], value, (*path, index))
    elif given != computed:
        yield path, given, computed
