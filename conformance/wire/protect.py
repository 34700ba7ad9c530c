"""Keeping the protocol's stdin and stdout away from the code of an adapter."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, BinaryIO

_KEPT = 2000


class PrintRecorder(io.TextIOBase):
    """Stands in for `sys.stdout`: passes text on to stderr and keeps the end of it."""

    def __init__(self) -> None:
        self._text = ""

    def writable(self) -> bool:
        """True, as of any stdout."""
        return True

    def write(self, text: str, /) -> int:
        """Pass `text` on to stderr and keep its end."""
        self._text = (self._text + text)[-_KEPT:]
        sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush stderr."""
        sys.stderr.flush()

    def take(self) -> str:
        """What was written since the last call."""
        text, self._text = self._text, ""
        return text


def protected_streams() -> tuple[BinaryIO, BinaryIO, PrintRecorder]:
    """The real stdin and stdout as private streams, and the recorder that stands in for `sys.stdout`.

    Afterwards file descriptor 0 reads nothing and descriptor 1 leads to stderr, also for code in C and for
    child processes; a `print` is recorded.
    """
    stdin = os.fdopen(os.dup(0), "rb")
    stdout = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    recorder = PrintRecorder()
    replaced: Any = recorder
    sys.stdout = replaced
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False), encoding="utf-8")
    return stdin, stdout, recorder
