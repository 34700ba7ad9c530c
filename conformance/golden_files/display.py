"""A golden file for a person to read: configuration, rows, what must come out, how it is played.

Everything is rounded for the eye, from the exact decimals: rows, keys, values and outputs to 9 places,
weights to 12, as the published figures are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.golden_files.catalog import load
from conformance.trace.exact_numbers import golden_fraction
from conformance.trace.yaml import Document

PLACES = 9
WEIGHT_PLACES = 12
_AXES = "bhtl"


def show(name: str, *, directory: str | Path | None = None) -> str:
    """The text. Raises UsageError for a name that does not exist, TraceError for a file that is not whole."""
    document = load(name, directory=directory)
    sections = [
        _head(document),
        *(_layer(layer, tree) for layer, tree in document.tree["layers"].items()),
        *(_sequence(document, key) for key in document.sequences),
        _schedules(document),
        _notes(document),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _head(document: Document) -> list[str]:
    caches = [
        f"cache {name}: layer {spec['layer']}, {spec['batch_size']} lanes, capacity {spec['capacity']}"
        for name, spec in document.tree["caches"].items()
    ]
    bound = document.tree.get("bound", "1e-12")
    return [
        f"{document.id} (level {document.level})", document.about, *caches,
        f"bound in float64: {bound}",
    ]


def _layer(name: str, tree: Mapping[str, Any]) -> list[str]:
    if "from" in tree:
        changed = {key: value for key, value in tree.items() if key != "from"}
        return [f"layer {name}: that of {tree['from']}, with {_plain(changed)}"]
    lines = [f"layer {name}: {_plain(tree['config'])}"]
    if "parameters" in tree:
        named = [f"{key} {value['shape'].replace(' ', 'x')}" for key, value in tree["parameters"].items()]
        lines.append(f"  weights: {', '.join(named)}")
    return lines


def _sequence(document: Document, name: str) -> list[str]:
    tree = document.tree["sequences"][name]
    lines = [f"sequence {name} on layer {tree['layer']}"]
    given = {"rows": tree["rows"]} if "rows" in tree else tree["inputs"]
    for what, reference in given.items():
        array = document.tree["inputs"][reference.partition("[")[0]]
        lines += _table(f"{what} (input {reference})", array, 0 if what == "tokens" else PLACES)
    for field, array in tree["exact"].items():
        lines += _table(field, array, WEIGHT_PLACES if field == "weights" else PLACES)
    if "kappa" in tree:
        lines.append("  condition (arithmetic, storage, angle): " + _plain(tree["kappa"]))
    return lines


def _table(title: str, array: Mapping[str, Any], places: int) -> Iterator[str]:
    """One line a row, led by its place: lane, head, position."""
    shape = [int(axis) for axis in array["shape"].split()]
    names = {2: "t", 3: "bt", 4: "bht"}.get(len(shape), _AXES)
    yield f"  {title} [{', '.join(map(str, shape))}]"
    numbers = [[fixed(token, places) for token in row.split()] for row in array["rows"]]
    width = max((len(number) for row in numbers for number in row), default=0)
    for index, row in enumerate(numbers):
        place = " ".join(f"{axis}{at}" for axis, at in zip(names, _unravel(index, shape[:-1]), strict=False))
        yield f"    {place:<10}" + " ".join(number.rjust(width) for number in row)


def _unravel(index: int, shape: list[int]) -> list[int]:
    found = []
    for axis in reversed(shape):
        index, at = divmod(index, axis)
        found.append(at)
    return found[::-1]


def fixed(token: str, places: int) -> str:
    """A number of a golden file to so many decimals, half to even, a rounded zero without a sign."""
    scaled = round(golden_fraction(token) * 10**places)
    figures = f"{abs(scaled):0{places + 1}d}"
    whole, decimals = figures[: len(figures) - places], figures[len(figures) - places :]
    return ("-" if scaled < 0 else "") + whole + ("." + decimals if places else "")


def _schedules(document: Document) -> list[str]:
    lines = []
    for name, steps in document.tree["schedules"].items():
        lines.append(f"schedule {name}: {len(steps)} steps")
        lines += [f"    {number:>3} {_step(step)}" for number, step in enumerate(steps)]
    return lines


def _step(step: Mapping[str, Any]) -> str:
    what = step.get("sequence") or step.get("rows") or ""
    named = ("op", "cache", "sequence", "rows", "layer")
    said = {key: value for key, value in step.items() if key not in named}
    on = f" with layer {step['layer']}" if "layer" in step else ""
    return f"{step['op']} {step.get('cache', '')} {what}{on}".rstrip() + (f": {_plain(said)}" if said else "")


def _notes(document: Document) -> list[str]:
    lines = [f"source: {_plain(document.tree['source'])}"] if "source" in document.tree else []
    lines += [f"made by: {_plain(document.tree['provenance'])}"] if "provenance" in document.tree else []
    if "published" in document.tree:
        lines += ["", "published, digit for digit (the exact values above round to these)"]
        lines += _outline(document.tree["published"], "  ")
    return lines


def _outline(node: Any, indent: str) -> Iterator[str]:
    for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
        if isinstance(value, str) or _is_short(value):
            yield f"{indent}{key}: {_plain(value)}"
        else:
            yield f"{indent}{key}:"
            yield from _outline(value, indent + "  ")


def _is_short(node: Any) -> bool:
    flat = node.values() if isinstance(node, Mapping) else node
    return all(isinstance(part, str) for part in flat) and len(_plain(node)) <= 100


def _plain(node: Any) -> str:
    if isinstance(node, Mapping):
        return ", ".join(f"{key} {_nested(value)}" for key, value in node.items())
    return ", ".join(map(_nested, node)) if isinstance(node, list) else str(node)


def _nested(node: Any) -> str:
    return f"({_plain(node)})" if isinstance(node, (Mapping, list)) else str(node)
