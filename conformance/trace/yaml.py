"""Trace files: strict YAML in, traces out, and back. The format stands in `docs/trace-format.md`.

    document = load("golden/derived/mod-square.yaml")
    for trace in document.traces(): ...
    text = dump(from_trace(trace))
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import IO, Protocol

from conformance.errors import TraceError
from conformance.trace.yaml_document import Document
from conformance.trace.yaml_from_trace import from_trace
from conformance.trace.yaml_read import FORMAT, read_document
from conformance.trace.yaml_sequences import Sequence
from conformance.trace.yaml_tree import MAX_BYTES, parse
from conformance.trace.yaml_write import dump

__all__ = ["FORMAT", "Document", "Sequence", "dump", "from_trace", "load", "load_trace"]


class Readable(Protocol):
    """A file that can be opened, such as a `Path` or a resource inside a package."""

    def open(self, mode: str, /) -> IO[bytes]:
        """The open file."""


def load(path_or_text: str | bytes | PathLike[str] | Readable, *, file: str = "") -> Document:
    """The document of a trace file.

    path_or_text: a path, a resource of `importlib.resources`, or the text itself. A `str` is text where it
    holds a newline or nothing, else a path; `bytes` are text. file: the name that errors carry, by default
    the path; where it ends in .yaml, its stem must be the id. Raises TraceError with file, line and path for
    anything that is not strictly a trace, also for a file that cannot be read.
    """
    if isinstance(path_or_text, bytes) or (isinstance(path_or_text, str) and _is_text(path_or_text)):
        return read_document(parse(path_or_text, file))
    name = file or str(path_or_text)
    source = Path(path_or_text) if isinstance(path_or_text, str | PathLike) else path_or_text
    try:
        with source.open("rb") as stream:
            # One byte more than allowed shows that the file is too long, however long it is.
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise TraceError(f"the file cannot be read: {problem}", file=name) from None
    return read_document(parse(data, name))


load_trace = load


def _is_text(given: str) -> bool:
    return not given or "\n" in given
