"""Text to tree: mappings, lists and strings, nothing else, with the line of every entry.

YAML is read as events, so that nothing is resolved, constructed or followed: a scalar is its characters.
What two YAML readers could understand differently (anchors, tags, merge keys, doubled keys, unquoted words
that some readers take for numbers or truth values) is refused rather than interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from conformance.errors import TraceError

MAX_BYTES = 16 * 2**20
MAX_DEPTH = 32
MAX_NODES = 500_000
END = "..."
"""The last line of every file, YAML's own end of a document: without it a cut file could look whole."""

_BEGINS = "a trace begins with 'format: kv-conformance-trace/1'"

Tree = str | list["Tree"] | dict[str, "Tree"]
Path = tuple[str | int, ...]

_READER: Any = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader

_BAD_CHARACTER = re.compile(
    "[^\n\x20-\x7e\xa0-\u200a\u2010-\u2027\u2030-\u205f\u2070-\ud7ff\ue000-\ufdcf\ufdf0-\ufefe\uff00-\ufffd"
    "\U00010000-\U0010ffff]"
)
"""Control characters, line breaks that only some readers honour, invisible marks, marks of direction."""

_AMBIGUOUS = re.compile(
    r"(?i:~|null|true|false|yes|no|on|off|y|n|=|<<"
    r"|[-+]?[0-9][0-9_,.:]*(?:e[-+]?[0-9]+)?|[-+]?\.[0-9_]+(?:e[-+]?[0-9]+)?|[-+]?\.(?:inf|nan)"
    r"|[-+]?0[xob][0-9a-f_]+|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*)"
)
"""Unquoted words that one YAML reader or another does not take for a string."""


@dataclass(frozen=True)
class Parsed:
    """A tree with the lines of its entries; `file` is the name that errors carry."""

    tree: Tree
    file: str = ""
    lines: dict[tuple[int, str | int], int] = field(default_factory=dict, repr=False)

    def line(self, path: Path) -> int:
        """The line of the deepest entry on `path` that exists, 1 for the whole."""
        found, node = 1, self.tree
        for step in path:
            found = self.lines.get((id(node), step), found)
            try:
                node = node[step]  # type: ignore[index]
            except (KeyError, IndexError, TypeError):
                break
        return found

    def error(self, problem: str, path: Path) -> TraceError:
        """The error to raise for the entry at `path`."""
        return TraceError(problem, file=self.file, line=self.line(path), path=show(path))


def show(path: Path) -> str:
    """A path as text: `sequences.first.exact.output.rows[3]`."""
    names = (f"[{s}]" if isinstance(s, int) else f".{s if len(s) <= 60 else s[:57] + '...'}" for s in path)
    return "".join(names).removeprefix(".")


def parse(given: str | bytes, file: str = "") -> Parsed:
    """The tree of one document. Raises TraceError for anything that is not strictly one tree of strings."""
    text = _decoded(given, file)
    if not text.endswith(f"\n{END}\n"):
        last = text.rstrip("\n").rpartition("\n")[2]
        raise TraceError(
            f"the last line is {short(last)}; it must be {END!r} (end of document) and a newline, so that a "
            f"cut file cannot pass for a whole one",
            file=file,
            line=text.count("\n", 0, len(text.rstrip("\n"))) + 1,
        )
    builder = _Builder(file, escapes="\\" in text)
    try:
        return builder.document(yaml.parse(text, Loader=_READER))
    except yaml.MarkedYAMLError as problem:
        mark: Any = problem.problem_mark or problem.context_mark
        said = ", ".join(part for part in (problem.context, problem.problem) if part)
        raise TraceError(f"not YAML: {said}", file=file, line=mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, ValueError, OverflowError) as problem:
        if isinstance(problem, TraceError):
            raise
        raise TraceError(f"not YAML: {problem}", file=file) from None


