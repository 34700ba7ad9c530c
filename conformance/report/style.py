"""Colour on a terminal that wants it, plain text elsewhere."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
STANDING_COLOUR = {
    "conformant": "green",
    "not conformant": "red",
    "incomplete": "yellow",
    "pass": "green",
    "fail": "red",
    "error": "red",
}


@dataclass(frozen=True)
class Style:
    """Paints words where `colour` is True."""

    colour: bool = False

    def paint(self, text: str, *names: str) -> str:
        """`text` in these colours."""
        if not self.colour or not names:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def standing(self, word: str, text: str = "") -> str:
        """A verdict or a standing in its colour; `text` where another text shall stand."""
        colour = STANDING_COLOUR.get(word, "dim")
        return self.paint(
            text or word,
            *(("bold", colour) if " " in word or word.startswith(("conf", "inc")) else (colour,)),
        )


def style_for(stream: TextIO) -> Style:
    """Colour on a terminal, unless NO_COLOR is set or the terminal is dumb; FORCE_COLOR forces it."""
    if os.environ.get("NO_COLOR"):
        return Style()
    if os.environ.get("FORCE_COLOR"):
        return Style(colour=True)
    return Style(colour=stream.isatty() and os.environ.get("TERM") != "dumb")
