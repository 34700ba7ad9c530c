"""How far a run has come, on stderr: at once on a terminal, elsewhere only where it takes long."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

FIRST_AFTER, THEN_EVERY, ON_TERMINAL_EVERY = 1.0, 10.0, 0.1
"""Seconds."""


class Progress:
    """Shows `done of planned`; on a terminal in one line that is wiped at the end."""

    def __init__(self, stream: TextIO, *, quiet: bool = False, what: str = "traces") -> None:
        self._stream, self._quiet, self._terminal = stream, quiet, stream.isatty()
        self._what = what
        self._next = time.monotonic() + (0.0 if self._terminal else FIRST_AFTER)
        self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._shown and self._terminal:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()

    def show(self, done: int, planned: int, trace: str) -> None:
        """Called before every trace."""
        now = time.monotonic()
        if self._quiet or not trace or now < self._next:
            return
        text = f"{done} of {planned} {self._what}, now {trace}"[:100]
        if self._terminal:
            self._stream.write("\r" + text.ljust(self._shown))
            self._shown, self._next = len(text), now + ON_TERMINAL_EVERY
        else:
            self._stream.write(text + "\n")
            self._next = now + THEN_EVERY
        self._stream.flush()