def _decoded(given: str | bytes, file: str) -> str:
    if len(given) > MAX_BYTES:
        raise TraceError(f"more than {MAX_BYTES} bytes; a trace file is at most 16 MiB", file=file)
    text = (given if isinstance(given, str) else _from_utf8(given, file)).replace("\r\n", "\n")
    if not text.strip():
        raise TraceError(f"the file is empty; {_BEGINS}", file=file, line=1)
    if bad := _BAD_CHARACTER.search(text):
        raise TraceError(_bad(bad[0]), file=file, line=text.count("\n", 0, bad.start()) + 1)
    return text


def _from_utf8(given: bytes, file: str) -> str:
    try:
        return given.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise TraceError(
            f"byte {problem.start} (0x{given[problem.start]:02x}) is not UTF-8; save the file as UTF-8",
            file=file,
            line=given.count(b"\n", 0, problem.start) + 1,
        ) from None


def _bad(character: str) -> str:
    names = {"\t": " (a tab)", "\r": " (a carriage return alone)", "\ufeff": " (a byte order mark)"}
    return (
        f"character U+{ord(character):04X}{names.get(character, '')} may not stand in a trace; "
        f"use spaces, newlines and printable characters"
    )


class _Builder:
    """Builds the tree from events and notes the line of every entry."""

    def __init__(self, file: str, *, escapes: bool) -> None:
        self.file, self.escapes = file, escapes
        self.lines: dict[tuple[int, str | int], int] = {}
        self.nodes = 0

    def document(self, events: Iterator[Any]) -> Parsed:
        """The tree of the one document of a stream."""
        tree: Tree | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if tree is not None:
                    raise self._error("a second document begins; a trace file holds exactly one", event)
                if event.version or event.tags:
                    raise self._error("a % directive; a trace file has none", event)
            elif not isinstance(event, yaml.StreamStartEvent | yaml.StreamEndEvent | yaml.DocumentEndEvent):
                tree = self._node(event, events, ())
        if not isinstance(tree, dict):
            raise TraceError(f"the whole is not a mapping; {_BEGINS}", file=self.file, line=1)
        return Parsed(tree, self.file, self.lines)

    def _error(self, problem: str, event: Any, path: Path = ()) -> TraceError:
        return TraceError(problem, file=self.file, line=_line(event), path=show(path))

    def _node(self, event: Any, events: Iterator[Any], path: Path) -> Tree:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} entries; write numbers as one string a row", event)
        if event.anchor is not None:
            what = f"{'*' if isinstance(event, yaml.AliasEvent) else '&'}{event.anchor}"
            raise self._error(f"{what}: anchors and aliases are refused; write it out", event, path)
        if event.tag is not None:
            raise self._error(f"tag {short(event.tag)}: tags are refused; all is strings", event, path)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if len(path) >= MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", event, path)
        return (self._mapping if isinstance(event, yaml.MappingStartEvent) else self._list)(events, path)

    def _scalar(self, event: Any, path: Path) -> str:
        value: str = event.value
        if not event.style and (not value or _AMBIGUOUS.fullmatch(value)):
            said = "nothing" if not value else f"{short(value)} without quotes"
            raise self._error(
                f'{said} means different things to different readers; write "{value}"', event, path
            )
        if self.escapes and (bad := _BAD_CHARACTER.search(value)):
            raise self._error(_bad(bad[0]), event, path)
        return value

    def _mapping(self, events: Iterator[Any], path: Path) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if not isinstance(event, yaml.ScalarEvent):
                raise self._error("a key is no string; every key is a string", event, path)
            if event.value == "<<" and not event.style:
                raise self._error("the merge key << is refused; write the entries out", event, path)
            key = self._node(event, events, path)
            assert isinstance(key, str)
            if key in found:
                first = self.lines[id(found), key]
                raise self._error(f"this key stands twice, first in line {first}", event, (*path, key))
            self.lines[id(found), key] = _line(event)
            found[key] = self._node(next(events), events, (*path, key))
        return found

    def _list(self, events: Iterator[Any], path: Path) -> list[Tree]:
        found: list[Tree] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            index = len(found)
            self.lines[id(found), index] = _line(event)
            found.append(self._node(event, events, (*path, index)))
        return found


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def short(text: str) -> str:
    """A string as an error shows it, never longer than a line."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
