"""The manifest: a digest of every golden file, so that no digit in one of them changes unseen.

A file's SHA-256 says whether it is what it was; a short digest of each line says where it is not.
Line ends are taken as one newline, so that a checkout with other line ends is the same file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from conformance.errors import ConformanceError
from conformance.golden_files.numbers import Tree
from conformance.trace.yaml_tree import Parsed, parse, show

MANIFEST = "manifest.yaml"
MANIFEST_FORMAT = "kv-conformance-manifest/1"

_DIGITS_PER_LINE = 4
_LINES_PER_ROW = 16


@dataclass(frozen=True)
class Difference:
    """One place where a golden file is not what it must be; `line` counts from 1, 0 for the whole file."""

    file: str
    problem: str
    line: int = 0
    path: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.path, self.problem) if part)


@dataclass(frozen=True)
class Entry:
    """What the manifest records of one file."""

    sha256: str
    lines: tuple[str, ...]


def digest(text: str) -> str:
    """SHA-256 of a file's text, in hexadecimal."""
    return hashlib.sha256(_unix(text).encode()).hexdigest()


def manifest_tree(texts: Mapping[str, str]) -> Tree:
    """The manifest of these files: their names relative to the folder, and their texts."""
    files = {}
    for name in sorted(texts):
        marks = _marks(texts[name])
        rows = [" ".join(marks[i : i + _LINES_PER_ROW]) for i in range(0, len(marks), _LINES_PER_ROW)]
        files[name] = {"sha256": digest(texts[name]), "lines": rows}
    return {"format": MANIFEST_FORMAT, "files": files}


def read_manifest(text: str, file: str = MANIFEST) -> dict[str, Entry]:
    """The entries of a manifest by file name. Raises TraceError where it is no manifest."""
    parsed = parse(text, file)
    tree = parsed.tree
    if not isinstance(tree, dict) or tree.get("format") != MANIFEST_FORMAT:
        raise parsed.error(f"a manifest begins with 'format: {MANIFEST_FORMAT}'", ("format",))
    files = tree.get("files")
    if not isinstance(files, dict) or set(tree) != {"format", "files"}:
        raise parsed.error("a manifest holds 'format' and 'files', and nothing else", ("files",))
    return {name: _entry(parsed, name, entry) for name, entry in files.items()}


def _entry(parsed: Parsed, name: str, entry: object) -> Entry:
    if not isinstance(entry, dict) or set(entry) != {"sha256", "lines"}:
        raise parsed.error("an entry holds 'sha256' and 'lines', and nothing else", ("files", name))
    rows = entry["lines"]
    if not isinstance(entry["sha256"], str) or not isinstance(rows, list):
        raise parsed.error("'sha256' is a string, 'lines' a list of strings", ("files", name))
    return Entry(entry["sha256"], tuple(mark for row in rows for mark in str(row).split()))


def deviations(file: str, text: str, entry: Entry) -> Iterator[Difference]:
    """Where a file's text is not what the manifest records, line by line; nothing where it is."""
    if digest(text) == entry.sha256:
        return
    marks = _marks(text)
    changed = [i for i, (old, new) in enumerate(zip(entry.lines, marks, strict=False), start=1) if old != new]
    if len(marks) != len(entry.lines):
        changed = changed[:1] or [min(len(marks), len(entry.lines)) + 1]
    paths = _paths(file, text)
    for line in changed:
        problem = "this line is not the one that the manifest records"
        if len(marks) != len(entry.lines):
            problem += f", and the file has {len(marks)} lines instead of {len(entry.lines)}"
        yield Difference(file, f"{problem}; {_REMEDY}", line, paths.get(line, ""))
    if not changed:
        yield Difference(file, f"the file is not the one that the manifest records; {_REMEDY}")


_REMEDY = "restore it, or make the files anew with 'kv-conformance golden regenerate'"


def _paths(file: str, text: str) -> dict[int, str]:
    """The deepest entry that begins in each line, as far as the text can be read at all."""
    try:
        parsed = parse(text, file)
    except ConformanceError:
        return {}
    found: dict[int, str] = {}
    ways: list[tuple[object, tuple[str | int, ...]]] = [(parsed.tree, ())]
    while ways:
        node, way = ways.pop()
        if isinstance(node, str):
            continue
        for key, below in node.items() if isinstance(node, dict) else enumerate(node):  # type: ignore[arg-type]
            path = (*way, key)
            line = parsed.line(path)
            if len(show(path)) > len(found.get(line, "")):
                found[line] = show(path)
            ways.append((below, path))
    return found


def _marks(text: str) -> list[str]:
    lines = _unix(text).split("\n")[:-1] if text.endswith("\n") else _unix(text).split("\n")
    return [hashlib.sha256(line.encode()).hexdigest()[:_DIGITS_PER_LINE] for line in lines]


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")
